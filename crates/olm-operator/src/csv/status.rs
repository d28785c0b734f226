//! The status that follows from what was decided and what became of it. Pure, and called last.
//!
//! The history keeps the newest twenty entries; one is added when phase or reason change, not for a new message alone.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use olm_api::{
    condition::csv as reason,
    v1alpha1::{
        ClusterServiceVersion, ClusterServiceVersionCondition, ClusterServiceVersionPhase as Phase,
        ClusterServiceVersionStatus,
    },
};
use olm_runtime::{
    condition::stored_time,
    driver::StatusUpdate,
    outcome::{Failure, FailureClass, Outcome, Outcomes},
    plan::{EventDraft, Identity, Requeue, Target, status_patch},
};

use crate::csv::{
    decide::walk::{Position, Stage, Transition, Verdict},
    health, install,
    observed::Observed,
    rbac::{self, objects::identity},
};

/// Entries of the history.
const HISTORY_LENGTH: usize = 20;
/// Changes of rows or message alone are collected this long, because requirements appear one after the other.
const SETTLE: Duration = Duration::from_secs(2);
/// How long refused writes are just repeated before the status tells of them.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a Deployment that does not stay as it is applied is applied again.
const POLICY_INTERVAL: Duration = Duration::from_secs(60);

/// The status write, its events, and when to look again.
pub fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes, now: Timestamp) -> StatusUpdate {
    let Verdict {
        mut transitions,
        then,
        stage,
        grants,
        requirements,
    } = verdict;
    let undone = (stage == Stage::Install)
        .then(|| undone(observed, outcomes))
        .flatten();
    let again = undone.as_ref().map_or(Requeue::AwaitChange, |_| Requeue::After {
        delay: POLICY_INTERVAL,
        reason: "what changes a Deployment on its way in is not watched",
    });
    match refusal(&grants, outcomes) {
        None if undone.is_some() => transitions.extend(undone),
        None => transitions.extend(then),
        Some(refusal) => match told(observed, stage, &refusal, now) {
            Told::Nothing => return StatusUpdate::default(),
            Told::As(transition) => transitions.push(transition),
        },
    }
    let old = observed.csv.status.clone().unwrap_or_default();
    let mut new = old.clone();
    transitions.retain(|transition| {
        let moves = !is_at(&new, transition);
        if moves {
            follow(&mut new, transition, now);
        }
        moves
    });
    if let Some(rows) = requirements
        && new.requirement_status != rows
    {
        new.requirement_status = rows.into();
        new.last_update_time = Some(stored_time(now));
    }
    if says_same(&old, &new) {
        // A round that came back to where it started, as a refused attempt does, is not worth a write.
        return StatusUpdate {
            requeue: again,
            ..StatusUpdate::default()
        };
    }
    if let Some(left) = unsettled(observed, &old, &new, now) {
        let requeue = Requeue::After {
            delay: left,
            reason: "requirements and messages settle first",
        };
        return StatusUpdate {
            requeue,
            ..StatusUpdate::default()
        };
    }
    let target = Target::of::<ClusterServiceVersion>(observed.namespace(), observed.name());
    let patch = status_patch(target, Some(observed.uid()), &old, &new);
    let events = if patch.is_some() {
        events(observed, &transitions)
    } else {
        Vec::new()
    };
    StatusUpdate {
        patch,
        events,
        requeue: again,
    }
}

/// A Deployment that the API server took and that is not what was applied: somebody changes it on the way in. Installing
/// it once more would end the same way, and moving on would come back here at once.
fn undone(observed: &Observed, outcomes: &Outcomes) -> Option<Transition> {
    let wanted = install::wanted(observed);
    let stored = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Done(object) if object.get("kind")?.as_str()? == "Deployment" => {
            serde_json::from_value::<Deployment>(object.as_ref().clone()).ok()
        }
        _ => None,
    });
    let drift = stored
        .filter(|live| live.metadata.deletion_timestamp.is_none())
        .find_map(|live| {
            let name = live.metadata.name.as_deref()?;
            let built = wanted.iter().find(|built| built.wanted.name == name)?;
            health::drift(&built.wanted, &live)
        })?;
    let message = format!(
        "install strategy failed: {drift}, although it was just applied; a policy or a webhook of the cluster changes it"
    );
    Some(Transition::new(
        Phase::Failed,
        reason::INSTALL_COMPONENT_FAILED,
        message,
    ))
}

/// What a failed write means for the status.
enum Told {
    /// Nothing; the round is simply repeated.
    Nothing,
    /// This.
    As(Transition),
}

/// What was refused in a round.
struct Refusal {
    class: FailureClass,
    /// For people.
    text: String,
}

/// What the status has to tell of the failed writes of a round: the one that ended it, else all places where rights could not be
/// granted, with the first cause.
fn refusal(grants: &[rbac::Place], outcomes: &Outcomes) -> Option<Refusal> {
    let tell = |failure: &Failure| format!("{}: {}", failure.action, failure.message);
    if let Some((_, failure)) = outcomes.failures().find(|(index, _)| *index >= grants.len()) {
        return Some(Refusal {
            class: failure.class,
            text: tell(failure),
        });
    }
    let (_, first) = outcomes.failure()?;
    let refused = outcomes.failures().filter_map(|(index, _)| grants.get(index));
    let places = rbac::describe_places(refused);
    Some(Refusal {
        class: first.class,
        text: format!("rights are missing {places}: {}", tell(first)),
    })
}

