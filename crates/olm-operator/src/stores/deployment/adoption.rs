//! Adoption of fields of a Deployment that other field managers own.
//!
//! An apply only removes fields without another owner. Fields that upstream's OLM set (as the field manager
//! `olm`, by `Update`) or that users added would remain forever. A probe or volume of another kind would
//! remain beside the wanted one, which the API server refuses.
//!
//! `kubectl apply --server-side` moves the fields of client-side apply, and the same is done here: such
//! fields move to the entry of our own apply. The next apply removes those it no longer has, in one rollout.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry},
};
use kube::ResourceExt;
use olm_api::labels;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{OF_OTHERS, agreement::agrees, entries, is_foreign, is_own_apply, is_patched};
use crate::owner;

/// Annotation of a pruned Deployment only, with an [`Adoption`], until it is done.
const ADOPTION: &str = "//adoption";
/// Also present if the spec is kept, because every reconcile checks this.
const DUE: &str = "//adoption-as-it-is";

/// Change of the managed fields that makes fields of other entries ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Adoption {
    /// All entries in the wanted state.
    pub(crate) managed_fields: Vec<ManagedFieldsEntry>,
    /// True when one of the entries is from our own apply.
    is_applied: bool,
    /// The live spec, if we never applied one. No hash of ours shows then whether it matches the wanted one.
    spec: Option<Value>,
}

/// Returns the annotations for a Deployment before it is pruned: an [`Adoption`], and whether it contains the
/// spec. Empty if there is nothing to adopt.
pub(super) fn notes(deployment: &Deployment) -> impl Iterator<Item = (String, String)> + use<> {
    let adoption = of_live(deployment);
    let is_due = adoption.as_ref().is_some_and(|adoption| adoption.spec.is_some());
    let due = is_due.then(|| (DUE.to_owned(), String::new()));
    let text = adoption.and_then(|adoption| serde_json::to_string(&adoption).ok());
    let note = text.map(|text| (ADOPTION.to_owned(), text));
    note.into_iter().chain(due)
}

