//! The loop that every controller runs: observe → decide → act → status.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{Instrument, field};

use crate::{
    apply::Executor,
    brake::{PAUSE, Pause},
    clock,
    condition::whole_seconds,
    error::ObserveError,
    event::Recorder,
    isolation,
    metrics::Metrics,
    outcome::{Failure, FailureClass, Outcome, Outcomes},
    plan::{Action, EventDraft, Plan, Requeue, Target},
    queue::Queue,
    reason,
    sync::Mutex,
};

/// First delay after a failed reconcile; it doubles up to [`LONGEST_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Longest delay between two failing reconciles of one key.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// Minimum interval, in the long run, of a failing reconcile that asks for an earlier retry because of a deadline.
const SOONEST_ASKED: Duration = Duration::from_secs(5);

/// Time that reads or writes of a key may fail before its status reports it. The report is due within five seconds. This is less, because
/// reads take time and reconciles use whole seconds.
pub const TELL_AFTER: Duration = Duration::from_secs(4);

/// Returns the delay after a failure that followed this many others: `first`, which doubles up to `longest`.
pub fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.min(16)).min(longest)
}

/// Result of `status`: the patches, events, the requeue, and the memory for the next reconcile. `M` is [`Reconciler::Memory`].
#[derive(Debug)]
pub struct StatusUpdate<M = ()> {
    /// One status patch per object whose status changed. Each is attempted even if others fail, as long as the server answers.
    pub patches: Vec<Action>,
    /// Events to send after the statuses are written. An event about an object whose status was not written is dropped; the reconcile
    /// that writes the status sends it again.
    pub events: Vec<EventDraft>,
    /// Requeue of the key; of this and the plan's the earlier wins.
    pub requeue: Requeue,
    /// State passed to `decide` in this key's next reconcile. `None` clears it.
    pub memory: Option<M>,
}

impl<M> Default for StatusUpdate<M> {
    fn default() -> Self {
        Self {
            patches: Vec::new(),
            events: Vec::new(),
            requeue: Requeue::AwaitChange,
            memory: None,
        }
    }
}

/// A controller.
///
/// # Expected flow
/// `observe` collects everything the decision needs as values. `decide` and `status` are pure and total, and have no reconciler to read
/// from. Only the executor writes. `None` from `observe` means that there is nothing to do.
///
/// # Guarantees
/// A key is never in two reconciles at once. A reconcile that could not observe, whose write failed, or that panicked is retried with
/// exponential backoff. It grows from 100 ms to 60 s, and success resets it. Statuses are written last, each once, even if an action
/// failed, so that they can report the failure. A key that keeps writing is slowed down, see [`crate::brake`]. Reads that have failed for
/// [`TELL_AFTER`] are reported by [`Reconciler::unobserved`].
///
/// # Memory
/// A reconciler has no state of its own that reconciles change. Results that no object holds go through the driver. Examples are the text
/// of the last refusal, or what was already reported. `status` sees the failures ([`Outcomes::failures`]) and puts the state for the next
/// reconcile into [`StatusUpdate::memory`]; the next `decide` gets it. To keep the old state, `decide` passes it to `status` in the
/// verdict. The driver keeps one value per key. A reconcile whose `observe`, `decide` or `status` fails or panics leaves it unchanged.
/// `None` from `observe` clears it, and so does a restart of the process. After a restart everything starts from the state of the
/// cluster, so only the content and timing of messages may depend on it.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Key type of the queue.
    type Key: Clone + Ord + Hash + Display + Send + Sync + 'static;
    /// Everything one decision reads, as values.
    type Observed: Send + Sync + 'static;
    /// Conclusions of `decide` besides the writes, for `status`.
    type Verdict: Send + 'static;
    /// State that one reconcile of a key leaves for the next, see above; `()` for none.
    type Memory: Send + Sync + 'static;

    /// Name in logs, for example `csv`.
    const NAME: &'static str;
    /// First delay after a reconcile whose write was refused ([`Failure::is_refusal`]). Reconcilers of numerous objects override it, so
    /// that a component that refuses all of them is not called too often.
    const FIRST_BACKOFF_OF_REFUSED: Duration = FIRST_BACKOFF;

    /// Returns the object of a key, for the driver's own Events. Without this there are none: the object is gone, or its Events would
    /// be in a namespace that is not OLM's.
    fn regarding(&self, _key: &Self::Key) -> Option<ObjectReference> {
        None
    }
    /// Reads the state of the key. Must not write.
    async fn observe(&self, key: &Self::Key) -> Result<Option<Self::Observed>, ObserveError>;
    /// Reads the state of the key after a reconcile that left `memory`. This is what the driver calls; reconcilers whose reads depend
    /// on the memory override it.
    async fn observe_after(
        &self,
        key: &Self::Key,
        _memory: Option<&Self::Memory>,
    ) -> Result<Option<Self::Observed>, ObserveError> {
        self.observe(key).await
    }
    /// Returns a status patch that reports reads that keep failing, in addition to the existing status. It may only read data in memory
    /// and should be `None` if this was already reported, since every failing reconcile calls it. The next reconcile that reaches
    /// `status` reverts it.
    fn unobserved(&self, _key: &Self::Key, _error: &ObserveError) -> Option<Action> {
        None
    }
    /// Pure: returns the writes, and the conclusions for `status`. `memory` is the state that the key's last reconcile left.
    fn decide(
        observed: &Self::Observed,
        memory: Option<&Self::Memory>,
        now: Timestamp,
    ) -> (Plan, Self::Verdict);
    /// Pure: returns the statuses for the actual outcomes, and the state for the key's next reconcile. Without this there are none.
    fn status(
        _observed: &Self::Observed,
        _verdict: Self::Verdict,
        _outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate<Self::Memory> {
        StatusUpdate::default()
    }
}

