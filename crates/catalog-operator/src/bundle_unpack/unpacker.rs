//! The state of every bundle somebody asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use olm_runtime::{NamespacedName, Timestamp, clock};
use tokio::time::Instant;

use super::content::UnpackedBundle;
use super::error::{UnpackClass, UnpackError};
use super::retry::{self, Next};
use crate::fair_permits::{FairPermits, Place, Ticket};

/// How long a bundle nobody asks for stays in memory; the cache on disk keeps it longer.
const KEEP_READY: Duration = Duration::from_secs(60);
/// How long a failure stays known after it may be tried again.
const KEEP_FAILED: Duration = Duration::from_secs(60);
/// Longest time for one attempt, whatever the deadline of the unpack as a whole: so long may a server that answers in drips
/// keep one of the permits.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(600);

/// Longest time to the next try of a failed unpack, whoever asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Where bundles come from.
#[async_trait]
pub trait BundleSource: Send + Sync + 'static {
    /// Fetches and reads a bundle with the credentials of a catalog.
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError>;
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
    /// The image, by tag or digest.
    pub image: String,
    /// Name of the ClusterServiceVersion the catalog says is in it.
    pub bundle: String,
    /// The CatalogSource whose credentials are used.
    pub catalog: NamespacedName,
    /// The OperatorGroup's deadline; zero means none, absent means the configured one.
    pub deadline: Option<Duration>,
    /// The OperatorGroup's least time to another try after a failure.
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
    /// There it is.
    Ready(Arc<UnpackedBundle>),
    /// It cannot be had now. When it is time to ask for it anew the waiter is told.
    Failed {
        /// Why.
        error: UnpackError,
    },
}

/// Bounds of all unpacks together.
#[derive(Debug, Clone, Copy)]
pub struct UnpackerConfig {
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
    config: UnpackerConfig,
    permits: FairPermits,
    wake: Wake,
    entries: Mutex<BTreeMap<Key, Entry>>,
}

/// One catalog's failure or credentials say nothing about another catalog, hence the catalog is part of the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    image: String,
    bundle: String,
    catalog: NamespacedName,
}

struct Entry {
    state: EntryState,
    waiters: BTreeSet<Waiter>,
    /// Where the next attempt waits for its permit.
    place: Option<Place>,
    last_used: Instant,
}

enum EntryState {
    Running {
        since: Timestamp,
        trouble: Option<UnpackError>,
    },
    Ready(Arc<UnpackedBundle>),
    Failed {
        error: UnpackError,
        retry_at: Instant,
    },
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

impl Unpacker {
    /// An unpacker that fetches from `source` and calls `wake` whenever an answer it gave has changed. `wake` must be quick.
    pub fn new(
        source: Arc<dyn BundleSource>,
        config: UnpackerConfig,
        wake: impl Fn(&Waiter) + Send + Sync + 'static,
    ) -> Self {
        let permits = FairPermits::new(config.parallel);
        Self {
            shared: Arc::new(Shared {
                source,
                config,
                permits,
                wake: Arc::new(wake),
                entries: Mutex::default(),
            }),
        }
    }

    /// Where the bundle stands now; begins to fetch it if nobody has. Never waits. Must be called within a tokio runtime.
    pub fn request(&self, request: &UnpackRequest) -> UnpackState {
        let key = Key {
            image: request.image.clone(),
            bundle: request.bundle.clone(),
            catalog: request.catalog.clone(),
        };
        let now = Instant::now();
        let mut entries = self.shared.lock();
        if let Some(entry) = entries.get_mut(&key) {
            entry.last_used = now;
            let answer = match &entry.state {
                EntryState::Running { since, trouble } => Some(UnpackState::Unpacking {
                    since: *since,
                    trouble: trouble.clone(),
                }),
                EntryState::Ready(bundle) => return UnpackState::Ready(Arc::clone(bundle)),
                EntryState::Failed { error, retry_at } if *retry_at > now => {
                    Some(UnpackState::Failed { error: error.clone() })
                }
                EntryState::Failed { .. } => None,
            };
            if let Some(answer) = answer {
                if let Some(place) = &entry.place {
                    place.join(request.waiter.namespace());
                }
                entry.waiters.insert(request.waiter.clone());
                return answer;
            }
        }
        let since = clock::now();
        let waiters = BTreeSet::from([request.waiter.clone()]);
        entries.insert(
            key.clone(),
            Entry {
                state: EntryState::Running { since, trouble: None },
                waiters,
                place: None,
                last_used: now,
            },
        );
        drop(entries);
        let unpack = Unpack {
            shared: Arc::clone(&self.shared),
            deadline: request.deadline.unwrap_or(self.shared.config.deadline),
            retry_interval: request.retry_interval,
            key,
        };
        tokio::spawn(unpack.run());
        UnpackState::Unpacking { since, trouble: None }
    }

    /// Forgets the failures of a catalog's bundles: its image names, secrets or rights have changed. Whoever waited is told.
    pub fn forget_failures(&self, catalog: &NamespacedName) {
        let mut waiters = BTreeSet::new();
        self.shared.lock().retain(|key, entry| {
            let forget = key.catalog == *catalog && matches!(entry.state, EntryState::Failed { .. });
            if forget {
                waiters.append(&mut entry.waiters);
            }
            !forget
        });
        self.shared.tell(&waiters);
    }

