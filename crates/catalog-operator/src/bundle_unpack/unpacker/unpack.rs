//! One unpack: the task that turns a request into a bundle on disk, or into a failure.
//!
//! The task runs attempts until one succeeds, its error is permanent, the deadline of the subscribers has
//! passed, or there are no subscribers any more. An attempt of this process waits in the queues of all
//! subscribers' namespaces, then fetches, checks and stores the bundle; if it is slow, it makes room for others.
//! If only a node may succeed, a Job pulls the image, while this process retries, and the first result counts.
//! With the result the entry's state changes, and the subscribers are triggered. After a failure the task stays
//! to trigger each of them at its retry time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use olm_oci::Reference;
use olm_runtime::isolation::{Panicked, blocking, isolated};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::bundle_store::StoredBundle;
use super::super::content::UnpackedBundle;
use super::super::error::{UnpackClass, UnpackError};
use super::super::job::{JobWish, UnpackJobs, Waiters};
use super::super::preflight;
use super::super::retry::{self, Next};
use super::{Entry, EntryState, Failure, Key, Shared, Waiter, WaiterRequest};
use crate::fair_permits::{FairPermits, Permit, Place, Ticket};

/// Time for which a failure is cached after its retry time.
const KEEP_FAILED: Duration = Duration::from_secs(60);
/// Maximum time of one attempt, independent of the deadline of the whole unpack.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(600);
/// Time after which an attempt continues with a permit for slow ones, so that the next one can start.
const SLOW_AFTER: Duration = Duration::from_secs(15);
/// Interval in which a slow attempt without such a permit checks whether it delays another namespace.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of concurrent slow attempts.
pub(super) const SLOW: usize = 16;
/// Maximum number of concurrent slow attempts of one namespace; further ones end when they delay another
/// namespace.
pub(super) const SLOW_OF_A_NAMESPACE: usize = 2;
/// Maximum number of results of Jobs that are read concurrently.
pub(super) const READERS: usize = 2;

/// Subscribers idle longer than this are asked to confirm that they still need the bundle.
pub(super) const REMIND_AFTER: Duration = Duration::from_secs(600);
/// Subscribers that do not confirm within this time are dropped.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(300);

/// The task of one entry.
pub(super) struct Unpack {
    shared: Arc<Shared>,
    key: Key,
}

impl Waiters for Unpack {
    fn pending(&self, trouble: UnpackError) -> bool {
        self.note_trouble(trouble.of_bundle(&self.key.bundle));
        self.is_wanted()
    }

    /// A subscriber with a short deadline must not make the others fail.
    fn deadline(&self) -> Duration {
        let entries = self.shared.lock();
        let waiters = entries.get(&self.key).map(|entry| entry.waiters.values());
        let deadlines = waiters.into_iter().flatten().map(|asked| asked.deadline);
        deadlines
            .max_by_key(|deadline| (deadline.is_zero(), *deadline))
            .unwrap_or(self.shared.config.deadline)
    }

    fn ticket(&self, permits: &FairPermits) -> Ticket {
        self.line_up(permits, |entry, place| entry.job_place = Some(place))
    }
}

impl Unpack {
    pub(super) fn new(shared: Arc<Shared>, key: Key) -> Self {
        Self { shared, key }
    }

