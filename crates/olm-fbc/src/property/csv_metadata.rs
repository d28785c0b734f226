//! Value of `olm.csv.metadata`: the parts of a CSV that catalogs display.

use go_compat::json::{self, Fields, kind_of};
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

/// JSON shape a known field must have; null fits every shape.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A text.
    Text,
    /// A boolean.
    Bool,
    /// A number of 32 bits.
    Integer,
    /// Any JSON, unchanged.
    Any,
    /// List of texts.
    Texts,
    /// An object whose values are texts.
    TextMap,
    /// An object with these fields; other fields are ignored.
    Object(Fieldset),
    /// A list of such objects.
    List(Fieldset),
}

/// Fields of an object, in upstream's order.
pub type Fieldset = &'static [(&'static str, Shape, Written)];

/// Condition under which upstream writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The field is written even when it is empty.
    Always,
    /// The field is written unless it is empty.
    IfSet,
}

use Shape::{Any, Bool, Integer, List, Object, Text, TextMap, Texts};
use Written::{Always, IfSet};

/// Known fields of the value, with their shapes.
const FIELDS: [(&str, Shape); 14] = [
    ("annotations", TextMap),
    ("apiServiceDefinitions", Object(API_SERVICES)),
    ("crdDescriptions", Object(CRDS)),
    ("description", Text),
    ("displayName", Text),
    ("installModes", List(INSTALL_MODE)),
    ("keywords", Texts),
    ("labels", TextMap),
    ("links", List(LINK)),
    ("maintainers", List(MAINTAINER)),
    ("maturity", Text),
    ("minKubeVersion", Text),
    ("nativeAPIs", List(NATIVE_API)),
    ("provider", Object(LINK)),
];

/// An install mode.
pub const INSTALL_MODE: Fieldset = &[("type", Text, Always), ("supported", Bool, Always)];

/// A maintainer.
pub const MAINTAINER: Fieldset = &[("name", Text, IfSet), ("email", Text, IfSet)];

/// An API of Kubernetes.
pub const NATIVE_API: Fieldset = &[
    ("group", Text, Always),
    ("version", Text, Always),
    ("kind", Text, Always),
];

/// A link, or a provider.
pub const LINK: Fieldset = &[("name", Text, IfSet), ("url", Text, IfSet)];

/// Custom resources.
pub const CRDS: Fieldset = &[("owned", List(CRD), IfSet), ("required", List(CRD), IfSet)];

const CRD: Fieldset = &[
    ("name", Text, Always),
    ("version", Text, Always),
    ("kind", Text, Always),
    ("displayName", Text, IfSet),
    ("description", Text, IfSet),
    ("resources", List(RESOURCE), IfSet),
    ("statusDescriptors", List(DESCRIPTOR), IfSet),
    ("specDescriptors", List(DESCRIPTOR), IfSet),
    ("actionDescriptors", List(DESCRIPTOR), IfSet),
];

/// Aggregated APIs.
pub const API_SERVICES: Fieldset = &[
    ("owned", List(API_SERVICE), IfSet),
    ("required", List(API_SERVICE), IfSet),
];

const API_SERVICE: Fieldset = &[
    ("name", Text, Always),
    ("group", Text, Always),
    ("version", Text, Always),
    ("kind", Text, Always),
    ("deploymentName", Text, IfSet),
    ("containerPort", Integer, IfSet),
    ("displayName", Text, IfSet),
    ("description", Text, IfSet),
    ("resources", List(RESOURCE), IfSet),
    ("statusDescriptors", List(DESCRIPTOR), IfSet),
    ("specDescriptors", List(DESCRIPTOR), IfSet),
    ("actionDescriptors", List(DESCRIPTOR), IfSet),
];

const RESOURCE: Fieldset = &[
    ("name", Text, Always),
    ("kind", Text, Always),
    ("version", Text, Always),
];

const DESCRIPTOR: Fieldset = &[
    ("path", Text, Always),
    ("displayName", Text, IfSet),
    ("description", Text, IfSet),
    ("x-descriptors", Texts, IfSet),
    ("value", Any, IfSet),
];

/// A value as upstream writes it: known fields only, in upstream's order, and empty ones only if they are always written. A boolean
/// or number in the place of a text is written as text: YAML 1.1 reads `displayName: N` as false. Any other value of another shape
/// is written as it is.
pub struct Shaped<'a>(pub Shape, pub &'a Value);