fn told(observed: &Observed, stage: Stage, refusal: &Refusal, now: Timestamp) -> Told {
    let lasts = matches!(refusal.class, FailureClass::Forbidden | FailureClass::Invalid);
    match stage {
        Stage::Removal => Told::Nothing,
        Stage::Membership if lasts => Told::As(Transition::new(
            Phase::Pending,
            reason::REQUIREMENTS_UNKNOWN,
            format!(
                "membership in the OperatorGroup could not be written: {}",
                refusal.text
            ),
        )),
        Stage::Membership => Told::Nothing,
        Stage::Install => install_told(observed, refusal, now),
        Stage::Grants => match refusal.class {
            // The round was behind: a namespace or an object has changed, and the next one sees it.
            FailureClass::Conflict
            | FailureClass::AlreadyExists
            | FailureClass::NotFound
            | FailureClass::Terminating => Told::Nothing,
            FailureClass::Invalid => failed(reason::INSTALL_COMPONENT_FAILED, &refusal.text),
            FailureClass::Forbidden if identity(observed) != Identity::Operator => {
                failed(reason::INSTALL_COMPONENT_FAILED_NO_RETRY, &refusal.text)
            }
            FailureClass::Forbidden | FailureClass::Retry => waits(&refusal.text),
        },
    }
}

fn failed(reason: &'static str, text: &str) -> Told {
    let message = format!("install strategy failed: {text}");
    Told::As(Transition::new(Phase::Failed, reason, message))
}

fn waits(text: &str) -> Told {
    let message = format!("installing: {text}");
    Told::As(Transition::new(
        Phase::InstallReady,
        reason::INSTALL_WAITING,
        message,
    ))
}

/// A refusal that another attempt may get past never ends in phase Failed.
fn install_told(observed: &Observed, refusal: &Refusal, now: Timestamp) -> Told {
    let text = refusal.text.as_str();
    match refusal.class {
        FailureClass::Invalid => failed(reason::INSTALL_COMPONENT_FAILED, text),
        // Our own account is meant to be allowed everything, so a refusal is admission's or a broken install of ours;
        // the account of an OperatorGroup is refused on purpose.
        FailureClass::Forbidden if identity(observed) != Identity::Operator => {
            failed(reason::INSTALL_COMPONENT_FAILED_NO_RETRY, text)
        }
        FailureClass::Forbidden
        | FailureClass::Retry
        | FailureClass::Conflict
        | FailureClass::NotFound
        | FailureClass::AlreadyExists
        | FailureClass::Terminating => {
            if age(observed, now) < PATIENCE {
                return Told::Nothing;
            }
            waits(text)
        }
    }
}

/// Time since the status was last written.
fn age(observed: &Observed, now: Timestamp) -> Duration {
    let status = observed.csv.status.clone().unwrap_or_default();
    let updated = Position::stored(&status, observed.created()).updated;
    Duration::try_from(now.duration_since(updated)).unwrap_or_default()
}

fn is_at(status: &ClusterServiceVersionStatus, transition: &Transition) -> bool {
    status.phase == transition.phase
        && status.reason.as_deref() == Some(transition.reason)
        && status.message.as_deref() == Some(transition.message.as_str())
}

fn follow(status: &mut ClusterServiceVersionStatus, transition: &Transition, now: Timestamp) {
    let time = stored_time(now);
    if status.phase != transition.phase {
        status.last_transition_time = Some(time.clone());
    }
    status.last_update_time = Some(time);
    status.phase = transition.phase.clone();
    status.reason = Some(transition.reason.to_owned());
    status.message = Some(transition.message.clone());
    let repeats = status
        .conditions
        .last()
        .is_some_and(|last| last.phase == status.phase && last.reason == status.reason);
    if !repeats {
        status.conditions.push(ClusterServiceVersionCondition {
            phase: status.phase.clone(),
            reason: status.reason.clone(),
            message: status.message.clone(),
            last_update_time: status.last_update_time.clone(),
            last_transition_time: status.last_transition_time.clone(),
            ..ClusterServiceVersionCondition::default()
        });
    }
    let surplus = status.conditions.len().saturating_sub(HISTORY_LENGTH);
    status.conditions.drain(..surplus);
}

/// True when both say the same, the time of the last update aside.
fn says_same(old: &ClusterServiceVersionStatus, new: &ClusterServiceVersionStatus) -> bool {
    let timeless = ClusterServiceVersionStatus {
        last_update_time: old.last_update_time.clone(),
        ..new.clone()
    };
    timeless == *old
}

/// How long a change that moves neither phase nor reason has to wait, if it has to.
fn unsettled(
    observed: &Observed,
    old: &ClusterServiceVersionStatus,
    new: &ClusterServiceVersionStatus,
    now: Timestamp,
) -> Option<Duration> {
    let moved = old.phase != new.phase || old.reason != new.reason || old.conditions != new.conditions;
    if moved || (old.message == new.message && old.requirement_status == new.requirement_status) {
        return None;
    }
    SETTLE
        .checked_sub(age(observed, now))
        .filter(|left| !left.is_zero())
}

fn events(observed: &Observed, transitions: &[Transition]) -> Vec<EventDraft> {
    let about = observed.csv.object_ref(&());
    let event = |transition: &Transition| EventDraft {
        regarding: about.clone(),
        warning: transition.phase == Phase::Failed,
        reason: transition.reason.to_owned(),
        message: transition.message.clone(),
    };
    transitions.iter().map(event).collect()
}
