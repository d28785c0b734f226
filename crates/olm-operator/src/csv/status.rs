//! Computes the status from the decision and the results of its writes. No I/O; called last.
//!
//! The history keeps the newest twenty entries. A new phase or reason adds an entry; a new message alone does
//! not.

mod refusal;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use olm_api::{
    condition::csv as reason,
    v1alpha1::{
        ClusterServiceVersion, ClusterServiceVersionCondition, ClusterServiceVersionPhase as Phase,
        ClusterServiceVersionStatus, RequirementStatus,
    },
};
use olm_runtime::{
    condition::stored_time,
    driver::StatusUpdate,
    error::ObserveError,
    outcome::{Outcome, Outcomes},
    plan::{Action, EventDraft, Requeue, status_of},
};

use crate::csv::{
    decide::{
        pending,
        transitions::{Position, Stage, Transition, Verdict},
    },
    deployment::Built,
    health, held_up,
    install::{self, serving},
    observed::Observed,
    requirements::is_missing_rights,
    serving::{certificate::Validity, component::Component},
    status::refusal::{MissingRights, Refusal, Telling},
};

/// Maximum number of history entries.
const HISTORY_LENGTH: usize = 20;
/// Delay in which changes of rows or message alone are collected, because requirements appear one after the
/// other.
const STATUS_DEBOUNCE: Duration = Duration::from_secs(2);
/// Interval for reapplying a Deployment that does not stay as it was applied.
const POLICY_INTERVAL: Duration = Duration::from_secs(60);

/// Returns the status write, its events, and the delay of the next reconcile.
pub(crate) fn status(
    observed: &Observed,
    verdict: Verdict,
    outcomes: &Outcomes,
    now: Timestamp,
) -> StatusUpdate<Timestamp> {
    let Verdict {
        mut transitions,
        then,
        stage,
        grants,
        applied,
        requirements,
        refused_since,
    } = verdict;
    let old = observed.csv.status.clone().unwrap_or_default();
    let told = old.message.as_deref().unwrap_or_default();
    let mut requeue = Requeue::AwaitChange;
    let mut memory = None;
    let mut held_up_by = None;
    let since = refused_since.unwrap_or(now);
    let lasted = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let mut missing = Vec::new();
    if let Some(refused) = MissingRights::of(&grants, outcomes) {
        memory = Some(since);
        // Until the new refusal is reported, the earlier report remains.
        let told = old.requirement_status.iter();
        let told = || told.filter(|row| is_missing_rights(row)).cloned().collect();
        missing = refused.report(lasted).unwrap_or_else(told);
    }
    if let Some(refusal) = Refusal::of(grants.len(), outcomes) {
        memory = Some(since);
        match refusal.telling(observed, stage, lasted) {
            Telling::Transition(transition) => transitions.push(transition),
            Telling::Besides(cause) => {
                if observed.csv.phase() == &Phase::None && transitions.is_empty() {
                    transitions.push(pending::unchecked());
                }
                held_up_by = Some(cause);
            }
            Telling::Later(delay) => {
                requeue = Requeue::after(delay, "report of refused writes is due");
                let wrote = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Done(_)));
                if matches!(stage, Stage::Install | Stage::Grants) && !wrote {
                    // The driver repeats the reconcile, which comes to the same result, unless something was
                    // written: a write may have changed the input.
                    return StatusUpdate {
                        requeue,
                        memory,
                        ..StatusUpdate::default()
                    };
                }
                // A new process does not know since when, and the earlier report may still apply.
                held_up_by = held_up::cause(told).map(str::to_owned);
            }
        }
    } else if let Some(undone) = undone(observed, stage, &applied, outcomes) {
        transitions.push(undone);
        requeue = Requeue::after(
            POLICY_INTERVAL,
            "webhooks that change Deployments are not watched",
        );
    } else {
        transitions.extend(then);
    }

    let mut new = old.clone();
    new.message = new.message.map(|told| held_up::without(&told).to_owned());
    transitions.retain(|transition| follow(&mut new, transition, now));
    set_requirements(&mut new, (requirements, missing), !grants.is_empty(), now);
    set_certificate_times(&mut new, observed);
    if let Some(cause) = held_up_by {
        new.message = Some(held_up::with(new.message.as_deref().unwrap_or_default(), &cause));
    }
    let mut update = StatusUpdate {
        requeue,
        memory,
        ..StatusUpdate::default()
    };
    match write_delay(observed, &old, &new, now) {
        None => {}
        Some(delay) if !delay.is_zero() => {
            let later = Requeue::after(delay, "debounce of requirements and messages");
            update.requeue = requeue.sooner(later);
        }
        Some(_) => {
            update.patches = Vec::from_iter(status_of(&*observed.csv, &old, &new));
            if !update.patches.is_empty() {
                update.events = events(observed, &transitions);
                update.events.extend(missing_rights(observed, &old, &new));
            }
        }
    }
    update
}

