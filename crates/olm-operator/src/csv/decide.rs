//! What is to happen to a ClusterServiceVersion: checks common to all phases, then one match on the phase.
//!
//! Everything here is pure. The transition table is section 6 of the specification's csv-lifecycle; each phase has its
//! own file, and each knowing difference from upstream is told where it is made.

mod deleting;
mod failed;
mod gates;
mod install_ready;
mod installing;
mod none;
mod pending;
mod replacing;
mod succeeded;
pub mod walk;

use jiff::Timestamp;
use olm_api::condition::csv as reason;
use olm_runtime::plan::Plan;

use crate::csv::{
    decide::{
        gates::Gate,
        walk::{Position, Stage, Step, Transition, Verdict, walk},
    },
    health::Rollout,
    install,
    observe::Observed,
    phase::Phase,
    removal, replacement,
};

/// What is to be written, and what the status is to say.
pub fn decide(observed: &Observed, now: Timestamp) -> (Plan, Verdict) {
    if observed.csv.metadata.deletion_timestamp.is_some() {
        let plan = Plan {
            actions: removal::actions(observed),
            ..Plan::default()
        };
        return (
            plan,
            Verdict {
                stage: Stage::Removal,
                ..Verdict::default()
            },
        );
    }
    // In a namespace on its way out every create is refused; the deletion of the ClusterServiceVersion follows.
    if observed.namespace_terminating {
        return (Plan::default(), Verdict::default());
    }
    let status = observed.csv.status.clone().unwrap_or_default();
    let position = Position::stored(&status, observed.created());
    match gates::check(observed, &position) {
        Gate::Open => walk(position, now, |position| step(observed, position, now)),
        Gate::Stay => (Plan::default(), Verdict::default()),
        Gate::Write(actions) => (
            Plan {
                actions,
                ..Plan::default()
            },
            Verdict {
                stage: Stage::Membership,
                ..Verdict::default()
            },
        ),
        Gate::Fail { transition, actions } => fail(position, now, transition, actions),
    }
}

/// What phase InstallReady alone would write.
#[cfg(test)]
pub(crate) fn install_ready_for_tests(observed: &Observed) -> Vec<olm_runtime::plan::Action> {
    install_ready::step(observed).actions
}

/// A closed gate ends the round in phase Failed, whatever the phase was.
fn fail(
    position: Position,
    now: Timestamp,
    transition: Transition,
    actions: Vec<olm_runtime::plan::Action>,
) -> (Plan, Verdict) {
    let mut closed = Some(Step {
        go: Some(transition),
        actions,
        ..Step::default()
    });
    walk(position, now, |_| closed.take().unwrap_or_default())
}

/// Why the Deployments cannot be worked out: the Subscription's configuration cannot be used.
fn unusable_config(observed: &Observed) -> Option<&str> {
    observed
        .subscription
        .as_ref()
        .and_then(|config| config.as_ref().err())
        .map(String::as_str)
}

fn bad_calculation() -> Transition {
    Transition::new(
        Phase::Pending,
        reason::NEEDS_REINSTALL,
        "calculated deployment install is bad",
    )
}

/// An operator that runs and was refused rights somewhere makes way for its successor like any other that runs: whoever can have
/// writes refused in one namespace must not stop upgrades.
fn replaced_while_refused(observed: &Observed) -> Option<Step> {
    let next = replacement::next(observed.name(), &observed.siblings)?;
    let runs = install::problem(observed, Rollout::MayProgress).is_none();
    (runs && install::lacking_rights(observed).is_some()).then(|| {
        let message = format!("being replaced by csv: {}", next.name);
        Step::go(Transition::new(Phase::Replacing, reason::BEING_REPLACED, message))
    })
}

fn step(observed: &Observed, position: &Position, now: Timestamp) -> Step {
    match position.phase {
        Phase::None => none::step(),
        Phase::Pending => pending::step(observed, position, now),
        Phase::InstallReady => install_ready::step(observed),
        Phase::Installing => installing::step(observed, position, now),
        Phase::Succeeded => succeeded::step(observed, now),
        Phase::Failed => failed::step(observed, position, now),
        Phase::Replacing => replacing::step(observed),
        Phase::Deleting => deleting::step(observed),
        // Declared by the API and never set; whoever wrote it has to take it back.
        Phase::Unknown | Phase::Other(_) => Step::stay(),
    }
}
