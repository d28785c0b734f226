//! Decides the writes of a reconcile of an unpack Job. No I/O.
//!
//! One Job counts at a time. If a running one lacks pull secrets of the catalog, it is deleted, and the next reconcile
//! creates another. This happens once for a set of secrets. If others have changed the Job that was created last, only
//! a new request creates the next one.
//!
//! Without a request a running Job goes on for ten minutes. Then, or earlier if no Job is left, the ConfigMap is
//! deleted, and with it the objects that it owns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use kube::core::ObjectMeta;
use olm_api::condition::subscription as reasons;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::key::reference;
use olm_runtime::outcome::{Outcome, Outcomes};
use olm_runtime::plan::{Action, EventDraft, Plan, Requeue, Target, to_value};

use super::JobRequest;
use super::objects::{build_account, build_config_map, build_job, build_role, build_role_binding, pod_spec};
use super::observed::Observed;
use super::progress::{current, is_over, uid};
use crate::object;
use crate::pruning::{binding_hash, content_hash, kept_hash};
use crate::stores::unpacks::{Programs, UnpackJob, hashes_of_secrets};
use crate::timing::{elapsed, left};

/// Field manager of the rights.
const MANAGER: &str = "catalog-operator/bundleunpack";
/// Delay until a new ConfigMap is read, because the other objects need its uid.
const SOON: Duration = Duration::from_millis(50);
/// Time for which a Job without a subscriber keeps running. The subscriber may return, for example after a
/// restart of this process.
const UNWANTED: Duration = Duration::from_secs(600);

/// State passed to the next reconcile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Time since the running Job has no subscriber.
    unwanted: Option<Timestamp>,
    /// Uid of the Job created last, as long as there is none that counts. If others change Jobs on their way
    /// in, more of them do not help.
    made: Option<String>,
    /// Pull secrets of the Job created last. If others change them on their way in, more Jobs do not help.
    given: Option<BTreeSet<u64>>,
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
    match (&observed.request, &observed.source) {
        (None, _) => leftovers(observed, memory, now),
        (Some(request), Some(source)) => wanted(observed, request, source, memory),
        // The catalog was deleted, and garbage collection deletes its objects.
        (Some(_), None) => (Plan::default(), Verdict::default()),
    }
}

/// Returns the writes of the objects that a request lacks.
fn wanted(
    observed: &Observed,
    request: &JobRequest,
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
            requeue: Requeue::after(SOON, "the uid of the ConfigMap"),
            ..Plan::default()
        });
    };
    // A ConfigMap of others is neither filled nor given rights; the request reports it.
    let Some(uid) = found
        .metadata
        .uid
        .as_deref()
        .filter(|_| object::is_owned_by(&found.metadata, source.metadata.uid.as_deref()))
    else {
        return without_memory(Plan::default());
    };
    let (mut actions, memory) = (rights(observed, uid), memory.cloned().unwrap_or_default());
    let verdict = add_job(&mut actions, observed, uid, (request, source), memory);
    (Plan::of(actions), verdict)
}

/// Returns the writes of account, Role and RoleBinding, if they are missing or differ.
fn rights(observed: &Observed, owner: &str) -> Vec<Action> {
    let key = &observed.key;
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    let (account, role) = (build_account(key, owner), build_role(key, owner));
    let binding = build_role_binding(key, owner);
    let hash = binding_hash(&binding.role_ref, &binding.subjects);
    let wanted = [
        (
            is_there(observed.account.as_ref(), owner, ""),
            Target::of::<ServiceAccount>(namespace, name),
            to_value(&account),
        ),
        (
            is_there(observed.role.as_ref(), owner, &content_hash(&role.rules)),
            Target::of::<Role>(namespace, name),
            to_value(&role),
        ),
        (
            is_there(observed.role_binding.as_ref(), owner, &hash),
            Target::of::<RoleBinding>(namespace, name),
            to_value(&binding),
        ),
    ];
    let lacking = wanted.into_iter().filter(|(is_there, ..)| !is_there);
    lacking
        .map(|(_, target, object)| Action::apply(target, object, MANAGER))
        .collect()
}

/// True for an object of this owner with this hash of its content, empty for one without.
fn is_there<K: Resource>(found: Option<&Arc<K>>, owner: &str, hash: &str) -> bool {
    found.is_some_and(|found| object::is_owned_by(found.meta(), Some(owner)) && kept_hash(&**found) == hash)
}

