//! Decides the writes of a reconcile of an unpack Job. No I/O.

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
use olm_runtime::outcome::{Outcome, Outcomes};
use olm_runtime::plan::{Action, EventDraft, Guard, Plan, Requeue, Target, to_value};
use serde_json::json;

use super::JobWish;
use super::objects::{build_account, build_config_map, build_job, build_role, build_role_binding, pod_spec};
use super::observed::Observed;
use super::progress::{current, is_failed, is_over, uid};
use crate::object;
use crate::pruning::{binding_hash, content_hash, kept_hash};
use crate::stores::unpacks::{JobSketch, Programs, RunSettings};

/// Field manager of the rights.
const MANAGER: &str = "catalog-operator/bundleunpack";
/// Delay until a new ConfigMap is read, because the other objects need its uid.
const SOON: Duration = Duration::from_millis(50);
/// Time for which a Job without a subscriber keeps running. The subscriber may return, for example after a
/// restart of this process.
const UNWANTED: Duration = Duration::from_secs(600);
/// Number of failed Jobs of one bundle that are kept.
const MAX_FAILED: usize = 5;

/// Delay of the check whether a deleted ConfigMap has disappeared.
const LEAVING: Duration = Duration::from_secs(5);

/// State passed to the next reconcile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Time since the running Job has no subscriber.
    unwanted: Option<Timestamp>,
    /// Settings last written to the running Job. If others change the write on its way in, it is not
    /// repeated.
    adjusted: Option<RunSettings>,
    /// Uid of the Job created last, as long as there is none that counts. If others change Jobs on their way
    /// in, more of them do not help.
    made: Option<String>,
}

/// Result of `decide` for `status`.
#[derive(Default)]
pub(crate) struct Verdict {
    memory: Memory,
    /// Index of the action that creates a Job.
    making: Option<usize>,
}

/// Decides the objects to create or remove.
pub(crate) fn decide(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
    match (&observed.wish, &observed.source) {
        (None, _) => leftovers(observed, memory, now),
        (Some(wish), Some(source)) => wanted(observed, wish, source, memory),
        // The catalog was deleted, and garbage collection deletes its objects.
        (Some(_), None) => (Plan::default(), Verdict::default()),
    }
}

/// Returns the writes of the objects that a request lacks.
fn wanted(
    observed: &Observed,
    wish: &JobWish,
    source: &CatalogSource,
    memory: Option<&Memory>,
) -> (Plan, Verdict) {
    let key = &observed.key;
    let without_memory = |plan| (plan, Verdict::default());
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
    // A ConfigMap of others is neither filled nor given rights; the request reports it.
    let Some(uid) = found
        .metadata
        .uid
        .as_deref()
        .filter(|_| is_of(&found.metadata, source))
    else {
        return without_memory(Plan::default());
    };
    let (mut actions, memory) = (rights(observed, uid), memory.cloned().unwrap_or_default());
    let (of_job, verdict) = job(observed, uid, wish, source, memory);
    let before = actions.len();
    actions.extend(of_job);
    let plan = Plan {
        actions,
        ..Plan::default()
    };
    let making = verdict.making.map(|index| index + before);
    (plan, Verdict { making, ..verdict })
}

/// Deletes the ConfigMap, so that a Job can fill a new one.
fn discard(key: &NamespacedName, metadata: &ObjectMeta) -> Plan {
    let is_leaving = metadata.deletion_timestamp.is_some();
    let target = Target::of::<ConfigMap>(&key.namespace, &key.name);
    let delete = (!is_leaving).then(|| Action::delete(target, metadata.uid.clone()));
    Plan {
        actions: delete.into_iter().collect(),
        requeue: Requeue::After {
            delay: if is_leaving { LEAVING } else { SOON },
            reason: "expiry of a ConfigMap that no Job can fill",
        },
        ..Plan::default()
    }
}

/// Returns the writes of account, Role and RoleBinding, if they are missing or differ.
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

/// Returns the writes of the Job, if there is none that counts, and deletions of surplus failed ones. A
/// running Job is updated if the settings changed.
fn job(
    observed: &Observed,
    owner: &str,
    wish: &JobWish,
    source: &CatalogSource,
    memory: Memory,
) -> (Vec<Action>, Verdict) {
    let key = &observed.key;
    let runs = Programs::of(&pod_spec(key, &wish.image, source, &observed.settings));
    let mut others: Vec<String> = observed.jobs.iter().map(|job| uid(job)).collect();
    others.sort_unstable();
    let new = build_job(key, owner, &others, wish, source, &observed.settings);
    let settings = new.spec.as_ref().map(RunSettings::of).unwrap_or_default();
    if let Some(found) = current(wish, &runs, &observed.jobs) {
        let is_adjusted = memory.adjusted.as_ref() == Some(&settings);
        let adjust = adjust(found, &settings).filter(|_| !is_adjusted);
        let memory = Memory {
            adjusted: (is_adjusted || adjust.is_some()).then_some(settings),
            ..Memory::default()
        };
        let verdict = Verdict { memory, making: None };
        return (adjust.into_iter().collect(), verdict);
    }
    let altered = altered(observed, wish, &memory);
    // Only a new request creates another Job: the program that changed the last one may no longer do so.
    if altered.is_some() && memory.unwanted.is_none() {
        return (Vec::new(), Verdict { memory, making: None });
    }
    let target = Target::of::<Job>(&key.namespace, new.metadata.name.as_deref().unwrap_or_default());
    let mut actions = surplus(observed);
    actions.extend(altered.map(|job| deletion(job)));
    let making = Some(actions.len());
    actions.push(Action::create_or_keep(target, to_value(&new)));
    // A Job that was replaced once is not replaced again because of a program that changes Jobs on their way
    // in.
    let memory = Memory {
        adjusted: memory.adjusted.filter(|adjusted| *adjusted == settings),
        ..Memory::default()
    };
    (actions, Verdict { memory, making })
}

