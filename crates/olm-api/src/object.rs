//! Objects of any kind as JSON, as bundles and API servers give them.

use serde_json::{Map, Value};

use crate::labels;

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns `kind`; empty if there is none.
pub fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

/// Returns `apiVersion`; empty if there is none.
pub fn api_version(object: &Value) -> &str {
    text(object, "/apiVersion")
}

/// Returns `metadata.name`; empty if there is none.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Returns `metadata.name`, else `metadata.generateName`; empty if there is neither.
pub fn given_name(object: &Value) -> &str {
    match name(object) {
        "" => text(object, "/metadata/generateName"),
        name => name,
    }
}

/// Returns key and value of every text entry of `metadata.labels` or `metadata.annotations`.
pub fn metadata_entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.get("metadata").and_then(|metadata| metadata.get(field));
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Returns `metadata.ownerReferences`; empty if there are none.
pub fn owner_references(object: &Value) -> &[Value] {
    let owners = object.pointer("/metadata/ownerReferences");
    owners.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns true if an owner reference names a ClusterServiceVersion. Only the kind counts, as upstream has it.
pub fn is_csv_reference(reference: &Value) -> bool {
    kind(reference) == labels::OWNER_KIND_CSV
}

/// Returns true if an object was made for a ClusterServiceVersion: it is owned by one, or has the labels of one. What was there
/// before OLM does neither.
pub fn is_of_a_csv(object: &Value) -> bool {
    owner_references(object).iter().any(is_csv_reference)
        || metadata_entries(object, "labels")
            .any(|entry| entry == (labels::OWNER_KIND, labels::OWNER_KIND_CSV))
}

/// Returns the map in a field; another value is replaced by an empty map.
pub fn map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(object).entry(field).or_insert(Value::Null))
}

/// Returns a map of `metadata`, which another value is replaced by; `field` is `labels` or `annotations`.
pub fn metadata_map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let metadata = as_map(object).entry("metadata").or_insert(Value::Null);
    map_mut(metadata, field)
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => {
            *other = Value::Object(Map::new());
            as_map(other)
        }
    }
}
