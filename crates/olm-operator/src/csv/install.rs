//! The Deployments of an install: what to write, and the first thing that is wrong with what is there.

use kube::ResourceExt;
use olm_runtime::plan::{Action, Propagation, Target, to_value};

use k8s_openapi::api::apps::v1::Deployment;

use crate::{
    csv::{
        FIELD_MANAGER,
        deployment::{self, Built},
        health::{self, DeploymentProblem, Rollout},
        observed::Observed,
        rbac::{self, Grant, objects::identity},
    },
    owner,
};

/// How long a Deployment that fell out of the strategy may take to stop.
const ORPHAN_GRACE_SECONDS: u32 = 1;

/// The first problem found, and the Deployment that has it.
#[derive(Debug, PartialEq)]
pub(crate) struct FoundProblem {
    pub(crate) deployment: String,
    pub(crate) problem: DeploymentProblem,
}

/// The Deployments of the strategy as they should be; none when the strategy or the configuration cannot be used, which
/// the phases tell before they ask.
pub(crate) fn wanted(observed: &Observed) -> Vec<Built> {
    let Ok(strategy) = &observed.strategy else {
        return Vec::new();
    };
    let overrides = observed
        .subscription
        .as_ref()
        .and_then(|config| config.as_ref().ok());
    strategy
        .deployments
        .iter()
        .map(|entry| deployment::build(&observed.csv, entry, overrides))
        .collect()
}

/// The first problem of the install, in the order of the strategy; problems that an install solves come first.
pub(crate) fn problem(observed: &Observed, rollout: Rollout) -> Option<FoundProblem> {
    let mut first = None;
    for built in wanted(observed) {
        let live = observed.deployments.get(&built.wanted.name).map(AsRef::as_ref);
        if let Some(problem) = health::check(&built.wanted, live, rollout) {
            let found = FoundProblem {
                deployment: built.wanted.name,
                problem,
            };
            if matches!(
                found.problem,
                DeploymentProblem::Missing(_) | DeploymentProblem::Outdated(_)
            ) {
                return Some(found);
            }
            first.get_or_insert(found);
        }
    }
    let orphan = orphans(observed).next().map(|orphan| FoundProblem {
        deployment: orphan.name_any(),
        problem: DeploymentProblem::Outdated(format!(
            "deployment {} is not part of the install strategy any more",
            orphan.name_any()
        )),
    });
    orphan.or(first)
}

/// True while the Deployment controller has not answered to the last change of this Deployment.
pub(crate) fn is_just_changed(observed: &Observed, deployment: &str) -> bool {
    observed
        .deployments
        .get(deployment)
        .is_some_and(|live| health::is_just_changed(live))
}

/// What an install has to write.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct InstallWrites {
    /// Rights in the namespaces the group targets, each for itself.
    pub(crate) grants: Vec<Grant>,
    /// The Deployments that are not as they should be, the end of those that fell out of the strategy, and rights that are no
    /// longer wanted, one after the other.
    pub(crate) rest: Vec<Action>,
}

impl InstallWrites {
    /// True when all is as it should be.
    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.rest.is_empty()
    }
}

/// The writes that give and take rights elsewhere, for an operator whose Deployments are as they should be.
pub(crate) fn grant_in_targets(observed: &Observed) -> InstallWrites {
    InstallWrites {
        grants: rbac::grants(observed),
        rest: rbac::revocations(observed),
    }
}

/// What still has to be granted, for people; `None` when the operator has its rights wherever it works.
pub(crate) fn lacking_rights(observed: &Observed) -> Option<String> {
    let grants = rbac::grants(observed);
    let places = rbac::describe_places(grants.iter().map(|grant| &grant.place));
    (!grants.is_empty()).then(|| format!("rights are missing {places}"))
}

/// What an install has to write.
pub(crate) fn writes(observed: &Observed) -> InstallWrites {
    let mut actions = Vec::new();
    for Built { deployment, wanted } in wanted(observed) {
        let live = observed.deployments.get(&wanted.name);
        if live.is_none_or(|live| health::drift(&wanted, live).is_some()) {
            actions.push(Action::Apply {
                target: Target::of::<Deployment>(observed.namespace(), &wanted.name),
                object: to_value(&deployment),
                manager: FIELD_MANAGER,
                identity: identity(observed),
            });
        }
    }
    actions.extend(orphans(observed).map(|orphan| Action::Delete {
        target: Target::of::<Deployment>(observed.namespace(), &orphan.name_any()),
        uid: orphan.uid(),
        grace_seconds: Some(ORPHAN_GRACE_SECONDS),
        propagation: Propagation::Foreground,
        identity: identity(observed),
    }));
    let mut writes = grant_in_targets(observed);
    actions.append(&mut writes.rest);
    writes.rest = actions;
    writes
}

/// Deployments of this ClusterServiceVersion, by label and by uid, that the strategy does not name.
fn orphans(observed: &Observed) -> impl Iterator<Item = &Deployment> {
    let named = |name: &str| match &observed.strategy {
        Ok(strategy) => strategy.deployments.iter().any(|entry| entry.name == name),
        Err(_) => true,
    };
    observed
        .deployments
        .values()
        .map(AsRef::as_ref)
        .filter(move |live| {
            live.metadata.deletion_timestamp.is_none()
                && owner::references(&live.metadata).any(|owner| owner.uid == observed.uid())
                && !named(&live.name_any())
        })
}

/// The Deployments of this ClusterServiceVersion go, because it must not run here.
pub(crate) fn withdraw(observed: &Observed) -> Vec<Action> {
    observed
        .deployments
        .values()
        .filter(|live| live.metadata.deletion_timestamp.is_none())
        .map(|live| {
            Action::delete(
                Target::of::<Deployment>(observed.namespace(), &live.name_any()),
                live.uid(),
            )
        })
        .collect()
}
