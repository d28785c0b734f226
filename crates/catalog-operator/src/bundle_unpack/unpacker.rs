//! The state of every requested bundle.
//!
//! [`Unpacker::request`] returns the state at once, and starts the task of an unpack if there is none. Unless the
//! bundle is available, it subscribes the resolution, InstallPlan or preview that asked. Subscribers are triggered when
//! the state changes, and ask again. Each has its own retry interval; the longest of their deadlines counts for all. An
//! available bundle is forgotten after ten minutes without requests.
//!
//! A state belongs to a bundle, its image and its catalog, as one catalog's failure or credentials do not apply to
//! another. Permits limit the attempts of this process that run at once, not Jobs; they are shared out by the namespace
//! of the catalog. Failures of a catalog are forgotten when the spec of its CatalogSource changes
//! ([`Unpacker::forget_failures`]).

mod unpack;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use olm_fbc::entry::ManifestDigest;
use olm_runtime::fair_permits::FairPermits;
use olm_runtime::sync::Mutex;
use olm_runtime::{NamespacedName, Timestamp, clock};
use tokio::time::Instant;

use self::unpack::Unpack;
use super::bundle_store::{BundleStore, StoredBundle};
use super::content::UnpackedBundle;
use super::error::{UnpackClass, UnpackError};
use super::job::UnpackJobs;
use super::retry;
use crate::metrics::Figures;

/// Time without requests after which an available bundle is forgotten. The next request checks the catalog's
/// access again. It is longer than the pause after the failure of another bundle of the same plan, so that this one
/// is not unpacked again with each of its tries.
const KEEP_READY: Duration = Duration::from_secs(600);
/// Time for which a failure is cached after its retry time.
const KEEP_FAILED: Duration = Duration::from_secs(60);
/// Source of bundles.
#[async_trait]
pub trait BundleSource: Send + Sync + 'static {
    /// Fetches and reads a bundle with the credentials of a catalog.
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError>;

    /// Fetches and reads a bundle whose manifests are in the catalog itself.
    async fn fetch_inline(
        &self,
        _bundle: &InlineBundle,
        catalog: &NamespacedName,
    ) -> Result<UnpackedBundle, UnpackError> {
        let cause = format!("catalog {catalog} contains no manifests");
        Err(UnpackError::new(UnpackClass::NotFound, cause))
    }
}

/// A bundle without an image: the location of its manifests in the catalog, and their expected hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InlineBundle {
    /// Its package.
    pub package: String,
    /// The channel it was found in.
    pub channel: String,
    /// Name of its ClusterServiceVersion.
    pub name: String,
    /// Hash of the manifests that were resolved.
    pub digest: ManifestDigest,
}

/// Subscriber to trigger when a state changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subscriber {
    /// Resolution of a namespace.
    Namespace(String),
    /// An InstallPlan.
    InstallPlan(NamespacedName),
}

/// Request for a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackRequest {
    /// The image, by tag or digest; for a bundle without one, a replacement text.
    pub image: String,
    /// Set for a bundle without an image.
    pub inline: Option<InlineBundle>,
    /// Name of the ClusterServiceVersion in it, according to the catalog.
    pub bundle: String,
    /// The CatalogSource whose credentials are used.
    pub catalog: NamespacedName,
    /// The OperatorGroup's deadline; zero means none, `None` the configured one. The longest of all
    /// subscribers counts.
    pub deadline: Option<Duration>,
    /// The OperatorGroup's minimum time between a failure and the next try. It only affects this subscriber.
    pub retry_interval: Option<Duration>,
    /// Subscriber to trigger when the state changes.
    pub subscriber: Subscriber,
}

/// State of a bundle.
#[derive(Debug, Clone)]
pub enum UnpackState {
    /// Being unpacked; the subscriber is triggered when this changes.
    Unpacking {
        /// Start of the unpack.
        since: Timestamp,
        /// Error of the last attempt; the unpack continues nevertheless.
        trouble: Option<UnpackError>,
    },
    /// Available on disk. If it cannot be read, a later request unpacks it again.
    Ready(StoredBundle),
    /// Not available now.
    Failed {
        /// Reason of the failure.
        error: UnpackError,
        /// Time until another request of this subscriber starts the next try.
        retry_in: Duration,
    },
}

