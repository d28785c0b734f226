//! Composes the status of an InstallPlan from the decision and the outcomes of its writes. No I/O.
//!
//! A plan that is being executed gets one of four results ([`installing`]): steps that a write has settled change their
//! status; an error is retried, or fails the plan once lasting errors have continued for the retry window; without an
//! error the plan waits, or is complete if all steps are done. [`StepWrites`] says which step an action belongs to.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use olm_api::condition::install_plan as reasons;
use olm_api::labels;
use olm_api::v1alpha1::{InstallPlanCondition, InstallPlanPhase, InstallPlanStatus, Step, StepStatus};
use olm_runtime::condition::stored_time;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, Outcomes};
use olm_runtime::plan::{EventDraft, Requeue, status_of};

use super::decide::Verdict;
use super::execution::{ErrorClass, StepError, StepWrites, Wait};
use super::observe::{Observed, is_done, steps};
use super::operator_group;
use super::unwritten::Unwritten;
use crate::step_kind::StepKind;
use crate::timing::elapsed;

/// Upstream's pause between two attempts of a plan that is being carried out.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause of a plan that waits for a permission or another action of a user, which may take days.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long the status waits for a new CustomResourceDefinition to be established, which mostly takes less.
const MOMENT: Duration = Duration::from_secs(1);

/// The status patch and the next look that follow from what the reconcile did.
pub fn status(
    observed: &Observed,
    verdict: Verdict,
    outcomes: &Outcomes,
    now: Timestamp,
) -> StatusUpdate<Unwritten> {
    let stored = observed.stored.as_ref().unwrap_or(&observed.install_plan);
    let (Some(old), Some(current)) = (&stored.status, &observed.install_plan.status) else {
        return StatusUpdate::default();
    };
    let mut new = current.clone();
    let mut events = Vec::new();
    let requeue = match verdict {
        Verdict::Ignore => return StatusUpdate::default(),
        Verdict::Restoring { writes } => return restoring(observed, &writes, outcomes),
        Verdict::Refused { reason, message } => {
            set_installed(&mut new, false, reason, &message, now);
            Requeue::AwaitChange
        }
        Verdict::AwaitsApproval { service_account } => {
            set_service_account(&mut new, service_account);
            clear_failed_check(&mut new, now);
            Requeue::AwaitChange
        }
        Verdict::Installing {
            service_account,
            writes,
        } => {
            if observed.stored.is_none()
                && let Some(delay) = too_early_to_tell(&writes)
            {
                return StatusUpdate {
                    requeue: Requeue::after(delay, "report the image being fetched"),
                    ..StatusUpdate::default()
                };
            }
            set_service_account(&mut new, service_account);
            clear_failed_check(&mut new, now);
            events = warnings(observed, &writes, outcomes);
            events.extend(crd_warnings(observed, &writes, outcomes));
            let waits =
                |(_, error): &(usize, StepError)| error.waits_for_people() && !fails_forward(observed);
            let pause = if is_refused(outcomes) || writes.error.iter().any(waits) {
                // A quarter of the time since the plan started, so that one that waits for a user for long costs little.
                let started = new.start_time.as_ref().map_or(now, |Time(started)| *started);
                (elapsed(started, now) / 4).clamp(RETRY_PAUSE, LONGEST_PAUSE)
            } else {
                RETRY_PAUSE
            };
            let requeue = installing(observed, &writes, outcomes, &mut new, (now, pause));
            if let Some(requeue) = goes_on(old, &writes, outcomes, &new) {
                let stored = Arc::clone(stored);
                return StatusUpdate {
                    events,
                    requeue,
                    memory: Some(Unwritten { stored, status: new }),
                    ..StatusUpdate::default()
                };
            }
            requeue
        }
    };
    StatusUpdate {
        patches: Vec::from_iter(status_of(&*observed.install_plan, old, &new)),
        requeue,
        events,
        ..StatusUpdate::default()
    }
}

/// Returns the time of the next reconcile if the status can wait until then: no write has failed, and there is work left, or the
/// API of a definition may soon be served. Users have seen `Installing` by then.
fn goes_on(
    stored: &InstallPlanStatus,
    writes: &StepWrites,
    outcomes: &Outcomes,
    new: &InstallPlanStatus,
) -> Option<Requeue> {
    let has_written = writes.changes.iter().any(|change| change.action.is_some());
    let is_installing = |status: &InstallPlanStatus| status.phase == InstallPlanPhase::Installing;
    let is_going_well = has_written && writes.error.is_none() && outcomes.failure().is_none();
    if !is_going_well || !is_installing(stored) || !is_installing(new) {
        return None;
    }
    if writes.goes_on {
        return Some(Requeue::after(Duration::ZERO, "steps whose owner exists now"));
    }
    let waits_for_more = writes.waiting.iter().any(|wait| wait.look_again.is_some());
    let waits_for_api = new
        .plan
        .iter()
        .any(|step| step.status == StepStatus::WaitingForApi);
    (waits_for_api && !waits_for_more)
        .then(|| Requeue::after(MOMENT, "report of a definition not established"))
}

