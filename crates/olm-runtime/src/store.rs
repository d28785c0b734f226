//! Stores: copies of the API server's objects, kept current by watches, as immutable `Arc` values.
//!
//! kube's watcher implements the list/watch protocol. The store on top is our own for two reasons. It passes the old and the new object
//! of each change to its listeners, which the `triggers` of a controller need. And it takes in the results of our own writes
//! ([`StoreSetHandle::absorb`]). So a controller never decides on a state older than its own last write.

mod absorb;
mod contents;
mod feed;
mod held;
mod index;
mod on_demand;
mod projection;
#[cfg(test)]
mod properties;
mod set;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    hash::Hash,
    sync::{Arc, OnceLock},
};

use kube::Resource;
use kube::core::GroupVersionKind;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc, watch as channel};

use self::contents::{Contents, Revision};
pub use self::index::Index;
pub use self::on_demand::{OnDemand, Scope, WatchUser};
pub use self::projection::{Presence, Projected, Projection};
pub use self::set::{StoreSet, StoreSetHandle};
pub use self::watch::Watch;
pub use crate::change::Change;
use crate::{
    change::Object,
    isolation,
    key::{NamespacedName, kind_of, reference_of_kind},
    plan::EventDraft,
    queue::Queue,
    reason,
    sync::{Mutex, RwLock},
    uid::Uid,
};

/// Types that can be kept in a store.
pub trait Stored:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}
impl<K> Stored for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// Objects of one kind. Clones share the same store.
///
/// # Guarantees
/// - Once the watch has caught up and the answers to our writes have arrived, the store equals the server's content.
/// - After the answer to one of our writes, no older state of that object is returned.
/// - The changes passed to a listener, in order, add up to the store's content.
/// - The memory of deletions is bounded.
///
/// These hold with any relists, duplicate events and late answers, and are tested as properties.
pub struct Store<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    kind: GroupVersionKind,
    contents: RwLock<Contents<K>>,
    /// Held from a change until its listeners have run, so that they get changes in order.
    telling: Mutex<()>,
    /// Errors of the objects whose newest JSON cannot be decoded, so that each is reported once. The last readable form stays in the store,
    /// because treating it as deleted would delete its dependents.
    unreadable: Mutex<BTreeMap<NamespacedName, String>>,
    /// Sends Events about objects whose listener or parser failed; set by a [`StoreSet`].
    events: OnceLock<mpsc::Sender<EventDraft>>,
    listeners: RwLock<Vec<Listener<K>>>,
    ready: channel::Sender<bool>,
    /// Signals that the server's history restarted, so the watch has to restart as well.
    history_restarted: Notify,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

fn stamp_of(object: &impl Object) -> Revision {
    let state = object.state();
    Revision {
        key: state.key(),
        uid: state.uid,
        version: state.version,
    }
}

impl<K: Object> Store<K> {
    /// Returns the object, if known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.get_key(&NamespacedName::new(namespace, name))
    }

    /// Returns the object with this key, if known.
    pub fn get_key(&self, key: &NamespacedName) -> Option<Arc<K>> {
        self.read(|contents| contents.get(key).cloned())
    }

    /// Returns all objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|contents| contents.iter().cloned().collect())
    }

    /// Returns the objects for which `wanted` is true, ordered by namespace and name. Only these are cloned, so this is the way to find a
    /// few among many. `wanted` must be fast and must not access this store, because changes wait for it.
    pub fn list_where(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read(|contents| {
            let objects = contents.iter();
            objects.filter(|object| wanted(object)).cloned().collect()
        })
    }

    /// Returns all objects of a namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read(|contents| {
            let objects = contents.in_namespace(namespace);
            objects.cloned().collect()
        })
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.read(Contents::len)
    }

    fn read<R>(&self, read: impl FnOnce(&Contents<K>) -> R) -> R {
        read(&self.shared.contents.read())
    }
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// Creates an empty store without a watch; tests fill it with [`Store::put`].
    pub fn new() -> Self {
        Self::of_kind(kind_of::<K>())
    }
}

impl<P: Projection> Default for Store<Projected<P>>
where
    P::Object: Resource<DynamicType = ()>,
{
    /// Creates an empty store of projections `P`, without a watch.
    fn default() -> Self {
        Self::of_kind(kind_of::<P::Object>())
    }
}

impl<K: Object> Store<K> {
    fn of_kind(kind: GroupVersionKind) -> Self {
        Self::with_contents(kind, Contents::default())
    }

    fn with_contents(kind: GroupVersionKind, contents: Contents<K>) -> Self {
        Self {
            shared: Arc::new(Shared {
                kind,
                contents: RwLock::new(contents),
                telling: Mutex::default(),
                unreadable: Mutex::default(),
                events: OnceLock::new(),
                listeners: RwLock::default(),
                ready: channel::Sender::new(false),
                history_restarted: Notify::new(),
            }),
        }
    }

