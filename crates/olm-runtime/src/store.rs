//! Stores: what the API server holds, kept current by watches, as immutable `Arc` values.
//!
//! kube's watcher speaks the list/watch protocol; the store on top is ours for two reasons. It tells
//! its listeners the old and the new object of every change, which the `triggers` of a controller
//! need, and it takes in what our own writes return ([`StoreSetHandle::absorb`]), so that a controller
//! never decides on a state older than its own last write.

mod absorb;
mod contents;
mod feed;
mod held;
mod index;
mod news;
mod on_demand;
mod projection;
#[cfg(test)]
mod properties;
mod relists;
mod set;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
};

use kube::Resource;
use kube::core::GroupVersionKind;
use serde::de::DeserializeOwned;
use tokio::sync;

use self::contents::{Contents, Revision, WatchStart};
pub use self::index::Index;
pub use self::news::{News, NewsItem};
pub use self::on_demand::{OnDemand, Scope, WatchUser};
pub use self::projection::{Presence, Projected, Projection};
use self::relists::Relists;
pub use self::set::{StoreSet, StoreSetHandle};
pub use self::watch::Watch;
pub use crate::change::Change;
use crate::{
    change::Object,
    isolation::{self, Panicked},
    key::{NamespacedName, kind_of, reference_of_kind},
    plan::EventDraft,
    reason,
    uid::Uid,
    wake,
};

/// What can be kept in a store.
pub trait Stored:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}
impl<K> Stored for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// Objects of one kind; a clone is another handle to the same store.
///
/// # Guarantees
/// - Once the watch has caught up and the answers to our writes are in, the store holds what the server holds.
/// - After the answer to a write of ours is in, no older state of that object is shown.
/// - The changes told to a listener, one after the other, give the store's content.
/// - The memory of deletions is bounded.
///
/// These hold whatever is listed again, told twice or answered late, and are tested as properties.
pub struct Store<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    kind: GroupVersionKind,
    contents: RwLock<Contents<K>>,
    /// Held from a change until its listeners know of it, so that they hear of changes in their order.
    telling: Mutex<()>,
    unreadable: RwLock<BTreeMap<NamespacedName, Unreadable>>,
    /// Takes Events about objects at which something of ours failed; set in a [`StoreSet`].
    events: OnceLock<sync::mpsc::Sender<EventDraft>>,
    listeners: RwLock<Vec<Listener<K>>>,
    ready: sync::watch::Sender<bool>,
    /// The server's history began anew; the watch has to, too.
    history_restarted: sync::Notify,
    relists: Arc<Relists>,
    /// Why the watch was interrupted last; none once it goes on.
    interruption: Mutex<Option<String>>,
}

/// Why the newest JSON of an object does not fit its type.
struct Unreadable {
    version: Option<u64>,
    error: String,
}

impl<K> Shared<K> {
    fn set_interruption(&self, text: Option<String>) {
        *self.interruption.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
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
    /// The object, if known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.get_key(&NamespacedName::new(namespace, name))
    }

