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
use olm_runtime::NamespacedName;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::key::reference;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Action, EventDraft, Guard, Plan, Requeue, Target, to_value};
use serde_json::json;

use super::JobWish;
use super::objects::{build_account, build_config_map, build_job, build_role, build_role_binding, pod_spec};
use super::observed::Observed;
use super::progress::{current, is_failed, is_over, uid};
use crate::pruning::{binding_hash, content_hash, kept_hash};
use crate::stores::unpacks::{JobSketch, Programs, RunSettings};

/// Who applies the rights.
const MANAGER: &str = "catalog-operator/bundleunpack";
/// How soon the ConfigMap is looked for that was just made: the others need its uid.
const SOON: Duration = Duration::from_millis(50);
/// How long a Job goes on that nobody waits for: who waited may come again, as after a restart of this process.
const UNWANTED: Duration = Duration::from_secs(600);
/// Failed Jobs of one bundle that are kept.
const MAX_FAILED: usize = 5;

/// How long until it is looked again whether a ConfigMap is gone that was deleted.
const LEAVING: Duration = Duration::from_secs(5);

/// What a round leaves for the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Since when nobody has waited for the Job that goes on.
    Unwanted(Timestamp),
    /// What the Job that goes on was last given. Where something else changes it on its way in, this does not happen again.
    Adjusted(RunSettings),
}

/// What `decide` concluded for `status`.
pub(crate) struct Verdict {
    memory: Option<Memory>,
}

/// Decides what to make, or to remove.
pub(crate) fn decide(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
    match (&observed.wish, &observed.source) {
        (None, _) => leftovers(observed, memory, now),
        (Some(wish), Some(source)) => wanted(observed, wish, source, memory),
        // The catalog is gone, and what it owned goes by itself.
        (Some(_), None) => (Plan::default(), Verdict { memory: None }),
    }
}

/// What is missing of what a wish needs.
fn wanted(
    observed: &Observed,
    wish: &JobWish,
    source: &CatalogSource,
    memory: Option<&Memory>,
) -> (Plan, Verdict) {
    let key = &observed.key;
    let without_memory = |plan| (plan, Verdict { memory: None });
    let Some(found) = &observed.config_map else {
        let target = Target::of::<ConfigMap>(&key.namespace, &key.name);
        let object = build_config_map(key, source);
        return without_memory(Plan {
            actions: vec![Action::create_or_keep(target, to_value(&object))],
            requeue: Requeue::After {
                delay: SOON,
                reason: "the uid of the ConfigMap",
            },
            ..Plan::default()
        });
    };
    if wish.discarded.is_some() && wish.discarded == found.metadata.uid {
        return without_memory(discard(key, &found.metadata));
    }
    // Somebody else's is neither filled nor given rights for; the wish tells of it.
    let Some(uid) = found
        .metadata
        .uid
        .as_deref()
        .filter(|_| is_of(&found.metadata, source))
    else {
        return without_memory(Plan::default());
    };
    let (of_job, memory) = job(observed, uid, wish, source, memory);
    let plan = Plan {
        actions: rights(observed, uid).into_iter().chain(of_job).collect(),
        ..Plan::default()
    };
    (plan, Verdict { memory })
}

