//! A CustomResourceDefinition without its schemas. These are its largest part and unused, so they are never
//! decoded.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition as Whole, CustomResourceDefinitionCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::{condition, labels, proxy};
use olm_runtime::store::Change;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::component;

/// The fields of a CustomResourceDefinition that are used.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Resource)]
#[resource(inherit = Whole)]
pub(crate) struct CustomResourceDefinition {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Spec,
    /// Result of its validation by the API server.
    #[serde(default)]
    pub(crate) status: Option<Status>,
}

/// The fields of the spec that are used.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    /// `Cluster` or `Namespaced`.
    #[serde(default)]
    pub(crate) scope: String,
    #[serde(default)]
    pub(crate) names: Names,
    #[serde(default)]
    pub(crate) versions: Vec<Version>,
    /// Conversion between the versions; kept when it is a webhook.
    #[serde(default)]
    pub(crate) conversion: Option<Value>,
    /// True when fields without a schema are preserved, which webhook conversion does not support.
    #[serde(default)]
    pub(crate) preserve_unknown_fields: bool,
}

/// The fields of the names that are used. Plural and group are in the name of the definition.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Names {
    #[serde(default)]
    pub(crate) kind: String,
}

/// The fields of a version that are used.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    /// True when the version is served.
    #[serde(default)]
    pub(crate) served: bool,
}

/// The fields of the status that are used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Time, reason and message are only kept if an Operator reports them.
    #[serde(default)]
    pub(crate) conditions: Option<Vec<CustomResourceDefinitionCondition>>,
}

impl CustomResourceDefinition {
    /// Removes unused fields.
    pub(crate) fn prune(&mut self) {
        if !component::keep_labels(&mut self.metadata) {
            let conditions = self.status.iter_mut().flat_map(|status| &mut status.conditions);
            for condition in conditions.flatten() {
                (
                    condition.last_transition_time,
                    condition.reason,
                    condition.message,
                ) = (None, None, None);
            }
        }
        let conversion = &mut self.spec.conversion;
        *conversion = conversion.take().filter(|found| found["strategy"] == "Webhook");
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|key, _| key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX));
        }
    }

    /// Returns namespace and name of each ClusterServiceVersion that it came with.
    pub(crate) fn origins(&self) -> impl Iterator<Item = (&str, &str)> {
        let annotations = self.metadata.annotations.iter().flatten();
        annotations
            .filter(|(key, _)| key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX))
            .filter_map(|(_, value)| value.split_once('/'))
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

    /// Returns whether the cluster serves OpenShift's kind `definition` after this change; `None` if the change is
    /// about another definition.
    pub(crate) fn serves(definition: &str, change: &Change<Self>) -> Option<bool> {
        let is_about = change.object().metadata.name.as_deref() == Some(definition);
        is_about.then(|| match change {
            Change::Applied { new, .. } => new.is_of_openshift(),
            Change::Deleted { .. } => false,
        })
    }

    /// True when it can be OpenShift's own, given a name of one of these. Other projects may define a kind of
    /// the same name.
    fn is_of_openshift(&self) -> bool {
        let mut versions = self.spec.versions.iter();
        self.is_true("Established")
            && self.spec.scope == "Cluster"
            && versions.any(|version| version.served && version.name == proxy::VERSION)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_skipped_and_conditions_are_read() {
        let crd: CustomResourceDefinition = serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "demos.example.com", "labels": {"a": "b"},
                "annotations": {"operatorframework.io/installed-alongside-1": "ns/a", "other": "x"}},
            "spec": {"group": "example.com", "names": {"kind": "Demo"}, "scope": "Namespaced", "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ]},
            "status": {"conditions": [{"type": "Established", "status": "True", "reason": "R", "message": "m"}]}
        }))
        .unwrap();
        let mut pruned = crd.clone();
        pruned.prune();
        assert_eq!(pruned.spec.names.kind, "Demo");
        assert_eq!(
            pruned.spec.versions,
            [Version {
                name: "v1".into(),
                served: true
            }]
        );
        assert!(pruned.is_true("Established") && !pruned.is_true("NamesAccepted"));
        assert_eq!(pruned.metadata.annotations.as_ref().map(BTreeMap::len), Some(1));
        assert_eq!(pruned.metadata.labels, None);
        assert_eq!(first_reason(&pruned), None);
        let mut component = crd;
        let labels = component.metadata.labels.get_or_insert_default();
        labels.insert("operators.coreos.com/demo.ns".into(), String::new());
        component.prune();
        assert_eq!(component.metadata.labels.as_ref().map(BTreeMap::len), Some(1));
        assert_eq!(first_reason(&component).as_deref(), Some("R"));
    }

    fn first_reason(crd: &CustomResourceDefinition) -> Option<String> {
        let conditions = crd.status.as_ref()?.conditions.as_ref()?;
        conditions.first()?.reason.clone()
    }
}
