//! Objects of a cluster without the parts that differ between runs: uids, versions, times, generated names, histories, certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cluster::{Key, LEASE};

/// Fields with times, versions, counts of writes, keys and certificates.
const OF_RUNS: [&str; 26] = [
    "uid",
    "uuid",
    "resourceVersion",
    "managedFields",
    "creationTimestamp",
    "generation",
    "observedGeneration",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastUpdated",
    "lastUnpacked",
    "lastConnect",
    "lastProbeTime",
    "startTime",
    "createdAt",
    "latestImageRegistryPoll",
    "lastHeartbeatTime",
    "completionTime",
    "certsLastUpdated",
    "certsRotateAt",
    "caBundle",
    "madeAt",
    "olmcahash",
    "olmCAKey",
    "tls.crt",
    "tls.key",
];
/// Annotation of InstallPlans with a document that says when it was made.
const PREVIEW: &str = "operatorframework.io/install-plan-preview";
/// How labels begin that have a uid in their key.
const UID_LABEL: &str = "olm.operatorgroup.uid/";

/// Objects by kind, namespace and name, the same for any two runs of a story.
pub type Normal = BTreeMap<String, Value>;

/// Returns all objects without the parts that differ between runs. Leases are left out, because they depend on the processes.
pub fn normalised(objects: &BTreeMap<Key, Arc<Value>>) -> Normal {
    let generated = generated(objects);
    let named = |object: &Arc<Value>| {
        let mut object = plain(object, &generated);
        if object["kind"] == "ClusterServiceVersion"
            && let Some(status) = object["status"].as_object_mut()
        {
            // The conditions are a history, trimmed at the front; the current state is in other fields.
            status.remove("conditions");
        }
        let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (part(&object["kind"]), &object["metadata"]);
        let key = format!(
            "{kind} {}/{}",
            part(&metadata["namespace"]),
            part(&metadata["name"])
        );
        (key, object)
    };
    let lasting = objects.iter().filter(|(key, _)| key.kind != LEASE);
    lasting.map(|(_, object)| named(object)).collect()
}

/// Asserts that both are the same, and reports each difference on a line.
///
/// # Panics
/// If they differ.
#[track_caller]
pub fn assert_same(found: &Normal, expected: &Normal, context: &str) {
    let differences = differences(found, expected);
    assert!(differences.is_empty(), "{context}:\n{}", differences.join("\n"));
}

/// Returns the differences of `one` and `other`, with both values.
fn differences(one: &Normal, other: &Normal) -> Vec<String> {
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differing = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), ToString::to_string);
    differing
        .map(|key| format!("{key}:\n  {}\n  {}", text(one.get(key)), text(other.get(key))))
        .collect()
}

/// Returns a replacement for each generated name, ordered by the generations of plans and by name.
fn generated(objects: &BTreeMap<Key, Arc<Value>>) -> Vec<(String, String)> {
    let mut found: Vec<(String, i64, String)> = Vec::new();
    for (key, object) in objects {
        let prefix = object["metadata"]["generateName"].as_str();
        if let Some(prefix) = prefix {
            let generation = object["spec"]["generation"].as_i64().unwrap_or(0);
            found.push((prefix.to_owned(), generation, key.name.clone()));
        }
    }
    found.sort();
    let names = found.into_iter().enumerate();
    names
        .map(|(index, (prefix, _, name))| (name, format!("{prefix}{index}")))
        .collect()
}

fn plain(value: &Value, generated: &[(String, String)]) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(key, _)| !OF_RUNS.contains(&key.as_str()) && !key.starts_with(UID_LABEL));
            let mut kept: Map<String, Value> = kept
                .map(|(key, value)| {
                    let document = (key == PREVIEW).then(|| json_of(value)).flatten();
                    let value = plain(document.as_ref().unwrap_or(value), generated);
                    (renamed(key, generated), value)
                })
                .collect();
            let with_uids = fields.keys().filter(|key| key.starts_with(UID_LABEL)).count();
            if with_uids > 0 {
                kept.insert(UID_LABEL.into(), with_uids.into());
            }
            // An object that a process created and one that it found from its predecessor are the same in the end.
            if fields.contains_key("resolving") && fields["status"] == "Present" {
                kept.insert("status".into(), "Created".into());
            }
            // The reason of healthy catalogs depends on what happened last.
            if fields
                .get("type")
                .is_some_and(|name| name == "CatalogSourcesUnhealthy")
            {
                kept.remove("reason");
            }
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(|item| plain(item, generated)).collect(),
        Value::String(text) => renamed(text, generated).into(),
        other => other.clone(),
    }
}

fn json_of(text: &Value) -> Option<Value> {
    serde_json::from_str(text.as_str()?).ok()
}

fn renamed(text: &str, generated: &[(String, String)]) -> String {
    let replace = |text: String, (name, stand_in): &(String, String)| text.replace(name, stand_in);
    generated.iter().fold(text.to_owned(), replace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(objects: &[Value]) -> Normal {
        let keyed = objects
            .iter()
            .map(|object| (Key::of(object), Arc::new(object.clone())));
        normalised(&keyed.collect())
    }

    fn plan(name: &str, phase: &str, made_at: &str) -> Value {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"namespace": "ns", "name": name, "generateName": "install-", "creationTimestamp": made_at},
            "spec": {"generation": 1}, "status": {"phase": phase}})
    }

    #[test]
    fn names_times_and_uids_of_a_run_are_no_difference_and_everything_else_is() {
        let reference = of(&[plan("install-abc", "Complete", "2026-01-01T00:00:00Z")]);
        assert_same(
            &of(&[plan("install-xyz", "Complete", "2026-01-01T00:01:00Z")]),
            &reference,
            "another run",
        );
        let other = of(&[plan("install-xyz", "Failed", "2026-01-01T00:00:00Z")]);
        assert_eq!(differences(&other, &reference).len(), 1);
        assert_eq!(differences(&of(&[]), &reference).len(), 1);
    }

    #[test]
    fn labels_with_a_uid_in_their_key_are_counted() {
        let namespace = |labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels}});
        let one = of(&[namespace(json!({"olm.operatorgroup.uid/a": ""}))]);
        assert_eq!(one, of(&[namespace(json!({"olm.operatorgroup.uid/b": ""}))]));
        assert_ne!(one, of(&[namespace(json!({}))]));
    }
}