    /// Number of bundles known, whatever their state.
    #[cfg(test)]
    fn known(&self) -> usize {
        self.shared.lock().len()
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

/// One unpack, from the request to the day it is forgotten.
struct Unpack {
    shared: Arc<Shared>,
    key: Key,
    deadline: Duration,
    retry_interval: Option<Duration>,
}

impl Unpack {
    async fn run(self) {
        let started = Instant::now();
        let mut waited = Duration::ZERO;
        let mut attempt = 0_u32;
        loop {
            // What others do is no part of this unpack's deadline.
            let waits_since = Instant::now();
            let permit = self.ticket().permit().await;
            waited = waited.saturating_add(waits_since.elapsed());
            let elapsed = || started.elapsed().saturating_sub(waited);
            let result = self.attempt(elapsed()).await;
            drop(permit);
            let error = match result {
                Ok(bundle) => return self.finish(bundle).await,
                Err(error) => error.of_bundle(&self.key.bundle),
            };
            tracing::info!(image = %self.key.image, catalog = %self.key.catalog, attempt, %error, "bundle not unpacked");
            match retry::next(
                error.class,
                attempt,
                elapsed(),
                self.deadline,
                self.retry_interval,
            ) {
                Next::GoOn(pause) => {
                    self.note_trouble(error);
                    tokio::time::sleep(pause).await;
                    attempt = attempt.saturating_add(1);
                }
                Next::GiveUp(pause) => return self.give_up(error, pause).await,
            }
        }
    }

    /// A place in the lines of all namespaces that wait for the bundle; who asks later joins it.
    fn ticket(&self) -> Ticket {
        let mut entries = self.shared.lock();
        let of_catalog = self.key.catalog.namespace.as_str();
        let Some(entry) = entries.get_mut(&self.key) else {
            return self.shared.permits.ticket([of_catalog]);
        };
        let mut namespaces: BTreeSet<&str> = entry.waiters.iter().map(Waiter::namespace).collect();
        if namespaces.is_empty() {
            namespaces.insert(of_catalog);
        }
        let ticket = self.shared.permits.ticket(namespaces);
        entry.place = Some(ticket.place());
        ticket
    }

    /// One attempt, `elapsed` after the unpack began.
    async fn attempt(&self, elapsed: Duration) -> Result<UnpackedBundle, UnpackError> {
        let left = if self.deadline.is_zero() {
            LONGEST_ATTEMPT
        } else {
            self.deadline.saturating_sub(elapsed).min(LONGEST_ATTEMPT)
        };
        let fetch = self.shared.source.fetch(&self.key.image, &self.key.catalog);
        let bundle = tokio::time::timeout(left, fetch).await.unwrap_or_else(|_| {
            let cause = format!(
                "image `{}` was not fetched within {} s",
                self.key.image,
                left.as_secs()
            );
            Err(UnpackError::new(UnpackClass::Unreachable, cause))
        })?;
        super::preflight::check(&bundle, &self.key.bundle)?;
        Ok(bundle)
    }

    async fn finish(self, bundle: UnpackedBundle) {
        tracing::info!(image = %self.key.image, pinned = %bundle.image, bundle = %self.key.bundle, "bundle unpacked");
        let bundle = Arc::new(bundle);
        let pinned = Key {
            image: bundle.image.clone(),
            ..self.key.clone()
        };
        // Plans ask by digest for what resolution has asked for by tag.
        if pinned != self.key {
            let entry = Entry {
                state: EntryState::Ready(Arc::clone(&bundle)),
                waiters: BTreeSet::new(),
                place: None,
                last_used: Instant::now(),
            };
            self.shared.lock().entry(pinned.clone()).or_insert(entry);
        }
        self.set(EntryState::Ready(bundle));
        tokio::join!(self.expire(&self.key), self.expire(&pinned));
    }

    /// Returns once the bundle has not been used for a while and is forgotten.
    async fn expire(&self, key: &Key) {
        loop {
            tokio::time::sleep(KEEP_READY).await;
            let mut entries = self.shared.lock();
            match entries.get(key) {
                Some(entry) if matches!(entry.state, EntryState::Ready(_)) => {
                    if entry.last_used.elapsed() >= KEEP_READY {
                        entries.remove(key);
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    async fn give_up(self, error: UnpackError, pause: Duration) {
        let retry_at = Instant::now() + pause.min(LONGEST_PAUSE);
        self.set(EntryState::Failed { error, retry_at });
        tokio::time::sleep_until(retry_at).await;
        let still_failed = |entry: &Entry| matches!(&entry.state, EntryState::Failed { retry_at: at, .. } if *at == retry_at);
        let waiters = match self.shared.lock().get_mut(&self.key) {
            Some(entry) if still_failed(entry) => std::mem::take(&mut entry.waiters),
            _ => return,
        };
        self.shared.tell(&waiters);
        tokio::time::sleep(KEEP_FAILED).await;
        let mut entries = self.shared.lock();
        if entries.get(&self.key).is_some_and(still_failed) {
            entries.remove(&self.key);
        }
    }

    /// Waiters hear of the first trouble and of every other kind of trouble, not of each attempt.
    fn note_trouble(&self, error: UnpackError) {
        let mut entries = self.shared.lock();
        let Some(Entry {
            state: EntryState::Running { trouble, .. },
            waiters,
            ..
        }) = entries.get_mut(&self.key)
        else {
            return;
        };
        if trouble.as_ref() == Some(&error) {
            return;
        }
        *trouble = Some(error);
        let waiters = waiters.clone();
        drop(entries);
        self.shared.tell(&waiters);
    }

    fn set(&self, state: EntryState) {
        let mut entries = self.shared.lock();
        let Some(entry) = entries.get_mut(&self.key) else {
            return;
        };
        entry.state = state;
        entry.last_used = Instant::now();
        let waiters = std::mem::take(&mut entry.waiters);
        drop(entries);
        self.shared.tell(&waiters);
    }
}

#[cfg(test)]
mod tests;