/// Reports reads that keep failing, in addition to the phase's message; `None` when that is already reported.
/// Times do not change, so the wait of the phase continues.
pub(crate) fn unobserved(csv: &ClusterServiceVersion, error: &ObserveError) -> Option<Action> {
    if csv.is_copied() {
        return None;
    }
    let old = csv.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let told = old.message.as_deref().unwrap_or_default();
    new.message = Some(held_up::with(told, &error.to_string()));
    status_of(csv, &old, &new)
}

/// Finds a component that the API server accepted but stored differently, because an admission plugin or
/// webhook changes it. Another install would end the same way, and moving on would return here at once.
fn undone(
    observed: &Observed,
    stage: Stage,
    applied: &[(usize, Component)],
    outcomes: &Outcomes,
) -> Option<Transition> {
    if stage != Stage::Install {
        return None;
    }
    let wanted = install::wanted(observed);
    let drift = applied.iter().find_map(|(index, component)| {
        let stored = match outcomes.get(*index) {
            Outcome::Done(object) if object.pointer("/metadata/deletionTimestamp").is_none() => object,
            _ => return None,
        };
        if component.target.api.kind != Deployment::kind(&()) {
            return component.problem(Some(stored.as_ref()));
        }
        let live: Deployment = serde_json::from_value(stored.as_ref().clone()).ok()?;
        let is_this = |built: &&Built| built.wanted.name == component.target.name;
        health::drift(&wanted.iter().find(is_this)?.wanted, &live)
    })?;
    let message = format!(
        "install strategy failed: {drift} right after it was applied, probably by a policy or a webhook of the cluster"
    );
    Some(Transition::new(
        Phase::Failed,
        reason::INSTALL_COMPONENT_FAILED,
        message,
    ))
}

/// Returns the time since the status was last written, or since the creation. A time in the future means that
/// a clock is wrong, and is not waited for.
fn since_update(observed: &Observed, now: Timestamp) -> Duration {
    let status = observed.csv.status.clone().unwrap_or_default();
    let updated = Position::stored(&status, observed.created()).updated;
    Duration::try_from(now.duration_since(updated)).unwrap_or(Duration::MAX)
}

/// Applies `transition`, with a history entry when phase or reason are new; false when the status already
/// matches.
fn follow(status: &mut ClusterServiceVersionStatus, transition: &Transition, now: Timestamp) -> bool {
    if Position::stored(status, now).is_at(transition) {
        return false;
    }
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
    true
}

/// Sets the rows of the requirements, if they were checked, and of rights that could not be granted. A
/// completed attempt removes the earlier rows about such rights.
fn set_requirements(
    status: &mut ClusterServiceVersionStatus,
    (rows, missing): (Option<Vec<RequirementStatus>>, Vec<RequirementStatus>),
    has_tried: bool,
    now: Timestamp,
) {
    let mut rows = match rows {
        Some(rows) => rows,
        None if !has_tried => return,
        None => {
            let mut rows = status.requirement_status.to_vec();
            rows.retain(|row| !is_missing_rights(row));
            rows
        }
    };
    for row in missing {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    if status.requirement_status != rows {
        status.requirement_status = rows.into();
        status.last_update_time = Some(stored_time(now));
    }
}

/// Sets both times from the certificates themselves. A pair that stays is not updated, even if another
/// creation time was noted.
fn set_certificate_times(status: &mut ClusterServiceVersionStatus, observed: &Observed) {
    if observed.strategy.is_ok() && observed.serving.endpoints.is_empty() {
        (status.certs_rotate_at, status.certs_last_updated) = (None, None);
        return;
    }
    let Some(Validity { from, rotate_at }) = serving::validity(observed) else {
        return;
    };
    let rotate_at = Some(stored_time(rotate_at));
    if status.certs_rotate_at != rotate_at {
        status.certs_rotate_at = rotate_at;
        status.certs_last_updated = Some(stored_time(from));
    }
}

/// Returns the time after which the status is written, unless more changes; `None` if it equals the stored one.
fn write_delay(
    observed: &Observed,
    old: &ClusterServiceVersionStatus,
    new: &ClusterServiceVersionStatus,
    now: Timestamp,
) -> Option<Duration> {
    // A reconcile that returns to its start, such as a refused attempt, would only change the time.
    let timeless = ClusterServiceVersionStatus {
        last_update_time: old.last_update_time.clone(),
        ..new.clone()
    };
    if timeless == *old {
        return None;
    }
    let moved = old.phase != new.phase || old.reason != new.reason || old.conditions != new.conditions;
    if moved {
        return Some(Duration::ZERO);
    }
    Some(STATUS_DEBOUNCE.saturating_sub(since_update(observed, now)))
}

/// Returns a warning for each new row about rights that are missing beyond the namespace.
fn missing_rights(
    observed: &Observed,
    old: &ClusterServiceVersionStatus,
    new: &ClusterServiceVersionStatus,
) -> Vec<EventDraft> {
    let rows = new.requirement_status.iter();
    let news = rows.filter(|row| is_missing_rights(row) && !old.requirement_status.contains(row));
    let event = |row: &RequirementStatus| {
        EventDraft::warning(
            observed.csv.object_ref(&()),
            reason::RIGHTS_MISSING,
            row.message.clone(),
        )
    };
    news.map(event).collect()
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
