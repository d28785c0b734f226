//! containerd and its CNI network for pods.

use std::path::Path;

use serde_json::{Value, json};

use super::address::{POD_NETWORK, REGISTRY};
use super::build::PAUSE_IMAGE;
use super::config_file;
use super::layout::Layout;
use super::packages::CNI_PLUGINS;
use super::processes::Program;

/// Writes the configuration of containerd, CNI and the registry hosts.
///
/// # Errors
/// A file cannot be written.
pub(super) fn configure(layout: &Layout) -> anyhow::Result<()> {
    config_file::write(&config_path(layout), &render_config(layout))?;
    config_file::write_json(
        &cni_folder(layout).join("10-bridge.conflist"),
        &render_network(layout),
    )?;
    config_file::write(
        &layout.registry_config().join("_default/hosts.toml"),
        &render_hosts(),
    )
}

/// Returns containerd with its own sockets and state.
pub(super) fn program(layout: &Layout) -> Program {
    Program::new(
        "containerd",
        [
            "containerd".to_owned(),
            "--config".to_owned(),
            config_path(layout).display().to_string(),
        ],
    )
}

fn config_path(layout: &Layout) -> std::path::PathBuf {
    layout.config().join("containerd.toml")
}

fn cni_folder(layout: &Layout) -> std::path::PathBuf {
    layout.config().join("cni")
}

fn render_config(layout: &Layout) -> String {
    let socket = layout.containerd_socket();
    format!(
        r#"version = 2
root = {root}
state = {state}
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = {socket}

[ttrpc]
  address = {ttrpc}

[plugins."io.containerd.internal.v1.opt"]
  path = {opt}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Lowering a container's score needs CAP_SYS_RESOURCE, which root need not have; runc would die without a word.
  restrict_oom_score_adj = true
  # Under the state, so that taking the cluster down finds them.
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = {runc}

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = {cni}

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {hosts}
"#,
        root = quoted(&layout.state().join("containerd")),
        state = quoted(&layout.containerd_state()),
        socket = quoted(&socket),
        ttrpc = quoted(&socket.with_extension("sock.ttrpc")),
        opt = quoted(&layout.state().join("opt")),
        runc = quoted(&layout.run().join("runc")),
        cni = quoted(&cni_folder(layout)),
        hosts = quoted(&layout.registry_config()),
    )
}

/// Renders the hosts configuration, which redirects every registry name, such as quay.io and docker.io, to the cluster's
/// registry.
fn render_hosts() -> String {
    format!(
        "server = \"http://{REGISTRY}\"\n\n[host.\"http://{REGISTRY}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    )
}

fn render_network(layout: &Layout) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": layout.key(),
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    // Removed with the containers, so that pods of an earlier run occupy no addresses.
                    "dataDir": layout.run().join("addresses"),
                    "ranges": [[{ "subnet": POD_NETWORK }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

/// Returns a path as a TOML string.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registry_name_goes_to_the_local_registry() {
        insta::assert_snapshot!(render_hosts(), @r#"
        server = "http://192.168.77.1:5000"

        [host."http://192.168.77.1:5000"]
          capabilities = ["pull", "resolve"]
        "#);
    }

    #[test]
    fn two_clusters_share_no_path() {
        let of = |name: &str| render_config(&Layout::new(name).unwrap());
        let (one, two) = (of("one"), of("two"));
        let differing = |line: &&str| line.contains("/run/") || line.contains("/target/");
        assert!(one.lines().filter(differing).count() >= 8);
        for line in one.lines().filter(differing) {
            assert!(!two.contains(line), "{line}");
        }
    }

    #[test]
    fn pods_get_addresses_from_the_pod_network() {
        let network = render_network(&Layout::new("default").unwrap());
        assert_eq!(
            network["plugins"][0]["ipam"]["ranges"][0][0]["subnet"],
            POD_NETWORK
        );
    }
}
