//! Phase Pending: checks the requirements and waits for the predecessor.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use olm_api::{
    condition::{csv as reason, requirement},
    v1alpha1::{ClusterServiceVersionPhase as Phase, RequirementStatus},
};
use olm_runtime::plan::Requeue;

use crate::csv::{
    decide::transitions::{PhaseStep, Position, Transition},
    install::{self, serving},
    observed::Observed,
    replacement,
    requirements::{self, Requirements},
    upgrade,
};

/// Time in which the predecessor should notice its successor before the wait is reported.
const PREDECESSOR_DEBOUNCE: Duration = Duration::from_secs(2);
/// Interval of the checks for kinds that are not served yet.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(15);
/// First interval of the checks for accounts and RBAC that OLM did not create.
const MIN_RIGHTS_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of the checks for accounts and RBAC that OLM did not create, after minutes of waiting.
const MAX_RIGHTS_INTERVAL: Duration = Duration::from_secs(60);

/// Returns the first transition of every ClusterServiceVersion.
pub(crate) fn unchecked() -> Transition {
    Transition::new(
        Phase::Pending,
        reason::REQUIREMENTS_UNKNOWN,
        "requirements not yet checked",
    )
}

pub(super) fn step(observed: &Observed, position: &Position, now: Timestamp) -> PhaseStep {
    let (name, siblings) = (observed.name(), observed.siblings.as_slice());
    let previous = replacement::previous(name, observed.replaces(), siblings);
    if previous.is_some()
        && let Err(error) = upgrade::check(observed.previous_condition.as_deref())
    {
        let message = format!("operator is not upgradeable: {error}");
        return PhaseStep::to(
            Phase::Pending,
            reason::OPERATOR_CONDITION_NOT_UPGRADEABLE,
            message,
        );
    }
    let Requirements {
        met, lacking, rows, ..
    } = match requirements::evaluate(observed) {
        Ok(requirements) => requirements,
        Err(error) => return PhaseStep::go(invalid_strategy(&error)),
    };
    if !met {
        // Its successor waits for it, and may provide the missing requirement.
        if let Some(step) = super::replaced_while_running(observed) {
            return step.with_requirements(rows);
        }
        return unmet(observed, &lacking, rows, position, now);
    }
    if let Some(mut step) = unusable_strategy(observed) {
        step.requirements.get_or_insert(rows);
        return step;
    }
    if let Some(conflict) = owner_conflict(observed) {
        return PhaseStep::go(conflict).with_requirements(rows);
    }
    if let Some(previous) = previous.filter(|previous| *previous.phase() != Phase::Replacing) {
        let name = replacement::name_of(previous);
        return wait_for(name, previous.phase(), position, now).with_requirements(rows);
    }
    PhaseStep::to(
        Phase::InstallReady,
        reason::ALL_REQUIREMENTS_MET,
        "all requirements found, attempting install",
    )
    .with_requirements(rows)
}

/// Reports missing requirements. They are never created here: InstallPlans or users create accounts and RBAC
/// (decision record 0044).
fn unmet(
    observed: &Observed,
    lacking: &str,
    rows: Vec<RequirementStatus>,
    position: &Position,
    now: Timestamp,
) -> PhaseStep {
    let message = format!("one or more requirements couldn't be found{lacking}");
    let pending = PhaseStep::to(Phase::Pending, reason::REQUIREMENTS_NOT_MET, message);
    let lacks_rights = rows
        .iter()
        .any(|row| row.kind == "ServiceAccount" && row.status != requirement::PRESENT);
    let mut requeue = Requeue::AwaitChange;
    if asks_discovery(observed) {
        requeue = Requeue::after(DISCOVERY_INTERVAL, "served kinds are not watched");
    }
    if lacks_rights {
        requeue = requeue.sooner(match observed.plan_grace(now) {
            Some(delay) => Requeue::after(delay, "ServiceAccounts and Roles of the InstallPlan expected"),
            None => Requeue::after(
                rights_interval(position, now),
                "RBAC not created by OLM is not watched",
            ),
        });
    }
    PhaseStep {
        requeue,
        ..pending.with_requirements(rows)
    }
}

/// Returns the delay until the next check for rights that users create. It is short at first, when a user may
/// be about to create them.
fn rights_interval(position: &Position, now: Timestamp) -> Duration {
    let waited = Duration::try_from(now.duration_since(position.since)).unwrap_or_default();
    (waited / 4).clamp(MIN_RIGHTS_INTERVAL, MAX_RIGHTS_INTERVAL)
}

