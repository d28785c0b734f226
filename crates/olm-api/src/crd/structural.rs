//! Conversion from a Rust type to a structural schema: one tree without references, in the subset of JSON schema Kubernetes
//! accepts.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::core_types;

const DEFINITIONS: &str = "#/$defs/";

/// Keyword our types use for a default that the API server fills in. The plain keyword describes how serde treats an absent field
/// and is no promise to clients.
const SERVER_DEFAULT: &str = "x-default";

/// Returns the schema of `T` as objects are written: a field is required if it is always written.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.meta_schema = None;
            settings.transforms = Vec::new();
        })
        .for_serialize()
        .into_generator();
    let root = generator.subschema_for::<T>().to_value();
    let definitions = generator.take_definitions(false);
    expand(root, &definitions, Descriptions::Keep)
}

/// Treatment of descriptions: ours are kept; those of core types would make the manifests too large to apply.
#[derive(Clone, Copy, PartialEq)]
enum Descriptions {
    Keep,
    Drop,
}

fn expand(schema: Value, definitions: &Map<String, Value>, descriptions: Descriptions) -> Value {
    let Value::Object(mut schema) = schema else {
        // `true`: any value.
        return json!({"x-kubernetes-preserve-unknown-fields": true});
    };
    take_non_null_branch(&mut schema);
    if let Some(Value::String(reference)) = schema.remove("$ref") {
        return expand_reference(&reference, schema, definitions, descriptions);
    }
    if let Some(Value::Array(types)) = schema.get("type")
        && let Some(single) = types.iter().find(|name| *name != "null").cloned()
    {
        schema.insert("type".to_owned(), single);
    }
    for keyword in ["title", "default", "nullable"] {
        schema.remove(keyword);
    }
    if descriptions == Descriptions::Drop {
        schema.remove("description");
    } else if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = unwrap_lines(text);
    }
    if let Some(default) = schema.remove(SERVER_DEFAULT) {
        schema.insert("default".to_owned(), default);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.remove(keyword) {
            schema.insert(keyword.to_owned(), expand(inner, definitions, descriptions));
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            *property = expand(property.take(), definitions, descriptions);
        }
    }
    Value::Object(schema)
}

/// Joins the lines of each paragraph, because line breaks in the source mean nothing to readers of the description.
fn unwrap_lines(text: &str) -> String {
    let paragraphs: Vec<_> = text
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "))
        .collect();
    paragraphs.join("\n\n")
}

/// Replaces a reference by its target. Keywords beside the reference, such as a field's own description and extensions, take
/// precedence.
fn expand_reference(
    reference: &str,
    beside: Map<String, Value>,
    definitions: &Map<String, Value>,
    descriptions: Descriptions,
) -> Value {
    let name = reference.strip_prefix(DEFINITIONS).unwrap_or(reference);
    let target = definitions.get(name).cloned().unwrap_or_default();
    let is_core = core_types::is_core(name);
    let inner = if is_core { Descriptions::Drop } else { descriptions };
    let mut expanded = expand(target, definitions, inner);
    if is_core {
        core_types::refine(name, &mut expanded);
    }
    if let (Value::Object(expanded), Value::Object(beside)) = (
        &mut expanded,
        expand(Value::Object(beside), definitions, descriptions),
    ) {
        expanded.extend(beside);
    }
    expanded
}

/// Keeps the value branch of an option, which is either the value or null. Kubernetes knows optional fields, not null.
fn take_non_null_branch(schema: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = schema.get("anyOf") else {
        return;
    };
    let is_null = |branch: &Value| branch["type"] == "null";
    if let [one, other] = branches.as_slice()
        && is_null(one) != is_null(other)
        && let Value::Object(branch) = if is_null(one) { other.clone() } else { one.clone() }
    {
        schema.remove("anyOf");
        for (keyword, value) in branch {
            schema.entry(keyword).or_insert(value);
        }
    }
}
