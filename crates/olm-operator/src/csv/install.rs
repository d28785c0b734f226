//! The Deployments of an install: the writes, and the first problem of the existing ones.

pub(crate) mod serving;

use kube::ResourceExt;
use olm_api::labels;
use olm_runtime::plan::{Action, Guard, Propagation, Target};
use serde_json::json;

use k8s_openapi::api::apps::v1::Deployment;

use crate::{
    csv::{
        deployment::{self, Built},
        health::{self, DeploymentProblem, Rollout},
        observed::Observed,
        rbac::{self, apply, identity},
        replacement::{self, Sibling},
    },
    owner, stores,
};

/// Grace period for pods of a Deployment that the strategy no longer contains, in seconds.
const ORPHAN_GRACE_SECONDS: u32 = 1;

/// Returns the wanted Deployments of the strategy. The list is empty if the strategy or the configuration is
/// invalid, which the phases report first.
pub(crate) fn wanted(observed: &Observed) -> Vec<Built> {
    let Ok(strategy) = &observed.strategy else {
        return Vec::new();
    };
    let overrides = observed.overrides();
    strategy
        .deployments
        .iter()
        .map(|entry| {
            let certificate = serving::certificate_of(observed, &entry.name);
            deployment::build(
                &observed.csv,
                entry,
                overrides,
                &observed.proxy,
                certificate.as_ref(),
            )
        })
        .collect()
}

/// Returns the first problem of the install, with the Deployment that has it, in the order of the strategy; problems
/// that an install solves come first.
pub(crate) fn problem(observed: &Observed, rollout: Rollout) -> Option<(String, DeploymentProblem)> {
    let mut first = None;
    for Built { wanted, .. } in wanted(observed) {
        let live = observed.deployments.get(&wanted.name).map(AsRef::as_ref);
        match health::check(&wanted, live, rollout) {
            None => {}
            Some(found @ (DeploymentProblem::Missing(_) | DeploymentProblem::Outdated(_))) => {
                return Some((wanted.name, found));
            }
            Some(found) => {
                first.get_or_insert((wanted.name, found));
            }
        }
    }
    let orphan = orphans(observed).next().map(|orphan| {
        let name = orphan.name_any();
        let text = format!("deployment {name} is no longer part of the install strategy");
        (name, DeploymentProblem::Outdated(text))
    });
    let not_serving = serving::problem(observed);
    let not_serving = not_serving.map(|(deployment, text)| (deployment, DeploymentProblem::Outdated(text)));
    let unavailable = || {
        let unknown_counts = rollout == Rollout::MustBeComplete;
        let (deployment, text) = serving::availability::unavailable(observed, unknown_counts)?;
        Some((deployment, DeploymentProblem::Waiting(text)))
    };
    orphan.or(not_serving).or(first).or_else(unavailable)
}

/// Returns the first Deployment of the strategy that belongs to another ClusterServiceVersion of the
/// namespace, with that owner's name. Owners in the replacement chain are ignored, because they pass their
/// Deployments on. Applying it would make the two overwrite each other forever.
pub(crate) fn taken(observed: &Observed) -> Option<(&str, String)> {
    if observed.inherited.is_empty() {
        return None;
    }
    let chain = replacement::chain(observed.name(), observed.replaces(), &observed.siblings);
    observed.inherited.iter().find_map(|(name, live)| {
        let owner = owner::labelled(&live.metadata)?;
        let is_other = |sibling: &Sibling| {
            replacement::name_of(sibling) == owner.name && sibling.metadata.deletion_timestamp.is_none()
        };
        let lives = owner.namespace == observed.namespace() && observed.siblings.iter().any(is_other);
        (lives && !chain.contains(owner.name.as_str())).then_some((name.as_str(), owner.name))
    })
}

/// Returns the reason why the pods of a Deployment do not run: from its own conditions, else from its pods.
pub(crate) fn cause<'a>(observed: &'a Observed, deployment: &str) -> Option<&'a str> {
    let live = observed.deployments.get(deployment);
    let refused = live.and_then(|live| health::creation_failure(live));
    refused.or_else(|| Some(observed.pod_troubles.as_ref()?.get(deployment)?.as_str()))
}

/// True when a rollout has failed.
pub(crate) fn is_stuck(observed: &Observed) -> bool {
    let found = problem(observed, Rollout::MustBeComplete);
    matches!(found, Some((_, DeploymentProblem::Stuck(_))))
}

/// True when every Deployment of the strategy exists and is available, whether or not it matches the wanted
/// one.
pub(crate) fn is_available(observed: &Observed) -> bool {
    let mut entries = observed
        .strategy
        .iter()
        .flat_map(|strategy| &strategy.deployments);
    entries.all(|entry| {
        let live = observed.deployments.get(&entry.name);
        live.is_some_and(|live| health::is_available(live))
    })
}

