//! What of a bundle this cluster will not take, told before anything of it is applied. What no cluster takes is an error of the
//! bundle ([`crate::bundle_unpack::preflight`]).
//!
//! The plan is made all the same, as upstream's: the cluster may be upgraded before it is approved.

use olm_resolver::cluster_fit::KubernetesVersion;

use crate::bundle_unpack::UnpackedBundle;

/// What will go wrong with the bundle on a cluster of this Kubernetes version (such as `v1.34.1`), in one line.
pub fn obstacle(name: &str, bundle: &UnpackedBundle, kubernetes: &str) -> Option<String> {
    let kubernetes: KubernetesVersion = kubernetes.parse().ok()?;
    kubernetes.too_old_for(name, &bundle.csv)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_that_is_too_old_is_told() {
        let obstacle = |least: &str, here: &str| {
            let bundle = UnpackedBundle {
                image: String::new(),
                csv: json!({"spec": {"minKubeVersion": least}}),
                objects: Vec::new(),
            };
            obstacle("a.v1", &bundle, here)
        };
        assert_eq!(
            obstacle("1.35.0", "v1.34.1").as_deref(),
            Some("bundle a.v1 needs Kubernetes 1.35.0 or newer, this cluster has v1.34.1")
        );
        assert_eq!(obstacle("1.34.1", "v1.34.1-eks+5"), None);
        assert_eq!(obstacle("1.35.0", "no version"), None);
    }
}
