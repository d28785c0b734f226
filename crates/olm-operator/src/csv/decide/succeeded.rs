//! Phase Succeeded: the operator runs. Detects when it no longer does, and when it has a successor.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::csv::{
    changeover,
    decide::transitions::{PhaseStep, Stage},
    health::{DeploymentProblem, Rollout},
    install::{self, serving},
    observed::Observed,
    replacement, requirements,
};

/// Interval of the checks of RBAC that OLM did not create but a running operator needs.
const RIGHTS_INTERVAL: Duration = Duration::from_secs(60);

pub(super) fn step(observed: &Observed, now: Timestamp) -> PhaseStep {
    if let Some(next) = replacement::next(observed.name(), &observed.siblings) {
        return super::being_replaced(replacement::name_of(next));
    }
    if let Some(conflict) = super::pending::taken(observed) {
        return PhaseStep::go(conflict);
    }
    if super::unusable_config(observed).is_none()
        && let Some(text) = serving::needs_rotation(observed)
    {
        let message = format!("CSV owns resources that require a cert refresh: {text}");
        return PhaseStep::to(Phase::Pending, reason::NEEDS_CERT_ROTATION, message);
    }
    // Webhook descriptions were checked at install. Newer rules may be stricter, and a running operator does
    // not fail for them.
    let found = match requirements::evaluate(observed) {
        Ok(requirements) => requirements,
        Err(error) => return PhaseStep::go(super::pending::invalid_strategy(&error)),
    };
    if found.undetermined {
        // A running operator does not fail because of a missing response.
        return super::pending::ask_again(health(observed, now)).with_requirements(found.rows);
    }
    if !found.met {
        let message = format!("requirements no longer met{}", found.lacking);
        let failed = PhaseStep::to(Phase::Failed, reason::REQUIREMENTS_NOT_MET, message);
        return failed.with_requirements(found.rows);
    }
    let step = health(observed, now).with_requirements(found.rows);
    if observed.rbac.granted_by_others.is_some() || !observed.rbac.bound_by_others.is_empty() {
        return step.again(RIGHTS_INTERVAL, "RBAC not created by OLM is not watched");
    }
    step
}

fn health(observed: &Observed, now: Timestamp) -> PhaseStep {
    if super::unusable_config(observed).is_some() {
        return PhaseStep::go(super::bad_calculation());
    }
    if let Some(writes) = install::take_over_serving(observed) {
        return PhaseStep::install(Stage::Adoption, writes, None);
    }
    let Some((_, problem)) = install::problem(observed, Rollout::MayProgress) else {
        let mut writes = install::grant_in_targets(observed);
        writes.rest.extend(changeover::clean_up(observed));
        writes.rest.extend(install::tidy(observed));
        // A ClusterServiceVersion that may not adopt objects may still make the other writes.
        let mut stage = Stage::Grants;
        if writes.is_empty() {
            stage = Stage::Adoption;
            writes.rest = install::adopt_unchanged(observed);
        }
        let step = PhaseStep::install(stage, writes, None);
        return match serving::wait(observed, now) {
            Some(delay) => step.again(delay, "certificates expire without an event"),
            None => step,
        };
    };
    let unhealthy =
        |phase, text: &str| PhaseStep::to(phase, reason::COMPONENT_UNHEALTHY, install::message_of(text));
    match problem {
        DeploymentProblem::Stuck(text) => {
            let message = format!("install failed: {text}");
            PhaseStep::to(Phase::Failed, reason::INSTALL_CHECK_FAILED, message)
        }
        DeploymentProblem::Outdated(text) => unhealthy(Phase::InstallReady, &text),
        DeploymentProblem::Missing(text) | DeploymentProblem::Waiting(text) => {
            unhealthy(Phase::Failed, &text)
        }
    }
}
