//! API objects as JSON, as bundles and API servers give them.
//!
//! A step's object is kept as JSON from the bundle to the API server, so nothing an operator's author wrote is lost on the way.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use olm_api::embedded::drop_nulls;
use olm_api::labels;
pub(crate) use olm_api::object::{
    api_version, is_csv_reference, is_of_a_csv, metadata_entries, metadata_map_mut, owner_references,
};
pub use olm_api::object::{given_name as name, kind, map_mut};
use olm_api::v1alpha1::API_VERSION;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Group (empty for the core group) and version of an `apiVersion`.
pub(crate) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Returns a literal as its type. It fits, so there is no error: tests compare what is built so with what upstream builds.
pub(crate) fn typed<T: DeserializeOwned + Default>(literal: Value) -> T {
    let typed = serde_json::from_value(literal);
    debug_assert!(typed.is_ok(), "the literal does not fit its type");
    typed.unwrap_or_default()
}

/// A filled text field of `metadata`.
pub(crate) fn metadata_text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get(field)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Sets a field of an object. A value that is no object stays unchanged: the API server reports that to its author.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    if let Value::Object(map) = object {
        map.insert(field.to_owned(), value);
    }
}

/// Owner reference to a ClusterServiceVersion as upstream writes it; the uid is empty in plans and filled at execution.
pub(crate) fn csv_owner_reference(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": labels::OWNER_KIND_CSV,
        "name": name,
        "uid": uid,
        "controller": false,
        "blockOwnerDeletion": false,
    })
}

/// Labels that tie a cluster-scoped object to a ClusterServiceVersion, which cannot own it by reference.
pub(crate) fn set_owner_labels(object: &mut Value, csv_name: &str, csv_namespace: &str) {
    let map = metadata_map_mut(object, "labels");
    map.insert(labels::OWNER.to_owned(), csv_name.into());
    map.insert(labels::OWNER_NAMESPACE.to_owned(), csv_namespace.into());
    map.insert(labels::OWNER_KIND.to_owned(), labels::OWNER_KIND_CSV.into());
}

/// True when one of the owners has this uid.
pub(crate) fn has_owner<'a>(owners: impl IntoIterator<Item = &'a OwnerReference>, uid: Option<&str>) -> bool {
    owners.into_iter().any(|owner| Some(owner.uid.as_str()) == uid)
}

/// True when one of the owners of an object has this uid.
pub(crate) fn is_owned_by(metadata: &ObjectMeta, uid: Option<&str>) -> bool {
    has_owner(metadata.owner_references.iter().flatten(), uid)
}

/// Whether the owner labels of a cluster-scoped object name this namespace.
pub(crate) fn is_of_a_csv_in(object: &Value, namespace: &str) -> bool {
    metadata_entries(object, "labels")
        .any(|(key, value)| key == labels::OWNER_NAMESPACE && value == namespace)
}

/// Removes what would let an object go with a ClusterServiceVersion: references to and labels of an owner.
pub(crate) fn remove_csv_owner(object: &mut Value) {
    remove_csv_references(object);
    let map = metadata_map_mut(object, "labels");
    for label in [labels::OWNER, labels::OWNER_NAMESPACE, labels::OWNER_KIND] {
        map.remove(label);
    }
}

/// Removes owner references that name ClusterServiceVersions.
pub(crate) fn remove_csv_references(object: &mut Value) {
    let metadata = map_mut(object, "metadata");
    if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
        owners.retain(|owner| !is_csv_reference(owner));
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

/// Removes what only an API server may say about an object, and every `null`, from an object read from a file.
pub(crate) fn strip_server_fields(object: &mut Value) {
    if let Value::Object(map) = object {
        map.remove("status");
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            for field in [
                "creationTimestamp",
                "resourceVersion",
                "uid",
                "generation",
                "managedFields",
                "selfLink",
            ] {
                metadata.remove(field);
            }
        }
    }
    drop_nulls(object);
}

/// Equal apart from fields whose value means the same as none, as `is_default` says of a field and its value. When in doubt two values
/// are different: the write that follows changes nothing then, while a missed difference would.
pub(crate) fn is_same(one: &Value, other: &Value, is_default: fn(&str, &Value) -> bool) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let fields: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            fields
                .into_iter()
                .all(|field| match (one.get(field), other.get(field)) {
                    (Some(one), Some(other)) => is_same(one, other, is_default),
                    (Some(only), None) | (None, Some(only)) => is_default(field, only),
                    (None, None) => true,
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_same(one, other, is_default))
        }
        _ => one == other,
    }
}

/// `null`, `{}`, `[]` and `""`, which the API server leaves out of most fields when it stores an object.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_fields_and_nulls_do_not_reach_the_cluster() {
        let mut object = json!({"metadata": {"name": "x", "creationTimestamp": null, "uid": "u"}, "spec": {"a": null, "b": [{"c": null}]}, "status": {}});
        strip_server_fields(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "x"}, "spec": {"b": [{}]}}));
    }

    #[test]
    fn labels_are_made_where_there_are_none() {
        let mut object = json!({"metadata": {"name": "x", "labels": null}});
        set_owner_labels(&mut object, "a.v1", "ns");
        assert_eq!(
            object["metadata"]["labels"],
            json!({"olm.owner": "a.v1", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"})
        );
    }

    #[test]
    fn api_version_splits_into_group_and_version() {
        assert_eq!(group_version("v1"), ("", "v1"));
        assert_eq!(group_version("apps/v1"), ("apps", "v1"));
    }
}
