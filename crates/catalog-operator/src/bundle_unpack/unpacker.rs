//! The state of every requested bundle.

pub(crate) mod eviction;
mod unpack;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use olm_fbc::entry::ManifestDigest;
use olm_runtime::{NamespacedName, Timestamp, clock};
use tokio::sync::Notify;
use tokio::time::Instant;

use self::unpack::Unpack;
use super::content::UnpackedBundle;
use super::error::{UnpackClass, UnpackError};
use super::job::UnpackJobs;
use super::packed::PackedBundle;
use super::retry;
use crate::fair_permits::{FairPermits, Place};
use crate::metrics::Figures;

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
pub enum Waiter {
    /// Resolution of a namespace.
    Namespace(String),
    /// An InstallPlan.
    InstallPlan(NamespacedName),
}

impl Waiter {
    fn namespace(&self) -> &str {
        match self {
            Self::Namespace(namespace) => namespace,
            Self::InstallPlan(key) => &key.namespace,
        }
    }
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
    pub waiter: Waiter,
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
    /// Available, as text.
    Ready(Arc<PackedBundle>),
    /// Not available now. The subscriber is triggered when it is time for another request.
    Failed {
        /// Reason of the failure.
        error: UnpackError,
    },
}

/// State of a bundle, read without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// No request for it.
    Nothing,
    /// Available, or being unpacked for the first time.
    Asked,
    /// The last unpack failed, and the next one may be running.
    Failing,
}

/// Limits of all unpacks together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackerConfig {
    /// Maximum number of concurrent unpacks.
    pub parallel: usize,
    /// Deadline of an unpack if the OperatorGroup sets none; zero means none.
    pub deadline: Duration,
}

impl Default for UnpackerConfig {
    fn default() -> Self {
        Self {
            parallel: 4,
            deadline: Duration::from_secs(600),
        }
    }
}

type Wake = Arc<dyn Fn(&Waiter) + Send + Sync>;

/// Fetches bundles for its subscribers; clones share the state.
#[derive(Clone)]
pub struct Unpacker {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn BundleSource>,
    /// Without it, no Jobs are used.
    jobs: Option<UnpackJobs>,
    config: UnpackerConfig,
    figures: Figures,
    permits: FairPermits,
    /// Permits for reading results of Jobs, because a tree needs ten times its text.
    readers: FairPermits,
    /// Permits for slow attempts, see [`unpack`].
    slow: FairPermits,
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
    waiters: BTreeMap<Waiter, WaiterRequest>,
    /// Slot of the next attempt's permit.
    place: Option<Place>,
    /// Slot of another wait, such as for its Job.
    job_place: Option<Place>,
    last_used: Instant,
    /// Namespace of the last request.
    namespace: String,
    /// Subscribers that were notified that the bundle is available and have not read it.
    told: BTreeMap<Waiter, Notified>,
    /// Subscribers that have read it, with the time.
    readers: BTreeMap<Waiter, Instant>,
    /// Wakes the task of a failure when another subscriber joins.
    joined: Arc<Notify>,
}

/// Time of a request for a bundle, and time of the notification that it is available.
#[derive(Debug, Clone, Copy)]
struct Notified {
    asked: Instant,
    at: Instant,
}

/// Last request of a subscriber; its settings do not affect the others.
#[derive(Debug, Clone, Copy)]
struct WaiterRequest {
    /// Zero means none.
    deadline: Duration,
    retry_interval: Option<Duration>,
    at: Instant,
    /// Time of the reminder that asked it to confirm its request.
    reminded: Option<Instant>,
}

impl WaiterRequest {
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
    Ready(Arc<PackedBundle>),
    Failed(Failure),
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

impl Unpacker {
    /// Creates an unpacker that fetches from `source`, counts in `figures` and calls `wake` whenever a
    /// returned state has changed. `wake` must not block.
    pub(crate) fn new(
        source: Arc<dyn BundleSource>,
        config: UnpackerConfig,
        figures: Figures,
        wake: impl Fn(&Waiter) + Send + Sync + 'static,
    ) -> Self {
        let permits = FairPermits::new(config.parallel);
        Self {
            shared: Arc::new(Shared {
                source,
                jobs: None,
                config,
                figures,
                permits,
                readers: FairPermits::new(unpack::READERS),
                slow: FairPermits::with_share(unpack::SLOW, unpack::SLOW_OF_A_NAMESPACE),
                wake: Arc::new(wake),
                entries: Mutex::default(),
            }),
        }
    }

