//! Contents of catalogs, as resolution sees them: immutable, shared, read when needed and dropped when not.
//!
//! # Expected flow
//! Resolution asks [`Snapshots::get`] for each catalog it looks at. The first question, and the first after a new
//! connection, starts one read of the whole catalog in the background; when it is over, the namespaces that use the
//! catalog are woken. A catalog whose content turns out unchanged keeps its identity, so that nothing is resolved anew.
//!
//! # Guarantees
//! - One read of a catalog at a time, at most [`PARALLEL_READS`] over all, each with a deadline. Namespaces take turns, and
//!   one namespace's catalogs never take all reads ([`FairPermits`]).
//! - While a catalog is being read again, or cannot be reached any more, its last good content stands, for as long as a
//!   namespace uses it. A catalog no namespace uses is forgotten.
//! - The contents of one namespace's catalogs take no more than [`NAMESPACE_BYTES`] together. One that does not fit beside the
//!   others is not kept, and says so; what was kept before stands.
//! - A server that is not a pod of ours may change what it serves while the connection lives: it is read again after
//!   [`READ_AGAIN`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use olm_fbc::entry::CatalogSnapshot;
use olm_resolver::Snapshot;
use olm_runtime::NamespacedName;
use olm_runtime::isolation::isolated;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;

use crate::catalog_source::connection::{Connections, LiveConnection};
use crate::fair_permits::FairPermits;

/// Catalogs read at once.
pub(crate) const PARALLEL_READS: usize = 4;
/// Time in which a catalog must have been read.
pub(crate) const READ_DEADLINE: Duration = Duration::from_secs(60);
/// Age at which the content of a server that may change it is read again.
pub(crate) const READ_AGAIN: Duration = Duration::from_secs(30 * 60);
/// Bytes, about, of what is kept of all catalogs in one namespace.
pub(crate) const NAMESPACE_BYTES: usize = 512 << 20;
/// Time after which a catalog is read again that did not fit: others may have become smaller.
pub(crate) const READ_AGAIN_WHEN_FULL: Duration = Duration::from_secs(5 * 60);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Reads a whole catalog from its registry server.
#[async_trait]
pub trait CatalogReader: Send + Sync + 'static {
    /// Everything resolution needs of the catalog behind `channel`, or why it could not be had.
    async fn read(&self, channel: Channel) -> Result<Listed, String>;
}

/// What a reader has read.
#[derive(Debug)]
pub struct Listed {
    /// Packages and bundles.
    pub snapshot: CatalogSnapshot,
    /// Bytes they take in memory, about; the bound of a namespace's catalogs counts them.
    pub bytes: usize,
}

/// Identity of a content: two equal ones are the same content of the same catalog.
pub(crate) type ContentId = u64;

/// What is known of a catalog's content.
#[derive(Debug, Clone)]
pub enum ContentState {
    /// It was read; it may be that of the connection before the present one while that is read again.
    Known(ContentId),
    /// Being read for the first time, since then.
    Loading(Instant),
    /// It could not be read.
    Failed(String),
    /// There is no connection to read it from, and there was none before.
    Unreachable,
}

/// Where a content with a known identity is.
#[derive(Debug, Clone)]
pub enum Content {
    /// In memory.
    Here(Arc<Snapshot>),
    /// Not there (any more): another one may have followed. What is known of the catalog is to be asked for again.
    Absent,
}

type Wake = Arc<dyn Fn(&str) + Send + Sync>;

/// The contents of all catalogs in use. A clone is a handle.
#[derive(Clone)]
pub struct Snapshots {
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections,
    reader: Arc<dyn CatalogReader>,
    entries: Mutex<BTreeMap<NamespacedName, Entry>>,
    permits: FairPermits,
    /// Bytes of the contents of one namespace's catalogs.
    namespace_bytes: usize,
    ids: AtomicU64,
    wake: Wake,
    /// How often each catalog was read.
    counts: Mutex<BTreeMap<NamespacedName, u64>>,
}

#[derive(Default)]
struct Entry {
    users: BTreeSet<String>,
    /// Connection whose content need not be read (again).
    read: Option<u64>,
    id: Option<ContentId>,
    content: Option<Arc<Snapshot>>,
    /// What the content takes in memory.
    bytes: usize,
    /// When it was read.
    read_at: Option<Instant>,
    loading: Option<Loading>,
    failure: Option<Failure>,
    /// Reads the catalog again when its content has become old.
    again: Option<Timer>,
}

