//! Objects of a fake API server, and their history for watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use olm_runtime::Timestamp;
use serde_json::{Value, json};

use super::apply::Managers;
use super::kinds::{self, Kind};
use super::managed_fields::{self, Times};

/// Identity of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// Returns the key of an object that contains its type.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = object["apiVersion"]
            .as_str()
            .and_then(|text| text.rsplit_once('/'));
        Self {
            group: group.map_or(String::new(), |(group, _)| group.to_owned()),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        }
    }
}

/// A recorded change, for watches.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub version: u64,
    pub key: Key,
    pub old: Option<Arc<Value>>,
    pub new: Option<Arc<Value>>,
}

/// A mutating webhook.
pub type Webhook = Box<dyn Fn(&mut Value) + Send>;

pub(super) struct State {
    pub version: u64,
    pub objects: BTreeMap<Key, Arc<Value>>,
    pub managers: BTreeMap<Key, Managers>,
    pub written_at: BTreeMap<Key, Times>,
    /// Webhook that changes each object that a request stores.
    pub webhook: Option<Webhook>,
    pub history: Vec<Change>,
    /// Changes up to this version are discarded.
    pub compacted: u64,
    /// Remaining objects of paged lists, by continue token.
    pub pages: BTreeMap<String, (u64, Vec<Arc<Value>>)>,
    pub next_page: u64,
    pub built_in: Vec<Kind>,
    /// Groups whose discovery and objects are unavailable, as with a dead aggregated API server.
    pub dead_groups: BTreeSet<String>,
    pub server_version: String,
    /// Counts requests and changes, to detect when nothing happens.
    pub activity: u64,
}

impl State {
    pub fn new() -> Self {
        Self {
            version: 1,
            objects: BTreeMap::new(),
            managers: BTreeMap::new(),
            written_at: BTreeMap::new(),
            webhook: None,
            history: Vec::new(),
            compacted: 0,
            pages: BTreeMap::new(),
            next_page: 0,
            built_in: kinds::built_in(),
            dead_groups: BTreeSet::new(),
            server_version: "v1.34.4".to_owned(),
            activity: 0,
        }
    }

    /// Returns all kinds served now.
    pub fn kinds(&self) -> Vec<Kind> {
        let crds = self
            .objects
            .iter()
            .filter(|(key, _)| key.kind == "CustomResourceDefinition");
        let defined = crds.filter_map(|(_, crd)| kinds::defined_by(crd));
        self.built_in.iter().cloned().chain(defined).collect()
    }

    /// Returns the key of the first object with this kind, namespace and name, in any group.
    pub fn key(&self, kind: &str, namespace: &str, name: &str) -> Option<Key> {
        let found = self
            .objects
            .keys()
            .find(|key| key.kind == kind && key.namespace == namespace && key.name == name);
        found.cloned()
    }

    /// Stores an object unchanged, except for the metadata that the server sets.
    pub fn store(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        self.activity += 1;
        let old = self.objects.get(&key).cloned();
        let generation = match &old {
            None => json!(1),
            Some(old) if old["spec"] == object["spec"] => old["metadata"]["generation"].clone(),
            Some(old) => json!(old["metadata"]["generation"].as_i64().unwrap_or(0) + 1),
        };
        let version = self.version;
        if let Some(part) = managed_fields::part_of(&key.kind) {
            self.tell_managers(&key, &mut object, part);
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata
                .entry("uid")
                .or_insert_with(|| json!(format!("uid-{version}")));
            metadata
                .entry("creationTimestamp")
                .or_insert_with(|| json!(now().to_string()));
            metadata.insert("resourceVersion".into(), json!(version.to_string()));
            metadata.insert("generation".into(), generation);
        }
        let new = Arc::new(object);
        self.objects.insert(key.clone(), Arc::clone(&new));
        self.history.push(Change {
            version,
            key,
            old,
            new: Some(Arc::clone(&new)),
        });
        new
    }

    /// Records the time at which `manager`, named as in [`Managers`], wrote.
    pub fn wrote(&mut self, key: &Key, manager: String) {
        let times = self.written_at.entry(key.clone()).or_default();
        times.insert(manager, now().to_string());
    }

    fn tell_managers(&self, key: &Key, object: &mut Value, part: &str) {
        let (managers, times) = (self.managers.get(key), self.written_at.get(key));
        let entries = managers
            .zip(times)
            .map(|(managers, times)| managed_fields::entries(managers, times, object, part));
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            if let Some(entries) = entries.filter(|entries| !entries.is_empty()) {
                metadata.insert("managedFields".into(), json!(entries));
            }
        }
    }

    /// Removes an object from the store.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let old = self.objects.remove(key)?;
        self.managers.remove(key);
        self.written_at.remove(key);
        self.version += 1;
        self.activity += 1;
        self.history.push(Change {
            version: self.version,
            key: key.clone(),
            old: Some(Arc::clone(&old)),
            new: None,
        });
        Some(old)
    }

    /// Deletes an object, or marks it as deleted if it has finalizers.
    pub fn delete(&mut self, key: &Key) -> Option<Arc<Value>> {
        let object = self.objects.get(key)?;
        if is_held(object) {
            if object["metadata"]["deletionTimestamp"].is_string() {
                return Some(Arc::clone(object));
            }
            let mut marked = Value::clone(object);
            marked["metadata"]["deletionTimestamp"] = json!(now().to_string());
            marked["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            return Some(self.store(key.clone(), marked));
        }
        self.remove(key)
    }
}

/// True if finalizers delay the deletion of an object.
pub(super) fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}

/// Returns the time in whole seconds, as in objects.
pub(super) fn now() -> Timestamp {
    let now = olm_runtime::clock::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
