//! The cluster's network namespace: the only place its addresses exist, with no way out of it.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::address::{Addresses, POD_GATEWAY, SERVICE_NETWORK};
use super::layout::Layout;

/// Makes the namespace with its two bridges, unless it is there. Needs root.
///
/// # Errors
/// When `ip` or a kernel setting fails; the message carries what it said.
pub(super) fn create(layout: &Layout, addresses: Addresses) -> anyhow::Result<()> {
    if layout.network_namespace().exists() {
        return Ok(());
    }
    let created = run("ip", &["netns", "add", layout.key()]).and_then(|()| fill(layout.key(), addresses));
    if created.is_err() {
        // A half-made namespace would pass for a finished one next time.
        let _ = delete(layout);
    }
    created
}

fn fill(namespace: &str, addresses: Addresses) -> anyhow::Result<()> {
    let node = addresses.node_with_prefix();
    // `node0` is a bridge without ports because it can be had on every kernel, which a dummy device cannot.
    for command in [
        "link set lo up".to_owned(),
        "link add node0 type bridge".to_owned(),
        format!("addr add {node} dev node0"),
        "link set node0 up".to_owned(),
        "link add cni0 type bridge".to_owned(),
        format!("addr add {POD_GATEWAY} dev cni0"),
        "link set cni0 up".to_owned(),
        // kube-proxy rewrites these only after the kernel has found them a route.
        format!("route add {SERVICE_NETWORK} dev node0"),
        // Whatever else is asked for fails at once instead of after a timeout.
        "route add unreachable default".to_owned(),
    ] {
        let mut arguments = vec!["-n", namespace];
        arguments.extend(command.split(' '));
        run("ip", &arguments)?;
    }
    // The second lets kube-proxy see what pods send each other through the bridge; kernels without the module lack it.
    let settings = "echo 1 > /proc/sys/net/ipv4/ip_forward && \
                    { test ! -e /proc/sys/net/bridge/bridge-nf-call-iptables || \
                    echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables; }";
    run(
        "nsenter",
        &[
            &format!("--net=/run/netns/{namespace}"),
            "--",
            "sh",
            "-c",
            settings,
        ],
    )
}

/// Deletes the namespace and every device in it; nothing happens when it is not there.
///
/// # Errors
/// When `ip` fails.
pub(super) fn delete(layout: &Layout) -> anyhow::Result<()> {
    if !layout.network_namespace().exists() {
        return Ok(());
    }
    run("ip", &["netns", "delete", layout.key()])
}

/// A command that will run `program` inside the namespace, under the pid it is started with.
///
/// `ip netns exec` would also give it a mount namespace of its own, in which mounts no longer reach the containers.
pub(super) fn enter(layout: &Layout, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", layout.network_namespace().display()))
        .arg("--")
        .arg(program);
    command
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{program}`"))?;
    if !output.status.success() {
        bail!(
            "`{program} {}` failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
