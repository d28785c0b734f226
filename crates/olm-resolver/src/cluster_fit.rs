//! Checks whether a cluster will run a bundle. Resolution does not check it, as in upstream; plans report it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use go_compat::semver::Version;
use olm_api::install_mode::check_install_modes;
use olm_api::names::{MAX_SERVICE_NAME, service_name};
use olm_api::v1alpha1::InstallMode;
use serde::Deserialize as _;
use serde_json::Value;

/// The version of a cluster's Kubernetes, such as `v1.34.1`.
///
/// Comparisons ignore pre-releases and builds, as many distributions add them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesVersion {
    text: String,
    numbers: (u64, u64, u64),
}

/// The namespaces that an OperatorGroup selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTargets {
    /// Name of the OperatorGroup.
    pub group: String,
    /// The namespaces; a single empty name means all.
    pub namespaces: Vec<String>,
}

/// A text is not a version of Kubernetes.
#[derive(Debug, thiserror::Error)]
#[error("not a version of Kubernetes such as 1.34 or v1.34.1")]
pub struct KubernetesVersionError;

impl FromStr for KubernetesVersion {
    type Err = KubernetesVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = numbers(text).ok_or(KubernetesVersionError)?;
        Ok(Self {
            text: text.trim().to_owned(),
            numbers,
        })
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl KubernetesVersion {
    /// Reports that the bundle `name` needs a newer Kubernetes, if it does. `csv` is its
    /// ClusterServiceVersion; an unreadable minimum is ignored.
    pub fn too_old_for(&self, name: &str, csv: &Value) -> Option<String> {
        let least = csv["spec"]["minKubeVersion"].as_str()?;
        let wanted = numbers(least)?;
        (self.numbers < wanted)
            .then(|| format!("bundle {name} needs Kubernetes {least} or newer, this cluster has {self}"))
    }
}

/// Reports in upstream's words that the bundle `name` does not support the namespaces of its OperatorGroup.
/// `csv` is its ClusterServiceVersion. `None` if it supports them, or has no install modes.
pub fn unsupported_targets(
    name: &str,
    csv: &Value,
    namespace: &str,
    targets: &GroupTargets,
) -> Option<String> {
    let modes = Vec::<InstallMode>::deserialize(csv["spec"].get("installModes")?).ok()?;
    let reason = check_install_modes(&modes, namespace, &targets.namespaces).err()?;
    Some(format!(
        "bundle {name} does not support what OperatorGroup {} selects: {reason}: its ClusterServiceVersion will fail with {}; \
         change spec.targetNamespaces, or install it in another namespace",
        targets.group,
        olm_api::condition::csv::UNSUPPORTED_OPERATOR_GROUP
    ))
}

/// Returns that a Service of the bundle `name` would have a name that Kubernetes rejects. `csv` is its ClusterServiceVersion.
pub fn long_service_name(name: &str, csv: &Value) -> Option<String> {
    let described = |pointer: &str| {
        csv.pointer(pointer)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let deployments: BTreeSet<&str> = described("/spec/webhookdefinitions")
        .chain(described("/spec/apiservicedefinitions/owned"))
        .filter_map(|description| description["deploymentName"].as_str())
        .filter(|deployment| service_name(deployment).len() > MAX_SERVICE_NAME)
        .collect();
    let deployment = deployments.first()?;
    let others = match deployments.len() - 1 {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    };
    Some(format!(
        "bundle {name} has webhooks or APIs in Deployment {deployment}{others}, whose Service {} has a name of more than \
         {MAX_SERVICE_NAME} characters: its ClusterServiceVersion will fail; ask its author for a shorter name",
        service_name(deployment)
    ))
}

fn numbers(text: &str) -> Option<(u64, u64, u64)> {
    let version = Version::parse_tolerant(text).ok()?;
    Some((version.major, version.minor, version.patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_that_is_too_old_is_reported() {
        let told = |least: &str, here: &str| {
            let here: KubernetesVersion = here.parse().unwrap();
            here.too_old_for("a.v1", &json!({"spec": {"minKubeVersion": least}}))
        };
        for (least, here) in [("1.35.0", "v1.34.1"), ("1.34.1", "1.34")] {
            let expected = format!("bundle a.v1 needs Kubernetes {least} or newer, this cluster has {here}");
            assert_eq!(told(least, here), Some(expected));
        }
        for (least, here) in [
            ("1.34.1", "v1.34.1-eks+5"),
            ("", "v1.0.0"),
            ("soon", "v1.0.0"),
            ("1.9.0", "v1.34.0"),
        ] {
            assert_eq!(told(least, here), None, "{least} {here}");
        }
    }

    #[test]
    fn a_group_that_is_not_supported_is_reported_in_upstreams_words() {
        let csv = |modes: Value| json!({"spec": {"installModes": modes}});
        let own = json!([{"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true}]);
        let told = |csv: &Value, namespaces: &[&str]| {
            let targets = GroupTargets {
                group: "og".to_owned(),
                namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            };
            unsupported_targets("a.v1", csv, "shop", &targets)
        };
        assert_eq!(
            told(&csv(own.clone()), &["a", "b"]).unwrap(),
            "bundle a.v1 does not support what OperatorGroup og selects: MultiNamespace InstallModeType not supported, cannot \
             configure to watch 2 namespaces: its ClusterServiceVersion will fail with UnsupportedOperatorGroup; change \
             spec.targetNamespaces, or install it in another namespace"
        );
        assert_eq!(told(&csv(own), &["shop"]), None);
        assert_eq!(told(&json!({"spec": {}}), &["a", "b"]), None, "it does not tell");
    }

    #[test]
    fn a_deployment_whose_service_has_no_name_is_reported_once() {
        let told = |deployment: &str| {
            let bound = json!([{"deploymentName": deployment}]);
            let spec = json!({"webhookdefinitions": bound, "apiservicedefinitions": {"owned": bound}});
            long_service_name("a.v1", &json!({"spec": spec}))
        };
        assert_eq!(told(&"d".repeat(55)), None);
        let long = "d".repeat(56);
        assert_eq!(
            told(&long),
            Some(format!(
                "bundle a.v1 has webhooks or APIs in Deployment {long}, whose Service {long}-service has a name of more than 63 \
                 characters: its ClusterServiceVersion will fail; ask its author for a shorter name"
            ))
        );
        let many: Vec<_> = (0..3)
            .map(|number| json!({"deploymentName": format!("{number}{long}")}))
            .collect();
        let text = long_service_name("a.v1", &json!({"spec": {"webhookdefinitions": many}})).unwrap();
        assert!(
            text.contains(&format!("Deployment 0{long} (and 2 more), whose")),
            "{text}"
        );
        let unserved = json!({"spec": {"install": {"spec": {"deployments": [{"name": long}]}}}});
        assert_eq!(long_service_name("a.v1", &unserved), None);
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "soon", "1.x", "-1"] {
            assert!(text.parse::<KubernetesVersion>().is_err(), "{text}");
        }
    }
}