/// True if a write was refused because a permission is missing.
fn is_refused(outcomes: &Outcomes) -> bool {
    outcomes
        .failure()
        .is_some_and(|(_, failure)| failure.class == FailureClass::Forbidden)
}

/// An event for each step whose object was taken with warnings, in upstream's words.
fn warnings(observed: &Observed, writes: &StepWrites, outcomes: &Outcomes) -> Vec<EventDraft> {
    let event = |(action, texts): (usize, &[String])| {
        let change = writes.change_of(action)?;
        let step = steps(&observed.install_plan).get(change.step)?;
        let mut regarding = observed.install_plan.object_ref(&());
        regarding.field_path = Some(format!("status.plan[{}]", change.step));
        let message = format!(
            "{} warning(s) generated during installation of operator \"{}\" ({} \"{}\"): {}",
            texts.len(),
            step.resolving,
            step.resource.kind,
            step.resource.name,
            texts.join(", ")
        );
        Some(EventDraft::warning(
            regarding,
            reasons::APPLIED_WITH_WARNINGS,
            message,
        ))
    };
    outcomes.warnings().filter_map(event).collect()
}

/// An event for each definition that was changed although a custom resource does not fit.
fn crd_warnings(observed: &Observed, writes: &StepWrites, outcomes: &Outcomes) -> Vec<EventDraft> {
    let is_written = |step: usize| {
        let change = writes.changes.iter().find(|change| change.step == step);
        let action = change.and_then(|change| change.action);
        action.is_some_and(|action| matches!(outcomes.get(action), Outcome::Done(_)))
    };
    let written = writes.crd_warnings.iter().filter(|(step, _)| is_written(**step));
    written
        .map(|(_, text)| {
            let regarding = observed.install_plan.object_ref(&());
            EventDraft::warning(regarding, reasons::CRD_VALIDATION, text.clone())
        })
        .collect()
}

/// A finished plan keeps its status; an object that cannot be restored is reported by an event, and in the requirements of its
/// ClusterServiceVersion.
fn restoring(observed: &Observed, writes: &StepWrites, outcomes: &Outcomes) -> StatusUpdate<Unwritten> {
    let error = write_error(observed, writes, outcomes).map(|error| error.message);
    let error = error.or_else(|| writes.error.as_ref().map(|(_, error)| error.to_string()));
    let event = |message: String| {
        let regarding = observed.install_plan.object_ref(&());
        EventDraft::warning(regarding, reasons::RESTORATION_FAILED, message)
    };
    let requeue = match &writes.waiting {
        Some(wait) if error.is_none() => Requeue::after(
            wait.look_again.unwrap_or(RETRY_PAUSE),
            "an object is being deleted",
        ),
        _ => Requeue::AwaitChange,
    };
    StatusUpdate {
        events: error.into_iter().map(event).collect(),
        requeue,
        ..StatusUpdate::default()
    }
}

/// Time for which a wait for a bundle is not reported: usually it is already in the cache on disk.
fn too_early_to_tell(writes: &StepWrites) -> Option<Duration> {
    let wait = writes.waiting.as_ref().filter(|wait| wait.is_debounced)?;
    wait.look_again
        .filter(|_| writes.changes.is_empty() && writes.error.is_none())
}

fn installing(
    observed: &Observed,
    writes: &StepWrites,
    outcomes: &Outcomes,
    new: &mut InstallPlanStatus,
    (now, pause): (Timestamp, Duration),
) -> Requeue {
    new.phase = InstallPlanPhase::Installing;
    new.start_time.get_or_insert_with(|| stored_time(now));
    apply_changes(writes, outcomes, new);
    if outcomes
        .failure()
        .is_some_and(|(action, failure)| is_stale(writes, action, failure))
    {
        // The driver retries with backoff: an observation may be out of date for a while.
        if let Some(text) = taken_name(observed, writes, outcomes) {
            set_message(new, &text);
        }
        return Requeue::AwaitChange;
    }
    let error = write_error(observed, writes, outcomes).or_else(|| decided_error(observed, writes, new));
    match error {
        Some(error) if error.is_lasting() => lasting_error(observed, &error, new, now),
        passing => {
            // Earlier failures did not last: the next error starts a new window.
            clear_failing(new);
            match passing {
                Some(error) => retry(new, &error, pause),
                None => no_error(writes, new, now),
            }
        }
    }
}