    pub(super) async fn run(self) {
        let started = Instant::now();
        let mut waited = Duration::ZERO;
        let mut attempt = 0_u32;
        loop {
            let by_jobs_alone = self.shared.jobs.as_ref().is_some_and(UnpackJobs::is_only_way);
            // A Job cannot pull a bundle whose manifests are in the catalog.
            let attempted = if by_jobs_alone && self.key.inline.is_none() {
                None
            } else {
                let elapsed = started.elapsed().saturating_sub(waited);
                let (result, wait) = self.attempt_in_turn(elapsed).await;
                // Waiting for other namespaces does not count towards this unpack's deadline.
                waited = waited.saturating_add(wait);
                Some(result)
            };
            let elapsed = || started.elapsed().saturating_sub(waited);
            let Some(result) = self.or_by_job(attempted, attempt, elapsed()).await else {
                return;
            };
            let error = match result {
                Ok(bundle) => {
                    self.shared.figures.unpacked(elapsed(), true);
                    tracing::info!(image = %self.key.image, pinned = %bundle.image(), bundle = %self.key.bundle, "bundle unpacked");
                    return self.set(EntryState::Ready(bundle));
                }
                Err(error) => error.of_bundle(&self.key.bundle),
            };
            self.shared.figures.unpack_failed(error.class.reason());
            tracing::info!(image = %self.key.image, catalog = %self.key.catalog, attempt, %error, "cannot unpack bundle");
            match retry::next(error.class, attempt, elapsed(), self.deadline()) {
                Next::GoOn(pause) => {
                    self.note_trouble(error);
                    if !self.is_wanted() {
                        return;
                    }
                    tokio::time::sleep(pause).await;
                    attempt = attempt.saturating_add(1);
                }
                Next::GiveUp => {
                    self.shared.figures.unpacked(elapsed(), false);
                    return self.give_up(error.after_deadline()).await;
                }
            }
        }
    }

    /// True when there are subscribers. Idle ones are asked to confirm, and dropped if they do not.
    fn is_wanted(&self) -> bool {
        let now = Instant::now();
        let since = |then: Instant| now.saturating_duration_since(then);
        let mut entries = self.shared.lock();
        let Some(entry) = entries.get_mut(&self.key) else {
            return false;
        };
        entry
            .waiters
            .retain(|_, asked| asked.reminded.is_none_or(|at| since(at) < ANSWER_WITHIN));
        if entry.waiters.is_empty() {
            entries.remove(&self.key);
            tracing::info!(image = %self.key.image, "bundle request cancelled: no Subscription needs it");
            return false;
        }
        let mut silent = BTreeSet::new();
        for (waiter, asked) in &mut entry.waiters {
            if asked.reminded.is_none() && since(asked.at) >= REMIND_AFTER {
                asked.reminded = Some(now);
                silent.insert(waiter.clone());
            }
        }
        drop(entries);
        self.shared.tell(&silent);
        true
    }

    /// Returns a slot in the queues of all namespaces that wait for the bundle; later subscribers join it
    /// through `note`.
    fn line_up(&self, permits: &FairPermits, note: impl FnOnce(&mut Entry, Place)) -> Ticket {
        let mut entries = self.shared.lock();
        let of_catalog = self.key.catalog.namespace.as_str();
        let Some(entry) = entries.get_mut(&self.key) else {
            return permits.ticket([of_catalog]);
        };
        let mut namespaces: BTreeSet<&str> = entry.waiters.keys().map(Waiter::namespace).collect();
        if namespaces.is_empty() {
            namespaces.insert(of_catalog);
        }
        let ticket = permits.ticket(namespaces);
        note(entry, ticket.place());
        ticket
    }

    /// Waits for a permit, then runs one attempt, `elapsed` after the start of the unpack. Returns its result,
    /// and the time of the wait.
    async fn attempt_in_turn(&self, elapsed: Duration) -> (Result<StoredBundle, UnpackError>, Duration) {
        let since = Instant::now();
        let ticket = self.line_up(&self.shared.permits, |entry, place| entry.place = Some(place));
        let permit = ticket.permit().await;
        let waited = since.elapsed();
        let result = tokio::select! {
            result = self.attempt(elapsed) => result,
            error = self.make_room(permit) => Err(error),
        };
        (result, waited)
    }

