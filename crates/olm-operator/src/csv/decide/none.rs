//! A ClusterServiceVersion nobody has looked at yet.

use olm_api::condition::csv as reason;

use crate::csv::{
    decide::walk::{Step, Transition},
    phase::Phase,
};

pub(super) fn step() -> Step {
    Step::go(Transition::new(
        Phase::Pending,
        reason::REQUIREMENTS_UNKNOWN,
        "requirements not yet checked",
    ))
}
