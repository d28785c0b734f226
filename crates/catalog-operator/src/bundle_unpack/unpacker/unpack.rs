//! One unpack: the task that turns a request into a bundle on disk, or into a failure.
//!
//! The task runs attempts until one succeeds, its error is permanent, or the deadline has passed. The longest deadline
//! of the subscribers counts; zero means none, and waiting for a permit does not count. An attempt of this process
//! waits for a permit, then fetches, checks and stores the bundle. If only a node may succeed, or the registry has been
//! silent for ten seconds and at least two attempts, a Job pulls the image while this process retries, and the first
//! result counts. The Job has the whole deadline again. Where Jobs are the only way (`UnpackJobs::is_only_way`), this
//! process never pulls images; with `--unpack=in-process` there are no Jobs.
//!
//! Subscribers are triggered by the result, and before it by each new error of an attempt or a Job. After a failure they
//! request the bundle again at their retry time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use olm_oci::Reference;
use olm_runtime::isolation::{Panicked, blocking, isolated};
use tokio::time::Instant;

use super::super::bundle_store::StoredBundle;
use super::super::content::UnpackedBundle;
use super::super::error::{UnpackClass, UnpackError};
use super::super::job::{JobRequest, UnpackJobs};
use super::super::preflight;
use super::super::retry;
use super::{Entry, EntryState, Failure, Key, Shared};

/// Maximum time of one attempt, independent of the deadline of the whole unpack.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(600);

/// The task of one entry.
pub(super) struct Unpack {
    shared: Arc<Shared>,
    key: Key,
}

impl Unpack {
    pub(super) fn new(shared: Arc<Shared>, key: Key) -> Self {
        Self { shared, key }
    }

    pub(super) async fn run(self) {
        let started = Instant::now();
        // Waiting for other unpacks does not count towards this unpack's deadline.
        let mut waited = Duration::ZERO;
        let mut attempt = 0_u32;
        loop {
            let result = self.try_once(started, &mut waited, attempt).await;
            let elapsed = started.elapsed().saturating_sub(waited);
            let error = match result {
                Ok(bundle) => {
                    self.shared.figures.unpacked(elapsed, true);
                    tracing::info!(image = %self.key.image, pinned = %bundle.image(), bundle = %self.key.bundle, "bundle unpacked");
                    return self.set(EntryState::Ready(bundle));
                }
                Err(error) => error.of_bundle(&self.key.bundle),
            };
            self.shared.figures.unpack_failed(&error.class.reason());
            tracing::info!(image = %self.key.image, catalog = %self.key.catalog, attempt, %error, "cannot unpack bundle");
            match retry::next(error.class, attempt, elapsed, self.deadline()) {
                Some(pause) => {
                    self.note_trouble(error);
                    tokio::time::sleep(pause).await;
                    attempt = attempt.saturating_add(1);
                }
                None => {
                    self.shared.figures.unpacked(elapsed, false);
                    return self.set(EntryState::Failed(Failure {
                        error: error.after_deadline(),
                        at: Instant::now(),
                    }));
                }
            }
        }
    }

    /// Tries in this process and then, if only a node may succeed, by a Job; `waited` grows by the time without a
    /// permit.
    async fn try_once(
        &self,
        started: Instant,
        waited: &mut Duration,
        attempt: u32,
    ) -> Result<StoredBundle, UnpackError> {
        let jobs = self.shared.jobs.as_ref();
        // A Job cannot pull a bundle whose manifests are in the catalog.
        if let Some(jobs) = jobs.filter(|jobs| jobs.is_only_way() && self.key.inline.is_none()) {
            return Box::pin(self.by_job(jobs, None)).await;
        }
        let (result, wait) = self
            .attempt_in_turn(started.elapsed().saturating_sub(*waited))
            .await;
        *waited = waited.saturating_add(wait);
        let elapsed = started.elapsed().saturating_sub(*waited);
        match (result, jobs) {
            (Err(error), Some(jobs)) if self.is_for_nodes(&error, attempt, elapsed) => {
                Box::pin(self.by_job(jobs, Some(error))).await
            }
            (result, _) => result,
        }
    }

    fn is_for_nodes(&self, error: &UnpackError, attempt: u32, elapsed: Duration) -> bool {
        // An invalid image reference is invalid for a node, too.
        retry::is_for_nodes(error.class, attempt, elapsed) && self.key.image.parse::<Reference>().is_ok()
    }

    /// Returns the longest deadline of the subscribers; zero for none. A subscriber with a short one must not make
    /// the others fail.
    fn deadline(&self) -> Duration {
        let entries = self.shared.entries.lock();
        let subscribers = entries.get(&self.key).map(|entry| entry.subscribers.values());
        let deadlines = subscribers.into_iter().flatten().map(|asked| asked.deadline);
        deadlines
            .max_by_key(|deadline| (deadline.is_zero(), *deadline))
            .unwrap_or(self.shared.config.deadline)
    }

    /// Waits for a permit, then runs one attempt, `elapsed` after the start of the unpack. Returns its result,
    /// and the time of the wait.
    async fn attempt_in_turn(&self, elapsed: Duration) -> (Result<StoredBundle, UnpackError>, Duration) {
        let since = Instant::now();
        let _permit = self.shared.permits.acquire(&self.key.catalog.namespace).await;
        let waited = since.elapsed();
        (self.attempt(elapsed).await, waited)
    }