/// Returns the message for a problem. Tools match the start of the messages about webhooks and APIServices,
/// so these get no prefix.
pub(crate) fn message_of(text: &str) -> String {
    const BEGINNINGS: [&str; 2] = ["apiServices not installed", "webhooks not installed"];
    if BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) {
        return text.to_owned();
    }
    if text.starts_with("conversionWebhook not ready") {
        return format!("Webhook install failed: {text}");
    }
    format!("installing: {text}")
}

/// Returns writes that remove trust in certificates that no pod uses any more.
pub(crate) fn tidy(observed: &Observed) -> Vec<Action> {
    let built = wanted(observed);
    serving::tidy(observed, |deployment| {
        let built = built.iter().find(|built| built.wanted.name == deployment);
        let live = observed.deployments.get(deployment).map(AsRef::as_ref);
        built.is_some_and(|built| health::check(&built.wanted, live, Rollout::MustBeComplete).is_none())
    })
}

/// True while the Deployment controller has not answered to the last change of this Deployment.
pub(crate) fn is_just_changed(observed: &Observed, deployment: &str) -> bool {
    observed
        .deployments
        .get(deployment)
        .is_some_and(|live| health::is_just_changed(live))
}

/// Writes of an install.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct InstallWrites {
    /// Writes of rights in the target namespaces; a refusal of one stops no other.
    pub(crate) grants: Vec<Action>,
    /// Writes of changed Deployments, deletions of Deployments that the strategy no longer contains, and
    /// revocations, in this order.
    pub(crate) rest: Vec<Action>,
}

impl InstallWrites {
    /// True when no write is needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.rest.is_empty()
    }
}

/// Returns the writes that grant and revoke rights elsewhere, for an operator whose Deployments match.
pub(crate) fn grant_in_targets(observed: &Observed) -> InstallWrites {
    InstallWrites {
        grants: rbac::grants(observed),
        rest: rbac::revocations(observed),
    }
}

/// Returns the writes of an install.
pub(crate) fn writes(observed: &Observed) -> InstallWrites {
    let (mut actions, after) = serving::writes(observed);
    for Built {
        mut deployment,
        wanted,
    } in wanted(observed)
    {
        let live = observed.deployments.get(&wanted.name);
        if live.is_none_or(|live| health::drift(&wanted, live).is_some()) {
            let before = live.or_else(|| observed.inherited.get(&wanted.name));
            let edited = live.filter(|live| is_only_edited(&wanted, live));
            let undone = edited.and_then(|live| stores::deployment::undone_change(live, &wanted.spec));
            if let Some(undone) = undone {
                let annotations = deployment.metadata.annotations.get_or_insert_default();
                annotations.insert(labels::UNDONE_CHANGE.to_owned(), undone);
            }
            // The live number of replicas stays, which others may change until the next install.
            if let Some(live) = edited.or_else(|| live.filter(|live| is_taken_over(&wanted, live)))
                && let (Some(spec), Some(live)) = (&mut deployment.spec, &live.spec)
            {
                spec.replicas = live.replicas.or(spec.replicas);
            }
            actions.extend(before.and_then(|before| adopt(observed, before, None)));
            actions.extend(before.and_then(|before| recreate(observed, &deployment, before)));
            let target = Target::of::<Deployment>(observed.namespace(), &wanted.name);
            actions.push(apply(observed, target, &deployment));
        }
    }
    actions.extend(orphans(observed).map(|orphan| Action::Delete {
        target: Target::of::<Deployment>(observed.namespace(), &orphan.name_any()),
        guard: Guard::of_uid(orphan.uid()),
        grace_seconds: Some(ORPHAN_GRACE_SECONDS),
        propagation: Propagation::Foreground,
        identity: identity(observed),
    }));
    actions.extend(after);
    let mut writes = grant_in_targets(observed);
    actions.append(&mut writes.rest);
    writes.rest = actions;
    writes
}

/// Adopts Deployments that upstream's OLM created exactly as wanted; pods and phase do not change.
pub(crate) fn adopt_unchanged(observed: &Observed) -> Vec<Action> {
    let of = |built: Built| {
        let live = observed.deployments.get(&built.wanted.name)?;
        adopt(observed, live, Some(&built.wanted))
    };
    // Every reconcile checks this, and computing the wanted Deployments is expensive.
    if !observed
        .deployments
        .values()
        .any(|live| stores::deployment::adoption::is_due(live))
    {
        return Vec::new();
    }
    wanted(observed).into_iter().filter_map(of).collect()
}

