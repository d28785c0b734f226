//! Value of `olm.csv.metadata`: the parts of a CSV that catalogs show.

use serde_json::{Map, Value};

use super::fields::{Fields, json_kind};

/// JSON shape a known field must have; null fits every shape.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Bool,
    Integer,
    Any,
    /// Texts.
    Texts,
    /// An object whose values are texts.
    TextMap,
    /// An object with these fields; others are not looked at.
    Object(Fieldset),
    /// A list of such objects.
    List(Fieldset),
}

type Fieldset = &'static [(&'static str, Shape)];

/// Known fields of the value, with their shapes.
const FIELDS: [(&str, Shape); 14] = [
    ("annotations", Shape::TextMap),
    ("apiServiceDefinitions", Shape::Object(APIS)),
    ("crdDescriptions", Shape::Object(APIS)),
    ("description", Shape::Text),
    ("displayName", Shape::Text),
    (
        "installModes",
        Shape::List(&[("type", Shape::Text), ("supported", Shape::Bool)]),
    ),
    ("keywords", Shape::Texts),
    ("labels", Shape::TextMap),
    ("links", Shape::List(LINK)),
    (
        "maintainers",
        Shape::List(&[("name", Shape::Text), ("email", Shape::Text)]),
    ),
    ("maturity", Shape::Text),
    ("minKubeVersion", Shape::Text),
    (
        "nativeAPIs",
        Shape::List(&[
            ("group", Shape::Text),
            ("version", Shape::Text),
            ("kind", Shape::Text),
        ]),
    ),
    ("provider", Shape::Object(LINK)),
];

const LINK: Fieldset = &[("name", Shape::Text), ("url", Shape::Text)];

const APIS: Fieldset = &[("owned", Shape::List(API)), ("required", Shape::List(API))];

const API: Fieldset = &[
    ("name", Shape::Text),
    ("group", Shape::Text),
    ("version", Shape::Text),
    ("kind", Shape::Text),
    ("deploymentName", Shape::Text),
    ("containerPort", Shape::Integer),
    ("displayName", Shape::Text),
    ("description", Shape::Text),
    (
        "resources",
        Shape::List(&[
            ("name", Shape::Text),
            ("kind", Shape::Text),
            ("version", Shape::Text),
        ]),
    ),
    ("statusDescriptors", Shape::List(DESCRIPTOR)),
    ("specDescriptors", Shape::List(DESCRIPTOR)),
    ("actionDescriptors", Shape::List(DESCRIPTOR)),
];

const DESCRIPTOR: Fieldset = &[
    ("path", Shape::Text),
    ("displayName", Shape::Text),
    ("description", Shape::Text),
    ("x-descriptors", Shape::Texts),
    ("value", Shape::Any),
];

/// Checks `value`, found at `path`.
fn check(value: &Value, shape: Shape, path: &str) -> Result<(), String> {
    let expected = |what: &str| {
        Err(format!(
            "field {path}: expected {what}, found {}",
            json_kind(value)
        ))
    };
    match (shape, value) {
        (_, Value::Null)
        | (Shape::Any, _)
        | (Shape::Text, Value::String(_))
        | (Shape::Bool, Value::Bool(_)) => Ok(()),
        (Shape::Integer, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(()),
        (Shape::Texts, Value::Array(items)) => check_all(items, Shape::Text, path),
        (Shape::TextMap, Value::Object(map)) => map
            .iter()
            .try_for_each(|(key, value)| check(value, Shape::Text, &format!("{path}.{key}"))),
        (Shape::Object(fields), Value::Object(_)) => {
            let found = Fields::of(value)?;
            fields.iter().try_for_each(|(name, shape)| match found.get(name) {
                Some(field) => check(field, *shape, &format!("{path}.{name}")),
                None => Ok(()),
            })
        }
        (Shape::List(fields), Value::Array(items)) => check_all(items, Shape::Object(fields), path),
        (Shape::Text, _) => expected("a string"),
        (Shape::Bool, _) => expected("a boolean"),
        (Shape::Integer, _) => expected("an integer"),
        (Shape::Texts | Shape::List(_), _) => expected("an array"),
        (Shape::TextMap | Shape::Object(_), _) => expected("an object"),
    }
}

fn check_all(items: &[Value], shape: Shape, path: &str) -> Result<(), String> {
    items
        .iter()
        .enumerate()
        .try_for_each(|(index, item)| check(item, shape, &format!("{path}[{index}]")))
}

/// The known fields, under their own spelling; empty ones are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CsvMetadata {
    fields: Map<String, Value>,
}

impl CsvMetadata {
    pub(super) fn from_value(value: &Value) -> Result<Self, String> {
        let source = Fields::of(value)?;
        let mut fields = Map::new();
        for (name, shape) in FIELDS {
            let Some(field) = source.get(name) else { continue };
            if field.is_null() {
                continue;
            }
            check(field, shape, name)?;
            fields.insert(name.to_owned(), field.clone());
        }
        Ok(Self { fields })
    }

    /// The metadata of a CSV, as the migration from bundle objects derives it.
    pub fn from_csv(csv: &Value) -> Self {
        let metadata = &csv["metadata"];
        let spec = &csv["spec"];
        let mut fields = Map::new();
        for (name, _) in FIELDS {
            let field = match name {
                "annotations" | "labels" => metadata.get(name),
                "crdDescriptions" => spec.get("customresourcedefinitions"),
                "apiServiceDefinitions" => spec.get("apiservicedefinitions"),
                other => spec.get(other),
            };
            let field = match field {
                Some(value) if !is_empty(value) => value.clone(),
                // Upstream always writes these three, being structs.
                _ if matches!(name, "apiServiceDefinitions" | "crdDescriptions" | "provider") => {
                    Value::Object(Map::new())
                }
                _ => continue,
            };
            fields.insert(name.to_owned(), field);
        }
        Self { fields }
    }

    /// A field, unless it is absent or empty.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !is_empty(value))
    }

    /// The property value.
    pub fn into_value(self) -> Value {
        Value::Object(self.fields)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
