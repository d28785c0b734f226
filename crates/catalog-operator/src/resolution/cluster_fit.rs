//! What of a bundle this cluster will not take, told before anything of it is applied.
//!
//! The plan is made all the same, as upstream's: the cluster may be upgraded before it is approved.

use olm_resolver::cluster_fit::KubernetesVersion;

use crate::bundle_unpack::UnpackedBundle;

const CRD: &str = "CustomResourceDefinition";

/// The one version of CustomResourceDefinitions that Kubernetes still serves.
const CRD_VERSION: &str = "apiextensions.k8s.io/v1";

/// What will go wrong with the bundle on a cluster of this Kubernetes version (such as `v1.34.1`), one line each.
pub fn obstacles(name: &str, bundle: &UnpackedBundle, kubernetes: &str) -> Vec<String> {
    let kubernetes: Option<KubernetesVersion> = kubernetes.parse().ok();
    let too_old = kubernetes.and_then(|kubernetes| kubernetes.too_old_for(name, &bundle.csv));
    let crds = bundle.objects.iter().filter_map(|file| {
        let version = file.object["apiVersion"].as_str().unwrap_or_default();
        let refused = file.object["kind"] == CRD && version != CRD_VERSION;
        refused.then(|| {
            let crd = file.object["metadata"]["name"].as_str().unwrap_or(&file.name);
            format!("bundle {name}: CustomResourceDefinition {crd} is written for {version}, which this cluster does not serve")
        })
    });
    too_old.into_iter().chain(crds).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bundle_unpack::content::BundleFile;

    fn bundle(least: &str, crd_version: &str) -> UnpackedBundle {
        UnpackedBundle {
            image: String::new(),
            csv: json!({"spec": {"minKubeVersion": least}}),
            objects: vec![BundleFile {
                name: "crd.yaml".to_owned(),
                object: json!({"apiVersion": crd_version, "kind": CRD, "metadata": {"name": "things.example.com"}}),
            }],
        }
    }

    #[test]
    fn a_cluster_that_is_too_old_is_told() {
        let told = |least: &str, here: &str| obstacles("a.v1", &bundle(least, CRD_VERSION), here);
        assert_eq!(
            told("1.35.0", "v1.34.1"),
            ["bundle a.v1 needs Kubernetes 1.35.0 or newer, this cluster has v1.34.1"]
        );
        assert_eq!(told("1.34.1", "v1.34.1-eks+5"), [""; 0]);
        assert_eq!(told("1.35.0", "no version"), [""; 0]);
    }

    #[test]
    fn crds_of_a_version_no_longer_served_are_told() {
        assert_eq!(
            obstacles("a.v1", &bundle("", "apiextensions.k8s.io/v1beta1"), "v1.34.1"),
            [
                "bundle a.v1: CustomResourceDefinition things.example.com is written for apiextensions.k8s.io/v1beta1, which \
                 this cluster does not serve"
            ]
        );
    }
}
