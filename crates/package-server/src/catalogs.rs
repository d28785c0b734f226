//! The contents of all catalogs: one task per CatalogSource, which reads its registry when the content may
//! have changed.
//!
//! # Expected flow
//! A CatalogSource with a known registry gets a task. The task connects, reads the whole catalog, publishes
//! it and keeps the connection, whose end means that the content may have changed. It reads again if the
//! CatalogSource reports another registry or a new connection, and after the interval. Failures are retried
//! with backoff.
//!
//! # Guarantees
//! - The last complete content is served until a newer one has been read whole, or until the CatalogSource is
//!   deleted. An unreachable registry does not change that.
//! - Changes of a CatalogSource's names and labels are visible at once, and cause no read.
//! - At most [`PARALLEL_READS`] catalogs are read at a time. Those of the global namespace leave one read to the
//!   others together and these one to them, and another namespace has one at a time. A read has a deadline.
//! - The memory of each global catalog, of the catalogs of one other namespace and of all tenants' catalogs is
//!   limited. New content without room is not served, and nothing is evicted for it.
//! - A registry that closes the connection soon after a read is not read again at once.

mod reader;
mod source;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use olm_api::v1alpha1::CatalogSource;
use olm_runtime::driver::backoff;
use olm_runtime::fair_permits::FairPermits;
use olm_runtime::isolation::isolated;
use olm_runtime::store::{Change, Store};
use olm_runtime::sync::Mutex;
use olm_runtime::{NamespacedName, Timestamp, clock};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

pub use self::reader::ReadError;
pub use self::source::Target;
use crate::index::{Catalog, Index, Packages};
use crate::limits::{
    GLOBAL_CATALOG_BYTES, NAMESPACE_BYTES, PARALLEL_HEADS, PARALLEL_READS, READ_AGAIN_WHEN_FULL, READ_TIME,
    TENANT_BYTES,
};
pub use olm_registry::connection::{Dial, Dialled, Tcp};

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Age at which a connection counts as steady.
const STEADY: Duration = LONGEST_RETRY;

/// The contents of all catalogs. A clone is a handle.
#[derive(Clone)]
pub struct Catalogs {
    shared: Arc<Shared>,
}

struct Shared {
    entries: Mutex<BTreeMap<NamespacedName, Entry>>,
    index: watch::Sender<Arc<Index>>,
    /// Slots for reads.
    reads: FairPermits,
    /// Slots for parsing channel heads.
    parsing: Arc<Semaphore>,
    interval: watch::Sender<Duration>,
    dial: Arc<dyn Dial>,
    bounds: Bounds,
}

/// Maximum bytes of packages.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of one catalog in the global namespace.
    global: usize,
    /// Of all catalogs in one other namespace.
    namespace: usize,
    /// Of all catalogs outside the global namespace.
    tenants: usize,
}

/// One CatalogSource.
struct Entry {
    uid: Option<String>,
    target: watch::Sender<Target>,
    task: AbortHandle,
    state: CatalogState,
}

