//! What an operator still gets that runs until its successor does.
//!
//! Anybody who may create a ClusterServiceVersion may name another in `replaces`, and one that names it may never come to install. So
//! the operator is repaired, configured and given certificates and rights as if nobody named it, until a successor has begun to
//! install; from then on it gets what no successor has under the same name.

use std::{borrow::Cow, collections::BTreeSet};

use jiff::Timestamp;
use olm_api::{install_mode::check_install_modes, v1alpha1::ClusterServiceVersionPhase as Phase};

use crate::{
    csv::{
        changeover,
        health::{DeploymentProblem, Rollout},
        install::{self, InstallWrites},
        observed::Observed,
        replacement,
    },
    operator_group::Targets,
};

/// True from when a successor has begun to install what this one, in phase Replacing, serves with.
pub(crate) fn is_handed_over(observed: &Observed) -> bool {
    *observed.csv.phase() == Phase::Replacing && has_successor_begun(observed)
}

fn has_successor_begun(observed: &Observed) -> bool {
    let successors = replacement::successors(observed.name(), &observed.siblings);
    successors.iter().any(|successor| successor.has_begun)
}

/// Whether the one group of its namespace sends it where it can work.
pub(crate) fn is_member(observed: &Observed) -> bool {
    observed.group().is_some_and(|group| match &group.targets {
        Targets::Namespaces(targets) if !targets.is_empty() && !group.awaits_service_account => {
            let targets: Vec<String> = targets.iter().cloned().collect();
            check_install_modes(&observed.csv.spec.install_modes, observed.namespace(), &targets).is_ok()
        }
        _ => false,
    })
}

/// What is to be written for it; `None` when it is nobody's turn to write anything, or when it never ran.
pub(crate) fn writes(observed: &Observed, now: Timestamp) -> Option<InstallWrites> {
    let has_run = observed.has_succeeded && observed.strategy.is_ok();
    let is_usable = !matches!(observed.subscription, Some(Err(_)));
    if !has_run || !is_usable || !is_member(observed) {
        return None;
    }
    let own = own_part(observed)?;
    if install::taken(&own).is_some() || !changeover::pending(&own).is_empty() {
        return None;
    }
    let Some(found) = install::problem(&own, Rollout::MayProgress) else {
        let mut writes = install::grant_in_targets(&own);
        writes.rest.extend(install::tidy(&own));
        return Some(writes);
    };
    match found.problem {
        DeploymentProblem::Missing(_) | DeploymentProblem::Outdated(_) => {
            let is_edited = install::edited_for(&own, &found.deployment, now).is_some();
            (!is_edited).then(|| install::writes(&own))
        }
        DeploymentProblem::Waiting(_) | DeploymentProblem::Stuck(_) => Some(install::grant_in_targets(&own)),
    }
}

/// What is of this one alone. What serves is passed on as a whole, with webhooks and definitions that lead there.
fn own_part(observed: &Observed) -> Option<Cow<'_, Observed>> {
    if !has_successor_begun(observed) {
        return Some(Cow::Borrowed(observed));
    }
    if !observed.serving.endpoints.is_empty() {
        return None;
    }
    let successors = replacement::successors(observed.name(), &observed.siblings);
    let passed_on: BTreeSet<&String> = successors
        .iter()
        .flat_map(|successor| &successor.deployments)
        .collect();
    let mut own = observed.clone();
    own.deployments.retain(|name, _| !passed_on.contains(name));
    own.inherited.retain(|name, _| !passed_on.contains(name));
    if let Ok(strategy) = &mut own.strategy {
        strategy
            .deployments
            .retain(|entry| !passed_on.contains(&entry.name));
    }
    Some(Cow::Owned(own))
}
