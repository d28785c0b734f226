//! Contents of catalogs, as resolution sees them: immutable, shared, read when needed and dropped when not.
//!
//! # Expected flow
//! Resolution asks [`Snapshots::get`] for each catalog it looks at. The first question, and the first after a new
//! connection, starts one read of the whole catalog in the background; when it is over, the namespaces that use the
//! catalog are woken. A catalog whose content turns out unchanged keeps its identity, so that nothing is resolved anew.
//!
//! # Guarantees
//! - One read of a catalog at a time, at most [`PARALLEL_READS`] over all, each with a deadline.
//! - While a catalog is being read again, or cannot be reached any more, its last good content stands.
//! - Content that nobody asked for in [`KEEP_UNUSED`] is dropped, its identity is kept: whoever remembers an answer by
//!   identity does not need the content back. A catalog no namespace uses is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use olm_fbc::entry::CatalogSnapshot;
use olm_resolver::Snapshot;
use olm_runtime::NamespacedName;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;

use crate::catalog_source::connection::{Connections, Link};

/// Catalogs read at once.
pub const PARALLEL_READS: usize = 4;
/// Time in which a catalog must have been read.
pub const READ_DEADLINE: Duration = Duration::from_secs(60);
/// Time after which content nobody asked for is dropped.
pub const KEEP_UNUSED: Duration = Duration::from_secs(30);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Reads a whole catalog from its registry server.
#[async_trait]
pub trait CatalogReader: Send + Sync + 'static {
    /// Everything resolution needs of the catalog behind `channel`, or why it could not be had.
    async fn read(&self, channel: Channel) -> Result<CatalogSnapshot, String>;
}

/// Identity of a content: two equal ones are the same content of the same catalog.
pub type ContentId = u64;

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
    /// It was dropped, or followed by another, and is being read.
    Reading,
    /// It was dropped, and there is no connection to read it from.
    Lost,
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
    permits: Semaphore,
    ids: AtomicU64,
    wake: Wake,
}

#[derive(Default)]
struct Entry {
    users: BTreeSet<String>,
    /// Connection whose content need not be read (again).
    read: Option<u64>,
    id: Option<ContentId>,
    /// Connection the content with this identity came from.
    id_from: Option<u64>,
    content: Option<Arc<Snapshot>>,
    last_asked: Option<Instant>,
    loading: Option<Loading>,
    failure: Option<Failure>,
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
                permits: Semaphore::new(PARALLEL_READS),
                ids: AtomicU64::new(1),
                wake: Arc::new(wake),
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
            self.refresh(key, entry, link);
        }
        match (entry.id, &entry.failure, entry.loading) {
            (Some(id), _, _) => ContentState::Known(id),
            (None, _, Some(loading)) => ContentState::Loading(loading.since),
            (None, Some(failure), None) => ContentState::Failed(failure.text.clone()),
            (None, None, None) => ContentState::Unreachable,
        }
    }

    /// The content with an identity got from [`Snapshots::get`]. If it has been dropped meanwhile it is read again, and
    /// the namespaces that use the catalog are woken.
    pub fn content(&self, key: &NamespacedName, id: ContentId) -> Content {
        let link = self.shared.connections.link(key);
        let mut entries = self.shared.lock();
        let Some(entry) = entries.get_mut(key) else {
            return Content::Lost;
        };
        entry.last_asked = Some(Instant::now());
        match (&entry.content, &link) {
            (Some(content), _) if entry.id == Some(id) => Content::Here(Arc::clone(content)),
            (Some(_), _) => Content::Reading,
            (None, Some(link)) => {
                entry.read = None;
                self.refresh(key, entry, link);
                if entry.loading.is_some() {
                    Content::Reading
                } else {
                    Content::Lost
                }
            }
            (None, None) => Content::Lost,
        }
    }

    /// Namespaces that use a catalog.
    pub fn users(&self, key: &NamespacedName) -> BTreeSet<String> {
        self.shared
            .lock()
            .get(key)
            .map(|entry| entry.users.clone())
            .unwrap_or_default()
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

    fn refresh(&self, key: &NamespacedName, entry: &mut Entry, link: &Link) {
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
        let read = Read {
            shared: Arc::clone(&self.shared),
            key: key.clone(),
            generation: link.generation,
        };
        tokio::spawn(read.run(link.channel.clone()));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, users: &BTreeSet<String>) {
        for namespace in users {
            (self.wake)(namespace);
        }
    }
}

