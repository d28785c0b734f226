//! Removes values from objects by field name, never by the look of a value. Pure.

use olm_api::labels;
use serde_json::{Map, Value};

/// Text in place of each removed value.
pub(super) const REDACTED: &str = "REDACTED";
/// Summary of removed and kept values, for the output and the manifest.
pub(super) const NOTE: &str = "removed: values below data, stringData, binaryData, env, httpHeaders, args and command; managedFields; last applied configurations. Secrets are not read. Everything else is unchanged: names, specs, messages, events and logs";

/// Removes the values from an object, also in texts that are JSON, such as a manifest or an annotation.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => redact_fields(fields),
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            if let Ok(mut inner) = serde_json::from_str::<Value>(text) {
                redact(&mut inner);
                *text = inner.to_string();
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_fields(fields: &mut Map<String, Value>) {
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
            (_, value) => redact(value),
        }
    }
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
