//! Checks of a revision's objects before anything is applied. No I/O.
//!
//! Rules and texts are those of upstream's library `boxcutter`. It also asks the API server for a dry run of each object; here a refused
//! write is reported with the same text.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::quote;
use serde_json::Value;

use super::object::ObjectId;

/// Name of a phase, and its objects as manifests.
pub(super) type Manifests<'a> = (&'a str, Vec<&'a Value>);

/// Metadata that the API server or the controller sets.
const FORBIDDEN: [&str; 6] = [
    "uid",
    "generation",
    "generateName",
    "finalizers",
    "ownerReferences",
    "resourceVersion",
];

/// Returns the error of a revision whose phases cannot be applied.
pub(super) fn revision_error(name: &str, number: i64, phases: &[Manifests<'_>]) -> Option<String> {
    let duplicates = duplicates(phases);
    let texts: Vec<String> = phases
        .iter()
        .filter_map(|(phase, manifests)| {
            let errors = manifests.iter().filter_map(|object| object_error(object));
            let mut objects: Vec<String> = errors.collect();
            let here = duplicates.iter().filter(|(_, names)| names.contains(phase));
            objects.extend(here.map(|(id, names)| {
                let names: Vec<&str> = names.iter().copied().collect();
                let names = names.join(", ");
                format!("{}: duplicate object found in phases: {names}", id.reference())
            }));
            phase_error(phase, name_error(phase), &objects)
        })
        .collect();
    (!texts.is_empty()).then(|| format!("revision {} ({number}): {}", quote(name), texts.join(", ")))
}

/// Returns the error of a phase with these errors of its name and of its objects.
pub(super) fn phase_error(name: &str, own: Option<&str>, objects: &[String]) -> Option<String> {
    let errors: Vec<&str> = own
        .into_iter()
        .chain(objects.iter().map(String::as_str))
        .collect();
    (!errors.is_empty()).then(|| format!("phase {}: {}", quote(name), errors.join(", ")))
}

fn object_error(object: &Value) -> Option<String> {
    let id = ObjectId::of(object);
    let mut errors = Vec::new();
    if id.version.is_empty() {
        errors.push("apiVersion: Required value: must not be empty".to_owned());
    }
    if id.kind.is_empty() {
        errors.push("kind: Required value: must not be empty".to_owned());
    }
    let is_map = |value: &Value| value.is_null() || value.is_object();
    let metadata = &object["metadata"];
    if ![metadata, &metadata["labels"], &metadata["annotations"]]
        .into_iter()
        .all(is_map)
    {
        errors.push("metadata: Invalid value: must be an object with labels and annotations".to_owned());
    }
    let is_set = |field: &str| match &metadata[field] {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Number(number) => number.as_i64().is_some_and(|number| number > 0),
        _ => true,
    };
    for field in FORBIDDEN {
        if is_set(field) {
            errors.push(format!("metadata.{field}: Forbidden: must be empty"));
        }
    }
    (!errors.is_empty()).then(|| format!("{}: {}", id.reference(), errors.join(", ")))
}

/// Returns the objects that occur twice, with the names of their phases.
fn duplicates<'a>(phases: &[Manifests<'a>]) -> BTreeMap<ObjectId, BTreeSet<&'a str>> {
    let mut found: BTreeMap<ObjectId, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for (phase, manifests) in phases {
        for object in manifests {
            let (count, names) = found.entry(ObjectId::of(object)).or_default();
            *count += 1;
            names.insert(phase);
        }
    }
    found
        .into_iter()
        .filter(|(_, (count, _))| *count > 1)
        .map(|(id, (_, names))| (id, names))
        .collect()
}

/// Names of phases are DNS-1035 labels, although the definition also allows a leading digit.
fn name_error(name: &str) -> Option<&'static str> {
    let is_label = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
        && name.chars().all(|character| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
        });
    (!is_label).then_some(
        "phase name invalid: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
         alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
         validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn phase<'a>(name: &'a str, object: &'a Value) -> Manifests<'a> {
        (name, vec![object])
    }

    #[test]
    fn every_error_of_a_revision_is_named() {
        let good =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "a"}});
        let bad = json!({"kind": "ConfigMap", "metadata": {"name": "b", "uid": "1", "finalizers": [], "generation": 2}});
        let labels = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "labels": 1}});
        let rows = [
            (vec![phase("a", &good)], None),
            (
                vec![phase("a", &bad)],
                Some(
                    "phase \"a\": /, Kind=ConfigMap /b: apiVersion: Required value: must not be empty, metadata.uid: Forbidden: \
                     must be empty, metadata.generation: Forbidden: must be empty",
                ),
            ),
            (
                vec![phase("a", &labels)],
                Some(
                    "phase \"a\": /v1, Kind=ConfigMap /b: metadata: Invalid value: must be an object with labels and annotations",
                ),
            ),
            (
                vec![phase("a", &good), phase("b", &good)],
                Some(
                    "phase \"a\": /v1, Kind=ConfigMap ns/a: duplicate object found in phases: a, b, phase \"b\": /v1, \
                     Kind=ConfigMap ns/a: duplicate object found in phases: a, b",
                ),
            ),
            (
                vec![phase("1a", &good)],
                Some(
                    "phase \"1a\": phase name invalid: a DNS-1035 label must consist of lower case alphanumeric characters or \
                     '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
                     'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
                ),
            ),
        ];
        for (phases, error) in rows {
            let error = error.map(|error| format!("revision \"e-1\" (1): {error}"));
            assert_eq!(revision_error("e-1", 1, &phases), error);
        }
    }
}
