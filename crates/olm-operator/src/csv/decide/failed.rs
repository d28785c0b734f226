//! Phase Failed: checks whether the cause lasts, and finds the way back.
//!
//! Upstream leaves this phase on every event of its own writes and returns at once. Here a
//! ClusterServiceVersion stays in the phase as long as the cause lasts (`docs/reference/lifecycle.md`).

use std::time::Duration;

use jiff::Timestamp;
use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::csv::{
    decide::{
        installing,
        transitions::{PhaseStep, Position, Stage},
    },
    health::{DeploymentProblem, Rollout},
    install::{self, serving},
    observed::Observed,
    replacement, requirements,
};

/// Interval of pod checks for a Deployment that exceeded its progress deadline or the install timeout.
const POD_INTERVAL: Duration = Duration::from_secs(60);

pub(super) fn step(observed: &Observed, position: &Position, now: Timestamp) -> PhaseStep {
    if let Some(next) = replacement::next(observed.name(), &observed.siblings)
        && observed.group().is_some_and(|group| group.fail_forward)
    {
        let message = format!(
            "Fail Forward is enabled, allowing Failed csv to be replaced by csv: {}",
            replacement::name_of(next)
        );
        return PhaseStep::to(Phase::Replacing, reason::BEING_REPLACED, message);
    }
    let cause = position.reason.as_str();
    if let Some(message) = opened_gate(cause) {
        return PhaseStep::to(Phase::Pending, reason::REQUIREMENTS_UNKNOWN, message);
    }
    if let Some(step) = super::replaced_while_running(observed) {
        return step;
    }
    if let Some(step) = super::pending::unusable_strategy(observed) {
        return step;
    }
    let found = match requirements::evaluate(observed) {
        Ok(requirements) => requirements,
        Err(error) => return PhaseStep::go(super::pending::invalid_strategy(&error)),
    };
    if found.undetermined {
        // A step through Pending would end there, and return as soon as discovery responds.
        return super::pending::ask_again(PhaseStep::stay()).with_requirements(found.rows);
    }
    if !found.met {
        let message = format!("requirements not met{}", found.lacking);
        let pending = PhaseStep::to(Phase::Pending, reason::REQUIREMENTS_NOT_MET, message);
        return pending.with_requirements(found.rows);
    }
    if cause == reason::OWNER_CONFLICT
        && let Some(conflict) = super::pending::owner_conflict(observed)
    {
        return PhaseStep::go(conflict).with_requirements(found.rows);
    }
    if let Some(conflict) = super::pending::taken(observed) {
        return PhaseStep::go(conflict).with_requirements(found.rows);
    }
    let mut step = components(observed, position, cause).with_requirements(found.rows);
    if cause == reason::INSTALL_CHECK_FAILED && serving::availability::waits_for_discovery(observed) {
        step = super::pending::ask_again(step);
    }
    match serving::wait(observed, now) {
        Some(delay) => step.again(delay, "certificates expire without an event"),
        None => step,
    }
}

/// Returns the message for a failed precondition that now holds; in this state it always does.
fn opened_gate(cause: &str) -> Option<&'static str> {
    match cause {
        _ if super::is_of_group(cause) => Some("InstallModes now support target namespaces"),
        reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT => {
            Some("OperatorGroup no longer intersecting with conflicting owner")
        }
        reason::CANNOT_MODIFY_STATIC_OPERATOR_GROUP_PROVIDED_APIS => {
            Some("static OperatorGroup and intersecting groups now support providedAPIs")
        }
        _ => None,
    }
}

fn components(observed: &Observed, position: &Position, cause: &str) -> PhaseStep {
    if let Some(error) = super::unusable_config(observed) {
        // A step through Pending would end here again.
        return match cause == reason::INSTALL_COMPONENT_FAILED {
            true => super::install_failed(error),
            false => PhaseStep::go(super::bad_calculation()),
        };
    }
    let refusals = [
        reason::INSTALL_COMPONENT_FAILED,
        reason::INSTALL_COMPONENT_FAILED_NO_RETRY,
    ];
    if refusals.contains(&cause)
        && let Some(step) = retried_in_place(observed)
    {
        return step;
    }
    if let Some(text) = serving::needs_rotation(observed) {
        let message = format!("owned APIServices or webhooks need cert refresh: {text}");
        return PhaseStep::to(Phase::Pending, reason::NEEDS_CERT_ROTATION, message);
    }
    let Some((deployment, problem)) = install::problem(observed, Rollout::MustBeComplete) else {
        return PhaseStep::go(installing::succeeded());
    };
    let pending = |text: &str| {
        let message = install::message_of(text);
        PhaseStep::to(Phase::Pending, reason::NEEDS_REINSTALL, message)
    };
    let failed = |text: String| {
        let message = installing::with_cause(observed, position, &deployment, &text);
        let failed = PhaseStep::to(Phase::Failed, reason::INSTALL_CHECK_FAILED, message);
        failed.again(POD_INTERVAL, "pods are not watched")
    };
    match &problem {
        DeploymentProblem::Stuck(text) => failed(format!("install failed: {text}")),
        // The same Deployment would wait again after another apply.
        DeploymentProblem::Waiting(text) if cause == reason::INSTALL_CHECK_FAILED => {
            failed(format!("install timeout: {text}"))
        }
        DeploymentProblem::Waiting(text) | DeploymentProblem::Missing(text) => pending(text),
        DeploymentProblem::Outdated(text) => {
            let message = install::message_of(text);
            PhaseStep::to(Phase::InstallReady, reason::NEEDS_REINSTALL, message)
        }
    }
}

/// Retries refused writes in place. The driver's backoff limits the attempts, and an attempt with the same
/// result writes no status. `None` when no write is left.
fn retried_in_place(observed: &Observed) -> Option<PhaseStep> {
    if let Some(step) = super::install_ready::changeover(observed) {
        return Some(step);
    }
    let writes = install::writes(observed);
    let then = Some(super::install_ready::installed());
    (!writes.is_empty()).then(|| PhaseStep::install(Stage::Install, writes, then))
}
