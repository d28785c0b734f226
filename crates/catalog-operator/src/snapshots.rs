//! Contents of catalogs for resolution: immutable, shared, read on demand and dropped when unused.
//!
//! # Expected flow
//! Resolution calls [`Snapshots::get`] for each catalog it uses. The first call, and the first after a new
//! connection, starts one read of the whole catalog in the background. After the read, the namespaces that
//! use the catalog are triggered. Unchanged content keeps its identity, so that nothing is resolved again.
//!
//! # Guarantees
//! - One read of a catalog at a time, at most [`PARALLEL_READS`] over all. Namespaces take turns, and
//!   one namespace's catalogs never take all reads ([`FairPermits`]).
//! - While a catalog is being read again, or cannot be reached any more, its last good content stands, for as long as a
//!   namespace uses it. A catalog no namespace uses is forgotten.
//! - The contents of one namespace's catalogs take no more than [`NAMESPACE_BYTES`] together, and those of all namespaces but
//!   the global one no more than [`TOTAL_BYTES`]: tenants cannot take the memory of the catalogs that all use. One that does
//!   not fit beside the others is not kept, and says so; what was kept before stands.
//! - A reconcile sees one whole read of each catalog: a content never changes, and the next one has another identity.
//! - Manifests that a catalog carries are not kept: they are fetched when they are needed, and must be those that were read.
//! - A server that is not a pod of ours may change what it serves while the connection lives: it is read again after
//!   [`READ_AGAIN`].

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use olm_fbc::entry::CatalogSnapshot;
use olm_registry::snapshot::manifest_digest;
use olm_resolver::Snapshot;
use olm_runtime::NamespacedName;
use olm_runtime::fair_permits::FairPermits;
use olm_runtime::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;

use self::read::Read;
use crate::bundle_unpack::InlineBundle;
use crate::catalog_source::connection::{Connections, LiveConnection};

/// Maximum number of concurrent reads.
pub(crate) const PARALLEL_READS: usize = 4;
/// Age after which the content of a server that may change it is read again.
pub(crate) const READ_AGAIN: Duration = Duration::from_secs(30 * 60);
/// Approximate limit of all catalogs in one namespace, in bytes.
pub(crate) const NAMESPACE_BYTES: usize = 512 << 20;
/// Approximate limit of all namespaces but the global one together, in bytes.
pub(crate) const TOTAL_BYTES: usize = 1 << 30;
/// Time limit for the manifests of one bundle.
pub(crate) const MANIFESTS_DEADLINE: Duration = Duration::from_secs(60);
/// Minimum age of content that is read again because its manifests have changed.
pub(crate) const READ_AGAIN_WHEN_CHANGED: Duration = Duration::from_secs(60);
/// Time after which a catalog that did not fit is read again, because others may have become smaller.
pub(crate) const READ_AGAIN_WHEN_FULL: Duration = Duration::from_secs(5 * 60);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Reads a whole catalog from its registry server.
#[async_trait]
pub trait CatalogReader: Send + Sync + 'static {
    /// Reads everything that resolution needs of the catalog behind `channel`, or returns an error. Also returns
    /// the approximate bytes that it takes in memory. Has a deadline of its own.
    async fn read(&self, channel: Channel) -> Result<(CatalogSnapshot, usize), String>;

    /// Reads the manifests of a bundle that are in the catalog itself.
    async fn manifests(&self, _channel: Channel, bundle: &InlineBundle) -> Result<Vec<String>, String> {
        Err(format!("no manifests of {}", bundle.name))
    }
}

/// Content of a catalog at one moment.
#[derive(Debug, Clone)]
pub struct Content {
    id: u64,
    /// The bundles.
    pub snapshot: Arc<Snapshot>,
}

