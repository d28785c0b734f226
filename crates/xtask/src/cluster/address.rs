//! Network addresses of a cluster.

use std::net::Ipv4Addr;

/// Network of the pods, the same in every cluster, because clusters cannot see each other.
pub(super) const POD_NETWORK: &str = "10.244.0.0/16";
/// Address of the node on the pods' bridge.
pub(super) const POD_GATEWAY: &str = "10.244.0.1/16";
pub(super) const SERVICE_NETWORK: &str = "10.96.0.0/16";
/// Address of the API server's Service: the first one of [`SERVICE_NETWORK`], as in Kubernetes.
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Address of the cluster DNS Service.
pub(super) const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// Maximum number of clusters of one checkout.
pub(super) const SLOTS: u8 = 100;

/// Network addresses of one cluster.
///
/// Clusters have their own network namespaces, so equal addresses would not conflict. They differ so that a kubeconfig in the
/// wrong namespace reaches nothing instead of another cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    slot: u8,
}

impl Addresses {
    /// Returns the addresses of a slot below [`SLOTS`].
    pub(super) fn of_slot(slot: u8) -> Self {
        Self { slot }
    }

    /// Returns the lowest free slot; `None` if all are in use.
    pub(super) fn free_slot(in_use: &[u8]) -> Option<u8> {
        (0..SLOTS).find(|slot| !in_use.contains(slot))
    }

    /// Returns the node's address, on which the API server and the registry listen.
    pub(super) fn node(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 168, 77 + self.slot, 1)
    }

    /// Returns [`Addresses::node`] with the prefix length of its network.
    pub(super) fn node_with_prefix(self) -> String {
        format!("{}/24", self.node())
    }

    /// Returns the URL of the API server.
    pub(super) fn api_server(self) -> String {
        format!("https://{}:6443", self.node())
    }

    /// Returns `host:port` of the registry.
    pub(super) fn registry(self) -> String {
        format!("{}:5000", self.node())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_taken() {
        assert_eq!(Addresses::free_slot(&[]), Some(0));
        assert_eq!(Addresses::free_slot(&[0, 1, 3]), Some(2));
        assert_eq!(Addresses::free_slot(&(0..SLOTS).collect::<Vec<_>>()), None);
    }

    #[test]
    fn slots_never_share_an_address() {
        let mut nodes: Vec<_> = (0..SLOTS).map(|slot| Addresses::of_slot(slot).node()).collect();
        nodes.dedup();
        assert_eq!(nodes.len(), usize::from(SLOTS));
        assert_eq!(nodes[0].to_string(), "192.168.77.1");
        assert_eq!(nodes[99].to_string(), "192.168.176.1");
    }
}
