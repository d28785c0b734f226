//! Watches that exist only as long as they have users.
//!
//! Some objects matter only while something refers to them, such as the settings of an API server, or Roles whose permissions are
//! checked. Others are of a kind that only a bundle names. Watching the whole kind would hold far more than is read. A watch here covers
//! one namespace, one object by name, or the objects with a label. The first user starts it. Some time after the last user is gone it
//! ends and its memory is freed.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use kube::core::{ApiResource, DynamicResourceScope, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::absorb::Absorbers;
use super::feed::{Feed, noting_versions};
use super::projection::{Item, Projected, Projection};
use super::watch::{PAGE_SIZE, Requirement};
use super::{Change, Store};
use crate::metrics::Metrics;
use crate::plan::EventDraft;
use crate::sync::{Mutex, RwLock};

/// Time that a watch continues without users, so that a key reconciled again does not list again.
const LINGER: Duration = Duration::from_secs(60);

/// Objects that one watch covers; the kind may be known only at run time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Group, version, kind and plural.
    pub api: ApiResource,
    /// Namespace; `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Name of the only object; `None` for all.
    pub name: Option<String>,
    /// Label that the objects have, with any value; `None` for all.
    pub label: Option<String>,
}

impl Scope {
    fn requirements(&self) -> Vec<Requirement> {
        let namespace = self.namespace.clone().map(Requirement::Namespace);
        let name = self.name.clone().map(Requirement::Name);
        let label = self.label.clone().map(Requirement::Exists);
        namespace.into_iter().chain(name).chain(label).collect()
    }
}

type Listener<P> = Arc<dyn Fn(&Scope, &Change<Projected<P>>) + Send + Sync>;

/// Watches of objects stored as `P`, started by their first user. Clones share the same watches. Created by
/// [`StoreSet::on_demand`](super::StoreSet::on_demand).
///
/// # Guarantees
/// - A scope with users has exactly one watch.
/// - Its store has the guarantees of [`Store`]; the results of our own writes are in it at once.
/// - After its last user is dropped, a watch continues for the linger time, and a user who comes meanwhile gets it. Then its connection
///   is closed and its store dropped.
pub struct OnDemand<P: Projection> {
    shared: Arc<Shared<P>>,
}

struct Shared<P: Projection> {
    client: Client,
    absorbers: Absorbers,
    events: mpsc::Sender<EventDraft>,
    metrics: Arc<OnceLock<Metrics>>,
    linger: Duration,
    running: Mutex<HashMap<Scope, Running<P>>>,
    listeners: RwLock<Vec<Listener<P>>>,
}

/// A watch that runs as long as this exists.
struct Running<P: Projection> {
    store: Store<Projected<P>>,
    users: usize,
    /// Number of times its last user was dropped. The task that ends it after the linger time compares this.
    departures: u64,
    task: AbortHandle,
}

/// User of a watch, until dropped.
pub struct WatchUser<P: Projection> {
    store: Store<Projected<P>>,
    scope: Scope,
    shared: Arc<Shared<P>>,
}

