//! A successor exists: wait until it has succeeded, then go. Chains are collected oldest first.

use olm_api::condition::csv as reason;

use crate::csv::{
    decide::walk::{Step, Transition},
    observe::Observed,
    phase::Phase,
    replacement::{self, Cycle},
};

pub(super) fn step(observed: &Observed) -> Step {
    let (name, siblings) = (observed.name(), observed.siblings.as_slice());
    if replacement::previous(name, observed.replaces(), siblings).is_some() {
        return Step::stay();
    }
    let fail_forward = observed.group().is_some_and(|group| group.fail_forward);
    let next = if fail_forward {
        match replacement::last(name, siblings) {
            Ok(next) => next,
            Err(Cycle(seen)) => {
                let message = format!("csv {}/{seen} has already been seen", observed.namespace());
                return Step::go(Transition::new(Phase::Replacing, reason::BEING_REPLACED, message));
            }
        }
    } else {
        replacement::next(name, siblings)
    };
    match next {
        // Upstream stays here for ever when the successor is deleted; this one runs on and is repaired again. That no
        // successor exists has been read from the API server, see `observe`.
        None => Step::go(Transition::new(
            Phase::Pending,
            reason::NEEDS_REINSTALL,
            "marked as replacement, but no replacement CSV found in cluster",
        )),
        Some(next) if next.is_succeeded() => Step::go(Transition::new(
            Phase::Deleting,
            reason::REPLACED,
            "has been replaced by a newer ClusterServiceVersion that has successfully installed.",
        )),
        Some(_) => Step::stay(),
    }
}
