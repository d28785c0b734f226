//! The addresses of a cluster.

use std::net::Ipv4Addr;

/// The pods' network; the same in every cluster, because no cluster can see another's.
pub(super) const POD_NETWORK: &str = "10.244.0.0/16";
/// The node's address on the pods' bridge.
pub(super) const POD_GATEWAY: &str = "10.244.0.1/16";
pub(super) const SERVICE_NETWORK: &str = "10.96.0.0/16";
/// The API server's Service, first address of [`SERVICE_NETWORK`] as Kubernetes has it.
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The cluster DNS Service.
pub(super) const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// How many clusters of one checkout can exist at the same time.
pub(super) const SLOTS: u8 = 100;

/// The addresses of one cluster.
///
/// Clusters have network namespaces of their own, so equal addresses would not clash; they differ all the same so that
/// a kubeconfig used in the wrong namespace reaches nothing instead of a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    slot: u8,
}

impl Addresses {
    /// The addresses that belong to a slot below [`SLOTS`].
    pub(super) fn of_slot(slot: u8) -> Self {
        Self { slot }
    }

    /// The lowest slot not in use, or nothing when all are.
    pub(super) fn free_slot(in_use: &[u8]) -> Option<u8> {
        (0..SLOTS).find(|slot| !in_use.contains(slot))
    }

    /// The node's own address; the API server and the registry listen there.
    pub(super) fn node(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 168, 77 + self.slot, 1)
    }

    /// [`Addresses::node`] with its network's prefix length.
    pub(super) fn node_with_prefix(self) -> String {
        format!("{}/24", self.node())
    }

    /// URL of the API server.
    pub(super) fn api_server(self) -> String {
        format!("https://{}:6443", self.node())
    }

    /// `host:port` of the registry.
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
