//! Paths of a cluster: state in `target/cluster/NAME`, sockets and mounts in a short folder under `/run`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use sha2::{Digest as _, Sha256};

use crate::workspace;

/// Maximum length of a Unix socket's path, without the final zero byte.
const SOCKET_PATH_LIMIT: usize = 107;
/// Maximum length of a cluster name, which is also the name of a folder, a network namespace and a node.
const NAME_LIMIT: usize = 30;
/// Names in `target/cluster` that are no clusters.
const RESERVED: [&str; 1] = ["bin"];

/// Paths and names of one cluster. Has no state and does no I/O.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    name: String,
    state: PathBuf,
    key: String,
}

impl Layout {
    /// Returns the layout of a cluster of this checkout.
    ///
    /// # Errors
    /// The name is invalid for a folder, node or namespace.
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
        // Two checkouts may each have a cluster `default`, so machine-wide names include a hash of the path.
        let hash = hex::encode(Sha256::digest(state.as_os_str().as_encoded_bytes()));
        Ok(Self {
            name: name.to_owned(),
            key: format!("olm-{name}-{}", &hash[..6]),
            state,
        })
    }

    /// Returns the cluster's name, which is also the node's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of machine-wide objects: network namespace, cgroup, folder in `/run`.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the folder of everything that is kept after a stop.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the folder of sockets, process records and mounts, which is deleted at a stop.
    pub(crate) fn run(&self) -> PathBuf {
        Path::new("/run").join(&self.key)
    }

    /// Returns the file of the network namespace.
    pub(crate) fn network_namespace(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.key)
    }

    /// Returns the file with the data for a restart. The cluster exists if the file does.
    pub(crate) fn record(&self) -> PathBuf {
        self.state.join("cluster.json")
    }

    /// Returns the folder of certificates and keys.
    pub(crate) fn pki(&self) -> PathBuf {
        self.state.join("pki")
    }

    /// Returns the folder of the programs' configuration files.
    pub(crate) fn config(&self) -> PathBuf {
        self.state.join("config")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// Returns the log of a program.
    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.state.join("logs").join(format!("{program}.log"))
    }

    /// Returns the API server's audit log: one JSON event per line, level Metadata, without stage RequestReceived.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.state.join("audit/audit.log")
    }

    /// Returns the folder of `hosts.toml` files that redirect every registry name to the cluster's registry.
    ///
    /// containerd reads it, and pods that pull images themselves can mount it (`--registry-config`). So its path is constant.
    pub(crate) fn registry_config(&self) -> PathBuf {
        self.state.join("registry-config")
    }

    /// Returns the folder with a `kubectl` for this cluster.
    pub(crate) fn wrappers(&self) -> PathBuf {
        self.state.join("bin")
    }

    /// Returns the socket on which the API server can be asked over plain HTTP, with the administrator's rights.
    pub(crate) fn api_socket(&self) -> PathBuf {
        self.run().join("api.sock")
    }

    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.run().join("containerd.sock")
    }

    /// Returns containerd's volatile state, with the containers' root file systems mounted below.
    pub(crate) fn containerd_state(&self) -> PathBuf {
        self.run().join("containerd")
    }

    /// Returns kubelet's folder: part of the state, unless the paths of its sockets would be too long.
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
}

/// Returns the binary with all servers of Kubernetes, which the clusters of a checkout share.
pub(crate) fn kubernetes_binary() -> PathBuf {
    binaries().join("kube-all")
}

/// Returns the kubectl that the clusters of a checkout share.
pub(crate) fn kubectl_binary() -> PathBuf {
    binaries().join("kubectl")
}

/// Returns the folder of built programs and of the cluster's own images.
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
