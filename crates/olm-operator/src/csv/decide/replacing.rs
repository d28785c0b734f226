//! Phases Replacing and Deleting: a successor exists, and this one is deleted once it has succeeded. Chains
//! are collected oldest first.

use olm_api::{
    condition::csv as reason,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::plan::{Action, Target};

use crate::csv::{
    decide::transitions::{PhaseStep, Stage, Transition},
    observed::Observed,
    replacement::{self, Cycle},
};

pub(super) fn step(observed: &Observed) -> PhaseStep {
    let (name, siblings) = (observed.name(), observed.siblings.as_slice());
    if replacement::previous(name, observed.replaces(), siblings).is_some() {
        return PhaseStep::stay();
    }
    let Some(next) = replacement::next(name, siblings) else {
        // Upstream stays in this phase forever when the successor is deleted. Here the operator keeps running
        // and is repaired again. One watch brings both, and the successor came first, so it was deleted. The
        // reconcile ends here, because this phase skips the group's preconditions; the next reconcile checks
        // them.
        let pending = Transition::new(
            Phase::Pending,
            reason::NEEDS_REINSTALL,
            "marked as replacement, but no replacement CSV found in cluster",
        );
        return PhaseStep {
            then: Some(pending),
            ..PhaseStep::default()
        };
    };
    let running = if observed.group().is_some_and(|group| group.fail_forward) {
        match replacement::last(name, siblings) {
            Ok(last) => replacement::is_succeeded(last.unwrap_or(next)),
            Err(Cycle(seen)) => {
                let message = format!("csv {}/{seen} has already been seen", observed.namespace());
                return PhaseStep::to(Phase::Replacing, reason::BEING_REPLACED, message);
            }
        }
    } else {
        replacement::succeeded(name, siblings).is_some()
    };
    if !running {
        return PhaseStep::stay();
    }
    PhaseStep::to(
        Phase::Deleting,
        reason::REPLACED,
        "has been replaced by a newer ClusterServiceVersion that has successfully installed.",
    )
}

/// Deletes the object, whose successor has succeeded. The finalizer cleans up what it leaves behind.
pub(super) fn delete(observed: &Observed) -> PhaseStep {
    // The phase is written before the object is deleted, so that users who watch it see the reason.
    if *observed.csv.phase() != Phase::Deleting {
        return PhaseStep::stay();
    }
    let target = Target::of::<ClusterServiceVersion>(observed.namespace(), observed.name());
    let delete = Action::delete(target, Some(observed.uid().to_owned()));
    PhaseStep::act(Stage::Removal, vec![delete], None)
}
