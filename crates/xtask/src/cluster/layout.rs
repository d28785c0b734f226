//! Where a cluster keeps what: its state in `target/cluster/NAME`, sockets and mounts in a short folder under `/run`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use sha2::{Digest as _, Sha256};

use crate::workspace;

/// Longest path a Unix socket can have, without the closing zero byte.
const SOCKET_PATH_LIMIT: usize = 107;
/// Longest cluster name: it becomes a folder, a network namespace and a node name.
const NAME_LIMIT: usize = 30;
/// Names of `target/cluster` that are not clusters.
const RESERVED: [&str; 1] = ["bin"];

/// Paths and names of one cluster. Holds no state and touches no disk.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    name: String,
    state: PathBuf,
    key: String,
}

impl Layout {
    /// The layout of a cluster of this checkout.
    ///
    /// # Errors
    /// When the name could not be a folder, node and namespace name.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        Self::under(&workspace::clusters(), name)
    }

    fn under(clusters: &Path, name: &str) -> anyhow::Result<Self> {
        let valid = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.ends_with(|c: char| c.is_ascii_alphanumeric());
        if !valid || name.len() > NAME_LIMIT || RESERVED.contains(&name) {
            bail!(
                "`{name}` cannot be a cluster's name: use up to {NAME_LIMIT} lower-case letters, digits and inner \
                 dashes, and not {}",
                RESERVED.join(" or ")
            );
        }
        let state = clusters.join(name);
        // Two checkouts may each have a cluster `default`: what is named machine-wide carries the path's hash too.
        let hash = hex::encode(Sha256::digest(state.as_os_str().as_encoded_bytes()));
        Ok(Self {
            name: name.to_owned(),
            key: format!("olm-{name}-{}", &hash[..6]),
            state,
        })
    }

    /// The cluster's name, which is also its node's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Name of what is shared by the whole machine: network namespace, cgroup, folder in `/run`.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Everything that outlives a stop.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Sockets, process records and mounts: gone after a stop.
    pub(crate) fn run(&self) -> PathBuf {
        Path::new("/run").join(&self.key)
    }

    /// The network namespace's file.
    pub(crate) fn network_namespace(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.key)
    }

    /// What is needed to start the cluster again; its presence makes the cluster exist.
    pub(crate) fn record(&self) -> PathBuf {
        self.state.join("cluster.json")
    }

    /// Certificates and keys.
    pub(crate) fn pki(&self) -> PathBuf {
        self.state.join("pki")
    }

    /// Configuration files of the programs.
    pub(crate) fn config(&self) -> PathBuf {
        self.state.join("config")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// Log of one program.
    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.state.join("logs").join(format!("{program}.log"))
    }

    /// The API server's audit log: one JSON event a line, level Metadata, stage RequestReceived left out.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.state.join("audit/audit.log")
    }

    /// Folder of `hosts.toml` files that sends every registry name to the cluster's own registry.
    ///
    /// containerd reads it, and it is meant to be mounted into pods that pull by themselves (`--registry-config`), so
    /// its place does not change.
    pub(crate) fn registry_config(&self) -> PathBuf {
        self.state.join("registry-config")
    }

    /// Folder with a `kubectl` that talks to this cluster.
    pub(crate) fn wrappers(&self) -> PathBuf {
        self.state.join("bin")
    }

    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.run().join("containerd.sock")
    }

    /// containerd's volatile state, with the containers' root file systems mounted below.
    pub(crate) fn containerd_state(&self) -> PathBuf {
        self.run().join("containerd")
    }

    /// kubelet's folder: with the state, unless its sockets' paths would be too long there.
    pub(crate) fn kubelet(&self) -> PathBuf {
        let folder = self.state.join("kubelet");
        // kubelet appends a random suffix to this name before it renames the socket.
        let longest = folder.join("pod-resources/kubelet.sock-1234567890");
        if longest.as_os_str().len() > SOCKET_PATH_LIMIT {
            self.run().join("kubelet")
        } else {
            folder
        }
    }

    /// Folders under which any mount belongs to this cluster.
    pub(crate) fn mount_roots(&self) -> [PathBuf; 2] {
        [self.state.clone(), self.run()]
    }
}

/// The binary with all Kubernetes programs, shared by all clusters of the checkout.
pub(crate) fn kubernetes_binary() -> PathBuf {
    binaries().join("kube-all")
}

/// Folder of built programs and of the cluster's own images.
pub fn binaries() -> PathBuf {
    workspace::clusters().join("bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_nodes_are_refused() {
        let accepted = |name| Layout::under(Path::new("/src/target/cluster"), name).is_ok();
        for name in ["default", "a", "e2e-2", "0"] {
            assert!(accepted(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a_b", "a/b", "..", "bin", &"x".repeat(31)] {
            assert!(!accepted(name), "{name}");
        }
    }

    #[test]
    fn equal_names_in_two_checkouts_do_not_meet() {
        let one = Layout::under(Path::new("/one/target/cluster"), "default").unwrap();
        let two = Layout::under(Path::new("/two/target/cluster"), "default").unwrap();
        assert_ne!(one.key(), two.key());
        assert!(one.key().starts_with("olm-default-"));
    }

    #[test]
    fn sockets_of_a_deep_checkout_move_to_run() {
        let near = Layout::under(Path::new("/src/target/cluster"), "default").unwrap();
        assert!(near.kubelet().starts_with("/src/target"));
        let deep = Path::new("/").join("deep".repeat(20)).join("target/cluster");
        let far = Layout::under(&deep, "default").unwrap();
        assert_eq!(far.kubelet(), far.run().join("kubelet"));
        assert!(far.containerd_socket().as_os_str().len() <= SOCKET_PATH_LIMIT);
    }
}
