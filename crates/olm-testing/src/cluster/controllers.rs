//! Simulated controllers of Kubernetes: garbage collection, Deployments, Pods, CustomResourceDefinitions.
//!
//! They react at once: a Deployment that is not listed as sick becomes available immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::FakeCluster;
use super::state::{Key, State};

/// Delay of the controllers after a change.
const REACTION: Duration = Duration::from_millis(5);

/// Settings of the simulated controllers.
#[derive(Debug, Clone)]
pub struct Controllers {
    /// Conditions of Deployments that never become available, by name.
    pub sick: BTreeMap<String, Value>,
    /// True if Deployments get a status.
    pub deployments: bool,
    /// Digests of the images of Pods. Pods with other images get no `containerStatuses`.
    pub image_digests: BTreeMap<String, String>,
    /// True if new Pods become ready.
    pub pods: bool,
    /// True if Deployments get ReplicaSets, without pods.
    pub replica_sets: bool,
    /// True if new CustomResourceDefinitions become established.
    pub establish: bool,
    /// True if objects without existing owners are collected.
    pub collect_garbage: bool,
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            sick: BTreeMap::new(),
            image_digests: BTreeMap::new(),
            deployments: true,
            pods: true,
            replica_sets: false,
            establish: true,
            collect_garbage: true,
        }
    }
}

impl FakeCluster {
    /// Runs the controllers while this future is polled.
    pub async fn run_controllers(self) {
        let mut changed = self.changes();
        loop {
            self.control();
            if changed.changed().await.is_err() {
                return;
            }
            tokio::time::sleep(REACTION).await;
        }
    }

    /// Runs passes of the controllers until they have nothing to do.
    pub fn control(&self) {
        let controllers = self.controllers();
        loop {
            let notes = self.mutate(|state| pass(state, &controllers));
            if notes.is_empty() {
                return;
            }
            self.note_writes(notes.into_iter().map(|note| format!("kubernetes: {note}")));
        }
    }
}

fn pass(state: &mut State, controllers: &Controllers) -> Vec<String> {
    let mut notes = Vec::new();
    if controllers.deployments {
        deployments(state, controllers, &mut notes);
    }
    if controllers.pods {
        pods(state, controllers, &mut notes);
    }
    if controllers.replica_sets {
        replica_sets(state, &mut notes);
    }
    if controllers.establish {
        definitions(state, &mut notes);
    }
    if controllers.collect_garbage {
        garbage(state, &mut notes);
    }
    notes
}

fn of_kind(state: &State, kind: &str) -> Vec<(Key, Arc<Value>)> {
    let found = state.objects.iter().filter(|(key, _)| key.kind == kind);
    found
        .map(|(key, object)| (key.clone(), Arc::clone(object)))
        .collect()
}

fn deployments(state: &mut State, controllers: &Controllers, notes: &mut Vec<String>) {
    for (key, object) in of_kind(state, "Deployment") {
        let generation = &object["metadata"]["generation"];
        let status = match controllers.sick.get(&key.name) {
            Some(conditions) => {
                json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "conditions": conditions})
            }
            None => {
                json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
                "conditions": [{"type": "Available", "status": "True"}]})
            }
        };
        if object["status"] != status {
            let mut changed = Value::clone(&object);
            changed["status"] = status;
            notes.push(format!("status of Deployment {}", key.name));
            state.store(key, changed);
        }
    }
}

