//! Stores: what the API server holds, kept current by watches, as immutable `Arc` values.
//!
//! kube's watcher speaks the list/watch protocol; the store on top is ours for two reasons. It tells
//! its listeners the old and the new object of every change, which the `triggers` of a controller
//! need, and it takes in what our own writes return ([`StoreSet::absorb`]), so that a controller
//! never decides on a state older than its own last write.

mod set;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync;

pub use self::set::{Readiness, StoreSet};
pub use self::watch::Watch;
use crate::key::NamespacedName;

/// How many deletions are remembered, so that a late answer to a write cannot revive an object.
const REMEMBERED_DELETIONS: usize = 512;

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
    ready: sync::watch::Sender<bool>,
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
                ready: sync::watch::Sender::new(false),
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
