//! How the model performs a write: as the API server would, as far as it matters here.

use std::sync::Arc;

use olm_runtime::{
    NamespacedName,
    outcome::{Failure, FailureClass, Outcome},
    plan::{Action, Exists, Target},
};
use olm_testing::patch::merge;
use serde_json::{Value, json};

use super::{Key, World};

impl World {
    /// Puts an object in as a user would, with uid, version and time where they are missing.
    pub fn put(&mut self, object: Value) {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let key = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        self.store(key, object);
    }

    /// Deletes an object as a user would.
    #[track_caller]
    pub fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        assert!(self.objects.contains_key(&key), "{key:?} exists");
        self.remove(&key);
    }

    pub(super) fn store(&mut self, key: Key, mut object: Value) {
        self.version += 1;
        let version = self.version;
        let old = self.objects.get(&key);
        let generation = match old {
            None => json!(1),
            Some(old) if old["spec"] == object["spec"] => old["metadata"]["generation"].clone(),
            Some(old) => json!(old["metadata"]["generation"].as_i64().unwrap_or(0) + 1),
        };
        let metadata = object["metadata"].as_object_mut().expect("objects have metadata");
        metadata
            .entry("uid")
            .or_insert_with(|| json!(format!("uid-{version}")));
        metadata
            .entry("creationTimestamp")
            .or_insert_with(|| json!(self.now.to_string()));
        metadata.insert("resourceVersion".into(), json!(version.to_string()));
        metadata.insert("generation".into(), generation);
        self.objects.insert(key.clone(), object);
        self.feed(&key);
    }

    fn remove(&mut self, key: &Key) {
        let Some(object) = self.objects.get(key).cloned() else {
            return;
        };
        let finalizers = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        if finalizers {
            let mut object = object;
            object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
            self.store(key.clone(), object);
            return;
        }
        self.objects.remove(key);
        self.unfeed(&key.0, &NamespacedName::new(key.1.as_str(), key.2.as_str()));
        self.applied.retain(|(applied, _), _| applied != key);
        let uid = object["metadata"]["uid"].clone();
        let dependents: Vec<Key> = self
            .objects
            .iter()
            .filter(|(_, object)| {
                let owners = object["metadata"]["ownerReferences"].as_array();
                owners.is_some_and(|owners| {
                    !owners.is_empty() && owners.iter().all(|owner| owner["uid"] == uid)
                })
            })
            .map(|(key, _)| key.clone())
            .collect();
        dependents.iter().for_each(|key| self.remove(key));
    }

    pub(super) fn perform(&mut self, action: &Action) -> Outcome {
        let outcome = match action {
            Action::Apply {
                target,
                object,
                manager,
                ..
            } => self.apply(target, object, manager),
            Action::Create {
                target,
                object,
                exists,
                ..
            } => self.create(target, object, *exists),
            Action::Patch {
                target,
                patch,
                subresource,
                guard,
                ..
            } => self.patch(target, patch, subresource.is_some(), guard.uid.as_deref()),
            Action::Delete { target, uid, .. } => {
                let key = key_of(target);
                match self.objects.get(&key) {
                    None => Outcome::Gone,
                    Some(found) if uid.is_some() && found["metadata"]["uid"].as_str() != uid.as_deref() => {
                        Outcome::Gone
                    }
                    Some(found) => {
                        let found = Arc::new(found.clone());
                        self.remove(&key);
                        Outcome::Done(found)
                    }
                }
            }
            Action::DeleteSelected { .. } => panic!("not used by this operator"),
        };
        let text = match action {
            Action::Apply { object, .. } if object["kind"] == "x" => String::new(),
            Action::Patch {
                target,
                subresource: Some(sub),
                ..
            } => format!("patch {target} {sub}"),
            other => other.to_string(),
        };
        match &outcome {
            Outcome::Failed(failure) => self.writes.push(format!("{text} REFUSED {:?}", failure.class)),
            _ => self.writes.push(text),
        }
        outcome
    }

    fn refusal(&self, target: &Target) -> Option<Outcome> {
        let class = *self.refused.get(&target.api.kind)?;
        Some(Outcome::Failed(Failure {
            class,
            code: 0,
            message: "refused by the model".into(),
            action: format!("write {target}"),
        }))
    }

    fn apply(&mut self, target: &Target, object: &Value, manager: &'static str) -> Outcome {
        if let Some(refusal) = self.refusal(target) {
            return refusal;
        }
        let key = key_of(target);
        let before = self
            .applied
            .insert((key.clone(), manager), object.clone())
            .unwrap_or(json!({}));
        let mut merged = self
            .objects
            .get(&key)
            .cloned()
            .unwrap_or_else(|| identified(target, json!({"metadata": {}})));
        apply_merge(&mut merged, &before, object);
        let merged = identified(target, merged);
        if self.objects.get(&key) != Some(&merged) {
            self.store(key.clone(), merged);
        }
        Outcome::Done(Arc::new(self.objects[&key].clone()))
    }

    fn create(&mut self, target: &Target, object: &Value, exists: Exists) -> Outcome {
        if let Some(refusal) = self.refusal(target) {
            return refusal;
        }
        let key = key_of(target);
        if self.objects.contains_key(&key) {
            assert_eq!(exists, Exists::Keep, "only kept creates are planned here");
            return Outcome::Kept;
        }
        self.store(key.clone(), identified(target, object.clone()));
        Outcome::Done(Arc::new(self.objects[&key].clone()))
    }

    fn patch(&mut self, target: &Target, patch: &Value, status: bool, uid: Option<&str>) -> Outcome {
        if let Some(refusal) = self.refusal(target).filter(|_| !status) {
            return refusal;
        }
        let key = key_of(target);
        let Some(found) = self.objects.get(&key).cloned() else {
            return Outcome::Failed(Failure {
                class: FailureClass::NotFound,
                code: 404,
                message: "not found".into(),
                action: format!("patch {target}"),
            });
        };
        assert!(
            uid.is_none() || found["metadata"]["uid"].as_str() == uid,
            "patches are guarded by uid"
        );
        let mut merged = found.clone();
        if status {
            let mut only = json!({"status": found["status"]});
            merge(&mut only, patch);
            merged["status"] = only["status"].clone();
            self.note(&key, &found, &merged);
        } else {
            merge(&mut merged, patch);
        }
        self.store(key.clone(), merged);
        let stored = self.objects[&key].clone();
        let released = stored["metadata"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty);
        if stored["metadata"]["deletionTimestamp"].is_string() && released {
            self.remove(&key);
        }
        Outcome::Done(Arc::new(stored))
    }

    /// One line for each new entry of the history, or for a changed message.
    fn note(&mut self, key: &Key, old: &Value, new: &Value) {
        if key.0 != "ClusterServiceVersion" {
            return;
        }
        let history = |object: &Value| {
            object["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let (before, after) = (history(old), history(new));
        let line = |entry: &Value| {
            let text = |field: &str| entry[field].as_str().unwrap_or("-").to_owned();
            format!(
                "{}: {} ({}) {}",
                key.2,
                text("phase"),
                text("reason"),
                text("message")
            )
        };
        // The history is trimmed from the front.
        let kept = (0..=before.len())
            .find(|cut| after.starts_with(&before[*cut..]))
            .unwrap_or(before.len());
        let fresh: Vec<String> = after[before.len() - kept..].iter().map(line).collect();
        if fresh.is_empty() && old["status"]["message"] != new["status"]["message"] {
            self.log.push(line(&new["status"]));
        }
        self.log.extend(fresh);
    }
}

fn key_of(target: &Target) -> Key {
    (
        target.api.kind.clone(),
        target.namespace.clone().unwrap_or_default(),
        target.name.clone(),
    )
}

fn identified(target: &Target, mut object: Value) -> Value {
    object["apiVersion"] = json!(target.api.api_version);
    object["kind"] = json!(target.api.kind);
    object["metadata"]["name"] = json!(target.name);
    if let Some(namespace) = &target.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// Server-side apply by one manager: what it no longer applies goes, what it applies is set, lists are replaced whole.
fn apply_merge(live: &mut Value, before: &Value, wanted: &Value) {
    let Value::Object(wanted) = wanted else {
        *live = wanted.clone();
        return;
    };
    if !live.is_object() {
        *live = json!({});
    }
    if let Value::Object(before) = before {
        for key in before.keys().filter(|key| !wanted.contains_key(*key)) {
            live.as_object_mut().unwrap().remove(key);
        }
    }
    for (key, value) in wanted.iter().filter(|(_, value)| !value.is_null()) {
        apply_merge(&mut live[key], before.get(key).unwrap_or(&Value::Null), value);
    }
}
