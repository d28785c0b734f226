//! Network addresses of a cluster, the same in every one: each has a network namespace of its own, and clusters cannot see each other.
//! A kubeconfig in the wrong namespace reaches a server whose certificate it does not trust.

use std::net::Ipv4Addr;

/// Address of the node, on which the API server and the registry listen.
pub(super) const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// [`NODE`] with the prefix length of its network.
pub(super) const NODE_WITH_PREFIX: &str = "192.168.77.1/24";
/// URL of the API server.
pub(super) const API_SERVER: &str = "https://192.168.77.1:6443";
/// `host:port` of the registry.
pub(super) const REGISTRY: &str = "192.168.77.1:5000";
/// Network of the pods.
pub(super) const POD_NETWORK: &str = "10.244.0.0/16";
/// Address of the node on the pods' bridge.
pub(super) const POD_GATEWAY: &str = "10.244.0.1/16";
pub(super) const SERVICE_NETWORK: &str = "10.96.0.0/16";
/// Address of the API server's Service: the first one of [`SERVICE_NETWORK`], as in Kubernetes.
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Address of the cluster DNS Service.
pub(super) const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
