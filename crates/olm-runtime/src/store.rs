//! Stores: what the API server holds, kept current by watches, as immutable `Arc` values.
//!
//! kube's watcher speaks the list/watch protocol; the store on top is ours for two reasons. It tells
//! its listeners the old and the new object of every change, which the `triggers` of a controller
//! need, and it takes in what our own writes return ([`StoreSet::absorb`]), so that a controller
//! never decides on a state older than its own last write.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use olm_api::labels;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};

use crate::key::NamespacedName;

/// How many deletions are remembered, so that a late answer to a write cannot revive an object.
const REMEMBERED_DELETIONS: usize = 512;

/// Objects a page of the initial list; small, because a page is decoded whole before it is pruned.
const PAGE_SIZE: u32 = 100;

/// What can be kept in a store.
pub trait Stored:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}
impl<K> Stored for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

/// A change seen by a store.
#[derive(Debug, Clone)]
pub enum Change<K> {
    /// Created or updated.
    Applied {
        /// The object before, if it was known.
        old: Option<Arc<K>>,
        /// The object now.
        new: Arc<K>,
    },
    /// Deleted.
    Deleted {
        /// The object as it was last seen.
        old: Arc<K>,
    },
}

impl<K> Change<K> {
    /// The newest form of the object.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Applied { new, .. } => new,
            Self::Deleted { old } => old,
        }
    }

    /// The object before the change and after it, as far as they exist.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<K>> {
        let (first, second) = match self {
            Self::Applied { old, new } => (old.as_ref(), Some(new)),
            Self::Deleted { old } => (Some(old), None),
        };
        first.into_iter().chain(second)
    }
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// Objects of one kind; a clone is another handle to the same store.
pub struct Store<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    objects: RwLock<BTreeMap<NamespacedName, Arc<K>>>,
    invalid: RwLock<BTreeMap<NamespacedName, String>>,
    deletions: Mutex<VecDeque<(NamespacedName, u64)>>,
    listeners: RwLock<Vec<Listener<K>>>,
    ready: watch::Sender<bool>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Resource> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

fn version_of(object: &impl ResourceExt) -> u64 {
    // Resource versions are opaque by contract but have always been increasing integers; one that is
    // not is treated as newest, which only costs a repeated notification.
    object
        .resource_version()
        .and_then(|text| text.parse().ok())
        .unwrap_or(u64::MAX)
}

