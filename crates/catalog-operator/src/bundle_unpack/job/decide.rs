//! What a round of an unpack Job writes. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::ObjectMeta;
use olm_api::condition::subscription as reasons;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::key::reference;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Action, EventDraft, Plan, Requeue, Target, to_value};

use super::JobWish;
use super::objects::{build_account, build_config_map, build_job, build_role, build_role_binding, pod_spec};
use super::observed::Observed;
use super::progress::{current, is_failed, is_over, uid};
use crate::pruning::{binding_hash, content_hash, kept_hash};

/// Who applies the rights.
const MANAGER: &str = "catalog-operator/bundleunpack";
/// How soon the ConfigMap is looked for that was just made: the others need its uid.
const SOON: Duration = Duration::from_millis(50);
/// How long a Job goes on that nobody waits for: who waited may come again, as after a restart of this process.
const UNWANTED: Duration = Duration::from_secs(600);
/// Failed Jobs of one bundle that are kept.
const MAX_FAILED: usize = 5;

/// What a round leaves for the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Since when nobody has waited for the Job that goes on.
    unwanted_since: Timestamp,
}

/// What `decide` concluded for `status`.
pub(crate) struct Verdict {
    memory: Option<Memory>,
}

/// Decides what to make, or to remove.
pub(crate) fn decide(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
    match (&observed.wish, &observed.source) {
        (None, _) => leftovers(observed, memory, now),
        (Some(wish), Some(source)) => (wanted(observed, wish, source), Verdict { memory: None }),
        // The catalog is gone, and what it owned goes by itself.
        (Some(_), None) => (Plan::default(), Verdict { memory: None }),
    }
}

/// What is missing of what a wish needs.
fn wanted(observed: &Observed, wish: &JobWish, source: &CatalogSource) -> Plan {
    let key = &observed.key;
    let Some(found) = &observed.config_map else {
        let target = Target::of::<ConfigMap>(&key.namespace, &key.name);
        let object = build_config_map(key, source);
        return Plan {
            actions: vec![Action::create_or_keep(target, to_value(&object))],
            requeue: Requeue::After {
                delay: SOON,
                reason: "the uid of the ConfigMap",
            },
            ..Plan::default()
        };
    };
    // Somebody else's is neither filled nor given rights for; the wish tells of it.
    let Some(uid) = found
        .metadata
        .uid
        .as_deref()
        .filter(|_| is_of(&found.metadata, source))
    else {
        return Plan::default();
    };
    Plan {
        actions: rights(observed, uid)
            .into_iter()
            .chain(job(observed, uid, wish, source))
            .collect(),
        ..Plan::default()
    }
}

/// Account, Role and RoleBinding, as far as they are not there or not as they should be.
fn rights(observed: &Observed, owner: &str) -> Vec<Action> {
    let key = &observed.key;
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    let mut actions = Vec::new();
    if !observed
        .account
        .as_ref()
        .is_some_and(|found| owner_uids(&found.metadata).any(|uid| uid == owner))
    {
        let target = Target::of::<ServiceAccount>(namespace, name);
        actions.push(Action::apply(
            target,
            to_value(&build_account(key, owner)),
            MANAGER,
        ));
    }
    let role = build_role(key, owner);
    let is_right = |found: &Role| kept_hash(found) == content_hash(&role.rules);
    if !observed.role.as_ref().is_some_and(|found| is_right(found)) {
        let target = Target::of::<Role>(namespace, name);
        actions.push(Action::apply(target, to_value(&role), MANAGER));
    }
    let binding = build_role_binding(key, owner);
    let is_right =
        |found: &RoleBinding| kept_hash(found) == binding_hash(&binding.role_ref, &binding.subjects);
    if !observed
        .role_binding
        .as_ref()
        .is_some_and(|found| is_right(found))
    {
        let target = Target::of::<RoleBinding>(namespace, name);
        actions.push(Action::apply(target, to_value(&binding), MANAGER));
    }
    actions
}

/// The Job, if there is none that counts, and failed ones of which there are too many.
fn job(observed: &Observed, owner: &str, wish: &JobWish, source: &CatalogSource) -> Vec<Action> {
    let key = &observed.key;
    let runs = pod_spec(key, &wish.image, source, &observed.settings);
    if current(key, wish, &runs, &observed.jobs).is_some() {
        return Vec::new();
    }
    let mut others: Vec<&str> = observed.jobs.iter().map(|job| uid(job)).collect();
    others.sort_unstable();
    let new = build_job(key, owner, &others, wish, source, &observed.settings);
    let target = Target::of::<Job>(&key.namespace, new.metadata.name.as_deref().unwrap_or_default());
    let mut actions = surplus(observed);
    actions.push(Action::create_or_keep(target, to_value(&new)));
    actions
}

