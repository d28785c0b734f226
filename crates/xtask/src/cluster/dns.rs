//! DNS of the cluster.

use super::address::DNS_SERVICE;
use super::build::DNS_IMAGE;

/// Path on the API server that responds when DNS is ready.
pub(super) const READY_PATH: &str = "/api/v1/namespaces/kube-system/services/kube-dns:ready/proxy/ready";

/// Returns the objects that run CoreDNS.
pub(super) fn manifest() -> String {
    include_str!("../../../../e2e/cluster/coredns/manifest.yaml")
        .replace("image: IMAGE", &format!("image: {DNS_IMAGE}"))
        .replace("clusterIP: ADDRESS", &format!("clusterIP: {DNS_SERVICE}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_manifest_has_no_placeholder_left() {
        let manifest = super::manifest();
        assert!(manifest.contains("clusterIP: 10.96.0.10\n"));
        assert!(!manifest.contains("IMAGE") && !manifest.contains("ADDRESS"));
    }
}