impl<K: Resource> Store<K> {
    /// An empty store that nothing feeds yet; tests fill it with [`Store::put`].
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                objects: RwLock::default(),
                invalid: RwLock::default(),
                deletions: Mutex::default(),
                listeners: RwLock::default(),
                ready: watch::Sender::new(false),
            }),
        }
    }

    /// The object, if known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.get_key(&NamespacedName::new(namespace, name))
    }

    /// The object, if known.
    pub fn get_key(&self, key: &NamespacedName) -> Option<Arc<K>> {
        self.shared
            .objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared
            .objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// The objects that `wanted` says yes to, ordered by namespace and name. Only they are taken hold of, so this is the
    /// way to find a few among many. `wanted` must be quick and must not ask this store: changes wait for it.
    pub fn list_where(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let objects = self.shared.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects
            .values()
            .filter(|object| wanted(object))
            .cloned()
            .collect()
    }

    /// All objects of a namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let objects = self.shared.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects
            .range(NamespacedName::new(namespace, "")..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Objects whose JSON does not fit their type, with the decoder's message.
    pub fn invalid(&self) -> BTreeMap<NamespacedName, String> {
        self.shared
            .invalid
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Calls `listener` on every later change. It must be quick: it runs on the watch's task.
    pub fn on_change(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.shared
            .listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }

    /// True once the initial list is in.
    pub fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// Puts an object in, unless it is older than what is known.
    pub fn put(&self, object: K) {
        let key = NamespacedName::from_object(&object);
        let version = version_of(&object);
        let deletions = self
            .shared
            .deletions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if deletions.iter().any(|(gone, at)| *gone == key && *at >= version) {
            return;
        }
        drop(deletions);
        let new = Arc::new(object);
        let mut objects = self
            .shared
            .objects
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let old = objects.get(&key).cloned();
        if let Some(old) = &old
            && old.uid() == new.uid()
            && version != u64::MAX
            && version_of(old.as_ref()) >= version
        {
            return;
        }
        objects.insert(key.clone(), Arc::clone(&new));
        drop(objects);
        self.shared
            .invalid
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key);
        self.tell(&Change::Applied { old, new });
    }

    /// Takes an object out; `version` is the resourceVersion of the deletion.
    fn take(&self, key: &NamespacedName, uid: Option<&str>, version: u64) {
        let mut objects = self
            .shared
            .objects
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let known = objects.get(key).cloned();
        // A namesake with another uid was created after the deletion that is reported here.
        if let Some(known) = &known
            && uid.is_some()
            && known.meta().uid.as_deref() != uid
        {
            return;
        }
        objects.remove(key);
        drop(objects);
        let mut deletions = self
            .shared
            .deletions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if deletions.len() == REMEMBERED_DELETIONS {
            deletions.pop_front();
        }
        deletions.push_back((key.clone(), version));
        drop(deletions);
        if let Some(old) = known {
            self.tell(&Change::Deleted { old });
        }
    }

    /// Removes an object, as a deletion event would; for tests.
    #[doc(hidden)]
    pub fn remove_for_tests(&self, key: &NamespacedName) {
        let version = self.get_key(key).map_or(0, |object| version_of(object.as_ref()));
        self.take(key, None, version);
    }

    fn mark_invalid(&self, key: NamespacedName, error: String) {
        self.shared
            .invalid
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, error);
    }

    fn tell(&self, change: &Change<K>) {
        for listener in self
            .shared
            .listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            listener(change);
        }
    }

    /// After a (re)list: everything that was not listed is gone.
    fn keep_only(&self, listed: &BTreeSet<NamespacedName>) {
        let gone: Vec<(NamespacedName, u64)> = {
            let objects = self.shared.objects.read().unwrap_or_else(PoisonError::into_inner);
            objects
                .iter()
                .filter(|(key, _)| !listed.contains(key))
                .map(|(key, object)| (key.clone(), version_of(object.as_ref())))
                .collect()
        };
        for (key, version) in gone {
            self.take(&key, None, version);
        }
        self.shared.ready.send_replace(true);
    }
}

/// One label requirement of a watch.
#[derive(Debug, Clone)]
enum Requirement {
    Equals(String, String),
    Exists(String),
    Absent(String),
}

/// What to watch and how much of it to keep.
pub struct Watch<K> {
    client: Client,
    config: watcher::Config,
    requirements: Vec<Requirement>,
    prune: fn(&mut K),
}

impl<K: Stored> Watch<K> {
    /// Every object of the kind, in all namespaces.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            config: watcher::Config::default().page_size(PAGE_SIZE),
            requirements: Vec::new(),
            prune: |_| {},
        }
    }

    /// Only objects with label `key` equal to `value`.
    #[must_use]
    pub fn label_equals(self, key: &str, value: &str) -> Self {
        self.require(Requirement::Equals(key.to_owned(), value.to_owned()))
    }

    /// Only objects that have label `key`.
    #[must_use]
    pub fn label_exists(self, key: &str) -> Self {
        self.require(Requirement::Exists(key.to_owned()))
    }

    /// Only objects without label `key`.
    #[must_use]
    pub fn label_absent(self, key: &str) -> Self {
        self.require(Requirement::Absent(key.to_owned()))
    }

    /// Drops from each object what nobody reads; `managedFields` always go.
    #[must_use]
    pub fn prune(mut self, prune: fn(&mut K)) -> Self {
        self.prune = prune;
        self
    }

    fn require(mut self, requirement: Requirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    fn selector(&self) -> Option<String> {
        let terms: Vec<String> = self
            .requirements
            .iter()
            .map(|requirement| match requirement {
                Requirement::Equals(key, value) => format!("{key}={value}"),
                Requirement::Exists(key) => key.clone(),
                Requirement::Absent(key) => format!("!{key}"),
            })
            .collect();
        (!terms.is_empty()).then(|| terms.join(","))
    }
}

