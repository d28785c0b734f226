//! What is to happen to a ClusterServiceVersion: checks common to all phases, then one match on the phase.
//!
//! Everything here is pure. The phases are told in `docs/reference/lifecycle.md`; each has its
//! own file, and each deliberate difference from upstream is told where it is made.

mod deleting;
mod failed;
mod gates;
mod install_ready;
pub(crate) mod installing;
pub(crate) mod none;
mod pending;
mod replacing;
mod succeeded;
pub(crate) mod transitions;

use std::time::Duration;

use jiff::Timestamp;
use kube::Resource;
use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};
use olm_runtime::plan::{Action, EventDraft, Plan, Requeue};

use crate::csv::{
    changeover,
    decide::{
        gates::Gate,
        transitions::{PhaseStep, Position, Stage, Transition, Verdict, single_step, walk},
    },
    failure_cause::FailureCause,
    health::Rollout,
    install::{self, serving},
    observed::Observed,
    rbac, removal, replacement, requirements,
};

/// How often it is asked whether the cluster's proxy was read.
const PROXY_INTERVAL: Duration = Duration::from_secs(10);

/// What is to be written, and what the status is to say.
pub(crate) fn decide(observed: &Observed, now: Timestamp) -> (Plan, Verdict) {
    if observed.csv.metadata.deletion_timestamp.is_some() {
        return (
            removal::plan(observed),
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
        Gate::Open => {
            let (mut plan, verdict) = walk(position, now, |position| step(observed, position, now));
            if observed.proxy.are_awaited {
                plan.requeue = plan.requeue.sooner(Requeue::After {
                    delay: PROXY_INTERVAL,
                    reason: "whether the cluster's proxy will be read at all is not told",
                });
            }
            (plan, verdict)
        }
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
        Gate::Fail { transition, actions } => {
            let lost = withdrawal(observed, &position, &transition, now);
            let closed = PhaseStep {
                actions,
                ..PhaseStep::go(transition)
            };
            let (mut plan, verdict) = single_step(position, now, closed);
            match lost {
                Withdrawal::None => {}
                Withdrawal::In(delay) => {
                    plan.requeue = plan.requeue.sooner(Requeue::After {
                        delay,
                        reason: "rights beyond the namespace go when the gate stays closed",
                    });
                }
                Withdrawal::Now(actions) => return withdraw(observed, actions),
            }
            (plan, verdict)
        }
    }
}

/// True when a round that sees this installs: then what serves without a certificate gets one. That there is none yet changes nothing of
/// the way there.
pub(crate) fn installs(observed: &Observed, now: Timestamp) -> bool {
    let (_, verdict) = decide(observed, now);
    let is_install = |transition: &Transition| transition.phase == Phase::InstallReady;
    let gets_there = verdict.stage == Stage::Install || verdict.transitions.iter().any(is_install);
    // Until Deployments have made way for others nothing else is written.
    gets_there && changeover::pending(observed).is_empty()
}

/// What becomes of rights beyond the namespace, webhooks and APIs while a gate is closed.
enum Withdrawal {
    /// There are none, or the gate is closed for a reason that is not the group's.
    None,
    /// They go after this time.
    In(Duration),
    /// They go, by these writes.
    Now(Vec<Action>),
}

/// What an operator may do beyond its own namespace is its group's to give. Without one that sends it there it loses that, but not
/// at once: whoever makes the group anew, or takes the second one away, finds nothing changed.
fn withdrawal(
    observed: &Observed,
    position: &Position,
    transition: &Transition,
    now: Timestamp,
) -> Withdrawal {
    if FailureCause::parse(transition.reason) != FailureCause::OperatorGroup {
        return Withdrawal::None;
    }
    let mut actions = rbac::withdrawals(observed);
    actions.extend(serving::withdraw(observed));
    if actions.is_empty() {
        return Withdrawal::None;
    }
    let is_told = position.phase == transition.phase && position.reason == transition.reason;
    let since = if is_told { position.updated } else { now };
    let closed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match rbac::REVOCATION_GRACE.checked_sub(closed) {
        Some(left) if !left.is_zero() => Withdrawal::In(left),
        _ => Withdrawal::Now(actions),
    }
}

/// The phase says why already, and stays as it is.
fn withdraw(observed: &Observed, actions: Vec<Action>) -> (Plan, Verdict) {
    let message = format!(
        "No OperatorGroup sends this operator beyond its namespace any more ({}): its rights there were taken back, and its webhooks and APIs.",
        observed.csv.reason()
    );
    let event = EventDraft::warning(observed.csv.object_ref(&()), reason::RIGHTS_WITHDRAWN, message);
    let plan = Plan {
        actions,
        events: vec![event],
        ..Plan::default()
    };
    let verdict = Verdict {
        stage: Stage::Removal,
        ..Verdict::default()
    };
    (plan, verdict)
}

/// What phase InstallReady alone would write.
#[cfg(test)]
pub(crate) fn install_ready_for_tests(observed: &Observed) -> Vec<Action> {
    install_ready::step(observed).actions
}

/// Why the Deployments cannot be worked out: the Subscription's configuration cannot be used.
fn unusable_config(observed: &Observed) -> Option<&str> {
    observed
        .subscription
        .as_ref()
        .and_then(|config| config.as_ref().err())
        .map(String::as_str)
}

fn being_replaced(by: &str) -> PhaseStep {
    let message = format!("being replaced by csv: {by}");
    PhaseStep::go(Transition::new(Phase::Replacing, reason::BEING_REPLACED, message))
}

fn bad_calculation() -> Transition {
    Transition::new(
        Phase::Pending,
        reason::NEEDS_REINSTALL,
        "calculated deployment install is bad",
    )
}

/// An operator that runs makes way for its successor like any other that runs, though something is wrong with it: requirements that it does not
/// meet any more, a webhook that was installed under laxer rules, or a rollout that got stuck while the pods before it serve on. The successor may
/// be what mends it.
fn replaced_while_running(observed: &Observed) -> Option<PhaseStep> {
    let next = replacement::next(observed.name(), &observed.siblings)?;
    let runs = install::problem(observed, Rollout::MayProgress).is_none();
    let is_unmet =
        runs && requirements::evaluate(observed).is_ok_and(|found| !found.met && !found.undetermined);
    let is_stuck = runs && install::is_stuck(observed);
    let is_misdescribed = observed.strategy.is_ok() && pending::unusable_strategy(observed).is_some();
    (is_unmet || is_stuck || (is_misdescribed && install::is_available(observed)))
        .then(|| being_replaced(&next.name))
}

fn step(observed: &Observed, position: &Position, now: Timestamp) -> PhaseStep {
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
        Phase::Unknown | Phase::Other(_) => PhaseStep::stay(),
    }
}