impl PartialEq for Content {
    /// True for the same content of the same catalog; bundles are not compared.
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// State of a catalog's content.
#[derive(Debug, Clone)]
pub enum ContentState {
    /// The content was read, perhaps over the previous connection while the current one is being read.
    Known(Content),
    /// The first read has been running since this time.
    Loading(Instant),
    /// The read failed.
    Failed(String),
    /// There is no connection and no earlier content.
    Unreachable,
}

/// Limits of contents in memory, in bytes.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Limit of the catalogs in one namespace.
    namespace: usize,
    /// Limit of all catalogs outside of the global namespace.
    total: usize,
}

type Wake = Arc<dyn Fn(&str) + Send + Sync>;

/// The contents of all catalogs in use; clones share the state.
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
    global_namespace: String,
    ids: AtomicU64,
    wake: Wake,
    /// Number of reads of each catalog.
    counts: Mutex<BTreeMap<NamespacedName, u64>>,
}

#[derive(Default)]
struct Entry {
    users: BTreeSet<String>,
    /// Generation of the connection whose content need not be read (again).
    read: Option<u64>,
    content: Option<Content>,
    /// Size of the content in memory, in bytes.
    bytes: usize,
    /// Time of the read.
    read_at: Option<Instant>,
    loading: Option<Loading>,
    failure: Option<Failure>,
    /// Reads the catalog again when its content is old; dropped with it.
    again: Option<JoinSet<()>>,
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
    /// True when the content did not fit.
    refused: bool,
}