/// Adds the writes of the Job, if there is none that counts, or none with the catalog's pull secrets.
fn add_job(
    actions: &mut Vec<Action>,
    observed: &Observed,
    owner: &str,
    (request, source): (&JobRequest, &CatalogSource),
    memory: Memory,
) -> Verdict {
    let key = &observed.key;
    let runs = Programs::of(&pod_spec(key, &request.image, source, &observed.settings));
    let mut others: Vec<String> = observed.jobs.iter().map(|job| uid(job)).collect();
    others.sort_unstable();
    let new = build_job(key, owner, &others, request, source, &observed.settings);
    let secrets = new.spec.as_ref().map(hashes_of_secrets).unwrap_or_default();
    if let Some(found) = current(request, &runs, &observed.jobs) {
        // Pull secrets are immutable in a Job, so one that lacks a secret is replaced.
        let is_lacking = !is_over(found) && !secrets.is_subset(&found.pull_secrets);
        let is_given = memory.given.as_ref() == Some(&secrets);
        actions.extend((is_lacking && !is_given).then(|| deletion(found)));
        let memory = Memory {
            given: memory.given,
            ..Memory::default()
        };
        return Verdict { memory, making: None };
    }
    let altered = altered(observed, request, &memory);
    // Only a new request creates another Job: the program that changed the last one may no longer do so.
    if altered.is_some() && memory.unwanted.is_none() {
        return Verdict { memory, making: None };
    }
    let target = Target::of::<Job>(&key.namespace, new.metadata.name.as_deref().unwrap_or_default());
    actions.extend(altered.map(|job| deletion(job)));
    let making = Some(actions.len());
    actions.push(Action::create_or_keep(target, to_value(&new)));
    let memory = Memory {
        given: Some(secrets),
        ..Memory::default()
    };
    Verdict { memory, making }
}

/// Returns the Job created last, if it exists and does not count. It is identified by its uid, because users
/// who can create Jobs can imitate it.
fn altered<'a>(observed: &'a Observed, request: &JobRequest, memory: &Memory) -> Option<&'a Arc<UnpackJob>> {
    let made = memory.made.as_deref()?;
    let mut jobs = observed.jobs.iter().filter(|job| !job.is_deleting());
    jobs.find(|job| job.uid().as_deref() == Some(made))
        .filter(|_| !request.passed_over.contains(made))
}

fn deletion(job: &UnpackJob) -> Action {
    Action::delete(Target::of::<Job>(job.namespace(), job.name()), job.uid())
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
            given: None,
        };
        return (Plan::default(), Verdict { memory, making: None });
    }
    let goes_on = observed.jobs.iter().any(|job| !is_over(job));
    if !goes_on && !observed.jobs.is_empty() {
        // They expire by themselves, and the watch reports it.
        return nothing();
    }
    if goes_on && let Some(delay) = left(UNWANTED, elapsed(since, now)) {
        let plan = Plan {
            requeue: Requeue::after(delay, "no subscriber needs the Job"),
            ..Plan::default()
        };
        let memory = Memory {
            unwanted: Some(since),
            made,
            given: None,
        };
        return (plan, Verdict { memory, making: None });
    }
    let target = Target::of::<ConfigMap>(&observed.key.namespace, &observed.key.name);
    let deletion = Action::delete(target, found.metadata.uid.clone());
    (Plan::of(vec![deletion]), Verdict::default())
}

/// Reports refused writes on the catalog; subscribers get a reference to it.
pub(crate) fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes) -> StatusUpdate<Memory> {
    let refused = outcomes.failures().map(|(_, failure)| failure);
    let Verdict { mut memory, making } = verdict;
    if let Some(Outcome::Done(made)) = making.map(|index| outcomes.get(index)) {
        memory.made = object::metadata_text(made, "uid").map(str::to_owned);
    }
    let event = observed
        .source
        .as_ref()
        .zip(observed.request.as_ref())
        .map(|(source, request)| {
            let texts: Vec<String> = refused
                .filter(|failure| failure.is_refusal())
                .map(|failure| failure.message.clone())
                .collect();
            let regarding = reference::<CatalogSource>(&request.catalog, source.metadata.uid.clone());
            let message = format!(
                "cannot unpack bundle {} by a Job: {}",
                request.bundle,
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

/// True for a ConfigMap made by [`build_config_map`]. Upstream's have no such label: plans refer to them, and
/// they remain as long as their catalog.
fn is_made_here(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    let mut owners = meta.owner_references.iter().flatten();
    labels.is_some_and(|labels| labels.get(labels::BUNDLE_UNPACK_REF) == meta.name.as_ref())
        && owners.any(|owner| owner.kind == "CatalogSource")
}
