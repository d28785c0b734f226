//! The Deployments are in place and have to become healthy within five minutes.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::csv::{
    decide::transitions::{PhaseStep, Position, Transition},
    health::{DeploymentProblem, Rollout},
    install,
    observed::Observed,
};

/// How long an install may take before it counts as failed.
pub(crate) const INSTALL_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How often the pods of a waiting install are looked at; they are not watched.
const POD_INTERVAL: Duration = Duration::from_secs(10);
/// How long a Deployment controller gets to answer before its silence is told.
const DEPLOYMENT_DEBOUNCE: Duration = Duration::from_secs(2);

pub(super) fn step(observed: &Observed, position: &Position, now: Timestamp) -> PhaseStep {
    if let Some(step) = super::pending::unreadable_strategy(observed) {
        return step;
    }
    if let Some(conflict) = super::pending::taken(observed) {
        return PhaseStep::go(conflict);
    }
    if super::unusable_config(observed).is_some() {
        return PhaseStep::go(super::bad_calculation());
    }
    let Some(found) = install::problem(observed, Rollout::MustBeComplete) else {
        return PhaseStep::go(succeeded());
    };
    match found.problem {
        DeploymentProblem::Stuck(text) => PhaseStep::go(Transition::new(
            Phase::Failed,
            reason::INSTALL_CHECK_FAILED,
            format!("install failed: {text}"),
        )),
        // Upstream lets a Deployment that vanished here run into the timeout; putting it back is what it will do then.
        DeploymentProblem::Outdated(text) | DeploymentProblem::Missing(text) => PhaseStep::go(
            Transition::new(Phase::InstallReady, reason::INSTALL_WAITING, install::told(&text)),
        ),
        DeploymentProblem::Waiting(text) => waiting(observed, position, now, &found.deployment, &text),
    }
}

/// All components are there and healthy.
pub(super) fn succeeded() -> Transition {
    Transition::new(
        Phase::Succeeded,
        reason::INSTALL_SUCCEEDED,
        "install strategy completed with no errors",
    )
}

fn waiting(
    observed: &Observed,
    position: &Position,
    now: Timestamp,
    deployment: &str,
    text: &str,
) -> PhaseStep {
    let trouble = observed.pod_troubles.get(deployment);
    let mut detail = trouble.map(|trouble| format!("; {trouble}")).unwrap_or_default();
    if !observed.left_behind.is_empty() {
        detail.push_str("; the pods of the replaced deployment run until then");
    }
    let waited = Duration::try_from(now.duration_since(position.since)).unwrap_or_default();
    let Some(left) = INSTALL_TIMEOUT.checked_sub(waited).filter(|left| !left.is_zero()) else {
        let message = format!("install timeout: {text}{detail}");
        return PhaseStep::go(Transition::new(
            Phase::Failed,
            reason::INSTALL_CHECK_FAILED,
            message,
        ));
    };
    let since_update = Duration::try_from(now.duration_since(position.updated)).unwrap_or_default();
    if since_update < DEPLOYMENT_DEBOUNCE && install::is_just_changed(observed, deployment) {
        return PhaseStep::stay().again(
            DEPLOYMENT_DEBOUNCE,
            "the Deployment controller has not answered yet",
        );
    }
    let message = install::told(text) + &detail;
    PhaseStep::go(Transition::new(
        Phase::Installing,
        reason::INSTALL_WAITING,
        message,
    ))
    .again(
        left.min(POD_INTERVAL),
        "pods and the install timeout are not watched",
    )
}
