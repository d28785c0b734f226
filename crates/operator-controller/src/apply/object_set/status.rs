//! Reports the state of a revision. Pure.

use std::time::Duration;

use go_compat::quote;
use olm_api::condition::{FALSE, TRUE, UNKNOWN, cluster_object_set as words};
use olm_api::extension_v1::{ClusterObjectSet, ClusterObjectSetStatus, LifecycleState};
use olm_api::labels;
use olm_runtime::Timestamp;
use olm_runtime::condition::{condition_of, set_condition};
use olm_runtime::driver::StatusUpdate;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, Outcomes};
use olm_runtime::plan::{Action, Requeue, status_of};
use serde_json::Value;

use super::decide::{extension_of, is_known};
use super::{Conclusion, Content, Known, Memory, Observed, ReadObject, State, Verdict, has_succeeded};
use crate::apply::collision::{collision_text, controller};
use crate::apply::object::metadata_text;
use crate::apply::probe::{ProbeResult, probe};
use crate::apply::validation::phase_error;

/// Interval of attempts after a collision or a refused object.
const RETRY: Duration = Duration::from_secs(10);
/// Interval of checks of objects that are being deleted.
const TEARDOWN: Duration = Duration::from_secs(5);
/// Delay before the next phase, if no change of an object requeues the revision.
const NEXT_PHASE: Duration = Duration::from_millis(10);

/// Returns the patch of the status if it changes, and the state of the objects.
pub(super) fn status(
    observed: &Observed,
    verdict: Verdict,
    outcomes: &Outcomes,
    now: Timestamp,
) -> StatusUpdate<Memory> {
    let set = &observed.set;
    let mut report = Report::new(set, now);
    if let Content::Read(phases) = &observed.content
        && report.status.observed_phases.is_empty()
    {
        report.status.observed_phases = phases.iter().map(|phase| phase.observed.clone()).collect();
    }
    let Verdict {
        conclusion,
        mut memory,
    } = verdict;
    let requeue = match conclusion {
        Conclusion::Nothing => return StatusUpdate::default(),
        Conclusion::Blocked(message) => {
            report.set(words::PROGRESSING, FALSE, words::BLOCKED, &message);
            Requeue::AwaitChange
        }
        Conclusion::Retrying(message) => {
            report.retrying(&message);
            Requeue::after(RETRY, "retry")
        }
        Conclusion::Archived { is_done } => archived(&mut report, is_done, outcomes),
        Conclusion::Rollout { phases, is_complete } => {
            remember(&mut memory, observed, &phases, outcomes);
            rollout(&mut report, observed, &phases, is_complete, outcomes)
        }
    };
    StatusUpdate {
        patches: Vec::from_iter(report.patch()),
        requeue: requeue.sooner(report.requeue()),
        memory: Some(memory),
        ..StatusUpdate::default()
    }
}

/// Returns the patch that reports an error of reading, unless it is reported already.
pub(super) fn unobserved(set: &ClusterObjectSet, error: &str, now: Timestamp) -> Option<Action> {
    let mut report = Report::new(set, now);
    report.retrying(error);
    report.patch()
}

/// Returns the seconds until the progress deadline, not positive if it has passed. `None` if there is none.
fn seconds_left(set: &ClusterObjectSet, now: Timestamp) -> Option<i64> {
    let minutes = set
        .spec
        .progress_deadline_minutes
        .filter(|minutes| *minutes > 0)?;
    if has_succeeded(set) || set.spec.lifecycle_state == LifecycleState::Archived {
        return None;
    }
    let created = set.metadata.creation_timestamp.as_ref()?.0;
    let passed = now.as_second().saturating_sub(created.as_second());
    Some(i64::from(minutes).saturating_mul(60).saturating_sub(passed))
}

/// A status that is being computed.
struct Report<'a> {
    set: &'a ClusterObjectSet,
    status: ClusterObjectSetStatus,
    /// Seconds until the progress deadline.
    remaining: Option<i64>,
    now: Timestamp,
}

impl<'a> Report<'a> {
    fn new(set: &'a ClusterObjectSet, now: Timestamp) -> Self {
        Self {
            set,
            status: set.status.clone().unwrap_or_default(),
            remaining: seconds_left(set, now),
            now,
        }
    }