/// A task that ends with whoever waits for it, so that a server that comes and goes leaves none behind.
struct Timer(tokio::task::AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone, Copy)]
struct Loading {
    generation: u64,
    since: Instant,
}

#[derive(Clone)]
struct Failure {
    generation: u64,
    text: String,
    attempts: u32,
    retry_at: Instant,
}

impl Snapshots {
    /// No contents; `wake` is called with each namespace that uses a catalog when something new is known of it.
    pub fn new(
        connections: Connections,
        reader: Arc<dyn CatalogReader>,
        wake: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                connections,
                reader,
                entries: Mutex::default(),
                permits: FairPermits::new(PARALLEL_READS),
                namespace_bytes: NAMESPACE_BYTES,
                ids: AtomicU64::new(1),
                wake: Arc::new(wake),
                counts: Mutex::default(),
            }),
        }
    }

    /// What is known of a catalog's content, for `namespace`, which is woken when that changes. Starts to read it if it
    /// has not been read from the present connection. Must be called within a tokio runtime; awaits nothing.
    pub fn get(&self, key: &NamespacedName, namespace: &str) -> ContentState {
        let link = self.shared.connections.link(key);
        let mut entries = self.shared.lock();
        let entry = entries.entry(key.clone()).or_default();
        entry.users.insert(namespace.to_owned());
        if let Some(link) = &link {
            self.shared.refresh(key, entry, link);
        }
        match (entry.id, &entry.failure, entry.loading) {
            (Some(id), _, _) => ContentState::Known(id),
            (None, _, Some(loading)) => ContentState::Loading(loading.since),
            (None, Some(failure), None) => ContentState::Failed(failure.text.clone()),
            (None, None, None) => ContentState::Unreachable,
        }
    }

    /// The content with an identity got from [`Snapshots::get`]. Where it is not there, nothing is to be concluded from
    /// that: the catalog is read again, and the namespaces that use it are woken.
    pub fn content(&self, key: &NamespacedName, id: ContentId) -> Content {
        let link = self.shared.connections.link(key);
        let mut entries = self.shared.lock();
        let Some(entry) = entries.get_mut(key) else {
            return Content::Absent;
        };
        match &entry.content {
            Some(content) if entry.id == Some(id) => return Content::Here(Arc::clone(content)),
            Some(_) => {}
            None => {
                // Whoever asks next must not be told that it is known.
                entry.id = None;
                entry.read = None;
                if let Some(link) = &link {
                    self.shared.refresh(key, entry, link);
                }
            }
        }
        Content::Absent
    }

    /// Why what a catalog's server has now could not be read, while what was read before stands.
    pub fn trouble(&self, key: &NamespacedName) -> Option<String> {
        let entries = self.shared.lock();
        let entry = entries.get(key).filter(|entry| entry.id.is_some())?;
        entry.failure.as_ref().map(|failure| failure.text.clone())
    }

    /// Says which catalogs a namespace still uses; those that nobody uses are forgotten.
    pub fn retain(&self, namespace: &str, used: &BTreeSet<NamespacedName>) {
        self.shared.lock().retain(|key, entry| {
            if !used.contains(key) {
                entry.users.remove(namespace);
            }
            !entry.users.is_empty()
        });
    }

    /// Forgets a catalog that is no more, so that one made anew under its name is not mistaken for it.
    pub fn forget(&self, key: &NamespacedName) {
        self.shared.lock().remove(key);
    }

    /// The same of a catalog whose object is gone, with the count of its reads.
    pub fn forget_source(&self, key: &NamespacedName) {
        self.forget(key);
        self.shared.lock_counts().remove(key);
    }

    /// How often each catalog was read, of those that there still are as `exists` says.
    pub(crate) fn counts(&self, exists: impl Fn(&NamespacedName) -> bool) -> Vec<(NamespacedName, u64)> {
        let mut counts = self.shared.lock_counts();
        counts.retain(|source, _| exists(source));
        counts
            .iter()
            .map(|(source, count)| (source.clone(), *count))
            .collect()
    }

    /// For how long the contents in use have been known.
    pub(crate) fn ages(&self) -> Vec<(NamespacedName, Duration)> {
        let entries = self.shared.lock();
        let age = |(source, entry): (&NamespacedName, &Entry)| {
            let read_at = entry.read_at.filter(|_| entry.id.is_some())?;
            Some((source.clone(), read_at.elapsed()))
        };
        entries.iter().filter_map(age).collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_counts(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, users: &BTreeSet<String>) {
        for namespace in users {
            (self.wake)(namespace);
        }
    }

    /// Starts to read a catalog, unless it was read over this connection, is being read, or has just failed.
    fn refresh(self: &Arc<Self>, key: &NamespacedName, entry: &mut Entry, link: &LiveConnection) {
        let known = entry.read == Some(link.generation);
        let loading = entry
            .loading
            .is_some_and(|loading| loading.generation == link.generation);
        let waiting = entry.failure.as_ref().is_some_and(|failure| {
            failure.generation == link.generation && Instant::now() < failure.retry_at
        });
        if known || loading || waiting {
            return;
        }
        entry.loading = Some(Loading {
            generation: link.generation,
            since: Instant::now(),
        });
        *self.lock_counts().entry(key.clone()).or_default() += 1;
        let read = Read {
            shared: Arc::clone(self),
            key: key.clone(),
            generation: link.generation,
            may_change: link.may_change,
        };
        tokio::spawn(read.run(link.channel.clone()));
    }

    /// Reads a catalog again whose server may have changed it, unless that was done since `read_at` or it is not used any
    /// more.
    fn read_again(self: &Arc<Self>, key: &NamespacedName, generation: u64, read_at: Instant) {
        let link = self.connections.link(key);
        let mut entries = self.lock();
        if let (Some(entry), Some(link)) = (entries.get_mut(key), link)
            && entry.read == Some(generation)
            && entry.read_at == Some(read_at)
        {
            entry.read = None;
            self.refresh(key, entry, &link);
        }
    }
}

