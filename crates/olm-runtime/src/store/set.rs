//! Stores of one process, and the way for our own writes into them.

use std::sync::{Arc, OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use olm_api::labels;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::absorb::{Absorbers, OwnWrite};
use super::feed::{Feed, noting_versions};
use super::on_demand::OnDemand;
use super::projection::{Item, Projected, Projection, Whole};
use super::watch::{Requirement, Watch, resource_name};
use super::{Store, Stored};
use crate::change::Object;
use crate::isolation;
use crate::key::NamespacedName;
use crate::metrics::Metrics;
use crate::plan::{EventDraft, Target};
use crate::sync::Mutex;

/// Maximum number of waiting Events about objects at which a store failed. More are dropped; the log has them all.
const WAITING_EVENTS: usize = 64;

type Starter = Box<dyn FnOnce(&mut JoinSet<()>, &Metrics) + Send>;

/// Stores of one process: their watches, their readiness and the way for written objects into them.
pub struct StoreSet {
    absorbers: Absorbers,
    ready: Vec<(String, watch::Receiver<bool>)>,
    /// What the process needs to be ready, and its controllers do not wait for.
    served: Vec<(String, watch::Receiver<bool>)>,
    starters: Vec<Starter>,
    events: (mpsc::Sender<EventDraft>, mpsc::Receiver<EventDraft>),
    metrics: Metrics,
    /// Final metrics, for watches that start later.
    counted: Arc<OnceLock<Metrics>>,
}

impl Default for StoreSet {
    fn default() -> Self {
        Self {
            absorbers: Absorbers::default(),
            ready: Vec::new(),
            served: Vec::new(),
            starters: Vec::new(),
            events: mpsc::channel(WAITING_EVENTS),
            metrics: Metrics::default(),
            counted: Arc::default(),
        }
    }
}

impl StoreSet {
    /// Creates a set without stores and metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the metrics of the stores and of the users of the [`StoreSetHandle`].
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Makes readiness of the process wait until `is_there` is true, in addition to the stores. `what` names it in the reason. Controllers
    /// do not wait for it.
    pub fn ready_with(&mut self, what: &str, is_there: watch::Receiver<bool>) {
        self.served.push((what.to_owned(), is_there));
    }

    /// Adds a store of full (pruned) objects. Its watch starts with [`StoreSet::start`], so that listeners can be attached before the
    /// first change.
    pub fn add<K: Stored>(&mut self, watch: Watch<K>) -> Store<K> {
        let prune = watch.prune;
        let decode = move |item: Item<Whole<K>>| {
            let Whole(mut object) = item.value?;
            // An object that triggers a panic there counts as unreadable and does not end the process.
            let prepared = isolation::catch(|| prepare(&mut object, prune));
            prepared.map(|()| object).map_err(|panicked| panicked.to_string())
        };
        self.add_decoded::<Whole<K>, _>(watch, Store::new(), decode)
    }

    /// Adds a store of projections `P`, computed while each object is decoded; the whole object is never kept.
    pub fn add_projected<P: Projection>(&mut self, watch: Watch<P::Object>) -> Store<Projected<P>>
    where
        P::Object: Stored,
    {
        self.add_decoded::<P, _>(watch, Store::default(), Item::<P>::projected)
    }

    /// Adds a store of metadata only.
    pub fn add_metadata<K: Stored>(&mut self, watch: Watch<K>) -> Store<PartialObjectMeta<K>> {
        self.add(watch.of_metadata())
    }

    /// Adds `store`. `decode` converts the objects of its watch, and the results of our own writes, to the stored form.
    fn add_decoded<P, S>(
        &mut self,
        watch: Watch<P::Object>,
        store: Store<S>,
        decode: impl Fn(Item<P>) -> Result<S, String> + Copy + Send + Sync + 'static,
    ) -> Store<S>
    where
        P: Projection,
        P::Object: Stored,
        S: Object + Send + Sync + 'static,
    {
        let (name, config) = (resource_name::<P::Object>(), watch.config());
        self.ready.push((name.clone(), store.shared.ready.subscribe()));
        let requirements: Arc<[Requirement]> = watch.requirements.into();
        let api = ApiResource::erase::<P::Object>(&());
        let read = move |value: &Value| decode(Item::of_written(value)?).ok();
        self.absorbers.add(&api, &store, &requirements, read);
        // This is set once, because the store is new.
        let _ = store.shared.events.set(self.events.0.clone());
        let mut feed = Feed::new(&store, name, requirements);
        self.starters.push(Box::new(move |tasks, metrics| {
            feed.count_in(metrics);
            let api: Api<Item<P>> = Api::all(noting_versions(&watch.client, &feed.store));
            tasks.spawn(feed.run(move || watcher(api.clone(), config.clone()), decode));
        }));
        store
    }

    /// Creates watches that exist only while they have users, for projections `P`. Metrics count them from [`StoreSet::start`] on.
    pub fn on_demand<P: Projection>(&self, client: &Client) -> OnDemand<P>
    where
        P::Object: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let (absorbers, metrics) = (self.absorbers.clone(), Arc::clone(&self.counted));
        OnDemand::new(client, absorbers, self.events.0.clone(), metrics)
    }

    /// Starts all watches on `tasks` and returns the handle for the executor.
    pub fn start(self, tasks: &mut JoinSet<()>) -> StoreSetHandle {
        // This is set once, because the set starts once.
        let _ = self.counted.set(self.metrics.clone());
        for start in self.starters {
            start(tasks, &self.metrics);
        }
        StoreSetHandle {
            absorbers: self.absorbers,
            ready: self.ready,
            served: self.served,
            events: Arc::new(Mutex::new(Some(self.events.1))),
            metrics: self.metrics,
        }
    }
}

