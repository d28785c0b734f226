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
//! - The contents of one namespace's catalogs take no more than [`NAMESPACE_BYTES`] together, and all of them no more than
//!   [`TOTAL_BYTES`] ([`room`]). One that does not fit beside the others is not kept, and says so; what was kept before stands,
//!   unless its namespace has more than its part and another one needs the room.
//! - A round sees one whole read of each catalog: a content never changes, and the next one has another identity.
//! - Manifests that a catalog carries are not kept: they are fetched when they are needed, and must be those that were read.
//! - A server that is not a pod of ours may change what it serves while the connection lives: it is read again after
//!   [`READ_AGAIN`].

mod read;
mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use olm_fbc::entry::{CatalogSnapshot, ManifestDigest};
use olm_registry::snapshot::manifest_digest;
use olm_resolver::Snapshot;
use olm_runtime::NamespacedName;
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;

use self::read::Read;
use self::room::Bounds;
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
/// The same of all namespaces together.
pub(crate) const TOTAL_BYTES: usize = 1 << 30;
/// Time in which a server must have sent the manifests of one bundle.
pub(crate) const MANIFESTS_DEADLINE: Duration = Duration::from_secs(60);
/// Age from which on a content is read again whose manifests have turned out to be others.
pub(crate) const READ_AGAIN_WHEN_CHANGED: Duration = Duration::from_secs(60);
/// Time after which a catalog is read again that did not fit: others may have become smaller.
pub(crate) const READ_AGAIN_WHEN_FULL: Duration = Duration::from_secs(5 * 60);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Reads a whole catalog from its registry server.
#[async_trait]
pub trait CatalogReader: Send + Sync + 'static {
    /// Everything resolution needs of the catalog behind `channel`, or why it could not be had.
    async fn read(&self, channel: Channel) -> Result<Listed, String>;

    /// Manifests of a bundle that the catalog carries itself.
    async fn manifests(&self, _channel: Channel, bundle: &BundleName) -> Result<Vec<String>, String> {
        Err(format!("no manifests of {}", bundle.name))
    }
}

/// A bundle in a channel of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleName {
    /// Its package.
    pub package: String,
    /// The channel.
    pub channel: String,
    /// Name of its ClusterServiceVersion.
    pub name: String,
}

/// What a reader has read.
#[derive(Debug)]
pub struct Listed {
    /// Packages and bundles.
    pub snapshot: CatalogSnapshot,
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
    bounds: Bounds,
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
    /// Whether there was no room for it.
    refused: bool,
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
                bounds: Bounds {
                    namespace: NAMESPACE_BYTES,
                    total: TOTAL_BYTES,
                },
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

    /// Whether there is a connection to the catalog's server.
    pub fn is_connected(&self, key: &NamespacedName) -> bool {
        self.shared.connections.link(key).is_some()
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

    /// Manifests of a bundle that its catalog carries itself: those with the hash that was read.
    ///
    /// # Errors
    /// There is no connection, the server does not answer, or it has others by now; then the catalog is read again.
    pub async fn manifests(
        &self,
        key: &NamespacedName,
        bundle: &BundleName,
        digest: &ManifestDigest,
    ) -> Result<Vec<String>, String> {
        let name = &bundle.name;
        let Some(link) = self.shared.connections.link(key) else {
            return Err(format!("catalog {key}, which carries {name}, is not connected"));
        };
        let asked = self.shared.reader.manifests(link.channel.clone(), bundle);
        let objects = match timeout(MANIFESTS_DEADLINE, asked).await {
            Ok(objects) => objects.map_err(|error| format!("catalog {key} does not give {name}: {error}"))?,
            Err(_) => {
                let limit = MANIFESTS_DEADLINE.as_secs();
                return Err(format!("catalog {key} does not give {name} within {limit} s"));
            }
        };
        if manifest_digest(&objects) == *digest {
            return Ok(objects);
        }
        self.shared.read_changed(key, &link);
        Err(format!(
            "catalog {key} has other manifests of {name} now than when it was read; it is read again"
        ))
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

    /// What the contents in use take in memory, in bytes.
    pub(crate) fn bytes(&self) -> Vec<(NamespacedName, usize)> {
        let entries = self.shared.lock();
        let held = entries.iter().filter(|(_, entry)| entry.content.is_some());
        held.map(|(source, entry)| (source.clone(), entry.bytes))
            .collect()
    }

    /// What all of them take, in bytes.
    pub fn held(&self) -> usize {
        self.bytes()
            .iter()
            .fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// The connection whose content is known, for those who wait for a read.
    pub fn read_generation(&self, key: &NamespacedName) -> Option<u64> {
        self.shared.lock().get(key).and_then(|entry| entry.read)
    }

    /// Catalogs in use whose last content was not kept, as there was no room for it.
    pub(crate) fn refused(&self) -> Vec<NamespacedName> {
        let entries = self.shared.lock();
        let is_refused = |entry: &Entry| entry.failure.as_ref().is_some_and(|failure| failure.refused);
        let refused = entries.iter().filter(|(_, entry)| is_refused(entry));
        refused.map(|(source, _)| source.clone()).collect()
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

    /// Reads a catalog again that has turned out to be another one by now, unless that was just done.
    fn read_changed(self: &Arc<Self>, key: &NamespacedName, link: &LiveConnection) {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(key) else { return };
        let is_old = entry
            .read_at
            .is_some_and(|at| at.elapsed() >= READ_AGAIN_WHEN_CHANGED);
        if entry.read == Some(link.generation) && is_old {
            entry.read = None;
            self.refresh(key, entry, link);
        }
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

#[cfg(test)]
mod tests;

#[cfg(test)]
impl Snapshots {
    /// With other bounds for what the catalogs of a namespace, and all of them, take.
    #[must_use]
    pub fn with_bounds(mut self, namespace: usize, total: usize) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.bounds = Bounds { namespace, total };
        }
        self
    }

    /// Forgets the content of a catalog, as nothing but a mistake in here would.
    pub fn lose_content(&self, key: &NamespacedName) {
        if let Some(entry) = self.shared.lock().get_mut(key) {
            entry.content = None;
        }
    }
}