/// Returns the writes that adopt webhooks and APIServices which upstream's OLM created in another form. They
/// need no change of phase: the Deployments already match, and are adopted with them. `None` if there is
/// nothing to adopt, or if more has to change.
pub(crate) fn take_over_serving(observed: &Observed) -> Option<InstallWrites> {
    let adopted = adopt_unchanged(observed);
    let runs = |built: &Built| {
        let live = observed.deployments.get(&built.wanted.name).map(AsRef::as_ref);
        health::check(&built.wanted, live, Rollout::MayProgress).is_none()
    };
    // Another certificate restarts pods.
    let is_all = !adopted.is_empty()
        && observed.serving.issued.is_empty()
        && serving::problem(observed).is_some()
        && orphans(observed).next().is_none()
        && wanted(observed).iter().all(runs);
    is_all.then(|| {
        let mut writes = writes(observed);
        writes.rest.extend(adopted);
        writes
    })
}

/// Makes fields with other field managers part of our apply. With `wanted`, only a Deployment that already
/// matches is adopted, and gets its hash.
///
/// Without `wanted`, the Deployment has no hash until the next apply. If that apply fails, nothing else would
/// show that it does not match.
fn adopt(
    observed: &Observed,
    live: &Deployment,
    wanted: Option<&health::WantedDeployment>,
) -> Option<Action> {
    let adoption = stores::deployment::adoption::of(live)?;
    let hash = wanted.map(|wanted| &wanted.hash);
    let metadata =
        json!({"managedFields": adoption.managed_fields, "labels": {labels::DEPLOYMENT_SPEC_HASH: hash}});
    if let Some(wanted) = wanted {
        // A Deployment with fields that are kept for another reason may not match.
        if wanted.lacks_proxy || !adoption.is_as(&wanted.spec) {
            return None;
        }
    }
    let target = Target::of::<Deployment>(observed.namespace(), &live.name_any());
    // Managed fields are replaced as a whole, so a concurrent write must not be lost.
    let guard = Guard::of(&live.metadata);
    Some(Action::patch(target, json!({"metadata": metadata}), guard).by(identity(observed)))
}

/// True when the Deployment was built from the current strategy, and others changed it since.
fn is_only_edited(wanted: &health::WantedDeployment, live: &Deployment) -> bool {
    let label = live.labels().get(labels::DEPLOYMENT_SPEC_HASH);
    let is_edited = stores::deployment::lost_field(live, &wanted.spec).is_some();
    is_edited && label == Some(&wanted.hash)
}

/// True when another OLM created the Deployment for this ClusterServiceVersion, or when it was just adopted
/// and not applied yet. Neither is a new install.
fn is_taken_over(wanted: &health::WantedDeployment, live: &Deployment) -> bool {
    let adoption = stores::deployment::adoption::of(live);
    let is_of_another = adoption.is_some_and(|adoption| adoption.is_of_another());
    let is_half_done = !live.labels().contains_key(labels::DEPLOYMENT_SPEC_HASH);
    (is_of_another || is_half_done)
        && owner::references(&live.metadata).any(|owner| owner.uid == wanted.owner_uid)
}

/// Removes the rolling update parameters when the strategy becomes `Recreate`, because the API server refuses
/// both together. The API server set them as defaults, so they have no field manager and no apply removes
/// them.
fn recreate(observed: &Observed, wanted: &Deployment, live: &Deployment) -> Option<Action> {
    let strategy = |deployment: &Deployment| deployment.spec.as_ref()?.strategy.clone();
    let is_wanted = strategy(wanted)?.type_.as_deref() == Some("Recreate");
    strategy(live)?.rolling_update.filter(|_| is_wanted)?;
    let guard = Guard::of_uid(live.uid());
    let target = Target::of::<Deployment>(observed.namespace(), &live.name_any());
    let patch = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
    Some(Action::patch(target, patch, guard).by(identity(observed)))
}

/// Deployments of this ClusterServiceVersion, by label and by uid, that the strategy does not contain.
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

/// Deletes the Deployments of this ClusterServiceVersion, because it must not run here, and before them their
/// callers.
pub(crate) fn withdraw(observed: &Observed) -> Vec<Action> {
    let deployments = observed
        .deployments
        .values()
        .filter(|live| live.metadata.deletion_timestamp.is_none() && !owner::is_of_extension(&live.metadata))
        .map(|live| {
            Action::delete(
                Target::of::<Deployment>(observed.namespace(), &live.name_any()),
                live.uid(),
            )
        });
    serving::withdraw(observed)
        .into_iter()
        .chain(deployments)
        .collect()
}