impl<P: Projection> Drop for Running<P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<P: Projection> Clone for OnDemand<P> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<P: Projection> OnDemand<P>
where
    P::Object: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    pub(super) fn new(
        client: &Client,
        absorbers: Absorbers,
        events: mpsc::Sender<EventDraft>,
        metrics: Arc<OnceLock<Metrics>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client: client.clone(),
                absorbers,
                events,
                metrics,
                linger: LINGER,
                running: Mutex::default(),
                listeners: RwLock::default(),
            }),
        }
    }

    /// Calls `listener` with every change in the scopes whose watch starts later, as [`Store::on_change`] does.
    pub fn on_change(&self, listener: impl Fn(&Scope, &Change<Projected<P>>) + Send + Sync + 'static) {
        self.shared.listeners.write().push(Arc::new(listener));
    }

    /// Returns a user of the watch of `scope`, and starts the watch if needed. Must be called inside the runtime.
    pub fn user(&self, scope: &Scope) -> WatchUser<P> {
        let mut running = self.shared.running.lock();
        let watch = running
            .entry(scope.clone())
            .or_insert_with(|| self.shared.start(scope));
        watch.users += 1;
        WatchUser {
            store: watch.store.clone(),
            scope: scope.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<P: Projection> WatchUser<P> {
    /// Returns the store with the objects of the scope.
    pub fn store(&self) -> &Store<Projected<P>> {
        &self.store
    }

    /// Waits until the objects were listed for the first time. If the kind is not served, it waits forever.
    pub async fn ready(&self) {
        let mut ready = self.store.shared.ready.subscribe();
        // An error means that the store is dropped, which cannot happen while it has a user.
        let _ = ready.wait_for(|ready| *ready).await;
    }
}

impl<P: Projection> Drop for WatchUser<P> {
    fn drop(&mut self) {
        Shared::leave(&self.shared, &self.scope);
    }
}

impl<P: Projection> Shared<P> {
    fn leave(shared: &Arc<Self>, scope: &Scope) {
        let mut running = shared.running.lock();
        let Some(watch) = running.get_mut(scope) else {
            return;
        };
        watch.users -= 1;
        if watch.users > 0 {
            return;
        }
        watch.departures += 1;
        let departures = watch.departures;
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process is ending.
            return;
        };
        let (linger, scope) = (shared.linger, scope.clone());
        let shared: Weak<Self> = Arc::downgrade(shared);
        runtime.spawn(async move {
            tokio::time::sleep(linger).await;
            if let Some(shared) = shared.upgrade() {
                shared.end(&scope, departures);
            }
        });
    }

    /// Ends the watch unless it had a user since its departure number `departures`.
    fn end(&self, scope: &Scope, departures: u64) {
        let mut running = self.running.lock();
        let is_over = |watch: &Running<P>| watch.users == 0 && watch.departures == departures;
        if running.get(scope).is_some_and(is_over) {
            running.remove(scope);
            tracing::debug!(
                kind = scope.api.kind,
                namespace = scope.namespace,
                "watch stopped: no subscriber needs it"
            );
        }
    }
}

impl<P: Projection> Shared<P>
where
    P::Object: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    fn start(&self, scope: &Scope) -> Running<P> {
        let api = &scope.api;
        let store = Store::of_kind(GroupVersionKind::gvk(&api.group, &api.version, &api.kind));
        self.listen(scope, &store);
        // This is set once, because the store is new.
        let _ = store.shared.events.set(self.events.clone());
        let requirements: Arc<[Requirement]> = scope.requirements().into();
        let read = |value: &Value| Item::<P>::of_written(value)?.projected().ok();
        self.absorbers.add(api, &store, &requirements, read);
        let mut feed = Feed::new(&store, format!("{}.{}", api.plural, api.group), requirements);
        if let Some(metrics) = self.metrics.get() {
            feed.count_in(metrics);
        }
        let client = noting_versions(&self.client, &store);
        let objects: Api<Item<P>> = match &scope.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, api),
            None => Api::all_with(client, api),
        };
        let mut config = watcher::Config::default().page_size(PAGE_SIZE);
        if let Some(name) = &scope.name {
            config = config.fields(&format!("metadata.name={name}"));
        }
        if let Some(label) = &scope.label {
            config = config.labels(label);
        }
        tracing::debug!(
            kind = api.kind,
            namespace = scope.namespace,
            "watch started on demand"
        );
        let events = move || watcher(objects.clone(), config.clone());
        let task = tokio::spawn(feed.run(events, Item::projected));
        Running {
            store,
            users: 0,
            departures: 0,
            task: task.abort_handle(),
        }
    }

    fn listen(&self, scope: &Scope, store: &Store<Projected<P>>) {
        for listener in self.listeners.read().iter() {
            let (listener, scope) = (Arc::clone(listener), scope.clone());
            store.on_change(move |change| listener(&scope, change));
        }
    }
}