/// Makes room for a ConfigMap that a Job can fill.
fn discard(key: &NamespacedName, metadata: &ObjectMeta) -> Plan {
    let is_leaving = metadata.deletion_timestamp.is_some();
    let target = Target::of::<ConfigMap>(&key.namespace, &key.name);
    let delete = (!is_leaving).then(|| Action::delete(target, metadata.uid.clone()));
    Plan {
        actions: delete.into_iter().collect(),
        requeue: Requeue::After {
            delay: if is_leaving { LEAVING } else { SOON },
            reason: "the end of a ConfigMap that no Job can fill",
        },
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
        .is_some_and(|found| has_owner(&found.metadata, owner))
    {
        let target = Target::of::<ServiceAccount>(namespace, name);
        actions.push(Action::apply(
            target,
            to_value(&build_account(key, owner)),
            MANAGER,
        ));
    }
    let role = build_role(key, owner);
    let is_right =
        |found: &Role| has_owner(&found.metadata, owner) && kept_hash(found) == content_hash(&role.rules);
    if !observed.role.as_ref().is_some_and(|found| is_right(found)) {
        let target = Target::of::<Role>(namespace, name);
        actions.push(Action::apply(target, to_value(&role), MANAGER));
    }
    let binding = build_role_binding(key, owner);
    let is_right = |found: &RoleBinding| {
        has_owner(&found.metadata, owner)
            && kept_hash(found) == binding_hash(&binding.role_ref, &binding.subjects)
    };
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

/// The Job, if there is none that counts, and failed ones of which there are too many. One that goes on is given what has changed.
fn job(
    observed: &Observed,
    owner: &str,
    wish: &JobWish,
    source: &CatalogSource,
    memory: Option<&Memory>,
) -> (Vec<Action>, Option<Memory>) {
    let key = &observed.key;
    let runs = Programs::of(&pod_spec(key, &wish.image, source, &observed.settings));
    let mut others: Vec<String> = observed.jobs.iter().map(|job| uid(job)).collect();
    others.sort_unstable();
    let new = build_job(key, owner, &others, wish, source, &observed.settings);
    let settings = new.spec.as_ref().map(RunSettings::of).unwrap_or_default();
    if let Some(found) = current(wish, &runs, &observed.jobs) {
        let adjusted = Memory::Adjusted(settings.clone());
        if memory == Some(&adjusted) {
            return (Vec::new(), Some(adjusted));
        }
        let adjust = adjust(found, &settings);
        let memory = adjust.is_some().then_some(adjusted);
        return (adjust.into_iter().collect(), memory);
    }
    let target = Target::of::<Job>(&key.namespace, new.metadata.name.as_deref().unwrap_or_default());
    let mut actions = surplus(observed);
    actions.push(Action::create_or_keep(target, to_value(&new)));
    // One that was replaced is not replaced again by what changes Jobs on their way in.
    let adjusted = Memory::Adjusted(settings);
    let memory = (memory == Some(&adjusted)).then_some(adjusted);
    (actions, memory)
}

/// Pull secrets are part of what no Job can change of itself, so that it makes room for another; a deadline is not, and who waits
/// beside the one whose deadline has changed loses nothing by it.
fn adjust(found: &JobSketch, wanted: &RunSettings) -> Option<Action> {
    let target = Target::of::<Job>(found.namespace(), found.name());
    if is_over(found) {
        None
    } else if !found.settings.has_secrets_of(wanted) {
        Some(Action::delete(target, found.uid()))
    } else if found.settings.deadline != wanted.deadline {
        let patch = json!({"spec": {"activeDeadlineSeconds": wanted.deadline}});
        let guard = Guard {
            uid: found.uid(),
            resource_version: None,
        };
        Some(Action::patch(target, patch, guard))
    } else {
        None
    }
}

/// The oldest failed Jobs beyond those that are kept.
fn surplus(observed: &Observed) -> Vec<Action> {
    let is_ours = |job: &&Arc<JobSketch>| job.config_map.is_some() && is_failed(job);
    let mut failed: Vec<_> = observed.jobs.iter().filter(is_ours).collect();
    failed.sort_by_key(|job| job.created);
    // One is about to be made.
    let surplus = (failed.len() + 1).saturating_sub(MAX_FAILED);
    let delete = |job: &Arc<JobSketch>| {
        let target = Target::of::<Job>(&observed.key.namespace, job.name());
        Action::delete(target, job.uid())
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
        let since = match memory {
            Some(Memory::Unwanted(since)) => *since,
            Some(Memory::Adjusted(_)) | None => now,
        };
        let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        if let Some(left) = UNWANTED.checked_sub(elapsed).filter(|left| !left.is_zero()) {
            let requeue = Requeue::After {
                delay: left,
                reason: "nobody waits for the Job",
            };
            let plan = Plan {
                requeue,
                ..Plan::default()
            };
            let memory = Some(Memory::Unwanted(since));
            return (plan, Verdict { memory });
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
    // What could not be done is tried again.
    let is_kept = |memory: &Memory| outcomes.all_done() || matches!(memory, Memory::Unwanted(_));
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
        memory: verdict.memory.filter(is_kept),
        ..StatusUpdate::default()
    }
}

fn owner_uids(meta: &ObjectMeta) -> impl Iterator<Item = &str> {
    let owners = meta.owner_references.iter().flatten();
    owners.map(|owner| owner.uid.as_str())
}

fn has_owner(meta: &ObjectMeta, owner: &str) -> bool {
    owner_uids(meta).any(|uid| uid == owner)
}

fn is_of(meta: &ObjectMeta, source: &CatalogSource) -> bool {
    let uid = source.metadata.uid.as_deref();
    owner_uids(meta).any(|owner| Some(owner) == uid)
}

/// As [`build_config_map`] makes them. Those of upstream have no such label: plans refer to them, and they stay as long as their
/// catalog.
fn is_made_here(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    let mut owners = meta.owner_references.iter().flatten();
    labels.is_some_and(|labels| labels.get(labels::BUNDLE_UNPACK_REF) == meta.name.as_ref())
        && owners.any(|owner| owner.kind == "CatalogSource")
}
