//! The loop every controller runs: observe → decide → act → status.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{Instrument, field};

use crate::{
    apply::Executor,
    brake::{CEILING, Extent, Pause, Written},
    clock,
    condition::whole_seconds,
    error::ObserveError,
    event::Recorder,
    isolation,
    metrics::{Metrics, RoundResult},
    outcome::{Failure, FailureClass, Outcome, Outcomes},
    plan::{Action, EventDraft, Plan, Requeue, Target},
    queue::Queue,
    reason,
    wake::ObjectId,
};

/// First delay after a failed round; doubles up to [`LONGEST_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Longest delay between two failing rounds of one key.
const LONGEST_BACKOFF: Duration = CEILING;
/// A failing round that asks for an earlier look, for a deadline, is not looked at more often than this in the long run.
const SOONEST_ASKED: Duration = Duration::from_secs(5);

/// How long reads or writes of a key may fail before its status is to say so. Rounds take their time as whole seconds and reads take
/// some, and after five seconds somebody looks.
pub const TELL_AFTER: Duration = Duration::from_secs(4);

/// What `status` wants: the patches, what follows from them, and what the next round is to know. `M` is the
/// [`Reconciler::Memory`].
#[derive(Debug)]
pub struct StatusUpdate<M = ()> {
    /// One status patch for each object whose status changed. Each is attempted, whatever became of the others, as long as the
    /// server answers.
    pub patches: Vec<Action>,
    /// Events to send after the statuses are written. One about an object whose status was not written is dropped: the round
    /// that writes it brings it again.
    pub events: Vec<EventDraft>,
    /// Combined with the plan's: the sooner wins.
    pub requeue: Requeue,
    /// What `decide` gets in the key's next round; `None` forgets what it got in this one.
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

/// One controller.
///
/// # Expected flow
/// `observe` collects everything the decision needs as values; `decide` and `status` are pure and
/// total, and get no reconciler to read from; only the executor writes. `None` from `observe` means that there is nothing to do.
///
/// # Guarantees
/// One key is never in two rounds at once. A round that could not observe, or whose write failed, or that panicked, is
/// repeated with exponential backoff from 100 ms to 60 s; success resets it. Statuses are written last, each once, even
/// when an action failed, so that they tell about the failure. A key that keeps writing though nobody else
/// wants anything of it is slowed down, see [`crate::brake`]. Reads that have failed for [`TELL_AFTER`] are told, if the reconciler
/// knows where.
///
/// # Memory
/// A reconciler has no state of its own that rounds change. What a round learns and no object holds, such as the words
/// with which its last write was refused or what was told already, goes through the driver: `status` sees the failures
/// ([`Outcomes::failures`]) and puts what the next round needs into [`StatusUpdate::memory`]; `decide` of that round gets
/// it. To keep what was known, `decide` hands it to `status` in the verdict. The driver keeps one value per key: a round
/// whose `observe`, `decide` or `status` fails or panics leaves it as it is, `None` from `observe` forgets it, and so does
/// a restart of the process, after which everything starts from what the cluster holds. So nothing may depend on it but
/// what is told and how soon.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// What the queue holds.
    type Key: Clone + Ord + Hash + Display + Send + Sync + 'static;
    /// Everything one decision reads, as values.
    type Observed: Send + Sync + 'static;
    /// What `decide` concluded besides the writes, for `status`.
    type Verdict: Send + 'static;
    /// What one round of a key leaves for its next, see above; `()` for nothing.
    type Memory: Send + Sync + 'static;

    /// Name in logs, for example `csv`.
    const NAME: &'static str;
    /// First delay after a round whose write was refused ([`Failure::is_refusal`]); for keys of which a cluster has so many that
    /// what refuses all of them would be asked too often.
    const FIRST_BACKOFF_OF_REFUSED: Duration = FIRST_BACKOFF;

