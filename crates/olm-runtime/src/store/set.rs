//! The stores of one binary, and what feeds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use olm_api::labels;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::watch::{Watch, selected};
use super::{Store, Stored, version_of};
use crate::key::NamespacedName;

type Starter = Box<dyn FnOnce(&mut JoinSet<()>) + Send>;
type Absorber = Box<dyn Fn(&Value) + Send + Sync>;

/// The stores of one binary: their watches, their readiness and the way for written objects into them.
#[derive(Default)]
pub struct StoreSet {
    absorbers: BTreeMap<(String, String), Vec<Absorber>>,
    ready: Vec<(String, watch::Receiver<bool>)>,
    starters: Vec<Starter>,
}

impl StoreSet {
    /// No stores.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a store of full (pruned) objects. Its watch runs from [`StoreSet::start`] on, so that
    /// listeners can be attached before the first change.
    pub fn add<K: Stored>(&mut self, watch: Watch<K>) -> Store<K> {
        let store = Store::new();
        let selector = watch.selector();
        let Watch {
            client,
            mut config,
            requirements,
            prune,
        } = watch;
        config.label_selector = selector;
        let name = format!("{}.{}", K::plural(&()), K::group(&()));
        self.ready.push((name.clone(), store.shared.ready.subscribe()));

        let absorbing = store.clone();
        let absorb = move |value: &Value| match serde_json::from_value::<K>(value.clone()) {
            Ok(mut object) => {
                prepare(&mut object, prune);
                if selected(&requirements, object.labels()) {
                    absorbing.put(object);
                }
            }
            Err(error) => tracing::debug!(%error, "an object just written does not fit its type"),
        };
        self.absorbers
            .entry((K::group(&()).into_owned(), K::kind(&()).into_owned()))
            .or_default()
            .push(Box::new(absorb));

        let feeding = store.clone();
        self.starters.push(Box::new(move |tasks| {
            // The list and watch are typed by the guard: one object that does not decode is reported
            // and skipped, it never stops the watch.
            let api: Api<DeserializeGuard<K>> = Api::all(client);
            let events = watcher(api, config).map_ok(move |event| {
                event.modify(|guard| {
                    if let Ok(object) = &mut guard.0 {
                        prepare(object, prune);
                    }
                })
            });
            tasks.spawn(feed(feeding, name, events, |guard| match guard.0 {
                Ok(object) => Ok(object),
                Err(invalid) => Err((
                    NamespacedName {
                        namespace: invalid.metadata.namespace.unwrap_or_default(),
                        name: invalid.metadata.name.unwrap_or_default(),
                    },
                    invalid.error,
                )),
            }));
        }));
        store
    }

    /// Adds a store of metadata only.
    pub fn add_metadata<K: Stored>(&mut self, watch: Watch<K>) -> Store<PartialObjectMeta<K>> {
        let store: Store<PartialObjectMeta<K>> = Store::new();
        let selector = watch.selector();
        let Watch {
            client,
            mut config,
            requirements,
            ..
        } = watch;
        config.label_selector = selector;
        let name = format!("{}.{}", K::plural(&()), K::group(&()));
        self.ready.push((name.clone(), store.shared.ready.subscribe()));

        let absorbing = store.clone();
        let absorb = move |value: &Value| {
            let Some(metadata) = value.get("metadata") else {
                return;
            };
            if let Ok(mut object) =
                serde_json::from_value::<PartialObjectMeta<K>>(serde_json::json!({ "metadata": metadata }))
            {
                prepare_metadata(&mut object.metadata);
                if selected(&requirements, object.labels()) {
                    absorbing.put(object);
                }
            }
        };
        self.absorbers
            .entry((K::group(&()).into_owned(), K::kind(&()).into_owned()))
            .or_default()
            .push(Box::new(absorb));

        let feeding = store.clone();
        self.starters.push(Box::new(move |tasks| {
            let api: Api<PartialObjectMeta<K>> = Api::all(client);
            let events = watcher(api, config)
                .map_ok(|event| event.modify(|object| prepare_metadata(&mut object.metadata)));
            tasks.spawn(feed(feeding, name, events, Ok));
        }));
        store
    }

    /// Starts all watches on `tasks` and returns what the executor needs of the set.
    pub fn start(self, tasks: &mut JoinSet<()>) -> Readiness {
        for start in self.starters {
            start(tasks);
        }
        Readiness {
            absorbers: Arc::new(self.absorbers),
            ready: self.ready,
        }
    }
}

/// The running side of a [`StoreSet`].
#[derive(Clone)]
pub struct Readiness {
    absorbers: Arc<BTreeMap<(String, String), Vec<Absorber>>>,
    ready: Vec<(String, watch::Receiver<bool>)>,
}

impl Readiness {
    /// A set without stores, for tests of the executor.
    pub fn empty() -> Self {
        Self {
            absorbers: Arc::default(),
            ready: Vec::new(),
        }
    }

    /// Names of the stores whose initial list is still missing.
    pub fn missing(&self) -> Vec<&str> {
        self.ready
            .iter()
            .filter(|(_, ready)| !*ready.borrow())
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Waits until every store has its initial list.
    pub async fn wait(&mut self) {
        for (_, ready) in &mut self.ready {
            // An error means the store is gone, which happens only at shutdown.
            let _ = ready.wait_for(|ready| *ready).await;
        }
    }

    /// Takes in an object that a write returned.
    pub fn absorb(&self, object: &Value) {
        let text = |pointer: &str| object.get(pointer).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        let key = (group.to_owned(), text("kind").to_owned());
        for absorb in self.absorbers.get(&key).into_iter().flatten() {
            absorb(object);
        }
    }
}

/// Drops what nobody reads of an object kept for its metadata; kubectl's copy of the whole object would be most of it.
pub(super) fn prepare_metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(labels::LAST_APPLIED_CONFIGURATION);
    }
}

fn prepare<K: Stored>(object: &mut K, prune: fn(&mut K)) {
    object.meta_mut().managed_fields = None;
    prune(object);
}

async fn feed<K, E>(
    store: Store<K>,
    name: String,
    events: impl Stream<Item = watcher::Result<watcher::Event<E>>> + Send,
    decode: impl Fn(E) -> Result<K, (NamespacedName, String)> + Send,
) where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
    E: Resource + Send,
{
    let mut listed = BTreeSet::new();
    let events = events.default_backoff();
    futures::pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                listed.insert(NamespacedName::from_object(&object));
                accept(&store, &name, decode(object));
            }
            Ok(watcher::Event::InitDone) => store.keep_only(&std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(object)) => accept(&store, &name, decode(object)),
            Ok(watcher::Event::Delete(object)) => {
                let version = version_of(&object);
                store.take(
                    &NamespacedName::from_object(&object),
                    object.uid().as_deref(),
                    version,
                );
            }
            Err(error) => tracing::warn!(kind = %name, %error, "watch interrupted, trying again"),
        }
    }
}

fn accept<K: Resource>(store: &Store<K>, name: &str, decoded: Result<K, (NamespacedName, String)>) {
    match decoded {
        Ok(object) => store.put(object),
        Err((key, error)) => {
            tracing::warn!(kind = %name, object = %key, %error, "object left out: it does not fit its type");
            store.mark_invalid(key, error);
        }
    }
}