    /// Calls `listener` on every later change, in order. It must be fast, since it runs on the watch's task. It may read stores but must
    /// not put anything into one. A panic of a listener is logged and reported by an Event on the object, and the other listeners still
    /// run. The rest of the failed listener's work for this change is lost.
    pub fn on_change(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.shared.listeners.write().push(Box::new(listener));
    }

    /// Adds to `queue` the keys that `keys` returns for each later change, under the conditions of [`Store::on_change`].
    pub fn feed<T, I>(&self, queue: &Queue<T>, keys: impl Fn(&Change<K>) -> I + Send + Sync + 'static)
    where
        K: 'static,
        T: Clone + Ord + Hash + Send + 'static,
        I: IntoIterator<Item = T>,
    {
        let queue = queue.clone();
        self.on_change(move |change| keys(change).into_iter().for_each(|key| queue.add(key)));
    }

    /// True once the initial list is complete.
    pub fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// Stores an object, unless it is older than the known state. Also used for the answers to writes.
    pub fn put(&self, object: K) {
        let revision = stamp_of(&object);
        self.change(|contents| contents.put(&revision, object));
    }

    /// Records that one of our writes deleted the object, or removed it from this store's selection. `object` is the returned state.
    fn put_deleted(&self, object: &K) {
        let revision = stamp_of(object);
        self.change(|contents| contents.delete(&revision, false));
    }

    /// Records that one of our writes deleted the object with this uid.
    fn delete_uid(&self, key: &NamespacedName, uid: &str) {
        self.change(|contents| contents.delete_uid(key, &Uid::of(uid)));
    }

    /// Records a creation or an update from the watch.
    fn on_applied(&self, object: K) {
        self.shared.unreadable.lock().remove(&object.state().key());
        self.put(object);
    }

    /// Records a deletion from the watch.
    fn on_deleted(&self, revision: &Revision) {
        self.shared.unreadable.lock().remove(&revision.key);
        self.change(|contents| contents.delete(revision, true));
    }

    /// Records the start of a relist; call it before the request is sent.
    fn relist_begins(&self) {
        self.change(|contents| {
            contents.relist_begins();
            None
        });
    }

    /// Records an object of the list.
    fn listed(&self, object: K) {
        let revision = stamp_of(&object);
        self.shared.unreadable.lock().remove(&revision.key);
        self.change(|contents| contents.listed(&revision, object));
    }

    /// Records the end of the list.
    fn relist_ends(&self) {
        self.change(Contents::relist_ends);
        let mut unreadable = self.shared.unreadable.lock();
        unreadable.retain(|key, _| self.read(|contents| contents.is_listed(key)));
        drop(unreadable);
        self.shared.ready.send_replace(true);
    }

    /// Records that a watch was requested that starts after this version.
    fn watching_from(&self, version: u64) {
        let mut restarted = false;
        self.change(|contents| {
            let deleted = contents.watching_from(version);
            restarted = deleted.is_none();
            deleted.unwrap_or_default()
        });
        if restarted {
            self.shared.history_restarted.notify_one();
        }
    }

    /// Records an object that cannot be decoded. Returns true if this was not known.
    fn mark_unreadable(&self, revision: &Revision, is_listed: bool, error: &str) -> bool {
        if is_listed {
            self.change(|contents| {
                contents.listed_unreadable(revision);
                None
            });
        }
        let mut unreadable = self.shared.unreadable.lock();
        let old = unreadable.insert(revision.key.clone(), error.to_owned());
        old.is_none_or(|old| old != error)
    }

    fn change<C: IntoIterator<Item = Change<K>>>(&self, change: impl FnOnce(&mut Contents<K>) -> C) {
        let _turn = self.shared.telling.lock();
        let changes = change(&mut self.shared.contents.write());
        for change in changes {
            self.tell(&change);
        }
    }

    fn tell(&self, change: &Change<K>) {
        let listeners = self.shared.listeners.read();
        for listener in listeners.iter() {
            if let Err(panicked) = isolation::catch(|| listener(change)) {
                let object = stamp_of(change.object().as_ref());
                tracing::error!(kind = self.shared.kind.kind, object = %object.key, %panicked, "store subscriber panicked");
                let message = format!(
                    "A change of this object did not reach all controllers. This is a bug: {}",
                    panicked.message
                );
                self.warn_about(&object, reason::PANICKED, message);
            }
        }
    }

    /// Sends a warning about an object.
    fn warn_about(&self, object: &Revision, reason: &str, message: String) {
        let uid = object.uid.as_ref().map(Uid::to_string);
        let regarding = reference_of_kind(&self.shared.kind, &object.key, uid);
        if let Some(events) = self.shared.events.get() {
            // Events beyond the queue limit are dropped; the log has them.
            let _ = events.try_send(EventDraft::warning(regarding, reason, message));
        }
    }
}
