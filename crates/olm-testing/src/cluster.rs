//! Fake cluster in memory, for tests of whole operators: an API server that is used over HTTP, without a network.
//!
//! [`FakeCluster::connect`] returns a real `kube::Client`, backed by a `tower::Service` that answers like an API server. So stores,
//! executor, live reads, queues and wiring of an operator run as in production, on tokio's paused clock. See decision 0023.
//!
//! # Guarantees
//! - A write is executed at once and completely. Watches report it in order, per kind.
//! - An answer takes a millisecond of virtual time, so that an endless loop runs into a deadline.
//! - Objects stored by [`FakeCluster::put`] are not checked; only requests are.

mod apply;
mod controllers;
mod faults;
mod kinds;
mod managed_fields;
mod read;
mod request;
mod selector;
mod service;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod valid;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::Client;
use kube::client::ClientBuilder;
use olm_runtime::client::collect_warnings;
use serde_json::Value;
use tokio::sync::watch as signal;
use tokio::time::Instant;

pub use self::controllers::Controllers;
pub use self::faults::{Doom, Fault, Hook, Link};
pub use self::kinds::{Kind, LEASE};
pub use self::request::{PatchType, Request, Verb};
pub use self::state::Key;
pub use self::status::Refusal;

use self::faults::{Watching, lock};
use self::state::State;

/// Maximum time without rest before [`FakeCluster::settle`] fails.
const MAX_UNREST: Duration = Duration::from_secs(900);

/// API server with its objects. Clones share the same state.
#[derive(Clone)]
pub struct FakeCluster {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changes: signal::Sender<u64>,
    watching: Mutex<Watching>,
    hooks: Mutex<Vec<Hook>>,
    controllers: Mutex<Controllers>,
    log: Mutex<Log>,
}

/// Recorded requests.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// All writes in order, in the form of [`Request::text`]. Writes of the cluster's own controllers start with `kubernetes:`, and
    /// refused writes end with `REFUSED` and the reason.
    pub writes: Vec<String>,
    /// All Events as `reason: note`, including repetitions.
    pub events: Vec<String>,
    /// All Events as they were sent.
    pub sent_events: Vec<Value>,
    /// Number of requests by verb and kind, without Events.
    pub counts: BTreeMap<(&'static str, String), usize>,
}

/// Change of an object, with its old and new state.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Identity of the object.
    pub key: Key,
    /// Old state; `None` if it was created.
    pub old: Option<Arc<Value>>,
    /// New state; `None` if it was deleted.
    pub new: Option<Arc<Value>>,
}

impl Default for FakeCluster {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeCluster {
    /// Creates an empty cluster that serves the kinds of Kubernetes and OLM.
    pub fn new() -> Self {
        let shared = Shared {
            state: Mutex::new(State::new()),
            changes: signal::Sender::new(0),
            watching: Mutex::default(),
            hooks: Mutex::default(),
            controllers: Mutex::default(),
            log: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns a client for one process, and the link to kill it. Must be called inside a runtime.
    pub fn connect(&self) -> (Client, Link) {
        self.connect_doomed(&Doom::default())
    }

    /// Like [`FakeCluster::connect`], for a process whose writes count for `doom`.
    pub fn connect_doomed(&self, doom: &Doom) -> (Client, Link) {
        let link = Link::new(doom);
        let service = service::Endpoint::new(self.clone(), link.clone());
        let client = ClientBuilder::new(service, "default").with_layer(&collect_warnings());
        (client.build(), link)
    }

    // === Actions of users ===

    /// Stores an object unchecked, replacing an existing one.
    pub fn put(&self, object: Value) {
        let key = Key::of(&object);
        self.mutate(|state| {
            let mut object = object;
            if let Some(old) = state.objects.get(&key) {
                for field in ["uid", "creationTimestamp"] {
                    if object["metadata"][field].is_null() {
                        object["metadata"][field] = old["metadata"][field].clone();
                    }
                }
            }
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.retain(|_, value| !value.is_null());
            }
            state.store(key, object);
        });
    }

    /// Returns the object of this kind, in any group.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.lock();
        let key = state.key(kind, namespace, name)?;
        state.objects.get(&key).map(|object| Value::clone(object))
    }