/// Returns the same step with another check after a while.
pub(super) fn ask_again(step: PhaseStep) -> PhaseStep {
    step.again(DISCOVERY_INTERVAL, "served kinds are not watched")
}

/// True when a requirement depends on discovery.
fn asks_discovery(observed: &Observed) -> bool {
    let spec = &observed.csv.spec;
    !spec.native_apis.is_empty() || !spec.required_api_services().is_empty()
}

/// Reports the wait for the predecessor. Upstream leaves reason and message unchanged here, so the cause of
/// the wait is not visible.
fn wait_for(previous: &str, phase: &Phase, position: &Position, now: Timestamp) -> PhaseStep {
    let since_update = Duration::try_from(now.duration_since(position.updated)).unwrap_or_default();
    if since_update < PREDECESSOR_DEBOUNCE {
        return PhaseStep::stay().again(PREDECESSOR_DEBOUNCE, "replacement of the predecessor expected");
    }
    let message = format!(
        "all requirements found, waiting for csv {previous} to be in phase Replacing (it is in {phase})"
    );
    PhaseStep::to(Phase::Pending, reason::ALL_REQUIREMENTS_MET, message)
}

/// Returns a step to phase Failed if the install strategy or a webhook description is invalid. The message is
/// upstream's; a row of the requirements names the webhook.
pub(super) fn unusable_strategy(observed: &Observed) -> Option<PhaseStep> {
    let strategy = match &observed.strategy {
        Err(error) => return Some(PhaseStep::go(invalid_strategy(error))),
        Ok(strategy) => strategy,
    };
    if let Some(refused) = serving::invalid_description(&observed.csv, strategy) {
        let reason = reason::INVALID_WEBHOOK_DESCRIPTION;
        let step = PhaseStep::to(Phase::Failed, reason, refused.text.as_str());
        return Some(match requirements::with_refused(observed, &refused) {
            Some(rows) => step.with_requirements(rows),
            None => step,
        });
    }
    let text = serving::definitions::refused(observed)?;
    Some(super::install_failed(&text))
}

pub(super) fn invalid_strategy(error: &str) -> Transition {
    let message = format!("install strategy invalid: {error}");
    Transition::new(Phase::Failed, reason::INVALID_INSTALL_STRATEGY, message)
}

/// Returns a failure if a Deployment of the strategy or its Service belongs to another ClusterServiceVersion:
/// it is not overwritten.
pub(super) fn taken(observed: &Observed) -> Option<Transition> {
    let deployment = install::taken(observed)
        .map(|(name, other)| format!("Deployment {name} belongs to ClusterServiceVersion {other}"));
    let message = deployment.or_else(|| serving::taken(observed))?;
    Some(Transition::new(Phase::Failed, reason::OWNER_CONFLICT, message))
}

/// Finds another owner of the same objects. For CustomResourceDefinitions, Deployments and Services it is a
/// ClusterServiceVersion of the namespace outside this one's replacement chain. For APIServices it is any
/// other owner.
pub(super) fn owner_conflict(observed: &Observed) -> Option<Transition> {
    let chain = replacement::chain(observed.name(), observed.replaces(), &observed.siblings);
    let names = observed.siblings.iter().map(replacement::name_of);
    let owners = observed.siblings.iter().zip(names).rev();
    let owners = owners.filter(|(_, name)| !chain.contains(name));
    // They are collected from the last to the first, so that the first of several owners is named.
    let owners: HashMap<&str, &str> = owners
        .flat_map(|(sibling, name)| {
            sibling
                .spec
                .owned_crds()
                .iter()
                .map(move |crd| (crd.name.as_str(), name))
        })
        .collect();
    let crds = observed.csv.spec.owned_crds().iter().find_map(|owned| {
        let other = owners.get(owned.name.as_str())?;
        let message = format!(
            "conflicting CRD owner in namespace: {} is owned by {other}",
            owned.name
        );
        Some(Transition::new(Phase::Failed, reason::OWNER_CONFLICT, message))
    });
    let apis = || {
        let message = serving::availability::conflict(observed)?;
        Some(Transition::new(Phase::Failed, reason::OWNER_CONFLICT, message))
    };
    crds.or_else(apis).or_else(|| taken(observed))
}