/// Running side of a [`StoreSet`]: takes in our own writes, and knows which stores are ready.
#[derive(Clone, Default)]
pub struct StoreSetHandle {
    absorbers: Absorbers,
    ready: Vec<(String, watch::Receiver<bool>)>,
    served: Vec<(String, watch::Receiver<bool>)>,
    events: Arc<Mutex<Option<mpsc::Receiver<EventDraft>>>>,
    metrics: Metrics,
}

impl StoreSetHandle {
    /// Returns the metrics of this process.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the receiver of Events about unreadable objects and failed listeners. Only the first caller gets it; later ones get a
    /// closed channel.
    pub fn take_events(&self) -> mpsc::Receiver<EventDraft> {
        self.events.lock().take().unwrap_or_else(|| mpsc::channel(1).1)
    }

    /// Returns the names of the stores whose initial list is still missing, and of everything else that readiness waits for.
    pub fn missing(&self) -> Vec<&str> {
        let all = self.ready.iter().chain(&self.served);
        all.filter(|(_, ready)| !*ready.borrow())
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Waits until every store has its initial list.
    pub async fn wait(&mut self) {
        for (_, ready) in &mut self.ready {
            // An error means that the store is dropped, which happens only at shutdown.
            let _ = ready.wait_for(|ready| *ready).await;
        }
    }

    /// Stores an object that a write returned.
    pub fn absorb(&self, object: &Value) {
        let text = |pointer: &str| object.get(pointer).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        self.absorbers
            .announce(group, text("kind"), &OwnWrite::Written(object));
    }

    /// Applies the answer to a deletion of `target`. The answer is a `Status` if the object is deleted, else the object. The latter is
    /// deleted as well, or waits for finalizers or its grace period. `uid` is that of the deleted object, if the deletion was limited to
    /// it.
    pub fn absorb_deletion(&self, target: &Target, uid: Option<&str>, answer: &Value) {
        let api = &target.api;
        if answer.get("kind").and_then(Value::as_str) != Some("Status") {
            self.absorbers
                .announce(&api.group, &api.kind, &OwnWrite::Deleted(answer));
            return;
        }
        let told = answer.pointer("/details/uid").and_then(Value::as_str);
        if let Some(uid) = told.or(uid) {
            let key = NamespacedName::new(target.namespace.clone().unwrap_or_default(), target.name.as_str());
            self.absorbers
                .announce(&api.group, &api.kind, &OwnWrite::DeletedUid(&key, uid));
        }
    }
}

/// Removes unused metadata. kubectl's copy of the whole object would be most of it.
pub(super) fn prepare_metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(labels::LAST_APPLIED_CONFIGURATION);
    }
}

fn prepare<K: Stored>(object: &mut K, prune: fn(&mut K)) {
    prune(object);
    object.meta_mut().managed_fields = None;
}