    /// Holds the permit of an attempt, and releases it when the attempt is slow and gets a permit for slow
    /// ones. Returns, which ends the attempt, only when there is no such permit and another namespace waits.
    async fn make_room(&self, permit: Permit) -> UnpackError {
        tokio::time::sleep(SLOW_AFTER).await;
        let started = Instant::now();
        loop {
            if let Some(_beside) = self.shared.slow.try_acquire(permit.namespace()) {
                drop(permit);
                return std::future::pending().await;
            }
            if permit.is_wanted() {
                let seconds = SLOW_AFTER.saturating_add(started.elapsed()).as_secs();
                let cause = format!(
                    "image `{}`: pull timed out after {seconds} s because other slow pulls are in progress",
                    self.key.image
                );
                return UnpackError::new(UnpackClass::Unreachable, cause);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
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

    /// Returns the result of the attempt or, if a node may have what this process lacks, of a Job. `None`
    /// when there are no subscribers any more.
    async fn or_by_job(
        &self,
        attempted: Option<Result<StoredBundle, UnpackError>>,
        attempt: u32,
        elapsed: Duration,
    ) -> Option<Result<StoredBundle, UnpackError>> {
        // An invalid image reference is invalid for a node, too.
        let is_image = || self.key.image.parse::<Reference>().is_ok();
        let refused = match &attempted {
            Some(Err(error)) if retry::is_for_nodes(error.class, attempt, elapsed) && is_image() => {
                Some(error)
            }
            None => None,
            Some(_) => return attempted,
        };
        let Some(jobs) = &self.shared.jobs else {
            return attempted;
        };
        let wish = JobWish {
            image: self.key.image.clone(),
            bundle: self.key.bundle.clone(),
            catalog: self.key.catalog.clone(),
            deadline: self.deadline(),
            passed_over: BTreeSet::new(),
            discarded: None,
        };
        let by_job = async {
            let vouched = match jobs.unpack(wish, refused, self).await? {
                Ok(vouched) => vouched,
                Err(error) => return Some(Err(error)),
            };
            let permit = self.ticket(&self.shared.readers).permit().await;
            let read = move || {
                // Held until the end, even without subscribers.
                let _permit = permit;
                vouched.read()
            };
            Some(self.store(false, read).await)
        };
        tokio::select! {
            result = Box::pin(isolated(by_job)) => match result {
                Ok(result) => result,
                Err(panicked) => Some(Err(self.fault(&panicked))),
            },
            // A secret or an image that is added meanwhile may suffice.
            result = self.try_again(), if refused.is_some() => Some(result),
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

    /// Reports the failure, and triggers each subscriber at its retry time.
    async fn give_up(self, error: UnpackError) {
        let failure = Failure {
            error,
            at: Instant::now(),
        };
        self.set(EntryState::Failed(failure.clone()));
        self.remind(failure).await;
    }

    /// Triggers each subscriber of the failure at its retry time.
    pub(super) async fn remind(self, failure: Failure) {
        while let Some((next, joined)) = self.look_after(&failure) {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = joined.notified() => {}
            }
        }
    }

    /// Triggers subscribers at their retry time. Returns the next retry time, and a notification for new
    /// subscribers. `None` when the failure is outdated, or forgotten because there are no subscribers.
    fn look_after(&self, failure: &Failure) -> Option<(Instant, Arc<Notify>)> {
        let forget_at = failure.at + retry::pause(failure.error.class, None) + KEEP_FAILED;
        let mut entries = self.shared.lock();
        let entry = entries.get_mut(&self.key)?;
        if !matches!(&entry.state, EntryState::Failed(present) if present.at == failure.at) {
            return None;
        }
        let now = Instant::now();
        let is_due = |asked: &WaiterRequest| asked.retry_at(failure) <= now;
        let due = entry.waiters.iter().filter(|(_, asked)| is_due(asked));
        let due: BTreeSet<Waiter> = due.map(|(waiter, _)| waiter.clone()).collect();
        entry.waiters.retain(|waiter, _| !due.contains(waiter));
        let next = entry.waiters.values().map(|asked| asked.retry_at(failure)).min();
        let joined = Arc::clone(&entry.joined);
        let is_over = next.is_none() && forget_at <= now;
        if is_over {
            entries.remove(&self.key);
        }
        drop(entries);
        self.shared.tell(&due);
        (!is_over).then(|| (next.unwrap_or(forget_at), joined))
    }

    /// Subscribers are triggered for the first error and for each other class of error, not for each attempt.
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
        let waiters = waiters.keys().cloned().collect();
        drop(entries);
        self.shared.tell(&waiters);
    }

    /// Sets the result of the unpack and triggers the subscribers.
    fn set(&self, state: EntryState) {
        let mut entries = self.shared.lock();
        let Some(entry) = entries.get_mut(&self.key) else {
            return;
        };
        entry.state = state;
        entry.last_used = Instant::now();
        let waiters = std::mem::take(&mut entry.waiters).into_keys().collect();
        drop(entries);
        self.shared.tell(&waiters);
    }
}
