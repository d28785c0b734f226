//! Phase None: a new ClusterServiceVersion that was not checked yet.

use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::csv::decide::transitions::{PhaseStep, Transition};

pub(super) fn step() -> PhaseStep {
    PhaseStep::go(unchecked())
}

/// Returns the first transition of every ClusterServiceVersion.
pub(crate) fn unchecked() -> Transition {
    Transition::new(
        Phase::Pending,
        reason::REQUIREMENTS_UNKNOWN,
        "requirements not yet checked",
    )
}