/// State of a catalog's content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogState {
    /// Time of the last successful read.
    pub read_at: Option<Timestamp>,
    /// True if a read was attempted, with any result.
    pub was_tried: bool,
    /// Cause of the last attempt's failure.
    pub failure: Option<String>,
    /// True if that cause was a lack of room.
    pub has_no_room: bool,
    /// Number of packages and channels that could not be read.
    pub left_out: usize,
    /// Approximate bytes in memory.
    pub bytes: usize,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Catalogs {
    /// Returns an empty set of catalogs. Catalogs in `global_namespace` are visible everywhere; each is read
    /// again after `interval`.
    pub fn new(global_namespace: &str, interval: Duration, dial: Arc<dyn Dial>) -> Self {
        let index = Index {
            global_namespace: global_namespace.into(),
            catalogs: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Shared {
                entries: Mutex::default(),
                index: watch::Sender::new(Arc::new(index)),
                reads: FairPermits::new(PARALLEL_READS)
                    .with_share(1)
                    .with_preferred(global_namespace),
                parsing: Arc::new(Semaphore::new(PARALLEL_HEADS)),
                interval: watch::Sender::new(interval),
                dial,
                bounds: Bounds {
                    global: GLOBAL_CATALOG_BYTES,
                    namespace: NAMESPACE_BYTES,
                    tenants: TENANT_BYTES,
                },
            }),
        }
    }

    /// Returns the index that is served now.
    pub fn index(&self) -> watch::Receiver<Arc<Index>> {
        self.shared.index.subscribe()
    }

    /// Follows the CatalogSources of a store. Call it before the store's watch begins, within a tokio
    /// runtime.
    pub fn follow(&self, sources: &Store<CatalogSource>) {
        let catalogs = self.clone();
        sources.on_change(move |change| match change {
            Change::Applied { new, .. } => catalogs.applied(new),
            Change::Deleted { old } => catalogs.deleted(&NamespacedName::from_object(old.as_ref())),
        });
    }

    /// Changes the interval after which each catalog is read again.
    pub fn set_interval(&self, interval: Duration) {
        self.shared.interval.send_replace(interval);
    }

    /// Returns the state of each catalog.
    pub fn states(&self) -> Vec<(NamespacedName, CatalogState)> {
        let entries = self.shared.entries.lock();
        entries
            .iter()
            .map(|(key, entry)| (key.clone(), entry.state.clone()))
            .collect()
    }

    /// Returns whether a read of each catalog with a known registry was attempted.
    pub fn were_all_tried(&self) -> bool {
        let entries = self.shared.entries.lock();
        entries
            .values()
            .all(|entry| entry.state.was_tried || entry.target.borrow().address.is_none())
    }

    fn applied(&self, source: &CatalogSource) {
        let key = NamespacedName::from_object(source);
        let target = Target::of(source);
        let facts = source::facts(source);
        let mut entries = self.shared.entries.lock();
        // Content of another object with the same name is not kept.
        let is_same = entries
            .get(&key)
            .is_some_and(|entry| entry.uid == source.metadata.uid);
        if !is_same {
            entries.remove(&key);
        }
        match entries.get(&key) {
            Some(entry) => {
                entry.target.send_if_modified(|known| {
                    let is_other = *known != target;
                    *known = target;
                    is_other
                });
            }
            None => {
                let entry = self.start(&key, source.metadata.uid.clone(), target);
                entries.insert(key.clone(), entry);
            }
        }
        self.shared.change(|index| {
            let known = index.catalogs.get(&key).filter(|_| is_same);
            let packages = known
                .map(|catalog| Arc::clone(&catalog.packages))
                .unwrap_or_default();
            let catalog = Catalog { facts, packages };
            index.catalogs.insert(key.clone(), Arc::new(catalog));
        });
    }

    fn deleted(&self, key: &NamespacedName) {
        let mut entries = self.shared.entries.lock();
        entries.remove(key);
        self.shared.change(|index| {
            index.catalogs.remove(key);
        });
    }

    fn start(&self, key: &NamespacedName, uid: Option<String>, target: Target) -> Entry {
        let (sender, receiver) = watch::channel(target);
        let task = CatalogTask {
            shared: Arc::downgrade(&self.shared),
            key: key.clone(),
            uid: uid.clone(),
            target: receiver,
            interval: self.shared.interval.subscribe(),
        };
        Entry {
            uid,
            target: sender,
            task: tokio::spawn(task.run()).abort_handle(),
            state: CatalogState::default(),
        }
    }
}

impl Shared {
    /// Publishes a changed index. Call it with the entries locked, so that changes are ordered.
    fn change(&self, change: impl FnOnce(&mut Index)) {
        self.index.send_modify(|index| change(Arc::make_mut(index)));
    }

    /// Returns the bytes that other catalogs leave for `key`.
    fn room(&self, entries: &BTreeMap<NamespacedName, Entry>, key: &NamespacedName) -> usize {
        if self.is_global(&key.namespace) {
            return self.bounds.global;
        }
        let (mut of_namespace, mut of_all) = (0_usize, 0_usize);
        for (other, entry) in entries {
            if other == key || self.is_global(&other.namespace) {
                continue;
            }
            of_all = of_all.saturating_add(entry.state.bytes);
            if other.namespace == key.namespace {
                of_namespace = of_namespace.saturating_add(entry.state.bytes);
            }
        }
        let in_namespace = self.bounds.namespace.saturating_sub(of_namespace);
        in_namespace.min(self.bounds.tenants.saturating_sub(of_all))
    }

    /// Serves new content, if its CatalogSource still exists.
    ///
    /// # Errors
    /// Other reads have taken its room meanwhile.
    fn keep(&self, key: &NamespacedName, uid: Option<&str>, read: reader::Read) -> Result<(), ReadError> {
        let mut entries = self.entries.lock();
        let room = self.room(&entries, key);
        if read.bytes > room {
            return Err(reader::too_large(room));
        }
        // Meanwhile the name may belong to another object.
        let Some(entry) = entries.get_mut(key).filter(|entry| entry.uid.as_deref() == uid) else {
            return Ok(());
        };
        entry.state = CatalogState {
            read_at: Some(clock::now()),
            was_tried: true,
            left_out: read.left_out,
            bytes: read.bytes,
            ..CatalogState::default()
        };
        let packages: Arc<Packages> = Arc::new(read.packages);
        self.change(|index| {
            if let Some(catalog) = index.catalogs.get_mut(key) {
                Arc::make_mut(catalog).packages = packages;
            }
        });
        Ok(())
    }

    /// Returns whether a namespace is the global one, whose catalogs all namespaces see.
    fn is_global(&self, namespace: &str) -> bool {
        *self.index.borrow().global_namespace == *namespace
    }