    /// Enables Jobs for images that only a node can pull. Must be called before the unpacker is cloned.
    #[must_use]
    pub(crate) fn with_jobs(mut self, jobs: UnpackJobs) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.jobs = Some(jobs);
        }
        self
    }

    /// Returns the state of the bundle; starts an unpack if there is none. Does not wait. Must be called
    /// within a tokio runtime.
    pub fn request(&self, request: &UnpackRequest) -> UnpackState {
        let key = Key::of(request);
        let now = Instant::now();
        let asked = WaiterRequest {
            deadline: request.deadline.unwrap_or(self.shared.config.deadline),
            retry_interval: request.retry_interval,
            at: now,
            reminded: None,
        };
        let mut entries = self.shared.lock();
        let (mut waiters, mut before) = (BTreeMap::new(), None);
        if let Some(entry) = entries.get_mut(&key) {
            if let Some(state) = entry.answer(request, asked) {
                if matches!(state, UnpackState::Ready(_)) {
                    // Bundles that were needed until now may be evicted.
                    eviction::shrink(&mut entries, now);
                }
                return state;
            }
            waiters = std::mem::take(&mut entry.waiters);
            if let EntryState::Failed(failure) = &entry.state {
                before = Some(failure.clone());
            }
            // The task of the failure has nothing to do any more.
            entry.joined.notify_one();
        }
        waiters.insert(request.waiter.clone(), asked);
        let since = clock::now();
        let state = EntryState::Running {
            since,
            trouble: None,
            before,
        };
        let namespace = request.waiter.namespace().to_owned();
        entries.insert(key.clone(), Entry::new(state, waiters, namespace));
        drop(entries);
        tokio::spawn(Unpack::new(Arc::clone(&self.shared), key).run());
        UnpackState::Unpacking { since, trouble: None }
    }

    /// Returns the state of a bundle without requesting it.
    pub(crate) fn known(&self, request: &UnpackRequest) -> Known {
        let entries = self.shared.lock();
        match entries.get(&Key::of(request)).map(|entry| &entry.state) {
            None => Known::Nothing,
            Some(EntryState::Failed(_) | EntryState::Running { before: Some(_), .. }) => Known::Failing,
            Some(EntryState::Running { .. } | EntryState::Ready(_)) => Known::Asked,
        }
    }

    /// Forgets the failures of a catalog's bundles, because its image names, secrets or rights have changed.
    /// Subscribers are triggered.
    pub fn forget_failures(&self, catalog: &NamespacedName) {
        let mut waiters = BTreeSet::new();
        self.shared.lock().retain(|key, entry| {
            let forget = key.catalog == *catalog && matches!(entry.state, EntryState::Failed(_));
            if forget {
                waiters.extend(std::mem::take(&mut entry.waiters).into_keys());
                entry.joined.notify_one();
            }
            !forget
        });
        self.shared.tell(&waiters);
    }

    /// Number of known bundles, in any state.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.shared.lock().len()
    }
}

impl Entry {
    fn new(state: EntryState, waiters: BTreeMap<Waiter, WaiterRequest>, namespace: String) -> Self {
        Self {
            state,
            waiters,
            place: None,
            job_place: None,
            last_used: Instant::now(),
            namespace,
            told: BTreeMap::new(),
            readers: BTreeMap::new(),
            joined: Arc::default(),
        }
    }

    /// Returns the response to a request and subscribes it if there is something to wait for. `None` when it
    /// is time to try again.
    fn answer(&mut self, request: &UnpackRequest, asked: WaiterRequest) -> Option<UnpackState> {
        self.last_used = asked.at;
        request.waiter.namespace().clone_into(&mut self.namespace);
        let is_due = |failure: &Failure| asked.retry_at(failure) <= asked.at;
        let failed = |failure: &Failure| UnpackState::Failed {
            error: failure.error.clone(),
        };
        let answer = match &self.state {
            EntryState::Ready(bundle) => {
                self.told.remove(&request.waiter);
                self.readers.insert(request.waiter.clone(), asked.at);
                return Some(UnpackState::Ready(Arc::clone(bundle)));
            }
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
        for place in self.place.iter().chain(&self.job_place) {
            place.join(request.waiter.namespace());
        }
        self.waiters.insert(request.waiter.clone(), asked);
        self.joined.notify_one();
        Some(answer)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        // Every critical section keeps the map consistent, so a panic elsewhere cannot corrupt it.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, waiters: &BTreeSet<Waiter>) {
        for waiter in waiters {
            (self.wake)(waiter);
        }
    }
}

#[cfg(test)]
mod tests;
