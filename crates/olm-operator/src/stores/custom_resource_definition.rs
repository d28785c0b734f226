//! A CustomResourceDefinition without its schemas, which are never decoded: they are most of it, and nobody reads them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Whole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::{condition, labels};
use serde::Deserialize;

/// What is read of a CustomResourceDefinition.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Resource)]
#[resource(inherit = Whole)]
pub(crate) struct CustomResourceDefinition {
    /// Its metadata.
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    /// Its versions.
    #[serde(default)]
    pub(crate) spec: Spec,
    /// How the API server took it.
    #[serde(default)]
    pub(crate) status: Option<Status>,
}

/// Part of the spec.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Spec {
    /// Versions of the API.
    #[serde(default)]
    pub(crate) versions: Vec<Version>,
}

/// Part of a version.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    /// Whether it is served.
    #[serde(default)]
    pub(crate) served: bool,
}

/// Part of the status.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Status {
    /// Its conditions.
    #[serde(default)]
    pub(crate) conditions: Option<Vec<Condition>>,
}

/// Part of a condition.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// True, False or Unknown.
    pub(crate) status: String,
}

impl CustomResourceDefinition {
    /// Drops what nobody reads.
    pub(crate) fn prune(&mut self) {
        self.metadata.labels = None;
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|key, _| key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX));
        }
    }

    /// True when the condition of this type is true.
    pub(crate) fn is_true(&self, type_: &str) -> bool {
        let conditions = self
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|found| found.type_ == type_ && found.status == condition::TRUE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_skipped_and_conditions_are_read() {
        let crd: CustomResourceDefinition = serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "demos.example.com", "labels": {"a": "b"},
                "annotations": {"operatorframework.io/installed-alongside-1": "ns/a", "other": "x"}},
            "spec": {"group": "example.com", "names": {}, "scope": "Namespaced", "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ]},
            "status": {"conditions": [{"type": "Established", "status": "True", "reason": "R", "message": "m"}]}
        }))
        .unwrap();
        let mut pruned = crd.clone();
        pruned.prune();
        assert_eq!(
            pruned.spec.versions,
            [Version {
                name: "v1".into(),
                served: true
            }]
        );
        assert!(pruned.is_true("Established") && !pruned.is_true("NamesAccepted"));
        assert_eq!(pruned.metadata.annotations.unwrap().len(), 1);
        assert_eq!(pruned.metadata.labels, None);
    }
}