fn no_error(writes: &StepWrites, new: &mut InstallPlanStatus, now: Timestamp) -> Requeue {
    if !new.plan.iter().all(is_done) {
        return wait(new, writes.waiting.as_ref());
    }
    new.phase = InstallPlanPhase::Complete;
    set_message(new, "");
    set_installed(new, true, "", "", now);
    Requeue::AwaitChange
}

/// Upstream counts the window from the plan's first attempt, so that after ten minutes without a permission the first other
/// error ends the plan at once; here it counts from the first lasting error (decision record 0020).
fn lasting_error(
    observed: &Observed,
    error: &StepError,
    new: &mut InstallPlanStatus,
    now: Timestamp,
) -> Requeue {
    let since = failing_since(new, now);
    let left = observed.retry_timeout.saturating_sub(elapsed(since, now));
    if left.is_zero() {
        clear_failing(new);
        return fail(new, &error.message, now);
    }
    // A reconcile at the end of the window, so that a lasting error makes the plan fail in time.
    retry(new, error, RETRY_PAUSE.min(left))
}

/// Time of the first of the current lasting errors. It is kept in the status, so that a restart of this process does not extend the
/// window.
fn failing_since(new: &mut InstallPlanStatus, now: Timestamp) -> Timestamp {
    let known = new
        .conditions
        .iter()
        .find(|condition| condition.type_.as_deref() == Some(reasons::FAILING))
        .and_then(|condition| condition.last_transition_time.as_ref());
    if let Some(since) = known {
        return since.0;
    }
    clear_failing(new);
    let failing = (reasons::FAILING, "True", reasons::LASTING_ERROR);
    set_condition(new, failing, "", now);
    now
}

fn clear_failing(new: &mut InstallPlanStatus) {
    new.conditions
        .retain(|condition| condition.type_.as_deref() != Some(reasons::FAILING));
}

/// Reports the reason for a wait, unless it is too early for a report.
fn wait(new: &mut InstallPlanStatus, wait: Option<&Wait>) -> Requeue {
    let loud = wait.filter(|wait| !wait.is_debounced);
    set_message(new, loud.map(|wait| wait.text.as_str()).unwrap_or_default());
    match wait.and_then(|wait| wait.look_again) {
        Some(delay) => Requeue::after(delay, "poll unwatched objects"),
        None => Requeue::AwaitChange,
    }
}

fn retry(new: &mut InstallPlanStatus, error: &StepError, delay: Duration) -> Requeue {
    set_message(new, &format!("{}{}", reasons::RETRYING, error.message));
    Requeue::after(delay, "retry of a failed step")
}

fn fail(new: &mut InstallPlanStatus, message: &str, now: Timestamp) -> Requeue {
    new.phase = InstallPlanPhase::Failed;
    set_message(new, message);
    set_installed(new, false, reasons::INSTALL_COMPONENT_FAILED, message, now);
    Requeue::AwaitChange
}

/// The step that an action belongs to.
fn step_of<'a>(observed: &'a Observed, writes: &StepWrites, action: usize) -> Option<&'a Step> {
    steps(&observed.install_plan).get(writes.change_of(action)?.step)
}

fn apply_changes(writes: &StepWrites, outcomes: &Outcomes, new: &mut InstallPlanStatus) {
    for change in &writes.changes {
        let Some(step) = new.plan.get_mut(change.step) else {
            continue;
        };
        match change.action.map(|action| outcomes.get(action)) {
            None | Some(Outcome::Done(_)) => step.status = change.status.clone(),
            Some(Outcome::Kept) => step.status = StepStatus::Present,
            Some(Outcome::Gone | Outcome::Failed(_) | Outcome::NotAttempted) => {}
        }
    }
}

fn write_error(observed: &Observed, writes: &StepWrites, outcomes: &Outcomes) -> Option<StepError> {
    let (action, failure) = outcomes.failure()?;
    let prefix = step_of(observed, writes, action).and_then(|step| {
        let is_created = !writes.patches.contains(&action);
        Some(StepKind::of(&step.resource.kind)?.error_prefix(&step.resource.name, is_created))
    });
    let message = match prefix {
        Some(prefix) => format!("{prefix}: {}", failure.message),
        None => failure.message.clone(),
    };
    let account = match failure.class {
        FailureClass::Forbidden => operator_group::of_group(&observed.operator_groups, &failure.message),
        _ => String::new(),
    };
    Some(StepError {
        message: message + &account,
        // A failure that a changed permission or a less busy server can resolve never makes a plan fail.
        class: match failure.class {
            FailureClass::Invalid | FailureClass::NotFound => ErrorClass::Lasting,
            _ => ErrorClass::Passing,
        },
    })
}