    /// The object of a key, for the driver's own Events about it; `None` when there is none to tell it on.
    fn regarding(&self, key: &Self::Key) -> Option<ObjectReference>;
    /// Reads, and only reads.
    async fn observe(&self, key: &Self::Key) -> Result<Option<Self::Observed>, ObserveError>;
    /// The status patch that tells, beside what the object's status says, of reads that keep failing. It may only read what is at
    /// hand, and should be `None` when that was told already: every failing round asks. The next round that gets as far as
    /// `status` takes it back.
    fn unobserved(&self, _key: &Self::Key, _error: &ObserveError) -> Option<Action> {
        None
    }
    /// Pure: what is to be written, and what status is to say. `memory` is what the key's last round left.
    fn decide(
        observed: &Self::Observed,
        memory: Option<&Self::Memory>,
        now: Timestamp,
    ) -> (Plan, Self::Verdict);
    /// Pure: the statuses that follow from what really happened, and what the key's next round is to know.
    fn status(
        observed: &Self::Observed,
        verdict: Self::Verdict,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate<Self::Memory>;
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
    /// Counts what the rounds of all controllers come to.
    pub metrics: Metrics,
    /// Whose first rounds went well.
    pub first_rounds: FirstRounds,
}

/// The controllers of this process of which a round went well; a clone is another handle to the same. A round for an object that is not there
/// is none.
#[derive(Clone, Default)]
pub struct FirstRounds(Arc<Mutex<Firsts>>);

type Listener = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Firsts {
    seen: BTreeSet<&'static str>,
    /// Each with the controller that it waits for.
    listeners: Vec<(&'static str, Listener)>,
}

impl fmt::Debug for FirstRounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FirstRounds").field(&self.lock().seen).finish()
    }
}

impl FirstRounds {
    /// Whether a round of `R` went well in this process.
    pub fn has_one_of<R: Reconciler>(&self) -> bool {
        self.lock().seen.contains(R::NAME)
    }

    /// Calls `listener` with the first round of `R` that goes well; at once if there was one.
    pub fn on_first_of<R: Reconciler>(&self, listener: impl FnOnce() + Send + 'static) {
        let mut firsts = self.lock();
        if firsts.seen.contains(R::NAME) {
            drop(firsts);
            listener();
        } else {
            firsts.listeners.push((R::NAME, Box::new(listener)));
        }
    }

    fn note(&self, controller: &'static str) {
        let mut firsts = self.lock();
        if !firsts.seen.insert(controller) {
            return;
        }
        let told: Vec<_> = firsts
            .listeners
            .extract_if(.., |(awaited, _)| *awaited == controller)
            .collect();
        drop(firsts);
        for (_, listener) in told {
            listener();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Firsts> {
        // Every critical section leaves the value consistent, so a panic elsewhere cannot spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runner {
    /// A runner that counts where `executor` does.
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

/// By key; a key of which nothing is known has none.
type KeyStates<R> = BTreeMap<<R as Reconciler>::Key, KeyState<<R as Reconciler>::Memory>>;

/// What the driver knows of a key between two rounds.
struct KeyState<M> {
    /// Rounds that failed since the last one that did not.
    failures: u32,
    /// When the first round began of those that could not observe, if the last one could not.
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
                // An error means the sender is gone: the process is stopping.
                _ = self.runner.shutdown.wait_for(|stop| *stop) => return,
                key = self.queue.next() => key,
            };
            let trigger = self.queue.trigger(&key);
            let trigger = trigger.as_deref().map(field::display);
            let span = tracing::info_span!(
                "round",
                controller = R::NAME,
                %key,
                trigger,
                result = field::Empty,
                otel.status_code = field::Empty,
            );
            let mut written = Written::default();
            let started = Instant::now();
            // Boxed in there, and on its own: whatever it is that panics, other keys go on.
            let round = isolation::isolated(self.round(&key, &mut written).instrument(span.clone())).await;
            let next = round.unwrap_or_else(|panicked| {
                self.panicked(&key, &panicked.message);
                Next::Failed(Requeue::AwaitChange, Why::word("panic"))
            });
            self.runner
                .metrics
                .round_ended(R::NAME, next.result(), started.elapsed());
            span.record("result", next.result().label());
            if let Next::Failed(_, why) = next {
                self.runner.metrics.round_failed(R::NAME, why.word);
                span.record("otel.status_code", "ERROR");
            }
            drop(span);
            if let Some(pause) = self.queue.done_writing(&key, &written) {
                self.slowed_down(&key, pause);
            }
            self.schedule(key, &next);
        }
    }

    fn schedule(&self, key: R::Key, next: &Next) {
        match *next {
            Next::Settled(Requeue::AwaitChange) => self.forget_failures(&key),
            Next::Settled(Requeue::After { delay, reason }) => {
                tracing::trace!(controller = R::NAME, %key, ?delay, reason, "again later");
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
                    // A deadline may come before the backoff's end. But an observation that is out of date asks for the
                    // next look at once, every time, and must not become a hot loop.
                    Requeue::After { delay, .. } => delay.clamp((backoff / 2).min(SOONEST_ASKED), backoff),
                    Requeue::AwaitChange => backoff,
                };
                self.queue.add_after(key, delay);
            }
        }
    }