/// What was read, and what it takes in memory.
struct Weighed {
    snapshot: Arc<Snapshot>,
    bytes: usize,
}

/// One read of one catalog.
struct Read {
    shared: Arc<Shared>,
    key: NamespacedName,
    generation: u64,
    may_change: bool,
}

impl Read {
    async fn run(self, channel: Channel) {
        let started = Instant::now();
        let read = match self.read(channel).await {
            Ok(content) => {
                let (entries, bytes) = (content.snapshot.entries().len(), content.bytes);
                tracing::info!(catalog = %self.key, entries, bytes, elapsed_ms = millis(started), "catalog read");
                self.keep(content)
            }
            Err(text) => Err((text, FIRST_RETRY)),
        };
        match read {
            Ok(()) => {}
            Err((text, least)) => {
                tracing::warn!(catalog = %self.key, error = %text, "catalog not read");
                if let Some(pause) = self.note_failure(text, least) {
                    sleep(pause).await;
                    let users = self.shared.lock().get(&self.key).map(|entry| entry.users.clone());
                    self.shared.tell(&users.unwrap_or_default());
                }
            }
        }
    }

    async fn read(&self, channel: Channel) -> Result<Weighed, String> {
        // Waiting for the turn is no part of the deadline: whoever makes others wait must not make them fail.
        let _permit = self.shared.permits.acquire(&self.key.namespace).await;
        // A fault of ours in reading one catalog must not leave it as being read for ever.
        let reading = isolated(self.shared.reader.read(channel));
        let listed = match timeout(READ_DEADLINE, reading).await {
            Ok(Ok(listed)) => listed?,
            Ok(Err(panicked)) => {
                tracing::error!(catalog = %self.key, %panicked, "a fault in reading a catalog");
                return Err("failed to list bundles: a fault of the catalog operator".to_owned());
            }
            Err(_) => {
                let limit = READ_DEADLINE.as_secs();
                return Err(format!("failed to list bundles: no end within {limit} s"));
            }
        };
        let index = move || Weighed {
            bytes: listed.bytes,
            snapshot: Arc::new(Snapshot::new(listed.snapshot.entries.iter().cloned())),
        };
        tokio::task::spawn_blocking(index)
            .await
            .map_err(|error| format!("failed to index bundles: {error}"))
    }