impl Serialize for Shaped<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            (Text, Value::Null) => out.serialize_str(""),
            (Text, value @ (Value::Bool(_) | Value::Number(_))) => out.collect_str(value),
            (Bool, Value::Null) => out.serialize_bool(false),
            (Integer, Value::Null) => out.serialize_u8(0),
            (TextMap, Value::Null) => out.collect_map(std::iter::empty::<(&str, &str)>()),
            (TextMap, Value::Object(map)) => {
                out.collect_map(map.iter().map(|(key, item)| (key, Shaped(Text, item))))
            }
            (Texts, Value::Array(items)) => out.collect_seq(items.iter().map(|item| Shaped(Text, item))),
            (List(fields), Value::Array(items)) => {
                out.collect_seq(items.iter().map(|item| Shaped(Object(fields), item)))
            }
            (Object(fields), value @ (Value::Object(_) | Value::Null)) => {
                let object = value.as_object();
                out.collect_map(fields.iter().filter_map(|(name, shape, written)| {
                    let value = object.and_then(|object| json::field(object, name));
                    let is_written = *written == Always || is_set(*shape, value);
                    is_written.then(|| (name, Shaped(*shape, value.unwrap_or(&Value::Null))))
                }))
            }
            (_, value) => value.serialize(out),
        }
    }
}

/// Returns true if a value is not empty for upstream's type of this shape. Raw JSON never is, even null.
fn is_set(shape: Shape, value: Option<&Value>) -> bool {
    match (shape, value) {
        (_, None) => false,
        (Any, Some(_)) => true,
        (Text, Some(value)) => !is_empty(value),
        (_, Some(value)) => !is_empty(value) && *value != false && value.as_f64() != Some(0.0),
    }
}

/// Checks the shape of `value`, found at `path`.
fn check(value: &Value, shape: Shape, path: &str) -> Result<(), String> {
    let expected = |what: &str| Err(format!("field {path}: expected {what}, found {}", kind_of(value)));
    match (shape, value) {
        (_, Value::Null) | (Any, _) | (Text, Value::String(_)) | (Bool, Value::Bool(_)) => Ok(()),
        (Integer, Value::Number(number)) if is_integer(number) => Ok(()),
        (Texts, Value::Array(items)) => check_all(items, Text, path),
        (TextMap, Value::Object(map)) => map
            .iter()
            .try_for_each(|(key, value)| check(value, Text, &format!("{path}.{key}"))),
        (Object(fields), Value::Object(_)) => {
            let found = Fields::of(value)?;
            fields
                .iter()
                .try_for_each(|(name, shape, _)| match found.get(name) {
                    Some(field) => check(field, *shape, &format!("{path}.{name}")),
                    None => Ok(()),
                })
        }
        (List(fields), Value::Array(items)) => check_all(items, Object(fields), path),
        (Text, _) => expected("a string"),
        (Bool, _) => expected("a boolean"),
        (Integer, _) => expected("an integer"),
        (Texts | List(_), _) => expected("an array"),
        (TextMap | Object(_), _) => expected("an object"),
    }
}

/// Returns true if a number fits upstream's 32-bit type. Upstream rewrites documents before it reads them, so `80.0` becomes
/// `80`.
fn is_integer(number: &Number) -> bool {
    let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
    number
        .as_f64()
        .is_some_and(|number| number.fract() == 0.0 && range.contains(&number))
}

fn check_all(items: &[Value], shape: Shape, path: &str) -> Result<(), String> {
    items
        .iter()
        .enumerate()
        .try_for_each(|(index, item)| check(item, shape, &format!("{path}[{index}]")))
}

/// Known fields, under their canonical spelling; empty ones are omitted.
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

    /// Returns the metadata of a CSV, as the migration from bundle objects derives it.
    pub fn from_csv(csv: &Value) -> Self {
        let metadata = &csv["metadata"];
        let spec = &csv["spec"];
        let mut fields = Map::new();
        for (name, shape) in FIELDS {
            let field = match name {
                "annotations" | "labels" => metadata.get(name),
                "crdDescriptions" => spec.get("customresourcedefinitions"),
                "apiServiceDefinitions" => spec.get("apiservicedefinitions"),
                other => spec.get(other),
            };
            let field = match field.and_then(|value| serde_json::to_value(Shaped(shape, value)).ok()) {
                Some(value) if !is_empty(&value) => value,
                // Upstream always writes these three, because they are structs.
                _ if matches!(name, "apiServiceDefinitions" | "crdDescriptions" | "provider") => {
                    Value::Object(Map::new())
                }
                _ => continue,
            };
            fields.insert(name.to_owned(), field);
        }
        Self { fields }
    }

    /// Returns a field; `None` if it is absent or empty.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !is_empty(value))
    }

    /// Returns the property value.
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
