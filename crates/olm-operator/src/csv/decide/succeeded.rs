//! The operator runs: notice when it no longer does, or when its successor has come.

use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::csv::{
    changeover,
    decide::transitions::{PhaseStep, Stage, Transition},
    health::{DeploymentProblem, Rollout},
    install,
    observed::Observed,
    replacement,
    requirements::{self, Requirements},
};

pub(super) fn step(observed: &Observed) -> PhaseStep {
    if let Some(step) = super::pending::unusable_strategy(observed) {
        return step;
    }
    if let Some(next) = replacement::next(observed.name(), &observed.siblings) {
        let message = format!("being replaced by csv: {}", next.name);
        return PhaseStep::go(Transition::new(Phase::Replacing, reason::BEING_REPLACED, message));
    }
    let Requirements {
        met,
        undetermined,
        rows,
    } = match requirements::evaluate(observed) {
        Ok(requirements) => requirements,
        Err(error) => return PhaseStep::go(super::pending::invalid_strategy(&error)),
    };
    if undetermined {
        // An operator that runs is not failed for an answer that did not come.
        return super::pending::ask_again(health(observed)).with_requirements(rows);
    }
    if !met {
        let failed = Transition::new(
            Phase::Failed,
            reason::REQUIREMENTS_NOT_MET,
            "requirements no longer met",
        );
        return PhaseStep::go(failed).with_requirements(rows);
    }
    health(observed).with_requirements(rows)
}

fn health(observed: &Observed) -> PhaseStep {
    if super::unusable_config(observed).is_some() {
        return PhaseStep::go(super::bad_calculation());
    }
    let Some(found) = install::problem(observed, Rollout::MayProgress) else {
        let mut writes = install::grant_in_targets(observed);
        writes.rest.extend(changeover::clean_up(observed));
        return PhaseStep::install(Stage::Grants, writes, None);
    };
    let (phase, reason, message) = match found.problem {
        DeploymentProblem::Stuck(text) => (
            Phase::Failed,
            reason::INSTALL_CHECK_FAILED,
            format!("install failed: {text}"),
        ),
        DeploymentProblem::Outdated(text) => (
            Phase::InstallReady,
            reason::COMPONENT_UNHEALTHY,
            format!("installing: {text}"),
        ),
        DeploymentProblem::Missing(text) | DeploymentProblem::Waiting(text) => (
            Phase::Failed,
            reason::COMPONENT_UNHEALTHY,
            format!("installing: {text}"),
        ),
    };
    PhaseStep::go(Transition::new(phase, reason, message))
}