/// Limits of all unpacks together.
#[derive(Debug, Clone)]
pub(crate) struct UnpackerConfig {
    /// Maximum number of concurrent attempts of this process.
    pub parallel: usize,
    /// Deadline of an unpack if the OperatorGroup sets none; zero means none.
    pub deadline: Duration,
    /// Namespace of the global catalogs, to which the others leave one attempt.
    pub global_namespace: String,
}

type Wake = Arc<dyn Fn(&Subscriber) + Send + Sync>;

/// Fetches bundles for its subscribers; clones share the state.
#[derive(Clone)]
pub struct Unpacker {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn BundleSource>,
    store: Arc<BundleStore>,
    /// Without it, no Jobs are used.
    jobs: Option<UnpackJobs>,
    config: UnpackerConfig,
    figures: Figures,
    /// Permits by the namespace of the catalog. By that of a subscriber, the slow registry of one tenant would delay
    /// bundles of global catalogs for all.
    permits: FairPermits,
    wake: Wake,
    entries: Mutex<BTreeMap<Key, Entry>>,
}

/// The catalog is part of the key, because one catalog's failure or credentials do not apply to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    image: String,
    inline: Option<InlineBundle>,
    bundle: String,
    catalog: NamespacedName,
}

impl Key {
    fn of(request: &UnpackRequest) -> Self {
        Self {
            image: request.image.clone(),
            inline: request.inline.clone(),
            bundle: request.bundle.clone(),
            catalog: request.catalog.clone(),
        }
    }
}

struct Entry {
    state: EntryState,
    subscribers: BTreeMap<Subscriber, SubscriberRequest>,
    last_used: Instant,
}

/// Last request of a subscriber; its retry interval does not affect the others.
#[derive(Debug, Clone, Copy)]
struct SubscriberRequest {
    /// Zero means none.
    deadline: Duration,
    retry_interval: Option<Duration>,
    at: Instant,
}

impl SubscriberRequest {
    /// Returns the time when this subscriber may try again after a failure.
    fn retry_at(&self, failure: &Failure) -> Instant {
        failure.at + retry::pause(failure.error.class, self.retry_interval)
    }
}

#[derive(Debug, Clone)]
struct Failure {
    error: UnpackError,
    at: Instant,
}

enum EntryState {
    Running {
        since: Timestamp,
        trouble: Option<UnpackError>,
        /// Last failure. Subscribers whose retry time has not come see it until this attempt ends.
        before: Option<Failure>,
    },
    Ready(StoredBundle),
    Failed(Failure),
}

impl Unpacker {
    /// Creates an unpacker that fetches from `source`, stores in `store`, counts in `figures` and calls `wake`
    /// whenever a returned state has changed. `wake` must not block. `jobs` are for images that only a node can pull.
    pub(crate) fn new(
        source: Arc<dyn BundleSource>,
        store: Arc<BundleStore>,
        jobs: Option<UnpackJobs>,
        config: UnpackerConfig,
        figures: Figures,
        wake: impl Fn(&Subscriber) + Send + Sync + 'static,
    ) -> Self {
        let permits = FairPermits::new(config.parallel).with_preferred(&config.global_namespace);
        Self {
            shared: Arc::new(Shared {
                source,
                store,
                jobs,
                config,
                figures,
                permits,
                wake: Arc::new(wake),
                entries: Mutex::default(),
            }),
        }
    }

