//! Objects of any kind as JSON, as bundles and API servers give them.

use serde_json::{Map, Value};

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
