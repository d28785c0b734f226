//! All requirements are met: the Deployments are put in place.

use olm_api::condition::csv as reason;

use crate::csv::{
    decide::walk::{Stage, Step, Transition},
    install,
    observe::Observed,
    phase::Phase,
};

pub(super) fn step(observed: &Observed) -> Step {
    if let Some(step) = super::pending::unusable_strategy(observed) {
        return step;
    }
    if let Some(error) = super::unusable_config(observed) {
        let message = format!("install strategy failed: {error}");
        return Step::go(Transition::new(
            Phase::Failed,
            reason::INSTALL_COMPONENT_FAILED,
            message,
        ));
    }
    let then = Transition::new(
        Phase::Installing,
        reason::INSTALL_SUCCEEDED,
        "waiting for install components to report healthy",
    );
    let actions = install::actions(observed);
    if actions.is_empty() {
        return Step::go(then);
    }
    Step::act(Stage::Install, actions, Some(then))
}
