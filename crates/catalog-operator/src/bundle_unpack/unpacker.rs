//! The state of every bundle somebody asked for.

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

/// Where bundles come from.
#[async_trait]
pub trait BundleSource: Send + Sync + 'static {
    /// Fetches and reads a bundle with the credentials of a catalog.
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError>;

    /// Fetches and reads a bundle whose manifests the catalog carries itself.
    async fn fetch_inline(
        &self,
        _bundle: &InlineBundle,
        catalog: &NamespacedName,
    ) -> Result<UnpackedBundle, UnpackError> {
        let cause = format!("catalog {catalog} carries no manifests");
        Err(UnpackError::new(UnpackClass::NotFound, cause))
    }
}

/// A bundle without an image: where its manifests are in the catalog, and what they must be.
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

/// Who is to be told when a state changes.
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

/// A bundle somebody needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackRequest {
    /// The image, by tag or digest; of a bundle without one, words that stand for it.
    pub image: String,
    /// Set for a bundle without an image.
    pub inline: Option<InlineBundle>,
    /// Name of the ClusterServiceVersion the catalog says is in it.
    pub bundle: String,
    /// The CatalogSource whose credentials are used.
    pub catalog: NamespacedName,
    /// The OperatorGroup's deadline; zero means none, absent means the configured one. Of several that wait the longest counts.
    pub deadline: Option<Duration>,
    /// The OperatorGroup's least time to another try after a failure. It counts for this waiter alone.
    pub retry_interval: Option<Duration>,
    /// Who is told when the answer changes.
    pub waiter: Waiter,
}

/// Where a bundle stands.
#[derive(Debug, Clone)]
pub enum UnpackState {
    /// On its way; the waiter is told when this changes.
    Unpacking {
        /// When the unpack began.
        since: Timestamp,
        /// Why the last attempt did not go through; the unpack goes on nevertheless.
        trouble: Option<UnpackError>,
    },
    /// There it is, as text.
    Ready(Arc<PackedBundle>),
    /// It cannot be had now. When it is time to ask for it anew the waiter is told.
    Failed {
        /// Why.
        error: UnpackError,
    },
}

/// What is known of a bundle without asking for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nobody asks for it.
    Nothing,
    /// It is there, or on its way for the first time.
    Asked,
    /// It could not be had, and may be on its way once more.
    Failing,
}

/// Bounds of all unpacks together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackerConfig {
    /// Unpacks that run at once.
    pub parallel: usize,
    /// Deadline of an unpack when the OperatorGroup names none; zero means none.
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

/// Fetches bundles for whoever asks; a clone is another handle to the same one.
#[derive(Clone)]
pub struct Unpacker {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn BundleSource>,
    /// Without, nothing is left to Jobs.
    jobs: Option<UnpackJobs>,
    config: UnpackerConfig,
    figures: Figures,
    permits: FairPermits,
    /// For reading what Jobs brought: a tree takes ten times its text.
    readers: FairPermits,
    /// For attempts that take long, see [`unpack`].
    slow: FairPermits,
    wake: Wake,
    entries: Mutex<BTreeMap<Key, Entry>>,
}

/// One catalog's failure or credentials say nothing about another catalog, hence the catalog is part of the key.
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
    /// Where the next attempt waits for its permit.
    place: Option<Place>,
    /// Where it waits for another turn, as for that of its Job.
    job_place: Option<Place>,
    last_used: Instant,
    /// Namespace of whoever asked last.
    namespace: String,
    /// Those who were told that the bundle is there and have not come for it.
    told: BTreeMap<Waiter, Notified>,
    /// Those who came for it, and when they last did.
    readers: BTreeMap<Waiter, Instant>,
    /// Tells the task that looks after a failure that somebody else waits for its end.
    joined: Arc<Notify>,
}

/// When somebody asked for a bundle, and when it was told that it is there.
#[derive(Debug, Clone, Copy)]
struct Notified {
    asked: Instant,
    at: Instant,
}

/// What a waiter wants, as it last said: what one of them wants is no rule for the others.
#[derive(Debug, Clone, Copy)]
struct WaiterRequest {
    /// Zero for none.
    deadline: Duration,
    retry_interval: Option<Duration>,
    at: Instant,
    /// When it was asked whether it still waits.
    reminded: Option<Instant>,
}

impl WaiterRequest {
    /// When a failure is old enough for this waiter to try again.
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
        /// What came of it the last time; whoever would not have tried again yet sees that until this one ends.
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
    /// An unpacker that fetches from `source`, counts in `figures` and calls `wake` whenever an answer it gave has changed. `wake` must be quick.
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

    /// With Jobs for what a node may have and this process has not. To be called before anybody else has a handle.
    #[must_use]
    pub(crate) fn with_jobs(mut self, jobs: UnpackJobs) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.jobs = Some(jobs);
        }
        self
    }

    /// Where the bundle stands now; begins to fetch it if nobody has. Never waits. Must be called within a tokio runtime.
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
                    // What was needed until now may have to make room.
                    eviction::shrink(&mut entries, now);
                }
                return state;
            }
            waiters = std::mem::take(&mut entry.waiters);
            if let EntryState::Failed(failure) = &entry.state {
                before = Some(failure.clone());
            }
            // What looked after the failure has nothing to do any more.
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

    /// What is known of a bundle without asking for it.
    pub(crate) fn known(&self, request: &UnpackRequest) -> Known {
        let entries = self.shared.lock();
        match entries.get(&Key::of(request)).map(|entry| &entry.state) {
            None => Known::Nothing,
            Some(EntryState::Failed(_) | EntryState::Running { before: Some(_), .. }) => Known::Failing,
            Some(EntryState::Running { .. } | EntryState::Ready(_)) => Known::Asked,
        }
    }

    /// Forgets the failures of a catalog's bundles: its image names, secrets or rights have changed. Whoever waited is told.
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

    /// Number of bundles known, whatever their state.
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

    /// The answer to a request, which waits from now on if there is something to wait for. None when it is time to try again.
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
        // Every critical section leaves the map consistent, so a panic elsewhere cannot spoil it.
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
