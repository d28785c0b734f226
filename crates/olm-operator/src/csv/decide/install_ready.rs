//! Phase InstallReady: all requirements are met, and the Deployments are applied.

use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::csv::{
    changeover,
    decide::transitions::{PhaseStep, Stage, Transition},
    install,
    observed::Observed,
};

pub(crate) fn step(observed: &Observed) -> PhaseStep {
    if let Some(step) = super::replaced_while_running(observed) {
        return step;
    }
    if let Some(step) = super::pending::unusable_strategy(observed) {
        return step;
    }
    if let Some(conflict) = super::pending::taken(observed) {
        return PhaseStep::go(conflict);
    }
    if let Some(error) = super::unusable_config(observed) {
        return super::install_failed(error);
    }
    if let Some(step) = changeover(observed) {
        return step;
    }
    let writes = install::writes(observed);
    if writes.is_empty() {
        return PhaseStep::go(installed());
    }
    PhaseStep::install(Stage::Install, writes, Some(installed()))
}

/// Returns the transition after all writes of an install.
pub(super) fn installed() -> Transition {
    Transition::new(
        Phase::Installing,
        reason::INSTALL_SUCCEEDED,
        "waiting for install components to report healthy",
    )
}

/// Returns the writes for Deployments that must be replaced first.
pub(super) fn changeover(observed: &Observed) -> Option<PhaseStep> {
    let pending = changeover::pending(observed);
    let message = pending.first()?.message();
    let replaced = Transition::new(Phase::InstallReady, reason::INSTALL_WAITING, message);
    let actions = pending.iter().flat_map(|one| one.actions(observed));
    Some(PhaseStep {
        actions: actions.collect(),
        stage: Stage::Install,
        ..PhaseStep::go(replaced)
    })
}