/// The oldest failed Jobs beyond those that are kept.
fn surplus(observed: &Observed) -> Vec<Action> {
    let is_ours = |job: &&Arc<Job>| is_of_config_map(&observed.key.name, &job.metadata) && is_failed(job);
    let mut failed: Vec<_> = observed.jobs.iter().filter(is_ours).collect();
    failed.sort_by_key(|job| job.metadata.creation_timestamp.as_ref().map(|time| time.0));
    // One is about to be made.
    let surplus = (failed.len() + 1).saturating_sub(MAX_FAILED);
    let delete = |job: &Arc<Job>| {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let target = Target::of::<Job>(&observed.key.namespace, name);
        Action::delete(target, job.metadata.uid.clone())
    };
    failed.into_iter().take(surplus).map(delete).collect()
}

/// What nobody waits for goes when its Jobs are gone, or when one of them has no end.
fn leftovers(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
    let nothing = |memory| (Plan::default(), Verdict { memory });
    let Some(found) = &observed.config_map else {
        return nothing(None);
    };
    if !is_made_here(&found.metadata) {
        return nothing(None);
    }
    let goes_on = observed.jobs.iter().any(|job| !is_over(job));
    if !goes_on && !observed.jobs.is_empty() {
        // They go by themselves, and that is told.
        return nothing(None);
    }
    if goes_on {
        let memory = memory.cloned().unwrap_or(Memory { unwanted_since: now });
        let elapsed = Duration::try_from(now.duration_since(memory.unwanted_since)).unwrap_or_default();
        if let Some(left) = UNWANTED.checked_sub(elapsed).filter(|left| !left.is_zero()) {
            let requeue = Requeue::After {
                delay: left,
                reason: "nobody waits for the Job",
            };
            let plan = Plan {
                requeue,
                ..Plan::default()
            };
            return (plan, Verdict { memory: Some(memory) });
        }
    }
    let target = Target::of::<ConfigMap>(&observed.key.namespace, &observed.key.name);
    let plan = Plan {
        actions: vec![Action::delete(target, found.metadata.uid.clone())],
        ..Plan::default()
    };
    (plan, Verdict { memory: None })
}

/// What the API server refuses is told on the catalog; who waits is told where to look.
pub(crate) fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes) -> StatusUpdate<Memory> {
    let refused = outcomes.failures().map(|(_, failure)| failure);
    let event = observed
        .source
        .as_ref()
        .zip(observed.wish.as_ref())
        .map(|(source, wish)| {
            let texts: Vec<String> = refused
                .filter(|failure| failure.is_refusal())
                .map(|failure| failure.message.clone())
                .collect();
            let regarding = reference::<CatalogSource>(&wish.catalog, source.metadata.uid.clone());
            let message = format!(
                "cannot unpack bundle {} by a Job: {}",
                wish.bundle,
                texts.join("; ")
            );
            (!texts.is_empty())
                .then(|| EventDraft::warning(regarding, reasons::REASON_BUNDLE_UNPACK_FAILED, message))
        });
    StatusUpdate {
        events: event.flatten().into_iter().collect(),
        memory: verdict.memory,
        ..StatusUpdate::default()
    }
}

fn owner_uids(meta: &ObjectMeta) -> impl Iterator<Item = &str> {
    let owners = meta.owner_references.iter().flatten();
    owners.map(|owner| owner.uid.as_str())
}

fn is_of(meta: &ObjectMeta, source: &CatalogSource) -> bool {
    let uid = source.metadata.uid.as_deref();
    owner_uids(meta).any(|owner| Some(owner) == uid)
}

fn is_of_config_map(name: &str, meta: &ObjectMeta) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "ConfigMap" && owner.name == name)
}

/// As [`build_config_map`] makes them. Those of upstream have no such label: plans refer to them, and they stay as long as their
/// catalog.
fn is_made_here(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    let mut owners = meta.owner_references.iter().flatten();
    labels.is_some_and(|labels| labels.get(labels::BUNDLE_UNPACK_REF) == meta.name.as_ref())
        && owners.any(|owner| owner.kind == "CatalogSource")
}