/// One read of one catalog.
struct Read {
    shared: Arc<Shared>,
    key: NamespacedName,
    generation: u64,
}

impl Read {
    async fn run(self, channel: Channel) {
        let started = Instant::now();
        match self.read(channel).await {
            Ok(content) => {
                tracing::info!(
                    catalog = %self.key, entries = content.entries().len(), elapsed_ms = millis(started), "catalog read"
                );
                if self.keep(content) {
                    self.drop_when_unused().await;
                }
            }
            Err(text) => {
                tracing::warn!(catalog = %self.key, error = %text, "catalog not read");
                if let Some(pause) = self.note_failure(text) {
                    sleep(pause).await;
                    let users = self.shared.lock().get(&self.key).map(|entry| entry.users.clone());
                    self.shared.tell(&users.unwrap_or_default());
                }
            }
        }
    }

    async fn read(&self, channel: Channel) -> Result<Arc<Snapshot>, String> {
        // The semaphore is never closed; if it were, reading without a permit is the lesser harm.
        let _permit = self.shared.permits.acquire().await;
        let read = timeout(READ_DEADLINE, self.shared.reader.read(channel)).await;
        let listed = read.unwrap_or_else(|_| {
            Err(format!(
                "failed to list bundles: no end within {} s",
                READ_DEADLINE.as_secs()
            ))
        })?;
        let index = move || Arc::new(Snapshot::new(listed.entries.iter().cloned()));
        tokio::task::spawn_blocking(index)
            .await
            .map_err(|error| format!("failed to index bundles: {error}"))
    }

    /// Takes in what was read, unless it is outdated. Returns whether anything was kept.
    fn keep(&self, content: Arc<Snapshot>) -> bool {
        let mut entries = self.shared.lock();
        let Some(entry) = self.own_entry(&mut entries) else {
            return false;
        };
        entry.loading = None;
        entry.failure = None;
        entry.read = Some(self.generation);
        entry.last_asked = Some(Instant::now());
        // What was dropped can no longer be compared, but a server does not change its catalog while it runs.
        let same = entry.id_from == Some(self.generation)
            || entry
                .content
                .as_ref()
                .is_some_and(|known| is_same(known, &content));
        if !same {
            entry.id = Some(self.shared.ids.fetch_add(1, Ordering::Relaxed));
        }
        entry.id_from = Some(self.generation);
        entry.content = Some(content);
        let users = entry.users.clone();
        drop(entries);
        self.shared.tell(&users);
        true
    }

    fn note_failure(&self, text: String) -> Option<Duration> {
        let mut entries = self.shared.lock();
        let entry = self.own_entry(&mut entries)?;
        entry.loading = None;
        let attempts = entry.failure.as_ref().map_or(0, |failure| failure.attempts);
        let pause = FIRST_RETRY
            .saturating_mul(1 << attempts.min(10))
            .min(LONGEST_RETRY);
        let retry_at = Instant::now() + pause;
        entry.failure = Some(Failure {
            generation: self.generation,
            text,
            attempts: attempts + 1,
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

    async fn drop_when_unused(&self) {
        loop {
            sleep(KEEP_UNUSED).await;
            let mut entries = self.shared.lock();
            let Some(entry) = entries.get_mut(&self.key) else {
                return;
            };
            if entry.read != Some(self.generation) || entry.content.is_none() {
                return;
            }
            if entry
                .last_asked
                .is_none_or(|asked| asked.elapsed() >= KEEP_UNUSED)
            {
                entry.content = None;
                return;
            }
        }
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
    /// The connection whose content is known, for tests that wait for a read.
    pub fn read_generation(&self, key: &NamespacedName) -> Option<u64> {
        self.shared.lock().get(key).and_then(|entry| entry.read)
    }
}