    async fn round(&self, key: &R::Key, written: &mut Written) -> Next {
        let started = Instant::now();
        let observed = match self.reconciler.observe(key).await {
            Ok(Some(observed)) => observed,
            Ok(None) => {
                self.remember(key, None);
                return Next::Settled(Requeue::AwaitChange);
            }
            Err(error) => {
                tracing::warn!(controller = R::NAME, %key, %error, "could not observe, trying again");
                let requeue = self.tell_unobserved(key, &error, started, written).await;
                return Next::Failed(requeue, Why::word("observe"));
            }
        };
        let now = whole_seconds(clock::now());
        let memory = self.memory(key);
        let (plan, verdict) = R::decide(&observed, memory.as_deref(), now);
        let outcomes = self.runner.executor.act(&plan).await;
        for (action, outcome) in plan.actions.iter().zip(outcomes.iter()) {
            note_write(written, Extent::More, action, outcome);
        }
        let update = R::status(&observed, verdict, &outcomes, now);
        self.remember(key, update.memory);
        let mut failed = outcomes.failure().map(|(_, failure)| Why::of(failure));
        // A warning tells what was found. It holds whatever became of the writes, and may not come again: what was written
        // before the refused one can be what says that it was told.
        let mut events = plan.events;
        events.retain(|event| event.warning || failed.is_none());
        let mut untold = Vec::new();
        let mut answers = !outcomes.is_silent();
        for patch in &update.patches {
            // Each could wait as long as the one before, and others of this controller with them.
            let outcome = if answers {
                self.runner.executor.perform(patch).await
            } else {
                Outcome::NotAttempted
            };
            note_write(written, Extent::Status, patch, &outcome);
            match outcome {
                Outcome::Failed(failure) => {
                    answers = !failure.is_unanswered();
                    // NotFound: the object went away while it was looked at; nothing is left to tell.
                    let is_news = failure.class != FailureClass::NotFound;
                    failed = failed.or(is_news.then(|| Why::of(&failure)));
                    untold.push(patch.target());
                }
                Outcome::NotAttempted => untold.push(patch.target()),
                Outcome::Done(_) | Outcome::Kept | Outcome::Gone => {}
            }
        }
        // The round that writes a status tells what is new in it; what is new in the others is told now or never.
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
            "round ended"
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

    /// Tells of reads that have failed for a while; before, says when to look again so that it is told in time.
    async fn tell_unobserved(
        &self,
        key: &R::Key,
        error: &ObserveError,
        started: Instant,
        written: &mut Written,
    ) -> Requeue {
        let since = self.change_state(key, |state| *state.unobserved_since.get_or_insert(started));
        let left = TELL_AFTER.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return Requeue::After {
                delay: left,
                reason: "reads that fail are told",
            };
        }
        if let Some(patch) = self.reconciler.unobserved(key, error) {
            let outcome = self.runner.executor.perform(&patch).await;
            note_write(written, Extent::Status, &patch, &outcome);
        }
        Requeue::AwaitChange
    }