fn selected(requirements: &[Requirement], labels: &BTreeMap<String, String>) -> bool {
    requirements.iter().all(|requirement| match requirement {
        Requirement::Equals(key, value) => labels.get(key) == Some(value),
        Requirement::Exists(key) => labels.contains_key(key),
        Requirement::Absent(key) => !labels.contains_key(key),
    })
}

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
fn prepare_metadata(metadata: &mut ObjectMeta) {
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn config_map(name: &str, uid: &str, version: u64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.namespace = Some("ns".to_owned());
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    #[test]
    fn metadata_is_kept_without_kubectls_copy_of_the_object() {
        let mut object = config_map("a", "1", 1);
        let annotations = [(labels::LAST_APPLIED_CONFIGURATION, "{}"), ("kept", "yes")];
        object.metadata.annotations = Some(
            annotations
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        );
        prepare_metadata(&mut object.metadata);
        assert_eq!(
            object.metadata.annotations,
            Some([("kept".to_owned(), "yes".to_owned())].into())
        );
    }

    fn known_version(store: &Store<ConfigMap>) -> Option<u64> {
        store.get("ns", "a").map(|object| version_of(object.as_ref()))
    }

    #[test]
    fn an_older_object_does_not_replace_a_newer_one() {
        let store = Store::new();
        store.put(config_map("a", "1", 7));
        store.put(config_map("a", "1", 5));
        assert_eq!(known_version(&store), Some(7));
    }

    #[test]
    fn a_late_answer_does_not_revive_a_deleted_object() {
        let store = Store::new();
        store.put(config_map("a", "1", 5));
        store.take(&NamespacedName::new("ns", "a"), Some("1"), 9);
        store.put(config_map("a", "1", 8));
        assert_eq!(known_version(&store), None);
        store.put(config_map("a", "2", 12));
        assert_eq!(known_version(&store), Some(12));
    }

    #[test]
    fn the_deletion_of_a_namesake_is_ignored() {
        let store = Store::new();
        store.put(config_map("a", "2", 12));
        store.take(&NamespacedName::new("ns", "a"), Some("1"), 9);
        assert_eq!(known_version(&store), Some(12));
    }

    #[test]
    fn what_a_relist_does_not_show_is_gone_and_told() {
        let store = Store::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        store.on_change(move |change: &Change<ConfigMap>| {
            let gone = matches!(change, Change::Deleted { .. });
            log.lock().unwrap().push((change.object().name_any(), gone));
        });
        store.put(config_map("a", "1", 1));
        store.put(config_map("b", "2", 2));
        store.keep_only(&BTreeSet::from([NamespacedName::new("ns", "b")]));
        assert!(store.is_ready());
        assert_eq!(
            *told.lock().unwrap(),
            vec![
                ("a".to_owned(), false),
                ("b".to_owned(), false),
                ("a".to_owned(), true)
            ]
        );
    }

    #[test]
    fn a_namespace_is_listed_alone_and_in_order() {
        let store = Store::new();
        for (namespace, name) in [("b", "x"), ("a", "y"), ("a", "x"), ("aa", "x")] {
            let mut object = config_map(name, "1", 1);
            object.metadata.namespace = Some(namespace.to_owned());
            store.put(object);
        }
        let names: Vec<String> = store
            .list_in("a")
            .iter()
            .map(|object| object.name_any())
            .collect();
        assert_eq!(names, ["x", "y"]);
        let named_x = store.list_where(|object| object.name_any() == "x");
        let namespaces: Vec<_> = named_x.iter().filter_map(|object| object.namespace()).collect();
        assert_eq!(namespaces, ["a", "aa", "b"]);
    }
}