fn pods(state: &mut State, controllers: &Controllers, notes: &mut Vec<String>) {
    for (key, object) in of_kind(state, "Pod") {
        if !object["status"].is_null() {
            continue;
        }
        let mut changed = Value::clone(&object);
        changed["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let container = &object["spec"]["containers"][0];
        let image = container["image"].as_str().unwrap_or_default();
        if let Some(digest) = controllers.image_digests.get(image) {
            changed["status"]["containerStatuses"] = json!([{"name": container["name"], "image": image,
                "imageID": format!("{image}@{digest}"), "ready": true, "restartCount": 0}]);
        }
        notes.push(format!("status of Pod {}", key.name));
        state.store(key, changed);
    }
}

/// Creates a ReplicaSet for each set of pod labels that a Deployment ever had; one without a controller is adopted.
fn replica_sets(state: &mut State, notes: &mut Vec<String>) {
    for (key, deployment) in of_kind(state, "Deployment") {
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        let words = labels
            .to_string()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "");
        let set = Key {
            kind: "ReplicaSet".to_owned(),
            name: format!("{}-{words}", key.name),
            ..key.clone()
        };
        let controller = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": key.name,
            "uid": deployment["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true});
        let mut object = match state.objects.get(&set) {
            Some(found) => Value::clone(found),
            None => json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"namespace": set.namespace, "name": set.name, "labels": labels}}),
        };
        let owners = object["metadata"]["ownerReferences"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let leaves = deployment["metadata"]["deletionTimestamp"].is_string();
        if leaves || owners.iter().any(|owner| owner["controller"] == true) {
            continue;
        }
        object["metadata"]["ownerReferences"] = owners.into_iter().chain([controller]).collect();
        notes.push(format!("ReplicaSet {}", set.name));
        state.store(set, object);
    }
}

fn definitions(state: &mut State, notes: &mut Vec<String>) {
    for (key, object) in of_kind(state, "CustomResourceDefinition") {
        if !object["status"].is_null() {
            continue;
        }
        let versions = object["spec"]["versions"].as_array().into_iter().flatten();
        let stored: Vec<&Value> = versions.map(|version| &version["name"]).collect();
        let status = json!({"storedVersions": stored, "acceptedNames": object["spec"]["names"],
            "conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]});
        let mut changed = Value::clone(&object);
        changed["status"] = status;
        notes.push(format!("status of CustomResourceDefinition {}", key.name));
        state.store(key, changed);
    }
}

/// Deletes objects that have lost all owners, and finishes deletions that wait for dependents.
fn garbage(state: &mut State, notes: &mut Vec<String>) {
    let alive: BTreeSet<String> = state.objects.values().filter_map(|object| uid(object)).collect();
    let objects: Vec<(Key, Arc<Value>)> = state
        .objects
        .iter()
        .map(|(key, object)| (key.clone(), Arc::clone(object)))
        .collect();
    for (key, object) in &objects {
        let owners = owners(object);
        let deleted = object["metadata"]["deletionTimestamp"].is_string();
        if !owners.is_empty() && !deleted && owners.iter().all(|owner| !alive.contains(owner)) {
            notes.push(format!("collected {} {}", key.kind, key.name));
            state.delete(key);
        }
        for finalizer in ["foregroundDeletion", "orphan"] {
            let finalizers = object["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if !deleted || !finalizers.contains(&json!(finalizer)) {
                continue;
            }
            let own = uid(object).unwrap_or_default();
            for (dependent, found) in objects
                .iter()
                .filter(|(_, found)| self::owners(found).contains(&own))
            {
                let is_needed = self::owners(found)
                    .iter()
                    .any(|owner| *owner != own && alive.contains(owner));
                if finalizer == "foregroundDeletion" && !is_needed {
                    state.delete(dependent);
                } else {
                    let mut freed = Value::clone(found);
                    if let Some(references) = freed["metadata"]["ownerReferences"].as_array_mut() {
                        references.retain(|reference| reference["uid"] != own.as_str());
                    }
                    state.store(dependent.clone(), freed);
                }
            }
            let waits = state
                .objects
                .values()
                .any(|found| self::owners(found).contains(&own));
            if !waits {
                let mut released = Value::clone(object);
                let left: Vec<Value> = finalizers
                    .into_iter()
                    .filter(|found| found != finalizer)
                    .collect();
                notes.push(format!("finished {finalizer} of {} {}", key.kind, key.name));
                let goes = left.is_empty();
                released["metadata"]["finalizers"] = json!(left);
                state.store(key.clone(), released);
                if goes {
                    state.remove(key);
                }
            }
        }
    }
}

fn uid(object: &Value) -> Option<String> {
    object["metadata"]["uid"].as_str().map(str::to_owned)
}

fn owners(object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array();
    references
        .into_iter()
        .flatten()
        .filter_map(|reference| reference["uid"].as_str().map(str::to_owned))
        .collect()
}
