//! Status of an InstallPlan after a round. Pure.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::condition::install_plan as words;
use olm_api::v1alpha1::{InstallPlan, InstallPlanCondition, InstallPlanPhase, InstallPlanStatus, StepStatus};
use olm_runtime::condition::stored_time;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::outcome::{FailureClass, Outcome, Outcomes};
use olm_runtime::plan::{Requeue, Target, status_patch};

use super::decide::Verdict;
use super::execution::{Round, StepError};
use super::kind::StepKind;
use super::observe::{Observed, is_done};

/// Upstream's pause between two attempts of a plan that is being carried out.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Pause before a write is repeated that met an object not seen before.
const OBSERVE_AGAIN: Duration = Duration::from_millis(100);

/// The status patch and the next look that follow from what the round did.
pub fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes, now: Timestamp) -> StatusUpdate {
    let Some(old) = &observed.install_plan.status else {
        return StatusUpdate::default();
    };
    let mut new = old.clone();
    let requeue = match verdict {
        Verdict::Ignore => return StatusUpdate::default(),
        Verdict::CheckFailed(error) => {
            set_installed(
                &mut new,
                false,
                words::INSTALL_CHECK_FAILED,
                &error.to_string(),
                now,
            );
            Requeue::AwaitChange
        }
        Verdict::AwaitsApproval { service_account } => {
            set_service_account(&mut new, service_account);
            clear_failed_check(&mut new, now);
            Requeue::AwaitChange
        }
        Verdict::Installing {
            service_account,
            round,
        } => {
            set_service_account(&mut new, service_account);
            clear_failed_check(&mut new, now);
            installing(observed, &round, outcomes, &mut new, now)
        }
    };
    let plan = &observed.install_plan;
    let target = Target::of::<InstallPlan>(&plan.namespace().unwrap_or_default(), &plan.name_any());
    let patch = status_patch(target, plan.uid().as_deref(), old, &new);
    StatusUpdate {
        patch,
        events: Vec::new(),
        requeue,
    }
}

/// An error of this round in one form, whether it was decided or came from the API server.
struct RoundError {
    message: String,
    /// Counts towards the retry window.
    lasting: bool,
    pause: Duration,
}

fn installing(
    observed: &Observed,
    round: &Round,
    outcomes: &Outcomes,
    new: &mut InstallPlanStatus,
    now: Timestamp,
) -> Requeue {
    new.phase = InstallPlanPhase::Installing;
    let started = new.start_time.get_or_insert_with(|| stored_time(now)).0;
    apply_changes(round, outcomes, new);
    let error = write_error(round, outcomes).or_else(|| decided_error(round, new));
    let Some(error) = error else {
        if new.plan.iter().all(is_done) {
            new.phase = InstallPlanPhase::Complete;
            set_message(new, "");
            set_installed(new, true, "", "", now);
        } else {
            set_message(new, round.waiting.as_deref().unwrap_or_default());
        }
        return Requeue::AwaitChange;
    };
    let elapsed = Duration::try_from(now.duration_since(started)).unwrap_or_default();
    let left = observed.retry_timeout.saturating_sub(elapsed);
    match (error.lasting, left.is_zero()) {
        (true, true) => fail(new, &error.message, now),
        // A look at the end of the window, so that a lasting error makes the plan fail in time.
        (true, false) => retry(new, &error, error.pause.min(left)),
        (false, _) => retry(new, &error, error.pause),
    }
}

fn retry(new: &mut InstallPlanStatus, error: &RoundError, delay: Duration) -> Requeue {
    set_message(
        new,
        &format!("retrying execution due to error: {}", error.message),
    );
    Requeue::After {
        delay,
        reason: "retry of a failed step",
    }
}

fn fail(new: &mut InstallPlanStatus, message: &str, now: Timestamp) -> Requeue {
    new.phase = InstallPlanPhase::Failed;
    set_message(new, message);
    set_installed(new, false, words::INSTALL_COMPONENT_FAILED, message, now);
    Requeue::AwaitChange
}

fn apply_changes(round: &Round, outcomes: &Outcomes, new: &mut InstallPlanStatus) {
    for change in &round.changes {
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

fn write_error(round: &Round, outcomes: &Outcomes) -> Option<RoundError> {
    let (action, failure) = outcomes.failure()?;
    let prefix = round
        .changes
        .iter()
        .find(|change| change.action == Some(action))
        .map(|change| change.error_prefix.as_str());
    let message = match prefix {
        Some(prefix) if !prefix.is_empty() => format!("{prefix}: {}", failure.message),
        _ => failure.message.clone(),
    };
    Some(RoundError {
        message,
        // What a changed permission, a quieter server or a second look can repair never makes a plan fail.
        lasting: matches!(failure.class, FailureClass::Invalid | FailureClass::NotFound),
        pause: match failure.class {
            FailureClass::Conflict | FailureClass::AlreadyExists => OBSERVE_AGAIN,
            _ => RETRY_PAUSE,
        },
    })
}

fn decided_error(round: &Round, new: &mut InstallPlanStatus) -> Option<RoundError> {
    let (index, error) = round.error.as_ref()?;
    if *error == StepError::InvalidData
        && let Some(step) = new.plan.get_mut(*index)
        && StepKind::of(&step.resource.kind).is_none()
    {
        step.status = StepStatus::UnsupportedResource;
    }
    Some(RoundError {
        message: error.to_string(),
        lasting: error.is_lasting(),
        pause: RETRY_PAUSE,
    })
}

fn set_service_account(
    new: &mut InstallPlanStatus,
    found: Option<k8s_openapi::api::core::v1::ObjectReference>,
) {
    // Never unset, as upstream: what a plan was limited to stays to be seen.
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
        condition.type_.as_deref() == Some(words::INSTALLED)
            && condition.reason.as_deref() == Some(words::INSTALL_CHECK_FAILED)
    });
    if failed {
        set_installed(new, false, words::UNKNOWN, "", now);
    }
}

fn set_installed(new: &mut InstallPlanStatus, done: bool, reason: &str, message: &str, now: Timestamp) {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let status = if done { "True" } else { "False" };
    let mut condition = InstallPlanCondition {
        type_: text(words::INSTALLED),
        status: text(status),
        reason: text(reason),
        message: text(message),
        last_update_time: Some(stored_time(now)),
        last_transition_time: Some(stored_time(now)),
        ..InstallPlanCondition::default()
    };
    match new
        .conditions
        .iter_mut()
        .find(|existing| existing.type_.as_deref() == Some(words::INSTALLED))
    {
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
