//! Decides the writes and the status of a ClusterServiceVersion: checks common to all phases, then one match
//! on the phase.
//!
//! No I/O. The phases are described in `docs/reference/lifecycle.md`; all but the shortest have their own
//! file. Each deliberate difference from upstream is documented in the code that makes it.

mod failed;
mod gates;
pub(crate) mod install_ready;
pub(crate) mod installing;
pub(crate) mod pending;
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
    decide::transitions::{PhaseStep, Position, Stage, Transition, Verdict, walk},
    health::Rollout,
    install::{self, serving},
    observed::Observed,
    rbac, removal, replacement, requirements,
};

/// Interval of the checks whether the cluster's Proxy has been read.
const PROXY_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the writes and the content of the status.
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
    // Every create is refused in a namespace that is being deleted; the deletion of the ClusterServiceVersion
    // follows.
    if observed.namespace_terminating {
        return (Plan::default(), Verdict::default());
    }
    let status = observed.csv.status.clone().unwrap_or_default();
    let position = Position::stored(&status, observed.created());
    let Some(closed) = gates::check(observed, &position) else {
        let (mut plan, verdict) = walk(position, now, |position| step(observed, position, now));
        if observed.proxy.are_awaited {
            plan.requeue = plan
                .requeue
                .sooner(Requeue::after(PROXY_INTERVAL, "cluster Proxy not read yet"));
        }
        return (plan, verdict);
    };
    let failed = closed.go.as_ref();
    let left = match failed.and_then(|failed| withdrawal(observed, &position, failed, now)) {
        Some((left, actions)) if left.is_zero() => return withdraw(observed, actions),
        later => later.map(|(left, _)| left),
    };
    let mut closed = Some(closed);
    let (mut plan, verdict) = walk(position, now, |_| closed.take().unwrap_or_default());
    if let Some(left) = left {
        let due = Requeue::after(left, "withdrawal of rights outside the namespace is due");
        plan.requeue = plan.requeue.sooner(due);
    }
    (plan, verdict)
}

/// True when a reconcile with this observation installs; components that serve without a certificate then get
/// one. A missing certificate does not affect the steps before.
pub(crate) fn installs(observed: &Observed, now: Timestamp) -> bool {
    let (_, verdict) = decide(observed, now);
    let is_install = |transition: &Transition| transition.phase == Phase::InstallReady;
    let gets_there = verdict.stage == Stage::Install || verdict.transitions.iter().any(is_install);
    // No other writes are made until the Deployments to be replaced are deleted.
    gets_there && changeover::pending(observed).is_empty()
}

/// Returns the writes that withdraw rights beyond the own namespace, webhooks and APIs, and the time until
/// they are due. `None` when there is nothing to withdraw, or the failed precondition is not about the group.
///
/// Without a group that grants them they are withdrawn after a delay. So a user who recreates the group, or
/// deletes a second one, finds nothing changed.
fn withdrawal(
    observed: &Observed,
    position: &Position,
    transition: &Transition,
    now: Timestamp,
) -> Option<(Duration, Vec<Action>)> {
    if !is_of_group(transition.reason) {
        return None;
    }
    let mut actions = rbac::withdrawals(observed);
    actions.extend(serving::withdraw(observed));
    if actions.is_empty() {
        return None;
    }
    let is_told = position.phase == transition.phase && position.reason == transition.reason;
    let since = if is_told { position.updated } else { now };
    let closed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some((rbac::REVOCATION_GRACE.saturating_sub(closed), actions))
}

/// True for a reason of phase Failed that is about the OperatorGroup: the namespace has none or several, or
/// the group selects nothing, or namespaces that the ClusterServiceVersion does not support.
fn is_of_group(cause: &str) -> bool {
    [
        reason::NO_OPERATOR_GROUP,
        reason::TOO_MANY_OPERATOR_GROUPS,
        reason::NO_TARGET_NAMESPACES,
        reason::UNSUPPORTED_OPERATOR_GROUP,
    ]
    .contains(&cause)
}

/// Plans the withdrawal. The phase already contains the reason and does not change.
fn withdraw(observed: &Observed, actions: Vec<Action>) -> (Plan, Verdict) {
    let message = format!(
        "No OperatorGroup lets this operator work outside its namespace any longer ({}): its rights in other namespaces were revoked, and its webhooks and APIs removed.",
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

/// Returns the error in the Subscription's configuration, without which the Deployments cannot be computed.
fn unusable_config(observed: &Observed) -> Option<&str> {
    observed
        .subscription
        .as_ref()
        .and_then(|config| config.as_ref().err())
        .map(String::as_str)
}

fn being_replaced(by: &str) -> PhaseStep {
    let message = format!("being replaced by csv: {by}");
    PhaseStep::to(Phase::Replacing, reason::BEING_REPLACED, message)
}

/// Returns a step to phase Failed, because a component cannot be installed.
fn install_failed(error: &str) -> PhaseStep {
    let message = format!("install strategy failed: {error}");
    PhaseStep::to(Phase::Failed, reason::INSTALL_COMPONENT_FAILED, message)
}

fn bad_calculation() -> Transition {
    Transition::new(
        Phase::Pending,
        reason::NEEDS_REINSTALL,
        "calculated deployment install is bad",
    )
}

/// Lets a running operator with a problem be replaced by its successor, because the successor may fix the
/// problem. Such problems are unmet requirements, a webhook that was installed under laxer rules, and a stuck
/// rollout whose old pods still run.
fn replaced_while_running(observed: &Observed) -> Option<PhaseStep> {
    let next = replacement::next(observed.name(), &observed.siblings)?;
    let runs = install::problem(observed, Rollout::MayProgress).is_none();
    let is_unmet =
        runs && requirements::evaluate(observed).is_ok_and(|found| !found.met && !found.undetermined);
    let is_stuck = runs && install::is_stuck(observed);
    let is_misdescribed = observed.strategy.is_ok() && pending::unusable_strategy(observed).is_some();
    (is_unmet || is_stuck || (is_misdescribed && install::is_available(observed)))
        .then(|| being_replaced(replacement::name_of(next)))
}

fn step(observed: &Observed, position: &Position, now: Timestamp) -> PhaseStep {
    match position.phase {
        Phase::None => PhaseStep::go(pending::unchecked()),
        Phase::Pending => pending::step(observed, position, now),
        Phase::InstallReady => install_ready::step(observed),
        Phase::Installing => installing::step(observed, position, now),
        Phase::Succeeded => succeeded::step(observed, now),
        Phase::Failed => failed::step(observed, position, now),
        Phase::Replacing => replacing::step(observed),
        Phase::Deleting => replacing::delete(observed),
        // The API declares this phase, but OLM never sets it. The user who wrote it has to remove it.
        Phase::Unknown | Phase::Other(_) => PhaseStep::stay(),
    }
}