    /// Records a failure. The previous content stays.
    fn note_failure(&self, key: &NamespacedName, uid: Option<&str>, error: &ReadError) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(key).filter(|entry| entry.uid.as_deref() == uid) {
            entry.state.was_tried = true;
            entry.state.failure = Some(error.text.clone());
            entry.state.has_no_room = error.is_full;
        }
    }
}

/// The task of one CatalogSource.
struct CatalogTask {
    shared: Weak<Shared>,
    key: NamespacedName,
    uid: Option<String>,
    target: watch::Receiver<Target>,
    interval: watch::Receiver<Duration>,
}

impl CatalogTask {
    async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let target = self.target.borrow_and_update().clone();
            let Some(address) = target.address.clone() else {
                if self.target.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let began = clock::now();
            let pause = backoff(FIRST_RETRY, LONGEST_RETRY, failures);
            let pause = match self.read(&address).await {
                Some(Ok(dialled)) => {
                    let since = Instant::now();
                    let is_lost = self.rest(dialled, &target, began).await;
                    // A registry that closes the connection after each read would be read forever without a
                    // pause.
                    if !is_lost || since.elapsed() >= STEADY {
                        failures = 0;
                        continue;
                    }
                    pause
                }
                Some(Err(error)) => {
                    let pause = if error.is_full {
                        READ_AGAIN_WHEN_FULL
                    } else {
                        pause
                    };
                    self.failed(&error, pause);
                    pause
                }
                None => return,
            };
            failures = failures.saturating_add(1);
            // A change of the registry ends the pause.
            if let Ok(Err(_)) = timeout(pause, self.target.changed()).await {
                return;
            }
        }
    }

    fn failed(&self, error: &ReadError, pause: Duration) {
        let retry_s = pause.as_secs();
        tracing::warn!(catalog = %self.key, error = error.text, retry_s, "cannot read catalog, serving its previous content");
        if let Some(shared) = self.shared.upgrade() {
            shared.note_failure(&self.key, self.uid.as_deref(), error);
        }
    }

    /// Connects, reads and publishes. `None` when the process ends.
    async fn read(&self, address: &str) -> Option<Result<Dialled, ReadError>> {
        let shared = self.shared.upgrade()?;
        // The wait is not part of the deadline: a slow catalog must not make others fail.
        let permit = shared.reads.acquire(&self.key.namespace).await;
        let began = Instant::now();
        let room = shared.room(&shared.entries.lock(), &self.key);
        let dial = Arc::clone(&shared.dial);
        let read = async {
            // A panic while one catalog is read must not end the process, nor block that catalog forever.
            let dialled = isolated(dial.connect(address, address)).await;
            let dialled = dialled.unwrap_or_else(|panicked| Err(panicked.to_string()));
            let mut dialled = dialled.map_err(|error| ReadError::new(&error))?;
            let reading = isolated(reader::read(&dialled.channel, room, &shared.parsing));
            let read = unless_lost(&mut dialled.lost, reading).await;
            let read = read.ok_or_else(|| ReadError::new("connection to the registry lost"))?;
            let read = read.map_err(|panicked| ReadError::new(&panicked.to_string()))??;
            Ok::<_, ReadError>((dialled, read))
        };
        let late = |_| {
            let text = format!("reading the catalog timed out after {} s", READ_TIME.as_secs());
            Err(ReadError::new(&text))
        };
        let read = timeout(READ_TIME, read).await.unwrap_or_else(late);
        drop(permit);
        Some(read.and_then(|(dialled, read)| {
            let (packages, bytes, left_out) = (read.packages.len(), read.bytes, read.left_out);
            shared.keep(&self.key, self.uid.as_deref(), read)?;
            let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(catalog = %self.key, packages, left_out, bytes, elapsed_ms, "catalog read");
            Ok(dialled)
        }))
    }

    /// Waits with a living connection until the content may have changed. Returns true if the connection was
    /// lost.
    async fn rest(&mut self, mut dialled: Dialled, read: &Target, began: Timestamp) -> bool {
        let since = Instant::now();
        loop {
            let due = since + *self.interval.borrow_and_update();
            tokio::select! {
                _ = &mut dialled.lost => {
                    tracing::info!(catalog = %self.key, "connection to the registry lost");
                    return true;
                }
                () = sleep_until(due) => return false,
                // Without senders the CatalogSource was deleted, which aborts this task.
                Ok(()) = self.interval.changed() => {}
                Ok(()) = self.target.changed() => {
                    if self.target.borrow_and_update().is_news(read, began) {
                        return false;
                    }
                }
            }
        }
    }
}

/// Returns the result of `reading`; `None` if the connection was lost, because then the result may be
/// incomplete.
async fn unless_lost<T>(lost: &mut oneshot::Receiver<()>, reading: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = &mut *lost => return None,
        read = reading => Some(read),
    }
    .filter(|_| matches!(lost.try_recv(), Err(TryRecvError::Empty)))
}

#[cfg(test)]
mod tests;