    /// Changes an object, including its status, by a merge patch. False if it does not exist.
    pub fn edit(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> bool {
        self.edit_as("a user", kind, namespace, name, patch)
    }

    /// Replaces the object with the name of `object`, as if `manager` had created it by an update.
    pub fn put_as(&self, manager: &str, object: Value) {
        let key = Key::of(&object);
        self.mutate(|state| {
            state.remove(&key);
            let mut managers = apply::Managers::new();
            apply::updated(
                &Value::Null,
                &object,
                manager,
                &mut managers,
                write::is_by_item(&key),
            );
            state.managers.insert(key.clone(), managers);
            state.wrote(&key, format!("update:{manager}"));
            state.store(key, object);
        });
    }

    /// Like [`FakeCluster::edit`], with the field manager `manager`.
    pub fn edit_as(&self, manager: &str, kind: &str, namespace: &str, name: &str, patch: &Value) -> bool {
        self.mutate(|state| {
            let Some(key) = state.key(kind, namespace, name) else {
                return false;
            };
            let Some(old) = state.objects.get(&key).cloned() else {
                return false;
            };
            let mut new = Value::clone(&old);
            crate::patch::merge(&mut new, patch);
            let managers = state.managers.entry(key.clone()).or_default();
            apply::updated(&old, &new, manager, managers, write::is_by_item(&key));
            state.wrote(&key, format!("update:{manager}"));
            let goes = new["metadata"]["deletionTimestamp"].is_string()
                && old["metadata"]["deletionTimestamp"].is_string();
            let held = state::is_held(&new);
            state.store(key.clone(), new);
            if goes && !held {
                state.remove(&key);
            }
            true
        })
    }

    /// Deletes an object; finalizers delay it. False if it does not exist.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.mutate(|state| {
            let key = state.key(kind, namespace, name);
            key.and_then(|key| state.delete(&key)).is_some()
        })
    }

    /// Returns all objects.
    pub fn objects(&self) -> BTreeMap<Key, Arc<Value>> {
        self.lock().objects.clone()
    }

    /// Adds a served kind.
    pub fn serve(&self, kind: Kind) {
        let mut state = self.lock();
        if !state.built_in.contains(&kind) {
            state.built_in.push(kind);
        }
    }

    /// Sets whether the API server of a group is unavailable.
    pub fn set_dead(&self, group: &str, dead: bool) {
        let mut state = self.lock();
        if dead {
            state.dead_groups.insert(group.to_owned());
        } else {
            state.dead_groups.remove(group);
        }
    }

    /// Sets the reported server version, for example `v1.34.4`.
    pub fn set_server_version(&self, version: &str) {
        version.clone_into(&mut self.lock().server_version);
    }

    // === Faults ===

    /// Sets a mutating webhook, which changes every object that a later request stores.
    pub fn set_webhook(&self, webhook: impl Fn(&mut Value) + Send + 'static) {
        self.lock().webhook = Some(Box::new(webhook));
    }

    /// Calls `hook` for every later request except for Events; the first hook with an answer decides.
    pub fn on_request(&self, hook: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        lock(&self.shared.hooks).push(Box::new(hook));
    }

    /// Removes all hooks.
    pub fn clear_hooks(&self) {
        lock(&self.shared.hooks).clear();
    }

    /// Holds back the events of watches of `kind` until [`FakeCluster::release`].
    pub fn hold(&self, kind: &str) {
        lock(&self.shared.watching).hold(kind);
    }

    /// Sends the events of watches of `kind` that were held back.
    pub fn release(&self, kind: &str) {
        lock(&self.shared.watching).release(kind);
        self.wake();
    }

    /// Ends all open watches of `kind`, or of every kind if it is empty; clients reopen them at the same version.
    pub fn end_watches(&self, kind: &str) {
        lock(&self.shared.watching).end(kind);
        self.wake();
    }

    /// Discards the history, so that clients that watch from an older version get 410 and list again.
    pub fn forget_history(&self) {
        let mut state = self.lock();
        state.version += 1;
        state.compacted = state.version;
        state.pages.clear();
        drop(state);
        self.wake();
    }

    /// Changes the settings of the cluster's own controllers.
    pub fn set_controllers(&self, change: impl FnOnce(&mut Controllers)) {
        change(&mut lock(&self.shared.controllers));
        self.wake();
    }

    // === Results ===

    /// Returns all requests since the start.
    pub fn log(&self) -> Log {
        lock(&self.shared.log).clone()
    }

    /// Returns the requests since the last call, and clears them.
    pub fn take_log(&self) -> Log {
        std::mem::take(&mut lock(&self.shared.log))
    }

    /// Returns the version of the newest change.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Returns the changes after `version`.
    pub fn changes_since(&self, version: u64) -> Vec<Seen> {
        let state = self.lock();
        let start = state.history.partition_point(|change| change.version <= version);
        let seen = |change: &state::Change| Seen {
            key: change.key.clone(),
            old: change.old.clone(),
            new: change.new.clone(),
        };
        state.history[start..].iter().map(seen).collect()
    }

    /// Waits until there was no request and no change for `window` of virtual time.
    ///
    /// # Errors
    /// If that takes longer than a quarter of an hour; the text contains the last writes.
    pub async fn settle(&self, window: Duration) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let before = self.lock().activity;
            tokio::time::sleep(window).await;
            if self.lock().activity == before {
                return Ok(());
            }
            if start.elapsed() > MAX_UNREST {
                let log = self.log();
                let last = log.writes.iter().rev().take(8).collect::<Vec<_>>();
                return Err(format!(
                    "no rest after {MAX_UNREST:?}; the last writes: {last:#?}"
                ));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// Changes the state, and notifies watchers if something changed.
    fn mutate<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.version;
        let result = change(&mut state);
        let changed = state.version != before;
        drop(state);
        if changed {
            self.wake();
        }
        result
    }

    fn wake(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    fn changes(&self) -> signal::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    fn watching(&self) -> MutexGuard<'_, Watching> {
        lock(&self.shared.watching)
    }

    fn controllers(&self) -> Controllers {
        lock(&self.shared.controllers).clone()
    }

    fn note_writes(&self, writes: impl IntoIterator<Item = String>) {
        lock(&self.shared.log).writes.extend(writes);
    }
}
