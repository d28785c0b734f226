//! What a cluster holds without what differs from run to run: uids, versions, times, generated names.

use std::collections::BTreeMap;
use std::sync::Arc;

use olm_testing::cluster::Key;
use serde_json::{Map, Value};

/// Fields with times, versions and counts of writes.
const OF_RUNS: [&str; 16] = [
    "uid",
    "uuid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "observedGeneration",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastUpdated",
    "lastConnect",
    "lastProbeTime",
    "startTime",
    "createdAt",
    "latestImageRegistryPoll",
    "lastHeartbeatTime",
    "completionTime",
];

pub(super) fn normalised(objects: &BTreeMap<Key, Arc<Value>>) -> BTreeMap<String, Value> {
    let generated = generated(objects);
    let named = |object: &Arc<Value>| {
        let object = plain(object, &generated);
        let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (part(&object["kind"]), &object["metadata"]);
        let key = format!(
            "{kind} {}/{}",
            part(&metadata["namespace"]),
            part(&metadata["name"])
        );
        (key, object)
    };
    objects.values().map(named).collect()
}

/// Where `one` and `other` are not the same, one line each.
pub(super) fn differences(one: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differing = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), ToString::to_string);
    differing
        .map(|key| format!("{key}:\n  {}\n  {}", text(one.get(key)), text(other.get(key))))
        .collect()
}

/// What stands for each generated name, in the order of plans' generations and of names.
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
            let kept = fields.iter().filter(|(key, _)| !OF_RUNS.contains(&key.as_str()));
            let mut kept: Map<String, Value> = kept
                .map(|(key, value)| (renamed(key, generated), plain(value, generated)))
                .collect();
            // What a process made and what it found made by one before it is the same in the end.
            if fields.contains_key("resolving") && fields["status"] == "Present" {
                kept.insert("status".into(), "Created".into());
            }
            // Why catalogs are healthy tells what happened to them last.
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

fn renamed(text: &str, generated: &[(String, String)]) -> String {
    let replace = |text: String, (name, stand_in): &(String, String)| text.replace(name, stand_in);
    generated.iter().fold(text.to_owned(), replace)
}