    /// Fetches, checks and stores the bundle, `elapsed` after the start of the unpack.
    async fn attempt(&self, elapsed: Duration) -> Result<StoredBundle, UnpackError> {
        let image = &self.key.image;
        let deadline = self.deadline();
        let left = if deadline.is_zero() {
            LONGEST_ATTEMPT
        } else {
            deadline.saturating_sub(elapsed).min(LONGEST_ATTEMPT)
        };
        let fetch = async {
            let (source, catalog) = (&self.shared.source, &self.key.catalog);
            let bundle = match &self.key.inline {
                None => source.fetch(image, catalog).await?,
                Some(inline) => UnpackedBundle {
                    image: image.clone(),
                    ..source.fetch_inline(inline, catalog).await?
                },
            };
            self.store(self.key.inline.is_none(), move || Ok(bundle)).await
        };
        match tokio::time::timeout(left, isolated(fetch)).await {
            Ok(Ok(result)) => result,
            Ok(Err(panicked)) => Err(self.fault(&panicked)),
            Err(_) => {
                let cause = format!("image `{image}`: pull timed out after {} s", left.as_secs());
                Err(UnpackError::new(UnpackClass::Unreachable, cause))
            }
        }
    }

    /// Checks that the result of `read` is the requested bundle, and stores it. A large one takes seconds, so
    /// this runs beside the thread of reconciles and watches.
    pub(super) async fn store(
        &self,
        is_pulled: bool,
        read: impl FnOnce() -> Result<UnpackedBundle, UnpackError> + Send + 'static,
    ) -> Result<StoredBundle, UnpackError> {
        let store = Arc::clone(&self.shared.store);
        let (expected, namespace) = (self.key.bundle.clone(), self.key.catalog.namespace.clone());
        let work = move || {
            let bundle = read()?;
            preflight::check(&bundle, &expected)?;
            store.put(&namespace, &bundle, is_pulled)
        };
        let stored = blocking(work).await;
        stored.unwrap_or_else(|panicked| Err(self.fault(&panicked)))
    }

    /// Returns the bundle that a Job has unpacked; `refused` is the error of this process, which retries
    /// meanwhile.
    async fn by_job(
        &self,
        jobs: &UnpackJobs,
        refused: Option<UnpackError>,
    ) -> Result<StoredBundle, UnpackError> {
        let request = JobRequest {
            image: self.key.image.clone(),
            bundle: self.key.bundle.clone(),
            catalog: self.key.catalog.clone(),
            deadline: self.deadline(),
            passed_over: BTreeSet::new(),
        };
        let pending = |trouble: UnpackError| self.note_trouble(trouble.of_bundle(&self.key.bundle));
        let unpack = async {
            let vouched = jobs.unpack(request, refused.as_ref(), pending).await?;
            self.store(false, move || vouched.read()).await
        };
        tokio::select! {
            result = Box::pin(isolated(unpack)) => {
                result.unwrap_or_else(|panicked| Err(self.fault(&panicked)))
            }
            // A secret or an image that is added meanwhile may suffice.
            result = self.try_again(), if refused.is_some() => result,
        }
    }

    /// Retries in this process while a Job runs, until the result differs from the first.
    async fn try_again(&self) -> Result<StoredBundle, UnpackError> {
        loop {
            tokio::time::sleep(retry::AFTER_REFUSAL).await;
            match self.attempt_in_turn(Duration::ZERO).await {
                (Err(error), _) if error.class.is_for_nodes() || error.class.is_passing() => {}
                (result, _) => return result,
            }
        }
    }

    /// A panic in reading one bundle must not leave its subscribers without a response.
    fn fault(&self, panicked: &Panicked) -> UnpackError {
        let image = &self.key.image;
        tracing::error!(%image, %panicked, "unpacking a bundle panicked");
        let cause = format!("image `{image}`: catalog-operator panicked while reading it; this is a bug");
        UnpackError::new(UnpackClass::InvalidManifest, cause)
    }

    /// Triggers the subscribers when the error differs in any part from the last one, so not for each attempt.
    fn note_trouble(&self, error: UnpackError) {
        let mut entries = self.shared.entries.lock();
        let Some(Entry {
            state: EntryState::Running { trouble, .. },
            subscribers,
            ..
        }) = entries.get_mut(&self.key)
        else {
            return;
        };
        if trouble.as_ref() == Some(&error) {
            return;
        }
        *trouble = Some(error);
        let subscribers = subscribers.keys().cloned().collect();
        drop(entries);
        self.shared.wake_all(&subscribers);
    }

    /// Sets the result of the unpack and triggers the subscribers.
    fn set(&self, state: EntryState) {
        let mut entries = self.shared.entries.lock();
        let Some(entry) = entries.get_mut(&self.key) else {
            return;
        };
        entry.state = state;
        entry.last_used = Instant::now();
        let subscribers = std::mem::take(&mut entry.subscribers).into_keys().collect();
        drop(entries);
        self.shared.wake_all(&subscribers);
    }
}