/// Components that a controller needs to run.
#[derive(Debug, Clone)]
pub struct Runner {
    /// Executor of all writes.
    pub executor: Executor,
    /// Recorder of events.
    pub recorder: Recorder,
    /// Becomes true when the process stops; a reconcile in progress is finished first.
    pub shutdown: watch::Receiver<bool>,
    /// Metrics of the reconciles of all controllers.
    pub metrics: Metrics,
    /// Controllers with a successful reconcile.
    pub first_rounds: FirstRounds,
}

/// Controllers of this process with at least one successful reconcile. Clones share the same state. A reconcile whose object does not
/// exist does not count.
#[derive(Debug, Clone, Default)]
pub struct FirstRounds(Arc<watch::Sender<BTreeSet<&'static str>>>);

impl FirstRounds {
    /// True if a reconcile of `R` succeeded in this process.
    pub fn has_one_of<R: Reconciler>(&self) -> bool {
        self.0.borrow().contains(R::NAME)
    }

    /// Calls `listener` after the first successful reconcile of `R`. Must be called inside the runtime.
    pub fn on_first_of<R: Reconciler>(&self, listener: impl FnOnce() + Send + 'static) {
        let mut seen = self.0.subscribe();
        tokio::spawn(async move {
            if seen.wait_for(|seen| seen.contains(R::NAME)).await.is_ok() {
                listener();
            }
        });
    }

    fn note(&self, controller: &'static str) {
        self.0.send_if_modified(|seen| seen.insert(controller));
    }
}

impl Runner {
    /// Creates a runner that uses the metrics of `executor`.
    pub fn new(executor: Executor, recorder: Recorder, shutdown: watch::Receiver<bool>) -> Self {
        let metrics = executor.metrics().clone();
        Self {
            executor,
            recorder,
            shutdown,
            metrics,
            first_rounds: FirstRounds::default(),
        }
    }

    /// Starts `workers` workers for `reconciler` on `tasks`.
    pub fn spawn<R: Reconciler>(
        &self,
        tasks: &mut JoinSet<()>,
        reconciler: &Arc<R>,
        queue: &Queue<R::Key>,
        workers: usize,
    ) {
        let keys = Arc::new(Mutex::new(BTreeMap::new()));
        let waiting = queue.clone();
        self.metrics.sample_queue(R::NAME, move || Some(waiting.len()));
        for _ in 0..workers {
            let worker = Worker {
                runner: self.clone(),
                reconciler: Arc::clone(reconciler),
                queue: queue.clone(),
                keys: Arc::clone(&keys),
            };
            tasks.spawn(worker.run());
        }
    }
}

struct Worker<R: Reconciler> {
    runner: Runner,
    reconciler: Arc<R>,
    queue: Queue<R::Key>,
    keys: Arc<Mutex<KeyStates<R>>>,
}

/// State by key; keys without state have no entry.
type KeyStates<R> = BTreeMap<<R as Reconciler>::Key, KeyState<<R as Reconciler>::Memory>>;

/// State that the driver keeps of a key between two reconciles.
struct KeyState<M> {
    /// Consecutive failed reconciles.
    failures: u32,
    /// Start of the first of the consecutive reconciles that could not observe; `None` if the last one could.
    unobserved_since: Option<Instant>,
    memory: Option<Arc<M>>,
}

impl<M> Default for KeyState<M> {
    fn default() -> Self {
        Self {
            failures: 0,
            unobserved_since: None,
            memory: None,
        }
    }
}

impl<R: Reconciler> Worker<R> {
    async fn run(mut self) {
        loop {
            let key = tokio::select! {
                biased;
                // An error means that the sender is dropped: the process is stopping.
                _ = self.runner.shutdown.wait_for(|stop| *stop) => return,
                key = self.queue.next() => key,
            };
            let span = tracing::info_span!(
                "round",
                controller = R::NAME,
                %key,
                result = field::Empty,
                otel.status_code = field::Empty,
            );
            let mut has_written = false;
            let started = Instant::now();
            // The future is boxed inside and isolated, so a panic does not affect other keys.
            let round =
                isolation::isolated(self.round(&key, &mut has_written).instrument(span.clone())).await;
            let next = round.unwrap_or_else(|panicked| {
                self.panicked(&key, &panicked.message);
                Next::Failed(Requeue::AwaitChange, Why::word("panic"))
            });
            self.runner
                .metrics
                .round_ended(R::NAME, next.result(), started.elapsed());
            span.record("result", next.result());
            if let Next::Failed(_, why) = next {
                self.runner.metrics.round_failed(R::NAME, why.word);
                span.record("otel.status_code", "ERROR");
            }
            drop(span);
            if !has_written {
                self.queue.done(&key);
            } else if let Some(pause) = self.queue.done_writing(&key) {
                self.slowed_down(&key, pause);
            }
            self.schedule(key, &next);
        }
    }

    fn schedule(&self, key: R::Key, next: &Next) {
        match *next {
            Next::Settled(Requeue::AwaitChange) => self.forget_failures(&key),
            Next::Settled(Requeue::After { delay, reason }) => {
                tracing::trace!(controller = R::NAME, %key, ?delay, reason, "requeued");
                self.forget_failures(&key);
                self.queue.add_after(key, delay);
            }
            Next::Failed(requeue, why) => {
                let first = if why.is_refusal {
                    R::FIRST_BACKOFF_OF_REFUSED
                } else {
                    FIRST_BACKOFF
                };
                let backoff = self.backoff(&key, first);
                let delay = match requeue {
                    // A deadline may be earlier than the end of the backoff. But a stale observation asks for an immediate retry every
                    // time, which must not become a hot loop.
                    Requeue::After { delay, .. } => delay.clamp((backoff / 2).min(SOONEST_ASKED), backoff),
                    Requeue::AwaitChange => backoff,
                };
                self.queue.add_after(key, delay);
            }
        }
    }

    async fn round(&self, key: &R::Key, has_written: &mut bool) -> Next {
        let started = Instant::now();
        let memory = self.memory(key);
        let observed = match self.reconciler.observe_after(key, memory.as_deref()).await {
            Ok(Some(observed)) => observed,
            Ok(None) => {
                self.remember(key, None);
                return Next::Settled(Requeue::AwaitChange);
            }
            Err(error) => {
                tracing::warn!(controller = R::NAME, %key, %error, "cannot read the state of the object, retrying");
                let requeue = self.tell_unobserved(key, &error, started, has_written).await;
                return Next::Failed(requeue, Why::word("observe"));
            }
        };
        let now = whole_seconds(clock::now());
        let (plan, verdict) = R::decide(&observed, memory.as_deref(), now);
        let outcomes = self.runner.executor.act(&plan).await;
        *has_written = outcomes.iter().any(is_written);
        let update = R::status(&observed, verdict, &outcomes, now);
        self.remember(key, update.memory);
        let mut failed = outcomes.failure().map(|(_, failure)| Why::of(failure));
        // A warning reports what was found, so it is valid even if writes fail. It may not be repeated, since a write before the refused
        // one can record that it was reported.
        let mut events = plan.events;
        events.retain(|event| event.warning || failed.is_none());
        let mut untold = Vec::new();
        let mut answers = !outcomes.is_silent();
        for patch in &update.patches {
            // Each could wait as long as the one before, and would delay other keys of this controller.
            let outcome = if answers {
                self.runner.executor.perform(patch).await
            } else {
                Outcome::NotAttempted
            };
            *has_written |= is_written(&outcome);
            match outcome {
                Outcome::Failed(failure) => {
                    answers = !failure.is_unanswered();
                    // NotFound: the object was deleted during the reconcile, so nothing is left to report.
                    let is_news = failure.class != FailureClass::NotFound;
                    failed = failed.or(is_news.then(|| Why::of(&failure)));
                    untold.push(patch.target());
                }
                Outcome::NotAttempted => untold.push(patch.target()),
                Outcome::Done(_) | Outcome::Kept | Outcome::Gone => {}
            }
        }
        // Events about an unwritten status are sent by the reconcile that writes it; events about the others are sent now or never.
        let is_told = |event: &EventDraft| !untold.iter().any(|target| is_about(event, target));
        events.extend(update.events.into_iter().filter(is_told));
        for event in events {
            self.runner.metrics.told(&event.reason);
            self.runner.recorder.publish(event);
        }
        tracing::debug!(
            writes = plan.actions.len() + update.patches.len(),
            failed = failed.map(|why| why.word).unwrap_or_default(),
            elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            // Upstream's text.
            "reconcile ending"
        );
        let requeue = plan.requeue.sooner(update.requeue);
        match failed {
            Some(why) => Next::Failed(requeue, why),
            None => {
                self.runner.first_rounds.note(R::NAME);
                Next::Settled(requeue)
            }
        }
    }

    /// Reports reads that have failed for a while; before that, requeues the key so that the report is in time.
    async fn tell_unobserved(
        &self,
        key: &R::Key,
        error: &ObserveError,
        started: Instant,
        has_written: &mut bool,
    ) -> Requeue {
        let since = self.change_state(key, |state| *state.unobserved_since.get_or_insert(started));
        let left = TELL_AFTER.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return Requeue::After {
                delay: left,
                reason: "report of failed reads is due",
            };
        }
        if let Some(patch) = self.reconciler.unobserved(key, error) {
            *has_written = is_written(&self.runner.executor.perform(&patch).await);
        }
        Requeue::AwaitChange
    }

    fn panicked(&self, key: &R::Key, message: &str) {
        self.runner.metrics.round_panicked(R::NAME);
        tracing::error!(controller = R::NAME, %key, message, "reconcile panicked; this is a bug, please report it");
        let message = format!(
            "The controller panicked while reconciling this object and will retry. This is a bug: {message}"
        );
        self.report(key, reason::PANICKED, message);
    }

    fn slowed_down(&self, key: &R::Key, pause: Pause) {
        self.runner.metrics.key_paused(R::NAME);
        tracing::debug!(controller = R::NAME, %key, pause = ?PAUSE, "reconcile delayed after repeated writes");
        if pause.must_report {
            tracing::warn!(controller = R::NAME, %key, "repeated writes, rate limited");
            let message = format!(
                "The controller {} keeps writing this object's state. Probably something else keeps changing it back. It continues, with pauses of {} s.",
                R::NAME,
                PAUSE.as_secs()
            );
            self.report(key, reason::SLOWED_DOWN, message);
        }
    }

    /// Publishes an Event on the key's object.
    fn report(&self, key: &R::Key, reason: &str, message: String) {
        if let Ok(Some(regarding)) = isolation::catch(|| self.reconciler.regarding(key)) {
            let event = EventDraft::warning(regarding, reason, message);
            self.runner.recorder.publish(event);
        }
    }

    fn memory(&self, key: &R::Key) -> Option<Arc<R::Memory>> {
        self.keys.lock().get(key)?.memory.clone()
    }

    fn remember(&self, key: &R::Key, memory: Option<R::Memory>) {
        self.change_state(key, |state| {
            state.memory = memory.map(Arc::new);
            state.unobserved_since = None;
        });
    }

    fn forget_failures(&self, key: &R::Key) {
        self.change_state(key, |state| state.failures = 0);
    }

    fn backoff(&self, key: &R::Key, first: Duration) -> Duration {
        let failures = self.change_state(key, |state| {
            let before = state.failures;
            state.failures = before.saturating_add(1);
            before
        });
        backoff(first, LONGEST_BACKOFF, failures)
    }

    /// Changes the state of `key`, and drops it if it becomes empty.
    fn change_state<T>(&self, key: &R::Key, change: impl FnOnce(&mut KeyState<R::Memory>) -> T) -> T {
        let mut keys = self.keys.lock();
        let mut state = keys.remove(key).unwrap_or_default();
        let result = change(&mut state);
        if state.failures > 0 || state.memory.is_some() || state.unobserved_since.is_some() {
            keys.insert(key.clone(), state);
        }
        result
    }
}

