//! Removes values from objects by field name, never by the look of a value. Pure.

use olm_api::labels;
use serde_json::{Map, Value};

/// Text in place of each removed value.
pub(super) const REDACTED: &str = "REDACTED";
/// Summary of removed and kept values, for the output and the manifest.
pub(super) const NOTE: &str = "removed: values below data, stringData, binaryData, env, httpHeaders, args and command; managedFields; last applied configurations. Secrets are not read. Everything else is unchanged: names, specs, messages, events and logs";
/// Maximum depth of JSON texts within JSON texts; deeper ones are removed.
const MAX_NESTED: usize = 3;

/// Removes the values from an object.
pub(super) fn redact(object: &mut Value) {
    redact_value(object, 0);
}

fn redact_value(value: &mut Value, nested: usize) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| redact_value(item, nested)),
        Value::Object(fields) => redact_fields(fields, nested),
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => redact_json(text, nested),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_fields(fields: &mut Map<String, Value>, nested: usize) {
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(labels::LAST_APPLIED_CONFIGURATION);
        }
    }
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), &mut *value) {
            ("data" | "stringData" | "binaryData" | "args" | "command", value) => remove_values(value),
            ("env" | "httpHeaders", Value::Array(items)) => {
                let values = items.iter_mut().filter_map(|item| item.get_mut("value"));
                values.for_each(remove_values);
            }
            // An object in an InstallPlan, possibly a Secret. Its fields are unknown if it is not JSON.
            ("manifest", Value::String(text)) if serde_json::from_str::<Value>(text).is_err() => {
                *value = REDACTED.into();
            }
            (_, value) => redact_value(value, nested),
        }
    }
}

/// Redacts a text that is JSON, such as a manifest or an annotation; other texts stay.
fn redact_json(text: &mut String, nested: usize) {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    if nested >= MAX_NESTED {
        *text = REDACTED.to_owned();
        return;
    }
    redact_value(&mut value, nested + 1);
    *text = value.to_string();
}

/// Replaces all values and keeps the names of the fields.
fn remove_values(value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => *value = REDACTED.into(),
        Value::Array(items) => items.iter_mut().for_each(remove_values),
        Value::Object(fields) => fields.values_mut().for_each(remove_values),
    }
}