    fn panicked(&self, key: &R::Key, message: &str) {
        self.runner.metrics.round_panicked(R::NAME);
        tracing::error!(controller = R::NAME, %key, message, "the round panicked: a bug, please report it");
        let message =
            format!("The controller failed at this object and will try again. This is a bug: {message}");
        self.tell(key, reason::PANICKED, message);
    }

    fn slowed_down(&self, key: &R::Key, pause: Pause) {
        self.runner.metrics.key_paused(R::NAME);
        tracing::debug!(controller = R::NAME, %key, pause = ?pause.length, "held back after writing again");
        if pause.is_to_be_told {
            tracing::warn!(controller = R::NAME, %key, "keeps writing with nobody asking for it, slowed down");
            let message = format!(
                "The controller {} keeps writing to the cluster without anybody having asked for a change. \
                 It goes on, with pauses of up to {} s.",
                R::NAME,
                CEILING.as_secs()
            );
            self.tell(key, reason::SLOWED_DOWN, message);
        }
    }

    /// An Event on the key's object.
    fn tell(&self, key: &R::Key, reason: &str, message: String) {
        if let Ok(Some(regarding)) = isolation::catch(|| self.reconciler.regarding(key)) {
            let event = EventDraft::warning(regarding, reason, message);
            self.runner.recorder.publish(event);
        }
    }

    fn memory(&self, key: &R::Key) -> Option<Arc<R::Memory>> {
        self.lock_keys().get(key)?.memory.clone()
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
        let delay = first.saturating_mul(1 << failures.min(16));
        delay.min(LONGEST_BACKOFF)
    }

    /// Changes what is known of `key`, and drops it when nothing is left to know.
    fn change_state<T>(&self, key: &R::Key, change: impl FnOnce(&mut KeyState<R::Memory>) -> T) -> T {
        let mut keys = self.lock_keys();
        let mut state = keys.remove(key).unwrap_or_default();
        let result = change(&mut state);
        if state.failures > 0 || state.memory.is_some() || state.unobserved_since.is_some() {
            keys.insert(key.clone(), state);
        }
        result
    }

    fn lock_keys(&self) -> MutexGuard<'_, KeyStates<R>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the event stands on this very object.
fn is_about(event: &EventDraft, target: &Target) -> bool {
    let regarding = &event.regarding;
    regarding.kind.as_deref() == Some(&target.api.kind)
        && regarding.name.as_deref() == Some(&target.name)
        && regarding.namespace.as_deref().unwrap_or_default()
            == target.namespace.as_deref().unwrap_or_default()
}

/// Notes what `action` changed.
fn note_write(written: &mut Written, extent: Extent, action: &Action, outcome: &Outcome) {
    let Outcome::Done(object) = outcome else {
        return;
    };
    written.extent = written.extent.max(extent);
    if action.subresource() == Some("status") {
        return;
    }
    let target = action.target();
    let generated = object
        .pointer("/metadata/name")
        .and_then(serde_json::Value::as_str);
    let name = if target.name.is_empty() {
        generated.unwrap_or_default()
    } else {
        &target.name
    };
    written.objects.push(ObjectId {
        group: target.api.group.clone(),
        kind: target.api.kind.clone(),
        key: crate::NamespacedName::new(target.namespace.clone().unwrap_or_default(), name),
    });
}

enum Next {
    Settled(Requeue),
    Failed(Requeue, Why),
}

/// Why a round failed.
#[derive(Clone, Copy)]
struct Why {
    /// In one word, as in metrics.
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
    fn result(&self) -> RoundResult {
        match self {
            Self::Settled(Requeue::AwaitChange) => RoundResult::Success,
            Self::Settled(Requeue::After { .. }) => RoundResult::RequeueAfter,
            Self::Failed(..) => RoundResult::Error,
        }
    }
}