/// Returns the Job created last, if it exists and does not count. It is identified by its uid, because users
/// who can create Jobs can imitate it.
fn altered<'a>(observed: &'a Observed, wish: &JobWish, memory: &Memory) -> Option<&'a Arc<JobSketch>> {
    let made = memory.made.as_deref()?;
    let mut jobs = observed.jobs.iter().filter(|job| !job.is_deleting());
    jobs.find(|job| job.uid().as_deref() == Some(made))
        .filter(|_| !wish.passed_over.contains(made))
}

fn deletion(job: &JobSketch) -> Action {
    Action::delete(Target::of::<Job>(job.namespace(), job.name()), job.uid())
}

/// Pull secrets are immutable in a Job, so a change replaces it. A deadline is mutable, and other subscribers
/// of the Job lose nothing by its change.
fn adjust(found: &JobSketch, wanted: &RunSettings) -> Option<Action> {
    if is_over(found) {
        None
    } else if !found.settings.has_secrets_of(wanted) {
        Some(deletion(found))
    } else if found.settings.deadline != wanted.deadline {
        let patch = json!({"spec": {"activeDeadlineSeconds": wanted.deadline}});
        let guard = Guard {
            uid: found.uid(),
            resource_version: None,
        };
        let target = Target::of::<Job>(found.namespace(), found.name());
        Some(Action::patch(target, patch, guard))
    } else {
        None
    }
}

/// Returns the oldest failed Jobs beyond those that are kept.
fn surplus(observed: &Observed) -> Vec<Action> {
    let is_ours = |job: &&Arc<JobSketch>| job.config_map.is_some() && is_failed(job);
    let mut failed: Vec<_> = observed.jobs.iter().filter(is_ours).collect();
    failed.sort_by_key(|job| job.created);
    // One more Job is about to be created.
    let surplus = (failed.len() + 1).saturating_sub(MAX_FAILED);
    let surplus = failed.into_iter().take(surplus);
    surplus.map(|job| deletion(job)).collect()
}

/// Removes objects without a subscriber once their Jobs are deleted, or when a Job is still running after
/// [`UNWANTED`].
fn leftovers(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
    let nothing = || (Plan::default(), Verdict::default());
    let Some(found) = &observed.config_map else {
        return nothing();
    };
    let since = memory.and_then(|memory| memory.unwanted).unwrap_or(now);
    let made = memory.and_then(|memory| memory.made.clone());
    if !is_made_here(&found.metadata) {
        let memory = Memory {
            unwanted: made.is_some().then_some(since),
            made,
            adjusted: None,
        };
        return (Plan::default(), Verdict { memory, making: None });
    }
    let goes_on = observed.jobs.iter().any(|job| !is_over(job));
    if !goes_on && !observed.jobs.is_empty() {
        // They expire by themselves, and the watch reports it.
        return nothing();
    }
    if goes_on {
        let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        if let Some(left) = UNWANTED.checked_sub(elapsed).filter(|left| !left.is_zero()) {
            let requeue = Requeue::After {
                delay: left,
                reason: "no subscriber needs the Job",
            };
            let plan = Plan {
                requeue,
                ..Plan::default()
            };
            let memory = Memory {
                unwanted: Some(since),
                made,
                adjusted: None,
            };
            return (plan, Verdict { memory, making: None });
        }
    }
    let target = Target::of::<ConfigMap>(&observed.key.namespace, &observed.key.name);
    let plan = Plan {
        actions: vec![Action::delete(target, found.metadata.uid.clone())],
        ..Plan::default()
    };
    (plan, Verdict::default())
}

/// Reports refused writes on the catalog; subscribers get a reference to it.
pub(crate) fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes) -> StatusUpdate<Memory> {
    let refused = outcomes.failures().map(|(_, failure)| failure);
    let Verdict { mut memory, making } = verdict;
    // Failed writes are retried.
    memory.adjusted = memory.adjusted.filter(|_| outcomes.all_done());
    if let Some(Outcome::Done(made)) = making.map(|index| outcomes.get(index)) {
        memory.made = object::metadata_text(made, "uid").map(str::to_owned);
    }
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
        memory: (memory != Memory::default()).then_some(memory),
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

/// True for a ConfigMap made by [`build_config_map`]. Upstream's have no such label: plans refer to them, and
/// they remain as long as their catalog.
fn is_made_here(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    let mut owners = meta.owner_references.iter().flatten();
    labels.is_some_and(|labels| labels.get(labels::BUNDLE_UNPACK_REF) == meta.name.as_ref())
        && owners.any(|owner| owner.kind == "CatalogSource")
}