    /// Takes in what was read, unless it is outdated.
    ///
    /// # Errors
    /// There is no room for it: why, and when to look again.
    fn keep(&self, content: Weighed) -> Result<(), (String, Duration)> {
        let mut entries = self.shared.lock();
        let of_others = self.bytes_of_others(&entries);
        let Some(entry) = self.own_entry(&mut entries) else {
            return Ok(());
        };
        let limit = self.shared.namespace_bytes;
        if of_others.saturating_add(content.bytes) > limit {
            let text = format!(
                "failed to list bundles: this catalog takes {} MiB of memory, those of its namespace that are in use take {} MiB \
                 already, and may take {} MiB together",
                content.bytes >> 20,
                of_others >> 20,
                limit >> 20
            );
            return Err((text, READ_AGAIN_WHEN_FULL));
        }
        let Weighed {
            snapshot: content,
            bytes,
        } = content;
        let now = Instant::now();
        entry.again = self.may_change.then(|| self.timer(now));
        entry.loading = None;
        let failed = entry.failure.take().is_some();
        entry.read = Some(self.generation);
        entry.read_at = Some(now);
        let known = entry.content.as_ref().filter(|_| entry.id.is_some());
        let same = known.is_some_and(|known| is_same(known, &content));
        if !same {
            entry.id = Some(self.shared.ids.fetch_add(1, Ordering::Relaxed));
            entry.content = Some(content);
            entry.bytes = bytes;
        }
        let users = entry.users.clone();
        drop(entries);
        // What is as it was is no news, unless somebody was told otherwise meanwhile.
        if !same || failed {
            self.shared.tell(&users);
        }
        Ok(())
    }

    /// What the other catalogs of the namespace take.
    fn bytes_of_others(&self, entries: &BTreeMap<NamespacedName, Entry>) -> usize {
        let others = entries
            .iter()
            .filter(|(key, _)| key.namespace == self.key.namespace && **key != self.key);
        others
            .filter(|(_, entry)| entry.content.is_some())
            .fold(0, |sum, (_, entry)| sum.saturating_add(entry.bytes))
    }

    fn timer(&self, read_at: Instant) -> Timer {
        let (shared, key, generation) = (Arc::downgrade(&self.shared), self.key.clone(), self.generation);
        let task = tokio::spawn(async move {
            sleep(READ_AGAIN).await;
            if let Some(shared) = shared.upgrade() {
                shared.read_again(&key, generation, read_at);
            }
        });
        Timer(task.abort_handle())
    }

    /// Tells of the failure, and returns the time to the next try, which is not below `least`.
    fn note_failure(&self, text: String, least: Duration) -> Option<Duration> {
        let mut entries = self.shared.lock();
        let entry = self.own_entry(&mut entries)?;
        entry.loading = None;
        let attempts = entry.failure.as_ref().map_or(0, |failure| failure.attempts);
        let pause = FIRST_RETRY
            .saturating_mul(1 << attempts.min(10))
            .min(LONGEST_RETRY)
            .max(least);
        let retry_at = Instant::now() + pause;
        entry.failure = Some(Failure {
            generation: self.generation,
            text,
            attempts: attempts.saturating_add(1),
            retry_at,
        });
        let users = entry.users.clone();
        drop(entries);
        self.shared.tell(&users);
        Some(pause)
    }

    /// The entry, if it still waits for this very read.
    fn own_entry<'a>(&self, entries: &'a mut BTreeMap<NamespacedName, Entry>) -> Option<&'a mut Entry> {
        let entry = entries.get_mut(&self.key)?;
        entry
            .loading
            .is_some_and(|loading| loading.generation == self.generation)
            .then_some(entry)
    }
}

fn is_same(one: &Snapshot, other: &Snapshot) -> bool {
    one.entries().len() == other.entries().len()
        && one
            .entries()
            .iter()
            .zip(other.entries())
            .all(|(one, other)| ***one == ***other)
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
impl Snapshots {
    /// With other bounds for what the catalogs of a namespace take.
    #[must_use]
    pub fn with_namespace_bytes(mut self, bytes: usize) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.namespace_bytes = bytes;
        }
        self
    }

    /// Forgets the content of a catalog, as nothing but a mistake in here would.
    pub fn lose_content(&self, key: &NamespacedName) {
        if let Some(entry) = self.shared.lock().get_mut(key) {
            entry.content = None;
        }
    }

    /// The connection whose content is known, for tests that wait for a read.
    pub fn read_generation(&self, key: &NamespacedName) -> Option<u64> {
        self.shared.lock().get(key).and_then(|entry| entry.read)
    }
}
