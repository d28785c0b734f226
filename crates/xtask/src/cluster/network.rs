//! Network namespace of the cluster. The cluster's addresses only exist there, and no route leads out of it.

use std::process::Command;

use super::address::{NODE_WITH_PREFIX, POD_GATEWAY, SERVICE_NETWORK};
use super::layout::Layout;
use crate::process;

/// Creates the namespace with its two bridges, unless it exists. Needs root.
///
/// # Errors
/// `ip` or a kernel setting fails; the error includes the output.
pub(super) fn create(layout: &Layout) -> anyhow::Result<()> {
    if layout.network_namespace().exists() {
        return Ok(());
    }
    let created = ip(&["netns", "add", layout.key()]).and_then(|()| fill(layout.key()));
    if created.is_err() {
        // The next start would take an incomplete namespace for a finished one.
        let _ = delete(layout);
    }
    created
}

fn fill(namespace: &str) -> anyhow::Result<()> {
    // `node0` is a bridge without ports, because every kernel has bridges but not every one has dummy devices.
    for command in [
        "link set lo up".to_owned(),
        "link add node0 type bridge".to_owned(),
        format!("addr add {NODE_WITH_PREFIX} dev node0"),
        "link set node0 up".to_owned(),
        "link add cni0 type bridge".to_owned(),
        format!("addr add {POD_GATEWAY} dev cni0"),
        "link set cni0 up".to_owned(),
        // kube-proxy only rewrites packets for which the kernel has a route.
        format!("route add {SERVICE_NETWORK} dev node0"),
        // Connections to all other addresses fail at once instead of after a timeout.
        "route add unreachable default".to_owned(),
    ] {
        let arguments: Vec<&str> = ["-n", namespace].into_iter().chain(command.split(' ')).collect();
        ip(&arguments)?;
    }
    // The second setting lets kube-proxy see packets between pods on the bridge. Kernels without the module lack it.
    let settings = "echo 1 > /proc/sys/net/ipv4/ip_forward && \
                    { test ! -e /proc/sys/net/bridge/bridge-nf-call-iptables || \
                    echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables; }";
    let mut nsenter = Command::new("nsenter");
    nsenter
        .arg(format!("--net=/run/netns/{namespace}"))
        .args(["--", "sh", "-c", settings]);
    process::run(&mut nsenter).map(drop)
}

/// Deletes the namespace and every device in it. Does nothing if it does not exist.
///
/// # Errors
/// `ip` fails.
pub(super) fn delete(layout: &Layout) -> anyhow::Result<()> {
    if !layout.network_namespace().exists() {
        return Ok(());
    }
    ip(&["netns", "delete", layout.key()])
}

/// Returns a command that runs `program` inside the namespace. The process id stays that of the started command.
///
/// `ip netns exec` would also create a mount namespace, whose mounts containers cannot see.
pub(super) fn enter(layout: &Layout, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", layout.network_namespace().display()))
        .arg("--")
        .arg(program);
    command
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    process::run(Command::new("ip").args(arguments)).map(drop)
}
