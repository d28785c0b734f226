//! Phase Deleting: the successor has succeeded, so the object is deleted. The finalizer cleans up what it
//! leaves behind.

use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase};
use olm_runtime::plan::{Action, Target};

use crate::csv::{
    decide::transitions::{PhaseStep, Stage},
    observed::Observed,
};

pub(super) fn step(observed: &Observed) -> PhaseStep {
    // The phase is written before the object is deleted, so that users who watch it see the reason.
    if *observed.csv.phase() != Phase::Deleting {
        return PhaseStep::stay();
    }
    let target = Target::of::<ClusterServiceVersion>(observed.namespace(), observed.name());
    let delete = Action::delete(target, Some(observed.uid().to_owned()));
    PhaseStep::act(Stage::Removal, vec![delete], None)
}