impl Snapshots {
    /// Creates an empty set; `wake` is called with each namespace that uses a catalog when its state has
    /// changed. Catalogs of `global_namespace` do not count towards the limit of all.
    pub fn new(
        connections: Connections,
        reader: Arc<dyn CatalogReader>,
        global_namespace: &str,
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
                global_namespace: global_namespace.to_owned(),
                ids: AtomicU64::new(1),
                wake: Arc::new(wake),
                counts: Mutex::default(),
            }),
        }
    }

    /// Returns the state of a catalog's content for `namespace`, which is triggered when that changes. Starts
    /// a read if it was not read over the current connection. Must be called within a tokio runtime; does not
    /// wait.
    pub fn get(&self, key: &NamespacedName, namespace: &str) -> ContentState {
        let link = self.shared.connections.link(key);
        let mut entries = self.shared.entries.lock();
        let entry = entries.entry(key.clone()).or_default();
        entry.users.insert(namespace.to_owned());
        if let Some(link) = &link {
            self.shared.refresh(key, entry, link);
        }
        match (&entry.content, &entry.failure, entry.loading) {
            (Some(content), _, _) => ContentState::Known(content.clone()),
            (None, _, Some(loading)) => ContentState::Loading(loading.since),
            (None, Some(failure), None) => ContentState::Failed(failure.text.clone()),
            (None, None, None) => ContentState::Unreachable,
        }
    }

    /// True when there is a connection to the catalog's server.
    pub fn is_connected(&self, key: &NamespacedName) -> bool {
        self.shared.connections.link(key).is_some()
    }

    /// Returns the error of the last read while older content is kept.
    pub fn trouble(&self, key: &NamespacedName) -> Option<String> {
        let entries = self.shared.entries.lock();
        let entry = entries.get(key).filter(|entry| entry.content.is_some())?;
        entry.failure.as_ref().map(|failure| failure.text.clone())
    }

    /// Returns the manifests of a bundle that are in its catalog, with the hash that was read.
    ///
    /// # Errors
    /// There is no connection, the server does not respond, or its manifests have changed; then the catalog
    /// is read again.
    pub async fn manifests(
        &self,
        key: &NamespacedName,
        bundle: &InlineBundle,
    ) -> Result<Vec<String>, String> {
        let name = &bundle.name;
        let Some(link) = self.shared.connections.link(key) else {
            return Err(format!("cannot read {name}: catalog {key} is not connected"));
        };
        let asked = self.shared.reader.manifests(link.channel.clone(), bundle);
        let objects = match timeout(MANIFESTS_DEADLINE, asked).await {
            Ok(objects) => {
                objects.map_err(|error| format!("cannot read {name} from catalog {key}: {error}"))?
            }
            Err(_) => {
                let limit = MANIFESTS_DEADLINE.as_secs();
                return Err(format!(
                    "cannot read {name} from catalog {key}: timed out after {limit} s"
                ));
            }
        };
        if manifest_digest(&objects) == bundle.digest {
            return Ok(objects);
        }
        let is_old = |at: Instant| at.elapsed() >= READ_AGAIN_WHEN_CHANGED;
        self.shared.read_again(key, &link, |entry| {
            entry.read == Some(link.generation) && entry.read_at.is_some_and(is_old)
        });
        Err(format!(
            "manifests of {name} in catalog {key} have changed since it was read; the catalog is being read again"
        ))
    }

    /// Sets the catalogs that a namespace still uses; unused ones are forgotten.
    pub fn retain(&self, namespace: &str, used: &BTreeSet<NamespacedName>) {
        self.shared.entries.lock().retain(|key, entry| {
            if !used.contains(key) {
                entry.users.remove(namespace);
            }
            !entry.users.is_empty()
        });
    }

    /// Forgets a deleted catalog, so that a recreated one of its name is not mistaken for it.
    pub fn forget(&self, key: &NamespacedName) {
        self.shared.entries.lock().remove(key);
    }

    /// Forgets a catalog whose object was deleted, including the count of its reads.
    pub fn forget_source(&self, key: &NamespacedName) {
        self.forget(key);
        self.shared.counts.lock().remove(key);
    }

    /// Returns the number of reads of each catalog for which `exists` returns true.
    pub(crate) fn counts(&self, exists: impl Fn(&NamespacedName) -> bool) -> Vec<(NamespacedName, u64)> {
        let mut counts = self.shared.counts.lock();
        counts.retain(|source, _| exists(source));
        counts
            .iter()
            .map(|(source, count)| (source.clone(), *count))
            .collect()
    }

    /// Returns the memory size of the contents in use, in bytes.
    pub(crate) fn bytes(&self) -> Vec<(NamespacedName, usize)> {
        self.each(|entry| entry.content.as_ref().map(|_| entry.bytes))
    }

    /// Returns the total memory size, in bytes.
    pub fn total_bytes(&self) -> usize {
        self.bytes()
            .iter()
            .fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Generation of the connection whose content is known, for callers that wait for a read.
    pub fn read_generation(&self, key: &NamespacedName) -> Option<u64> {
        self.shared.entries.lock().get(key).and_then(|entry| entry.read)
    }

    /// Catalogs in use whose last content was not kept because it did not fit, each with 1.
    pub(crate) fn refused(&self) -> Vec<(NamespacedName, i64)> {
        self.each(|entry| entry.failure.as_ref()?.refused.then_some(1))
    }

    /// What `read` returns of the catalogs in use.
    fn each<T>(&self, read: impl Fn(&Entry) -> Option<T>) -> Vec<(NamespacedName, T)> {
        let entries = self.shared.entries.lock();
        let entries = entries.iter();
        entries
            .filter_map(|(source, entry)| Some((source.clone(), read(entry)?)))
            .collect()
    }
}

impl Shared {
    fn wake_users(&self, users: &BTreeSet<String>) {
        for namespace in users {
            (self.wake)(namespace);
        }
    }

    /// Starts a read of a catalog, unless it was read over this connection, is being read, or has just
    /// failed.
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
        *self.counts.lock().entry(key.clone()).or_default() += 1;
        let read = Read {
            shared: Arc::clone(self),
            key: key.clone(),
            generation: link.generation,
            may_change: link.may_change,
        };
        tokio::spawn(read.run(link.channel.clone()));
    }

    /// Reads a catalog again that is in use and due.
    fn read_again(
        self: &Arc<Self>,
        key: &NamespacedName,
        link: &LiveConnection,
        is_due: impl FnOnce(&Entry) -> bool,
    ) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(key).filter(|entry| is_due(entry)) {
            entry.read = None;
            self.refresh(key, entry, link);
        }
    }
}

#[cfg(test)]
mod tests;