    fn patch(&self) -> Option<Action> {
        let old = self.set.status.clone().unwrap_or_default();
        status_of(self.set, &old, &self.status)
    }

    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let texts = [type_, status, reason, message];
        let condition = condition_of(&self.set.metadata, texts, self.now);
        set_condition(&mut self.status.conditions, condition);
    }

    /// Sets the condition Progressing. Only success counts after the deadline.
    fn progressing(&mut self, reason: &str, message: &str) {
        let is_late = self.remaining.is_some_and(|seconds| seconds <= 0);
        if is_late && reason != words::REASON_SUCCEEDED {
            let minutes = self.set.spec.progress_deadline_minutes.unwrap_or_default();
            let text = format!("Revision has not rolled out for {minutes} minute(s). Last status: {message}");
            let reason = words::PROGRESS_DEADLINE_EXCEEDED;
            self.set(words::PROGRESSING, FALSE, reason, &text);
        } else {
            self.set(words::PROGRESSING, TRUE, reason, message);
        }
    }

    fn retrying(&mut self, message: &str) {
        self.progressing(words::RETRYING, message);
        let mut conditions = self.status.conditions.iter();
        if conditions.any(|condition| condition.type_ == words::AVAILABLE) {
            self.set(words::AVAILABLE, UNKNOWN, words::RECONCILING, message);
        }
    }

    /// Returns the requeue at the progress deadline.
    fn requeue(&self) -> Requeue {
        Requeue::after_seconds(self.remaining, "progress deadline")
    }
}

fn archived(report: &mut Report<'_>, is_done: bool, outcomes: &Outcomes) -> Requeue {
    if let Some((_, failure)) = outcomes.failure() {
        let message = format!(
            "error archiving revision: teardown phase: {}: {}",
            failure.action, failure.message
        );
        report.retrying(&message);
        return Requeue::AwaitChange;
    }
    if !is_done {
        report.retrying(words::TEARDOWN_MESSAGE);
        return Requeue::after(TEARDOWN, "objects are being deleted");
    }
    let message = words::ARCHIVED_MESSAGE;
    report.set(words::PROGRESSING, FALSE, words::ARCHIVED, message);
    report.set(words::AVAILABLE, UNKNOWN, words::ARCHIVED, message);
    Requeue::AwaitChange
}

/// Remembers which objects are as they were applied.
fn remember(memory: &mut Memory, observed: &Observed, states: &[Vec<State>], outcomes: &Outcomes) {
    for (object, state) in objects(observed, states).flat_map(|(_, _, pairs)| pairs) {
        let known = match (state, &object.current) {
            (State::Settled, Some(current)) if is_known(&observed.set, memory, object) => {
                Some(Known::Seen(current.fingerprint.clone()))
            }
            (State::Applied(index), _) => match outcomes.get(index) {
                Outcome::Done(applied) => Some(Known::Applied {
                    version: metadata_text(applied, "resourceVersion"),
                    generation: applied["metadata"]["generation"].as_i64(),
                }),
                _ => None,
            },
            _ => None,
        };
        match known {
            Some(known) => memory.0.insert(object.id.clone(), known),
            None => memory.0.remove(&object.id),
        };
    }
}

type Pairs<'a> = Vec<(&'a ReadObject, State)>;

/// Returns the phases that were reached, with index, name, and their objects with states.
fn objects<'a>(
    observed: &'a Observed,
    states: &'a [Vec<State>],
) -> impl Iterator<Item = (usize, &'a str, Pairs<'a>)> {
    let phases = match &observed.content {
        Content::Read(phases) => phases.as_slice(),
        Content::Unread(_) | Content::Deleted(_) => &[],
    };
    phases
        .iter()
        .zip(states)
        .enumerate()
        .map(|(index, (phase, states))| {
            let pairs = phase.objects.iter().zip(states.iter().copied());
            (index, phase.observed.name.as_str(), pairs.collect())
        })
}

fn rollout(
    report: &mut Report<'_>,
    observed: &Observed,
    states: &[Vec<State>],
    is_complete: bool,
    outcomes: &Outcomes,
) -> Requeue {
    if let Some((action, failure)) = outcomes.failure() {
        // Without a text the failure is about the revision itself or an older one, and no object failed.
        if let Some(text) =
            objects(observed, states).find_map(|phase| failure_text(report.set, &phase, action, failure))
        {
            report.retrying(&text);
        }
        return Requeue::AwaitChange;
    }
    if let Some(text) = objects(observed, states).find_map(|phase| refusal_text(report.set, &phase)) {
        report.retrying(&text);
        return Requeue::after(RETRY, "retry");
    }
    let version = report.set.metadata.annotations.as_ref();
    let version = version.and_then(|annotations| annotations.get(labels::EXTENSION_BUNDLE_VERSION));
    let version = version.map(String::as_str).unwrap_or_default();
    if is_complete {
        report.progressing(words::REASON_SUCCEEDED, &words::rolled_out_message(version));
        let message = words::PROBES_SUCCEEDED_MESSAGE;
        report.set(words::AVAILABLE, TRUE, words::PROBES_SUCCEEDED, message);
        let message = words::SUCCEEDED_MESSAGE;
        report.set(words::SUCCEEDED, TRUE, words::REASON_SUCCEEDED, message);
        report.remaining = None;
        return Requeue::AwaitChange;
    }
    let message = words::rolling_out_message(version);
    let unready: Vec<String> = objects(observed, states)
        .filter_map(|(_, _, pairs)| unready(report.set, &pairs, outcomes))
        .collect();
    if unready.is_empty() && has_succeeded(report.set) {
        // An object was applied again, and still is ready. The next reconcile reaches the later phases.
        return Requeue::after(NEXT_PHASE, "next phase");
    }
    report.progressing(words::ROLLING_OUT, &message);
    if unready.is_empty() {
        report.set(words::AVAILABLE, FALSE, words::ROLLING_OUT, &message);
        // A newer revision has taken over. It archives this one when it is complete.
        let is_left = states.iter().flatten().any(|state| *state == State::Left);
        return if is_left {
            Requeue::AwaitChange
        } else {
            Requeue::after(NEXT_PHASE, "next phase")
        };
    }
    report.set(words::AVAILABLE, FALSE, words::PROBE_FAILURE, &unready.join("\n"));
    Requeue::AwaitChange
}

