//! Finds the parts of a bundle that this cluster would refuse, before anything is applied. Parts that no cluster accepts are an
//! error of the bundle ([`crate::bundle_unpack::preflight`]).
//!
//! The plan is made all the same, as upstream's: the cluster may be upgraded before it is approved.

use olm_resolver::cluster_fit::{GroupTargets, KubernetesVersion, long_service_name, unsupported_targets};

use crate::bundle_unpack::UnpackedBundle;

/// Facts about the cluster that bundles are checked against, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The version of Kubernetes, such as `v1.34.1`.
    pub kubernetes: Option<String>,
    /// What the namespace's OperatorGroup selects.
    pub targets: Option<GroupTargets>,
}

/// Returns the problems that the bundle `name` will have in a namespace of this cluster, one line each.
pub fn obstacles(name: &str, bundle: &UnpackedBundle, namespace: &str, cluster: &Cluster) -> Vec<String> {
    let kubernetes = cluster.kubernetes.as_deref().and_then(|text| text.parse().ok());
    let too_old = kubernetes.and_then(|here: KubernetesVersion| here.too_old_for(name, &bundle.csv));
    let targets = cluster.targets.as_ref();
    let unsupported = targets.and_then(|targets| unsupported_targets(name, &bundle.csv, namespace, targets));
    let long = long_service_name(name, &bundle.csv);
    too_old.into_iter().chain(unsupported).chain(long).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_that_is_too_old_is_reported() {
        let told = |least: &str, here: &str| {
            let bundle = UnpackedBundle {
                image: String::new(),
                csv: json!({"spec": {"minKubeVersion": least}}),
                ..UnpackedBundle::default()
            };
            let cluster = Cluster {
                kubernetes: Some(here.to_owned()),
                ..Cluster::default()
            };
            obstacles("a.v1", &bundle, "ns", &cluster)
        };
        assert_eq!(
            told("1.35.0", "v1.34.1"),
            ["bundle a.v1 needs Kubernetes 1.35.0 or newer, this cluster has v1.34.1"]
        );
        assert!(told("1.34.1", "v1.34.1-eks+5").is_empty());
        assert!(told("1.35.0", "no version").is_empty());
    }
}