    /// The object, if known.
    pub fn get_key(&self, key: &NamespacedName) -> Option<Arc<K>> {
        self.read(|contents| contents.get(key).cloned())
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|contents| contents.iter().cloned().collect())
    }

    /// The objects that `wanted` says yes to, ordered by namespace and name. Only they are taken hold of, so this is the
    /// way to find a few among many. `wanted` must be quick and must not ask this store: changes wait for it.
    pub fn list_where(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read(|contents| {
            let objects = contents.iter();
            objects.filter(|object| wanted(object)).cloned().collect()
        })
    }

    /// All objects of a namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read(|contents| {
            let objects = contents.in_namespace(namespace);
            objects.cloned().collect()
        })
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.read(Contents::len)
    }

    fn read<R>(&self, read: impl FnOnce(&Contents<K>) -> R) -> R {
        read(
            &self
                .shared
                .contents
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// An empty store that nothing feeds yet; tests fill it with [`Store::put`].
    pub fn new() -> Self {
        Self::of_kind(kind_of::<K>())
    }
}

impl<P: Projection> Store<Projected<P>>
where
    P::Object: Resource<DynamicType = ()>,
{
    /// An empty store of what `P` makes of objects, which nothing feeds.
    pub fn projected() -> Self {
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
                unreadable: RwLock::default(),
                events: OnceLock::new(),
                listeners: RwLock::default(),
                ready: sync::watch::Sender::new(false),
                history_restarted: sync::Notify::new(),
                relists: Arc::default(),
                interruption: Mutex::default(),
            }),
        }
    }

    /// Objects whose newest JSON does not fit their type, with the decoder's message. One that did fit before is still in
    /// the store in that form: taking it for deleted would take down what depends on it.
    pub fn unreadable(&self) -> BTreeMap<NamespacedName, String> {
        let unreadable = self.shared.unreadable.read();
        let unreadable = unreadable.unwrap_or_else(PoisonError::into_inner);
        unreadable
            .iter()
            .map(|(key, unreadable)| (key.clone(), unreadable.error.clone()))
            .collect()
    }

    /// Calls `listener` on every later change, in the order of the changes. It must be quick, as it runs on the watch's
    /// task, and it may read stores but not put anything into one. A panic of one listener is logged and told by an Event on
    /// the object; the others are still called. What that listener had yet to do for this change is not done.
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

    /// Puts an object in, unless it is older than what is known; what the answer to a write is for.
    pub fn put(&self, object: K) {
        let revision = stamp_of(&object);
        self.forget_unreadable(&revision);
        self.change(|contents| contents.put(&revision, object));
    }

    /// Takes in that a write of ours deleted the object, or took it out of what this store selects, as which state it
    /// returned.
    fn put_deleted(&self, object: &K) {
        let revision = stamp_of(object);
        self.change(|contents| contents.delete_own(&revision));
    }

    /// Takes in that a write of ours deleted the object with this uid.
    fn delete_uid(&self, key: &NamespacedName, uid: &str) {
        self.change(|contents| contents.delete_uid(key, &Uid::of(uid)));
    }

    /// The watch says that an object was created or updated.
    fn told_applied(&self, object: K) {
        self.put(object);
    }

    /// The watch says that an object was deleted.
    fn told_deleted(&self, revision: &Revision) {
        self.forget_unreadable(revision);
        self.change(|contents| contents.delete_told(revision));
    }

    /// The watch lists everything anew; to be called before the request is sent.
    fn relist_begins(&self) {
        self.shared.relists.begins();
        self.change(|contents| {
            contents.relist_begins();
            None
        });
    }

    /// The list has this object.
    fn listed(&self, object: K) {
        let revision = stamp_of(&object);
        self.forget_unreadable(&revision);
        self.change(|contents| contents.listed(&revision, object));
    }

    /// The list is complete.
    fn relist_ends(&self) {
        self.change(Contents::relist_ends);
        let mut unreadable = self
            .shared
            .unreadable
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        unreadable.retain(|key, _| self.read(|contents| contents.is_listed(key)));
        drop(unreadable);
        self.shared.ready.send_replace(true);
        self.shared.relists.ends();
    }

    /// A watch for what comes after this version was asked for.
    fn watching_from(&self, version: u64) {
        let mut restarted = false;
        self.change(|contents| match contents.watching_from(version) {
            WatchStart::Settled(changes) => changes,
            WatchStart::HistoryRestarted => {
                restarted = true;
                Vec::new()
            }
        });
        if restarted {
            self.shared.history_restarted.notify_one();
        }
    }

    /// An object came that cannot be decoded. True when that is news.
    fn mark_unreadable(&self, revision: &Revision, is_listed: bool, error: &str) -> bool {
        if is_listed {
            self.change(|contents| {
                contents.listed_unreadable(revision);
                None
            });
        }
        let mut unreadable = self
            .shared
            .unreadable
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let new = Unreadable {
            version: revision.version,
            error: error.to_owned(),
        };
        let old = unreadable.insert(revision.key.clone(), new);
        old.is_none_or(|old| old.error != error)
    }

    /// What is older than the JSON that could not be read, as a late answer to a write of ours, does not make it readable.
    fn forget_unreadable(&self, revision: &Revision) {
        let is_over = |unreadable: &Unreadable| {
            let known = unreadable.version.zip(revision.version);
            known.is_none_or(|(version, news)| news >= version)
        };
        let unreadable = self.shared.unreadable.read();
        let unreadable = unreadable.unwrap_or_else(PoisonError::into_inner);
        if unreadable.get(&revision.key).is_some_and(is_over) {
            drop(unreadable);
            let unreadable = self.shared.unreadable.write();
            let mut unreadable = unreadable.unwrap_or_else(PoisonError::into_inner);
            unreadable.remove(&revision.key);
        }
    }

    fn change<C: IntoIterator<Item = Change<K>>>(&self, change: impl FnOnce(&mut Contents<K>) -> C) {
        let _turn: MutexGuard<'_, ()> = self.shared.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = change(
            &mut self
                .shared
                .contents
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for change in changes {
            self.tell(&change);
        }
    }

    fn tell(&self, change: &Change<K>) {
        let listeners = self
            .shared
            .listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let _cause = wake::because_of(&self.shared.kind, change);
        for listener in listeners.iter() {
            if let Err(panicked) = isolation::catch(|| listener(change)) {
                let kind = &self.shared.kind;
                let object = Some(stamp_of(change.object().as_ref()));
                listener_failed(self.shared.events.get(), kind, object, &panicked);
            }
        }
    }

    fn event(&self, event: EventDraft) {
        if let Some(events) = self.shared.events.get() {
            // An event more than may wait is dropped; the log has it.
            let _ = events.try_send(event);
        }
    }
}

/// Tells of the panic of a listener: in the log, and on the object of whose change it was told.
fn listener_failed(
    events: Option<&sync::mpsc::Sender<EventDraft>>,
    kind: &GroupVersionKind,
    object: Option<Revision>,
    panicked: &Panicked,
) {
    let key = object.as_ref().map(|object| tracing::field::display(&object.key));
    tracing::error!(kind = kind.kind, object = key, %panicked, "a listener of a store failed");
    let (Some(events), Some(object)) = (events, object) else {
        return;
    };
    // An event more than may wait is dropped; the log has it.
    let message = format!(
        "A change of this object was not told to all controllers. This is a bug: {}",
        panicked.message
    );
    let regarding = reference_of_kind(kind, &object.key, object.uid.map(|uid| uid.to_string()));
    let _ = events.try_send(EventDraft::warning(regarding, reason::PANICKED, message));
}
