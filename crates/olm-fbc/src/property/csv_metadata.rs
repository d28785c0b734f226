//! Value of `olm.csv.metadata`: the parts of a CSV that catalogs show.

use serde_json::{Map, Value};

use super::fields::{Fields, json_kind};

/// JSON shape a known field must have.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    List,
    Object,
}

/// Known fields of the value, with their shapes.
const FIELDS: [(&str, Shape); 14] = [
    ("annotations", Shape::Object),
    ("apiServiceDefinitions", Shape::Object),
    ("crdDescriptions", Shape::Object),
    ("description", Shape::Text),
    ("displayName", Shape::Text),
    ("installModes", Shape::List),
    ("keywords", Shape::List),
    ("labels", Shape::Object),
    ("links", Shape::List),
    ("maintainers", Shape::List),
    ("maturity", Shape::Text),
    ("minKubeVersion", Shape::Text),
    ("nativeAPIs", Shape::List),
    ("provider", Shape::Object),
];

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
            match (shape, field) {
                (_, Value::Null) => continue,
                (Shape::Text, Value::String(_))
                | (Shape::List, Value::Array(_))
                | (Shape::Object, Value::Object(_)) => {}
                (Shape::Text, other) => {
                    return Err(format!(
                        "field {name}: expected a string, found {}",
                        json_kind(other)
                    ));
                }
                (Shape::List, other) => {
                    return Err(format!(
                        "field {name}: expected an array, found {}",
                        json_kind(other)
                    ));
                }
                (Shape::Object, other) => {
                    return Err(format!(
                        "field {name}: expected an object, found {}",
                        json_kind(other)
                    ));
                }
            }
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
