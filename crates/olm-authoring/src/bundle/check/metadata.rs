//! Checks of an object's metadata, as an API server makes them.

use std::fmt::Display;

use go_compat::json::kind_of;
use olm_api::names::{label_key_faults, label_value_faults};
use serde_json::Value;

/// Maximum size of all annotation keys and values together, in bytes.
const ANNOTATION_BYTES: usize = 256 << 10;

/// Returns the problems of `metadata`. Objects of a bundle have no namespace, because the install decides it.
pub(super) fn problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for field in ["name", "generateName", "namespace"] {
        if !(metadata[field].is_null() || metadata[field].is_string()) {
            problems.push(format!(
                "metadata.{field}: must be text, found {}",
                metadata[field]
            ));
        }
    }
    if !problems.is_empty() {
        return problems;
    }
    if metadata["name"].as_str().is_none_or(str::is_empty) {
        problems.push("metadata.name: Required value: name or generateName is required".to_owned());
    }
    if metadata["namespace"]
        .as_str()
        .is_some_and(|namespace| !namespace.is_empty())
    {
        problems.push("metadata.namespace: Forbidden: not allowed on this type".to_owned());
    }
    problems.extend(map_problems(metadata));
    for finalizer in metadata["finalizers"].as_array().into_iter().flatten() {
        let text = finalizer.as_str().unwrap_or_default();
        problems.extend(invalid("metadata.finalizers", text, label_key_faults(text)));
    }
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                problems.push(format!(
                    "metadata.ownerReferences.{field}: Invalid value: \"\": must not be empty"
                ));
            }
        }
    }
    problems
}

/// Returns the problems of labels and annotations.
pub(super) fn map_problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut bytes = 0;
    for field in ["labels", "annotations"] {
        let path = format!("metadata.{field}");
        let map = match &metadata[field] {
            Value::Null => continue,
            Value::Object(map) => map,
            other => {
                problems.push(format!(
                    "{path}: must be a map of texts, found {}",
                    kind_of(other)
                ));
                continue;
            }
        };
        for (key, value) in map {
            // Null counts as empty text.
            let Some(text) = value.as_str().or(value.is_null().then_some("")) else {
                problems.push(format!("{path} {key:?} must be text, found {value}"));
                continue;
            };
            // Annotation keys may be written in upper case, too.
            let key_problems = match field {
                "annotations" => label_key_faults(&key.to_lowercase()),
                _ => label_key_faults(key),
            };
            problems.extend(invalid(&path, key, key_problems));
            if field == "labels" {
                problems.extend(invalid(&path, text, label_value_faults(text)));
            } else {
                bytes += key.len() + text.len();
            }
        }
    }
    if bytes > ANNOTATION_BYTES {
        problems.push(format!(
            "metadata.annotations: Too long: may not be more than {ANNOTATION_BYTES} bytes"
        ));
    }
    problems
}

/// Returns problems of a value, as `path: Invalid value: "value": problem`.
fn invalid<T: Display>(path: &str, value: &str, problems: Vec<T>) -> impl Iterator<Item = String> + use<T> {
    let start = format!("{path}: Invalid value: {value:?}: ");
    problems
        .into_iter()
        .map(move |problem| format!("{start}{problem}"))
}