/// True if a write failed only because the observation is out of date. The next reconcile sees the current state, so nothing is
/// reported.
fn is_stale(writes: &StepWrites, action: usize, failure: &Failure) -> bool {
    match failure.class {
        FailureClass::Conflict | FailureClass::AlreadyExists => true,
        FailureClass::NotFound => writes.patches.contains(&action),
        _ => false,
    }
}

/// Message for users when a ClusterServiceVersion cannot be created because one of its name exists that the store does not have.
fn taken_name(observed: &Observed, writes: &StepWrites, outcomes: &Outcomes) -> Option<String> {
    let (action, failure) = outcomes.failure()?;
    let resource = &step_of(observed, writes, action)?.resource;
    let is_taken = failure.class == FailureClass::AlreadyExists
        && StepKind::of(&resource.kind) == Some(StepKind::ClusterServiceVersion);
    is_taken.then(|| {
        format!(
            "waiting for the name of ClusterServiceVersion {}: a copy of an operator from another namespace has it (see its label {}); delete this Subscription to use that operator, or uninstall that operator",
            resource.name,
            labels::COPIED_FROM
        )
    })
}

/// True if the next version may replace one that failed. Then a plan also fails for errors that a user could fix, as upstream's.
fn fails_forward(observed: &Observed) -> bool {
    let mut groups = observed.operator_groups.iter();
    groups.any(|group| group.spec.allows_fail_forward())
}

fn decided_error(observed: &Observed, writes: &StepWrites, new: &mut InstallPlanStatus) -> Option<StepError> {
    let (index, error) = writes.error.as_ref()?;
    if error.class == ErrorClass::UnsupportedKind
        && let Some(step) = new.plan.get_mut(*index)
    {
        step.status = StepStatus::UnsupportedResource;
    }
    let mut error = error.clone();
    if error.waits_for_people() && fails_forward(observed) {
        error.class = ErrorClass::Lasting;
    }
    Some(error)
}

fn set_service_account(
    new: &mut InstallPlanStatus,
    found: Option<k8s_openapi::api::core::v1::ObjectReference>,
) {
    // Never unset, as upstream: it shows which account limited the plan.
    if found.is_some() {
        new.attenuated_service_account_ref = found;
    }
}

fn set_message(new: &mut InstallPlanStatus, message: &str) {
    new.message = Some(message.to_owned()).filter(|message| !message.is_empty());
}

/// A check that failed before and does not fail now leaves its condition with reason `Unknown`, as upstream.
fn clear_failed_check(new: &mut InstallPlanStatus, now: Timestamp) {
    let failed = new.conditions.iter().any(|condition| {
        condition.type_.as_deref() == Some(reasons::INSTALLED)
            && matches!(
                condition.reason.as_deref(),
                Some(reasons::INSTALL_CHECK_FAILED | reasons::OTHER_STEPS_APPROVED)
            )
    });
    if failed {
        set_installed(new, false, reasons::UNKNOWN, "", now);
    }
}

fn set_installed(new: &mut InstallPlanStatus, done: bool, reason: &str, message: &str, now: Timestamp) {
    let status = if done { "True" } else { "False" };
    set_condition(new, (reasons::INSTALLED, status, reason), message, now);
}

fn set_condition(
    new: &mut InstallPlanStatus,
    (type_, status, reason): (&str, &str, &str),
    message: &str,
    now: Timestamp,
) {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let mut condition = InstallPlanCondition {
        type_: text(type_),
        status: text(status),
        reason: text(reason),
        message: text(message),
        last_update_time: Some(stored_time(now)),
        last_transition_time: Some(stored_time(now)),
        ..InstallPlanCondition::default()
    };
    let mut conditions = new.conditions.iter_mut();
    match conditions.find(|existing| existing.type_ == condition.type_) {
        Some(existing) => {
            if existing.status == condition.status {
                condition.last_transition_time = existing.last_transition_time.clone();
            }
            if (&existing.status, &existing.reason, &existing.message)
                != (&condition.status, &condition.reason, &condition.message)
            {
                *existing = condition;
            }
        }
        None => new.conditions.push(condition),
    }
}
