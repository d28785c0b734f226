//! Schemas of a definition's version as a flat map, in the form in which they are compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Fields of one property's schema, without `properties`, `items` and descriptions.
pub(super) type Schema = Map<String, Value>;

/// Fields of `JSONSchemaProps` that hold one schema, or a boolean in its place.
const ONE: [&str; 3] = ["not", "additionalProperties", "additionalItems"];
/// Fields that hold a list of schemas.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Fields that hold schemas by name.
const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];

/// Returns the schemas of all properties of a version by path. The root is `^`.
pub(super) fn flatten(version: &Value) -> BTreeMap<String, Schema> {
    let mut found = BTreeMap::new();
    walk(&version["schema"]["openAPIV3Schema"], "^".to_owned(), &mut found);
    found
}

fn walk(schema: &Value, path: String, found: &mut BTreeMap<String, Schema>) {
    let Some(fields) = schema.as_object() else {
        return;
    };
    for (child, schema) in children(fields) {
        walk(schema, format!("{path}{child}"), found);
    }
    let mut own = normal(fields);
    own.remove("properties");
    own.remove("items");
    found.insert(path, own);
}

/// Returns the schemas within a schema, each with its part of the path.
fn children(fields: &Schema) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("items", Value::Array(list)) => found.extend(numbered(key, list)),
            (list, Value::Array(schemas)) if LISTS.contains(&list) => found.extend(numbered(key, schemas)),
            ("items", value) => found.push((format!(".{key}"), value)),
            (one, value) if ONE.contains(&one) => found.push((format!(".{key}"), value)),
            ("properties", Value::Object(map)) => {
                found.extend(map.iter().map(|(name, value)| (format!(".{name}"), value)));
            }
            (map, Value::Object(schemas)) if MAPS.contains(&map) => {
                let named = schemas.iter();
                found.extend(named.map(|(name, value)| (format!(".{key}[{name}]"), value)));
            }
            _ => {}
        }
    }
    found
}

fn numbered<'a>(key: &str, schemas: &'a [Value]) -> impl Iterator<Item = (String, &'a Value)> + use<'a> {
    let key = key.to_owned();
    let schemas = schemas.iter().enumerate();
    schemas.map(move |(index, schema)| (format!(".{key}[{index}]"), schema))
}

/// Returns the fields without those that mean the same as absent ones.
fn normal(fields: &Schema) -> Schema {
    let kept = fields.iter().filter_map(|(key, value)| {
        let value = normal_field(key, value)?;
        Some((key.clone(), value))
    });
    kept.collect()
}

fn normal_field(key: &str, value: &Value) -> Option<Value> {
    let schema = |value: &Value| match value {
        Value::Object(fields) => Value::Object(normal(fields)),
        other => other.clone(),
    };
    match (key, value) {
        (_, Value::Null) | ("description", _) => None,
        ("default" | "example", value) => Some(value.clone()),
        (one, value) if one == "items" || ONE.contains(&one) => match value {
            Value::Array(list) => Some(list.iter().map(schema).collect()),
            one => Some(schema(one)),
        },
        (list, Value::Array(schemas)) if LISTS.contains(&list) => {
            (!schemas.is_empty()).then(|| schemas.iter().map(schema).collect())
        }
        (map, Value::Object(schemas)) if MAPS.contains(&map) => (!schemas.is_empty()).then(|| {
            let schemas = schemas.iter();
            Value::Object(
                schemas
                    .map(|(name, value)| (name.clone(), schema(value)))
                    .collect(),
            )
        }),
        // The only boolean whose absence differs from false.
        ("x-kubernetes-preserve-unknown-fields", value) => Some(value.clone()),
        (_, Value::Bool(false)) => None,
        (_, Value::String(text)) if text.is_empty() => None,
        (_, Value::Array(list)) if list.is_empty() => None,
        (_, value) => Some(value.clone()),
    }
}
