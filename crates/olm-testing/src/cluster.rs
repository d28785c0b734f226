//! A cluster in memory, for tests of whole operators: an API server that is spoken to over HTTP, without a network.
//!
//! [`FakeCluster::connect`] gives a real `kube::Client`; behind it is a `tower::Service` that answers as an API server
//! does. So stores, executor, live reads, queues and wiring of an operator run as they are in production, on tokio's paused
//! clock. See decision 0023.
//!
//! # Guarantees
//! - A write is carried out at once and whole; watches of each kind tell it in order, each kind on its own.
//! - An answer takes a millisecond of virtual time, so that a loop without end meets a deadline.
//! - What a test puts in by [`FakeCluster::put`] is stored as it stands; only requests are checked.

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
use olm_runtime::client::CollectWarnings;
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

/// How long a process may go on writing before it counts as restless.
const MAX_UNREST: Duration = Duration::from_secs(900);

/// The API server and what it holds; a clone is another handle to the same.
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

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Every write in order, as [`Request::text`] tells it; those of the cluster's own controllers begin with
    /// `kubernetes:`, and what was refused ends with `REFUSED` and the reason.
    pub writes: Vec<String>,
    /// Every Event, `reason: note`, repeated ones again.
    pub events: Vec<String>,
    /// The same as they were sent.
    pub sent_events: Vec<Value>,
    /// Requests by verb and kind, Events left out.
    pub counts: BTreeMap<(&'static str, String), usize>,
}

/// A change of an object: what it was and what it is.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Which object.
    pub key: Key,
    /// What it was; nothing when it came.
    pub old: Option<Arc<Value>>,
    /// What it is; nothing when it went.
    pub new: Option<Arc<Value>>,
}

impl Default for FakeCluster {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeCluster {
    /// A cluster that serves Kubernetes' and OLM's kinds and holds nothing.
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

    /// A client for one process, and the handle to kill it by. Call it inside a runtime.
    pub fn connect(&self) -> (Client, Link) {
        self.connect_doomed(&Doom::default())
    }

    /// The same for a process whose writes count for `doom`.
    pub fn connect_doomed(&self, doom: &Doom) -> (Client, Link) {
        let link = Link::new(doom);
        let service = service::Endpoint::new(self.clone(), link.clone());
        let client = ClientBuilder::new(service, "default").with_layer(&CollectWarnings);
        (client.build(), link)
    }

    // === What users do ===

    /// Stores an object as it stands, over whatever was there.
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

    /// The object of this kind, whatever its group.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.lock();
        let key = state.key(kind, namespace, name)?;
        state.objects.get(&key).map(|object| Value::clone(object))
    }

    /// Changes an object, status included, by a merge patch. False if it is not there.
    pub fn edit(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> bool {
        self.edit_as("a user", kind, namespace, name, patch)
    }

    /// Puts `object` in the place of what has its name, as if `manager` had made it by an update.
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

    /// The same, of a user whose program calls itself `manager`.
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

    /// Deletes an object; finalizers hold it. False if it is not there.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.mutate(|state| {
            let key = state.key(kind, namespace, name);
            key.and_then(|key| state.delete(&key)).is_some()
        })
    }

    /// Everything it holds.
    pub fn objects(&self) -> BTreeMap<Key, Arc<Value>> {
        self.lock().objects.clone()
    }

    /// Serves one more kind.
    pub fn serve(&self, kind: Kind) {
        let mut state = self.lock();
        if !state.built_in.contains(&kind) {
            state.built_in.push(kind);
        }
    }

    /// Whether the API server of a group answers.
    pub fn set_dead(&self, group: &str, dead: bool) {
        let mut state = self.lock();
        if dead {
            state.dead_groups.insert(group.to_owned());
        } else {
            state.dead_groups.remove(group);
        }
    }

    /// The version it says it has, for example `v1.34.4`.
    pub fn set_server_version(&self, version: &str) {
        version.clone_into(&mut self.lock().server_version);
    }

    // === What goes wrong ===

    /// Changes every object that a request stores from now on, as a mutating webhook does.
    pub fn set_webhook(&self, webhook: impl Fn(&mut Value) + Send + 'static) {
        self.lock().webhook = Some(Box::new(webhook));
    }

    /// Asks `hook` about every later request but those for Events; the first that has an answer decides.
    pub fn on_request(&self, hook: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        lock(&self.shared.hooks).push(Box::new(hook));
    }

    /// Forgets all hooks.
    pub fn clear_hooks(&self) {
        lock(&self.shared.hooks).clear();
    }

    /// Holds back what watches of `kind` would tell, until [`FakeCluster::release`].
    pub fn hold(&self, kind: &str) {
        lock(&self.shared.watching).hold(kind);
    }

    /// Lets watches of `kind` tell what they held back.
    pub fn release(&self, kind: &str) {
        lock(&self.shared.watching).release(kind);
        self.wake();
    }

    /// Ends all open watches of `kind`, of every kind if it is empty; clients open them again where they were.
    pub fn end_watches(&self, kind: &str) {
        lock(&self.shared.watching).end(kind);
        self.wake();
    }

    /// Forgets all history, so that whoever watches from before is told 410 and lists again.
    pub fn forget_history(&self) {
        let mut state = self.lock();
        state.version += 1;
        state.compacted = state.version;
        state.pages.clear();
        drop(state);
        self.wake();
    }

    /// Changes what the cluster's own controllers do.
    pub fn set_controllers(&self, change: impl FnOnce(&mut Controllers)) {
        change(&mut lock(&self.shared.controllers));
        self.wake();
    }

    // === What happened ===

    /// What was asked for since the beginning.
    pub fn log(&self) -> Log {
        lock(&self.shared.log).clone()
    }

    /// What was asked for since it was last taken.
    pub fn take_log(&self) -> Log {
        std::mem::take(&mut lock(&self.shared.log))
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// What changed after `version`.
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

    /// Waits until nothing has been asked for and nothing has changed for `window` of virtual time.
    ///
    /// # Errors
    /// When that takes longer than a quarter of an hour; the text has the last writes.
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

    /// Changes the state, and wakes whoever follows it if something changed.
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