fn of_live(deployment: &Deployment) -> Option<Adoption> {
    let metadata = &deployment.metadata;
    // An object without owners is never adopted.
    owner::references(metadata).next()?;
    let own = entries(metadata).find(|entry| is_own_apply(entry));
    let is_taken = |entry: &&ManagedFieldsEntry| is_patched(entry) || is_foreign(entry);
    // Fields of different API versions must not be mixed.
    let model = own.or_else(|| entries(metadata).find(is_taken))?;
    let is_taken = |entry: &&ManagedFieldsEntry| is_taken(entry) && entry.api_version == model.api_version;
    entries(metadata).find(is_taken)?;

    let mut fields = fields_of(own);
    let mut rest = Vec::new();
    for entry in entries(metadata).filter(|entry| !is_own_apply(entry)) {
        let (taken, left) = match entry {
            _ if !is_taken(&entry) => (Value::Null, Some(entry.clone())),
            _ if is_patched(entry) => (fields_of(Some(entry)), None),
            _ => of_foreign(entry),
        };
        fields = union(fields, taken);
        rest.extend(left);
    }
    let united = ManagedFieldsEntry {
        manager: Some(labels::FIELD_MANAGER_CSV.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        ..model.clone()
    };
    Some(Adoption {
        managed_fields: std::iter::once(united).chain(rest).collect(),
        is_applied: own.is_some(),
        spec: match own {
            Some(_) => None,
            None => serde_json::to_value(&deployment.spec).ok(),
        },
    })
}

fn fields_of(entry: Option<&ManagedFieldsEntry>) -> Value {
    let fields = entry.and_then(|entry| Some(entry.fields_v1.as_ref()?.0.clone()));
    fields.unwrap_or_else(|| Value::Object(Map::new()))
}

/// Returns the spec fields that others set, and the entry without them. Fields that others may set, and
/// labels and annotations of the Deployment, remain theirs. `None` if the entry would be empty.
fn of_foreign(entry: &ManagedFieldsEntry) -> (Value, Option<ManagedFieldsEntry>) {
    let mut fields = fields_of(Some(entry));
    let spec = fields.as_object_mut().and_then(|fields| fields.remove("f:spec"));
    let (taken, left) = split(spec.unwrap_or_default(), &mut Vec::new());
    if let Some(left) = left {
        fields["f:spec"] = left;
    }
    let is_empty = fields.as_object().is_some_and(Map::is_empty);
    let left = ManagedFieldsEntry {
        fields_v1: Some(FieldsV1(fields)),
        ..entry.clone()
    };
    let taken = taken.map(|spec| Value::Object(Map::from_iter([("f:spec".to_owned(), spec)])));
    (taken.unwrap_or_default(), (!is_empty).then_some(left))
}

/// Splits these fields into those we adopt and those that others may set; `path` is their location.
fn split(fields: Value, path: &mut Vec<String>) -> (Option<Value>, Option<Value>) {
    if OF_OTHERS.contains(&path.iter().map(String::as_str).collect::<Vec<_>>().as_slice()) {
        return (None, Some(fields));
    }
    let children = match fields {
        Value::Object(children) if !children.is_empty() => children,
        leaf => return (Some(leaf), None),
    };
    let (mut ours, mut theirs) = (Map::new(), Map::new());
    for (key, child) in children {
        path.push(key.clone());
        let (our, their) = split(child, path);
        path.pop();
        ours.extend(our.map(|our| (key.clone(), our)));
        theirs.extend(their.map(|their| (key, their)));
    }
    let some = |fields: Map<String, Value>| (!fields.is_empty()).then_some(Value::Object(fields));
    (some(ours), some(theirs))
}

/// True when a pruned Deployment of another creator may equal the wanted one.
pub(crate) fn is_due(deployment: &Deployment) -> bool {
    deployment.annotations().contains_key(DUE)
}

/// Returns the adoption of a pruned Deployment, if it is due.
pub(crate) fn of(deployment: &Deployment) -> Option<Adoption> {
    read(deployment.annotations())
}

/// Reads the adoption from the annotations.
pub(super) fn read(annotations: &BTreeMap<String, String>) -> Option<Adoption> {
    serde_json::from_str(annotations.get(ADOPTION)?).ok()
}

impl Adoption {
    /// Fields of the spec that will become ours.
    pub(super) fn own_fields(&self) -> Option<&Value> {
        let own = self.managed_fields.first()?;
        own.fields_v1.as_ref()?.0.get("f:spec")
    }

    /// True when others created the Deployment exactly as `wanted`, so that applying it changes no pod. False
    /// if unknown.
    pub(crate) fn is_as(&self, wanted: &Value) -> bool {
        self.spec.as_ref().is_some_and(|live| agrees(wanted, live, ""))
    }

    /// True when we never applied it, so its hash is meaningless.
    pub(crate) fn is_of_another(&self) -> bool {
        !self.is_applied
    }
}

/// Returns the union of both, as `fieldsV1`; `Null` is empty.
fn union(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            for (key, value) in other {
                let both = match one.remove(&key) {
                    Some(known) => union(known, value),
                    None => value,
                };
                one.insert(key, both);
            }
            Value::Object(one)
        }
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn adoption(entries: &Value) -> Option<Adoption> {
        noted(&live(entries)).map(|text| serde_json::from_str(&text).unwrap())
    }

    fn noted(deployment: &Deployment) -> Option<String> {
        notes(deployment).next().map(|(_, text)| text)
    }

    fn live(entries: &Value) -> Deployment {
        let owner = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": "u"});
        let metadata = json!({"name": "d", "managedFields": entries, "ownerReferences": [owner]});
        let spec = json!({"replicas": 2, "selector": {}, "template": {}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn nothing_is_kept_of_a_deployment_without_owners() {
        let entries = json!([entry(
            "olm",
            "Update",
            json!({"f:spec": {"f:minReadySeconds": {}}})
        )]);
        let mut found = live(&entries);
        found.metadata.owner_references = None;
        assert_eq!(noted(&found), None);
        assert_eq!(notes(&live(&entries)).count(), 2);
    }

    #[test]
    fn what_upstream_owns_becomes_ours_and_what_others_own_stays_theirs() {
        let theirs = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:a": {}}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}});
        let controller = entry(
            "kube-controller-manager",
            "Update",
            json!({"f:metadata": {"f:annotations": {"f:r": {}}}}),
        );
        let found = adoption(&json!([entry("olm", "Update", theirs.clone()), controller])).unwrap();
        let told = serde_json::to_value(&found.managed_fields).unwrap();
        assert_eq!(
            told,
            json!([entry("olm-operator/csv", "Apply", theirs.clone()), controller])
        );
        assert_eq!(found.own_fields(), Some(&theirs["f:spec"]));
        assert!(found.is_as(&json!({"replicas": 2})));

        let ours = entry(
            "olm-operator/csv",
            "Apply",
            json!({"f:spec": {"f:paused": {}, "f:template": {"f:b": {}}}}),
        );
        let found = adoption(&json!([ours, entry("olm", "Update", theirs)])).unwrap();
        assert_eq!(
            found.own_fields(),
            Some(&json!({"f:replicas": {}, "f:paused": {}, "f:template": {"f:a": {}, "f:b": {}}}))
        );
        assert_eq!(found.managed_fields.len(), 1);
        assert!(
            !found.is_as(&json!({"replicas": 2})),
            "of one that we applied the hash tells"
        );
    }

    #[test]
    fn without_anything_to_adopt_there_is_no_note() {
        let spec = json!({"f:spec": {"f:minReadySeconds": {}}});
        for entries in [
            json!([]),
            json!([entry("olm-operator/csv", "Apply", spec.clone())]),
            json!([entry("olm", "Apply", spec.clone())]),
            json!([entry("hpa", "Update", json!({"f:spec": {"f:replicas": {}}}))]),
            json!([entry(
                "olm",
                "Update",
                json!({"f:metadata": {"f:labels": {"f:olm.deployment-spec-hash": {}}}})
            )]),
        ] {
            assert_eq!(adoption(&entries), None, "{entries}");
        }
        let mut older = entry("olm", "Update", spec.clone());
        older["apiVersion"] = json!("extensions/v1beta1");
        assert_eq!(
            adoption(&json!([entry("olm-operator/csv", "Apply", spec), older])),
            None
        );
    }

    /// Fields that others may set, and fields outside of the spec, remain theirs.
    #[test]
    fn only_the_spec_becomes_ours_of_fields_that_others_set() {
        let ours = entry("olm-operator/csv", "Apply", json!({"f:spec": {"f:selector": {}}}));
        let labels = json!({"f:labels": {".": {}, "f:mine": {}}});
        let annotations = |keys: Value| json!({"f:metadata": {"f:annotations": keys}});
        let edited = entry(
            "kubectl-edit",
            "Update",
            json!({"f:metadata": labels, "f:spec": {"f:replicas": {}, "f:minReadySeconds": {},
                "f:template": annotations(json!({".": {}, "f:more": {}, "f:kubectl.kubernetes.io/restartedAt": {}}))}}),
        );
        let posing = json!({"manager": "olm-operator/csv", "operation": "Apply", "apiVersion": "apps/v1", "subresource": "scale",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let scaled = json!({"manager": "hpa", "operation": "Update", "apiVersion": "apps/v1", "subresource": "scale",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let added = entry(
            "helm",
            "Apply",
            json!({"f:spec": {"f:template": {"f:spec": {"f:hostNetwork": {}}}}}),
        );
        let found = adoption(&json!([posing, ours, edited, scaled, added])).unwrap();
        assert!(!found.is_of_another());
        assert_eq!(
            found.own_fields(),
            Some(&json!({"f:selector": {}, "f:minReadySeconds": {}, "f:template": {
                "f:metadata": {"f:annotations": {".": {}, "f:more": {}}}, "f:spec": {"f:hostNetwork": {}}}}))
        );
        let left = serde_json::to_value(&found.managed_fields[1..]).unwrap();
        let restarted = annotations(json!({"f:kubectl.kubernetes.io/restartedAt": {}}));
        let fields = json!({"f:metadata": labels, "f:spec": {"f:replicas": {}, "f:template": restarted}});
        assert_eq!(
            left,
            json!([posing, entry("kubectl-edit", "Update", fields), scaled])
        );
    }
}