    /// Returns the state of the bundle; starts an unpack if there is none. Does not wait. Must be called
    /// within a tokio runtime.
    pub fn request(&self, request: &UnpackRequest) -> UnpackState {
        let key = Key::of(request);
        let now = Instant::now();
        let asked = SubscriberRequest {
            deadline: request.deadline.unwrap_or(self.shared.config.deadline),
            retry_interval: request.retry_interval,
            at: now,
        };
        let mut entries = self.shared.entries.lock();
        entries.retain(|_, entry| !entry.is_outdated(now));
        if let Some(bundle) = entries
            .iter_mut()
            .find_map(|(known, entry)| entry.available(known, &key, now))
        {
            return UnpackState::Ready(bundle);
        }
        let (mut subscribers, mut before) = (BTreeMap::new(), None);
        if let Some(entry) = entries.get_mut(&key) {
            if let Some(state) = entry.answer(request, asked) {
                return state;
            }
            subscribers = std::mem::take(&mut entry.subscribers);
            if let EntryState::Failed(failure) = &entry.state {
                before = Some(failure.clone());
            }
        }
        subscribers.insert(request.subscriber.clone(), asked);
        let since = clock::now();
        let state = EntryState::Running {
            since,
            trouble: None,
            before,
        };
        entries.insert(key.clone(), Entry::new(state, subscribers));
        drop(entries);
        tokio::spawn(Unpack::new(Arc::clone(&self.shared), key).run());
        UnpackState::Unpacking { since, trouble: None }
    }

    /// Forgets the failures of a catalog's bundles, because its CatalogSource was created or its spec has changed.
    /// Subscribers are triggered.
    pub fn forget_failures(&self, catalog: &NamespacedName) {
        let mut subscribers = BTreeSet::new();
        self.shared.entries.lock().retain(|key, entry| {
            let forget = key.catalog == *catalog && matches!(entry.state, EntryState::Failed(_));
            if forget {
                subscribers.extend(std::mem::take(&mut entry.subscribers).into_keys());
            }
            !forget
        });
        self.shared.wake_all(&subscribers);
    }
}

impl Entry {
    fn new(state: EntryState, subscribers: BTreeMap<Subscriber, SubscriberRequest>) -> Self {
        Self {
            state,
            subscribers,
            last_used: Instant::now(),
        }
    }

    /// True for an available bundle without recent requests, and for a failure that no subscriber waits out any more.
    fn is_outdated(&self, now: Instant) -> bool {
        match &self.state {
            EntryState::Running { .. } => false,
            EntryState::Ready(_) => now.saturating_duration_since(self.last_used) >= KEEP_READY,
            EntryState::Failed(failure) => {
                let forget_at = failure.at + retry::pause(failure.error.class, None) + KEEP_FAILED;
                let mut subscribers = self.subscribers.values();
                forget_at <= now && subscribers.all(|asked| asked.retry_at(failure) <= now)
            }
        }
    }

    /// Returns the bundle of this entry, known as `known`, if it is available and the requested one. A plan
    /// requests by digest what resolution has requested by tag.
    fn available(&mut self, known: &Key, key: &Key, now: Instant) -> Option<StoredBundle> {
        let EntryState::Ready(bundle) = &self.state else {
            return None;
        };
        let is_same_image = [known.image.as_str(), bundle.image()].contains(&key.image.as_str());
        let is_same = is_same_image
            && (&known.inline, &known.bundle, &known.catalog) == (&key.inline, &key.bundle, &key.catalog);
        if !is_same || !bundle.touch() {
            return None;
        }
        self.last_used = now;
        Some(bundle.clone())
    }

    /// Returns the response to a request for a bundle that is not available, and subscribes it if there is
    /// something to wait for. `None` when it is time to try again.
    fn answer(&mut self, request: &UnpackRequest, asked: SubscriberRequest) -> Option<UnpackState> {
        let is_due = |failure: &Failure| asked.retry_at(failure) <= asked.at;
        let failed = |failure: &Failure| UnpackState::Failed {
            error: failure.error.clone(),
            retry_in: asked.retry_at(failure).saturating_duration_since(asked.at),
        };
        let answer = match &self.state {
            // Its file was removed.
            EntryState::Ready(_) => return None,
            EntryState::Failed(failure) if is_due(failure) => return None,
            EntryState::Failed(failure) => failed(failure),
            EntryState::Running {
                before: Some(failure),
                ..
            } if !is_due(failure) => failed(failure),
            EntryState::Running { since, trouble, .. } => UnpackState::Unpacking {
                since: *since,
                trouble: trouble.clone(),
            },
        };
        self.subscribers.insert(request.subscriber.clone(), asked);
        Some(answer)
    }
}

impl Shared {
    fn wake_all(&self, subscribers: &BTreeSet<Subscriber>) {
        for subscriber in subscribers {
            (self.wake)(subscriber);
        }
    }
}

#[cfg(test)]
mod tests;