/// Returns the text about the first object of a phase that does not pass its probes.
fn unready(set: &ClusterObjectSet, pairs: &[(&ReadObject, State)], outcomes: &Outcomes) -> Option<String> {
    pairs.iter().find_map(|(object, state)| {
        let result = match state {
            State::Applied(index) => match outcomes.get(*index) {
                Outcome::Done(applied) => probe(&set.spec.progression_probes, &object.id, applied),
                _ => return None,
            },
            _ => probed(set, object)?,
        };
        (!result.is_passed()).then(|| format!("{}: {}", object.id.title(), result.messages.join(" and ")))
    })
}

/// Probes an object as it was read.
fn probed(set: &ClusterObjectSet, object: &ReadObject) -> Option<ProbeResult> {
    let current = object.current.as_ref()?;
    Some(probe(&set.spec.progression_probes, &object.id, &current.object))
}

/// Returns the text about a failed write, if it is of an object of this phase.
fn failure_text(
    set: &ClusterObjectSet,
    (index, name, pairs): &(usize, &str, Pairs<'_>),
    action: usize,
    failure: &Failure,
) -> Option<String> {
    let mut pairs = pairs.iter();
    let (object, _) = pairs.find(|(_, state)| *state == State::Applied(action))?;
    let (reference, message) = (object.id.reference(), &failure.message);
    let is_transient = matches!(failure.class, FailureClass::Retry | FailureClass::Conflict);
    if is_transient {
        let what = match &object.current {
            None => "creating resource",
            Some(current) if is_controlled(set, &current.object) => "patching (modified)",
            Some(_) => "patching (owner change)",
        };
        return Some(format!(
            "reconciling object: reconciling {reference}: {what}: {message}"
        ));
    }
    let error = phase_error(name, None, &[format!("{reference}: {message}")])?;
    Some(format!("phase {index} validation error: {error}"))
}

fn is_controlled(set: &ClusterObjectSet, object: &Value) -> bool {
    let uid = set.metadata.uid.as_ref();
    controller(object).is_some_and(|owner| Some(&owner.uid) == uid)
}

/// Returns the text about the objects of a phase that were not applied: kinds that are not served, or else collisions.
fn refusal_text(set: &ClusterObjectSet, (index, name, pairs): &(usize, &str, Pairs<'_>)) -> Option<String> {
    let of_state = |wanted: State| pairs.iter().filter(move |(_, state)| *state == wanted);
    let unserved: Vec<String> = of_state(State::Unserved)
        .map(|(object, _)| {
            let id = &object.id;
            let version = if id.group.is_empty() {
                id.version.clone()
            } else {
                format!("{}/{}", id.group, id.version)
            };
            let (reference, kind, version) = (id.reference(), quote(&id.kind), quote(&version).to_string());
            format!("{reference}: no matches for kind {kind} in version {version}")
        })
        .collect();
    if let Some(error) = phase_error(name, None, &unserved) {
        return Some(format!("phase {index} validation error: {error}"));
    }
    let collisions: Vec<String> = of_state(State::Collision)
        .map(|(object, _)| {
            let lines = probed(set, object).map(|result| result.lines());
            let live = object.current.as_ref().map(|current| &current.object);
            collision_text(extension_of(set), &object.id, &lines.unwrap_or_default(), live)
        })
        .collect();
    (!collisions.is_empty()).then(|| {
        let collisions = collisions.join("\n\n");
        format!("revision object collisions in phase {index}\n{collisions}")
    })
}
