//! The loop every controller runs: observe → decide → act → status.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::Instrument;

use crate::{
    apply::Executor,
    clock,
    condition::whole_seconds,
    error::ObserveError,
    event::Recorder,
    outcome::{FailureClass, Outcome, Outcomes},
    plan::{Action, EventDraft, Plan, Requeue},
    queue::Queue,
};

/// First delay after a failed round; doubles up to [`LONGEST_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Longest delay between two failing rounds of one key.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// What `status` wants: at most one patch, and what follows from it.
#[derive(Debug, Default)]
pub struct StatusUpdate {
    /// The status patch, `None` when nothing changed.
    pub patch: Option<Action>,
    /// Events to send after the status is written (dropped if that fails, since the round repeats).
    pub events: Vec<EventDraft>,
    /// Combined with the plan's: the sooner wins.
    pub requeue: Requeue,
}

/// One controller.
///
/// # Expected flow
/// `observe` collects everything the decision needs as values; `decide` and `status` are pure and
/// total; only the executor writes. `None` from `observe` means that there is nothing to do.
///
/// # Guarantees
/// One key is never in two rounds at once. A round that could not observe, or whose write failed, is
/// repeated with exponential backoff from 100 ms to 60 s; success resets it. Status is written last
/// and once, even when an action failed, so that it tells about the failure.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// What the queue holds.
    type Key: Clone + Ord + Display + Send + Sync + 'static;
    /// Everything one decision reads, as values.
    type Observed: Send + Sync + 'static;
    /// What `decide` concluded besides the writes, for `status`.
    type Verdict: Send + 'static;

    /// Name in logs, for example `csv`.
    const NAME: &'static str;
    /// True when `decide` is long CPU work; it then runs on a thread of its own.
    const BLOCKING: bool = false;

    /// Reads, and only reads.
    async fn observe(&self, key: &Self::Key) -> Result<Option<Self::Observed>, ObserveError>;
    /// Pure: what is to be written, and what status is to say.
    fn decide(&self, observed: &Self::Observed, now: Timestamp) -> (Plan, Self::Verdict);
    /// Pure: the status that follows from what really happened.
    fn status(
        &self,
        observed: &Self::Observed,
        verdict: Self::Verdict,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate;
}

/// What a controller needs to run.
#[derive(Debug, Clone)]
pub struct Runner {
    /// The writer.
    pub executor: Executor,
    /// Where events go.
    pub recorder: Recorder,
    /// Turns true when the process is to stop; a round in hand is finished first.
    pub shutdown: watch::Receiver<bool>,
}

impl Runner {
    /// Starts `workers` workers for `reconciler` on `tasks`.
    pub fn spawn<R: Reconciler>(
        &self,
        tasks: &mut JoinSet<()>,
        reconciler: &Arc<R>,
        queue: &Queue<R::Key>,
        workers: usize,
    ) {
        let failures = Arc::new(Mutex::new(BTreeMap::new()));
        for _ in 0..workers {
            let worker = Worker {
                runner: self.clone(),
                reconciler: Arc::clone(reconciler),
                queue: queue.clone(),
                failures: Arc::clone(&failures),
            };
            tasks.spawn(worker.run());
        }
    }
}

struct Worker<R: Reconciler> {
    runner: Runner,
    reconciler: Arc<R>,
    queue: Queue<R::Key>,
    failures: Arc<Mutex<BTreeMap<R::Key, u32>>>,
}

impl<R: Reconciler> Worker<R> {
    async fn run(mut self) {
        loop {
            let key = tokio::select! {
                biased;
                // An error means the sender is gone: the process is stopping.
                _ = self.runner.shutdown.wait_for(|stop| *stop) => return,
                key = self.queue.next() => key,
            };
            let span = tracing::debug_span!("round", controller = R::NAME, %key);
            let requeue = Box::pin(self.round(&key).instrument(span)).await;
            self.queue.done(&key);
            match requeue {
                Next::Settled(Requeue::AwaitChange) => self.forget(&key),
                Next::Settled(Requeue::After { delay, reason }) => {
                    tracing::trace!(controller = R::NAME, %key, ?delay, reason, "again later");
                    self.forget(&key);
                    self.queue.add_after(key, delay);
                }
                Next::Failed(Requeue::After { delay, .. }) => {
                    let backoff = self.backoff(&key);
                    // Never at once, whatever the reconciler asks for: a failing round must not become a hot loop.
                    self.queue
                        .add_after(key, delay.clamp(FIRST_BACKOFF.min(backoff), backoff));
                }
                Next::Failed(Requeue::AwaitChange) => {
                    let backoff = self.backoff(&key);
                    self.queue.add_after(key, backoff);
                }
            }
        }
    }

    async fn round(&self, key: &R::Key) -> Next {
        let started = Instant::now();
        let observed = match self.reconciler.observe(key).await {
            Ok(Some(observed)) => Arc::new(observed),
            Ok(None) => return Next::Settled(Requeue::AwaitChange),
            Err(error) => {
                tracing::warn!(controller = R::NAME, %key, %error, "could not observe, trying again");
                return Next::Failed(Requeue::AwaitChange);
            }
        };
        let now = whole_seconds(clock::now());
        let Some((plan, verdict)) = self.decide(&observed, now).await else {
            tracing::error!(controller = R::NAME, %key, "the decision did not finish");
            return Next::Failed(Requeue::AwaitChange);
        };
        let outcomes = self.runner.executor.act(&plan).await;
        let update = self.reconciler.status(&observed, verdict, &outcomes, now);
        let mut failed = outcomes.failure().is_some();
        let mut events = if failed { Vec::new() } else { plan.events };
        match &update.patch {
            Some(patch) => match self.runner.executor.perform(patch).await {
                // NotFound: the object went away while it was looked at; nothing is left to tell.
                Outcome::Failed(failure) if failure.class != FailureClass::NotFound => failed = true,
                Outcome::Failed(_) => {}
                _ => events.extend(update.events),
            },
            None => events.extend(update.events),
        }
        for event in events {
            self.runner.recorder.publish(event);
        }
        tracing::debug!(
            writes = plan.actions.len() + usize::from(update.patch.is_some()),
            failed,
            elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "round ended"
        );
        let requeue = plan.requeue.sooner(update.requeue);
        if failed {
            Next::Failed(requeue)
        } else {
            Next::Settled(requeue)
        }
    }

    async fn decide(&self, observed: &Arc<R::Observed>, now: Timestamp) -> Option<(Plan, R::Verdict)> {
        if !R::BLOCKING {
            return Some(self.reconciler.decide(observed, now));
        }
        let reconciler = Arc::clone(&self.reconciler);
        let observed = Arc::clone(observed);
        tokio::task::spawn_blocking(move || reconciler.decide(&observed, now))
            .await
            .ok()
    }

    fn forget(&self, key: &R::Key) {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    fn backoff(&self, key: &R::Key) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key.clone()).or_insert(0);
        let delay = FIRST_BACKOFF.saturating_mul(1 << (*count).min(16));
        *count += 1;
        delay.min(LONGEST_BACKOFF)
    }
}

enum Next {
    Settled(Requeue),
    Failed(Requeue),
}
