//! Phase Installing: the Deployments are applied and must become healthy within five minutes.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::csv::{
    decide::transitions::{PhaseStep, Position, Transition},
    health::{DeploymentProblem, Rollout},
    install,
    observed::Observed,
};

/// Time after which an unfinished install counts as failed.
pub(crate) const INSTALL_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Time that an install waits before its pods are read.
pub(crate) const POD_PATIENCE: Duration = Duration::from_secs(3);
/// Maximum interval of pod checks during a long install, because pods are not watched.
const MAX_POD_INTERVAL: Duration = Duration::from_secs(10);
/// Separator between the state of a Deployment and the cause.
const BETWEEN: &str = "; ";
/// Time in which the Deployment controller should respond before a missing response is reported.
const DEPLOYMENT_DEBOUNCE: Duration = Duration::from_secs(2);

pub(super) fn step(observed: &Observed, position: &Position, now: Timestamp) -> PhaseStep {
    if let Err(error) = &observed.strategy {
        return PhaseStep::go(super::pending::invalid_strategy(error));
    }
    if let Some(conflict) = super::pending::taken(observed) {
        return PhaseStep::go(conflict);
    }
    if super::unusable_config(observed).is_some() {
        return PhaseStep::go(super::bad_calculation());
    }
    let Some((deployment, problem)) = install::problem(observed, Rollout::MustBeComplete) else {
        return PhaseStep::go(succeeded());
    };
    match problem {
        DeploymentProblem::Stuck(text) => {
            let text = format!("install failed: {text}");
            let message = with_cause(observed, position, &deployment, &text);
            PhaseStep::to(Phase::Failed, reason::INSTALL_CHECK_FAILED, message)
        }
        // A missing Deployment is restored at once. Upstream waits for the timeout and then restores it.
        DeploymentProblem::Outdated(text) | DeploymentProblem::Missing(text) => {
            let message = install::message_of(&text);
            PhaseStep::to(Phase::InstallReady, reason::INSTALL_WAITING, message)
        }
        DeploymentProblem::Waiting(text) => waiting(observed, position, now, &deployment, &text),
    }
}

/// Returns the transition when all components are healthy.
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
    let waited = Duration::try_from(now.duration_since(position.since)).unwrap_or_default();
    let Some(left) = INSTALL_TIMEOUT.checked_sub(waited).filter(|left| !left.is_zero()) else {
        let text = format!("install timeout: {text}");
        let message = with_cause(observed, position, deployment, &text);
        return PhaseStep::to(Phase::Failed, reason::INSTALL_CHECK_FAILED, message);
    };
    let since_update = Duration::try_from(now.duration_since(position.updated)).unwrap_or_default();
    if since_update < DEPLOYMENT_DEBOUNCE && install::is_just_changed(observed, deployment) {
        return PhaseStep::stay().again(DEPLOYMENT_DEBOUNCE, "Deployment controller has not responded yet");
    }
    let message = with_cause(observed, position, deployment, &install::message_of(text));
    PhaseStep::to(Phase::Installing, reason::INSTALL_WAITING, message).again(
        left.min(pod_interval(waited)),
        "pods and the install timeout are not watched",
    )
}

/// Returns the delay until the next pod check. It is short at first, when most problems appear.
fn pod_interval(waited: Duration) -> Duration {
    match POD_PATIENCE.checked_sub(waited).filter(|left| !left.is_zero()) {
        Some(left) => left,
        None => (waited / 4).clamp(POD_PATIENCE, MAX_POD_INTERVAL),
    }
}

/// Returns upstream's text, followed by the reason why the pods of the Deployment do not run. If the pods
/// could not be read, the reason reported earlier is kept.
pub(super) fn with_cause(observed: &Observed, position: &Position, deployment: &str, text: &str) -> String {
    let cause = install::cause(observed, deployment);
    if cause.is_none() && observed.pod_troubles.is_none() {
        let told = position.message.strip_prefix(text);
        if told.is_some_and(|cause| cause.starts_with(BETWEEN)) {
            return position.message.clone();
        }
    }
    let rest =
        (!observed.left_behind.is_empty()).then_some("the pods of the replaced deployment run until then");
    let parts = [Some(text), cause, rest];
    parts.into_iter().flatten().collect::<Vec<_>>().join(BETWEEN)
}