/// True if the event is about this object.
fn is_about(event: &EventDraft, target: &Target) -> bool {
    let regarding = &event.regarding;
    regarding.kind.as_deref() == Some(&target.api.kind)
        && regarding.name.as_deref() == Some(&target.name)
        && regarding.namespace.as_deref().unwrap_or_default()
            == target.namespace.as_deref().unwrap_or_default()
}

/// True if the server changed something.
fn is_written(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(_))
}

enum Next {
    Settled(Requeue),
    Failed(Requeue, Why),
}

/// Reason why a reconcile failed.
#[derive(Clone, Copy)]
struct Why {
    /// One word, as in metrics.
    word: &'static str,
    is_refusal: bool,
}

impl Why {
    fn of(failure: &Failure) -> Self {
        Self {
            word: failure.class.label(),
            is_refusal: failure.is_refusal(),
        }
    }

    fn word(word: &'static str) -> Self {
        Self {
            word,
            is_refusal: false,
        }
    }
}

impl Next {
    /// Returns the result as in metrics and spans.
    fn result(&self) -> &'static str {
        match self {
            Self::Settled(Requeue::AwaitChange) => "success",
            Self::Settled(Requeue::After { .. }) => "requeue_after",
            Self::Failed(..) => "error",
        }
    }
}
