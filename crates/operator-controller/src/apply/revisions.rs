//! Decides about the revisions of a ClusterExtension: whether a new one is needed, its number, and which old ones go. Pure.
//!
//! # Difference from upstream
//! Upstream finds out whether a revision changed by applying it, and by the API server's refusal to change an immutable list. Here the
//! phases are compared. And a revision that is stuck does not keep a newer one waiting, see [`is_stuck`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt as _;
use olm_api::condition::{FALSE, TRUE, cluster_object_set as words};
use olm_api::extension_v1::{
    API_VERSION, ClusterObjectSet, ClusterObjectSetSpec, CollisionProtection, LifecycleState, ObjectSetPhase,
};
use olm_api::labels;
use olm_api::object::{map_mut, metadata_map_mut};
use olm_runtime::plan::{Action, Guard, Identity, SecretData, Target, to_value};
use serde_json::{Map, Value, json};

use super::object_set::{FINALIZER, has_succeeded};
use super::packing::{Packed, PackedSecret, pack};
use super::phase::{Phase, sort_into_phases};
use super::probe::default_probes;

/// Number of revisions that are kept; older ones are deleted if they are archived.
const KEPT: usize = 5;
/// Kind of the owner of revisions.
const EXTENSION: &str = "ClusterExtension";
/// Kinds of the owners of Secrets.
const OWNERS: [&str; 2] = [EXTENSION, "ClusterObjectSet"];

/// A revision as the resolved bundle wants it.
#[derive(Debug, Clone)]
pub struct DesiredRevision<'a> {
    /// Name of the ClusterExtension.
    pub extension: &'a str,
    /// Uid of the ClusterExtension.
    pub extension_uid: &'a str,
    /// Annotations of the ClusterObjectSet.
    pub annotations: BTreeMap<String, String>,
    /// Objects of the bundle, as [`render`](crate::render::render) returns them.
    pub objects: Vec<Value>,
    /// True if the first revision takes over objects that exist and that nothing controls. Later revisions never do.
    pub adopts: bool,
    /// Deadline of the rollout; `None` for no limit.
    pub progress_deadline_minutes: Option<i32>,
    /// Namespace of the Secrets with the objects.
    pub system_namespace: &'a str,
    /// True if the Secrets of the newest revision exist.
    pub has_secrets: bool,
}

impl DesiredRevision<'_> {
    /// Returns the objects as the revision has them, in the phases in which they are applied.
    pub fn phases(&self) -> Vec<Phase> {
        let objects = self.objects.iter().map(|object| prepared(object, self));
        sort_into_phases(objects.collect())
    }
}

/// Decision about a revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RevisionDecision {
    /// Objects of a new revision, whose definitions are to be checked before anything is written; empty if the newest revision has them.
    pub phases: Vec<Phase>,
    /// For a new revision the deletions of old ones, then its Secrets, then its ClusterObjectSet. For the newest one its Secrets if one is
    /// missing, and an update of its annotations, probes or deadline if they differ.
    pub actions: Vec<Action>,
}

/// Revisions of an extension that matter for the choice of its bundle.
#[derive(Debug, Clone, Default)]
pub struct ActiveRevisions<'a> {
    /// Newest revision that was rolled out: the installed bundle.
    pub installed: Option<&'a Arc<ClusterObjectSet>>,
    /// Newer revisions, oldest first. Older ones that were not rolled out are about to be archived.
    pub rolling_out: Vec<&'a Arc<ClusterObjectSet>>,
}

/// Returns the active revisions among those of an extension. The order of `revisions` does not matter.
pub fn active_revisions<'a>(
    revisions: impl IntoIterator<Item = &'a Arc<ClusterObjectSet>>,
) -> ActiveRevisions<'a> {
    let mut active = ActiveRevisions::default();
    for revision in sorted(revisions) {
        if revision.spec.lifecycle_state == LifecycleState::Archived {
            continue;
        }
        if has_succeeded(revision) {
            active.installed = Some(revision);
        } else {
            active.rolling_out.push(revision);
        }
    }
    if let Some(installed) = active.installed {
        let newer = |set: &&Arc<ClusterObjectSet>| set.spec.revision > installed.spec.revision;
        active.rolling_out.retain(newer);
    }
    active
}

/// True if a revision that is not rolled out will not get further by itself, so that a newer version should be looked for. Its objects
/// stay until the newer revision is rolled out, which then archives it: archived before, it would delete what it took over from the
/// installed one.
pub fn is_stuck(revision: &ClusterObjectSet) -> bool {
    revision.condition(words::PROGRESSING).is_some_and(|found| {
        let (status, reason) = (found.status.as_str(), found.reason.as_str());
        matches!((status, reason), (FALSE, _) | (TRUE, words::RETRYING))
    })
}

fn sorted<'a>(
    revisions: impl IntoIterator<Item = &'a Arc<ClusterObjectSet>>,
) -> Vec<&'a Arc<ClusterObjectSet>> {
    let mut sorted: Vec<_> = revisions.into_iter().collect();
    sorted.sort_by_key(|revision| revision.spec.revision);
    sorted
}

/// Decides whether an extension needs a new revision. `revisions` are all of the extension.
///
/// # Errors
/// An object that is too large for a Secret.
pub fn decide_revision(
    revisions: &[Arc<ClusterObjectSet>],
    desired: &DesiredRevision<'_>,
) -> Result<RevisionDecision, String> {
    let revisions = sorted(revisions);
    let phases = desired.phases();
    if let Some(newest) = revisions.last() {
        let name = newest.name_any();
        let packed = pack(&name, desired.system_namespace, &phases)?;
        let spec = &newest.spec;
        // There is no way back from the archive.
        let is_active = spec.lifecycle_state != LifecycleState::Archived;
        let protection = protection(spec.revision, desired);
        let has_phases = spec.phases.as_slice() == packed.phases.as_slice();
        let is_same = has_phases && spec.collision_protection == protection;
        if is_active && is_same {
            let set = object_set(&name, spec.revision, &packed.phases, desired);
            // A revision that is being deleted accepts no new finalizers.
            let is_stale = newest.metadata.deletion_timestamp.is_none() && !is_up_to_date(newest, &set);
            let update = is_stale.then(|| apply_set(&name, set));
            let secrets = packed.secrets.into_iter().filter(|_| !desired.has_secrets);
            let secrets = secrets.map(|secret| apply_secret(&name, secret, desired));
            return Ok(RevisionDecision {
                phases: Vec::new(),
                actions: secrets.chain(update).collect(),
            });
        }
    }
    let number = revisions
        .last()
        .map_or(0, |newest| newest.spec.revision)
        .saturating_add(1);
    let name = format!("{}-{number}", desired.extension);
    let Packed {
        secrets,
        phases: packed,
    } = pack(&name, desired.system_namespace, &phases)?;
    let mut actions: Vec<Action> = outdated(&revisions)
        .map(|revision| delete_set(revision))
        .collect();
    actions.extend(
        secrets
            .into_iter()
            .map(|secret| apply_secret(&name, secret, desired)),
    );
    let set = object_set(&name, number, &packed, desired);
    actions.push(apply_set(&name, set));
    Ok(RevisionDecision { phases, actions })
}

/// Returns the patches that make a revision the owner of its Secrets, which are created before it.
pub fn own_secrets(revision: &ClusterObjectSet, secrets: &[ObjectMeta]) -> Vec<Action> {
    let uid = revision.metadata.uid.as_deref().unwrap_or_default();
    let is_owned = |secret: &ObjectMeta| {
        let mut owners = secret.owner_references.iter().flatten();
        owners.any(|owner| owner.uid == uid)
    };
    let unowned = secrets.iter().filter(|secret| !is_owned(secret));
    unowned
        .map(|secret| {
            // Not the extension, which was the owner until now, nor an earlier revision of the same name.
            let is_foreign = |owner: &&OwnerReference| !OWNERS.contains(&owner.kind.as_str());
            let others = secret.owner_references.iter().flatten().filter(is_foreign);
            let mut owners: Vec<Value> = others.map(to_value).collect();
            owners.push(owner_reference("ClusterObjectSet", &revision.name_any(), uid));
            let namespace = secret.namespace.as_deref().unwrap_or_default();
            let target = Target::of::<Secret>(namespace, secret.name.as_deref().unwrap_or_default());
            // The list is replaced as a whole.
            let guard = Guard::of(secret);
            Action::patch(target, json!({"metadata": {"ownerReferences": owners}}), guard)
        })
        .collect()
}

/// Returns an object of the bundle as the revision has it: with the labels of the extension and the annotations of the bundle.
fn prepared(object: &Value, desired: &DesiredRevision<'_>) -> Value {
    let mut object = object.clone();
    let annotations = metadata_map_mut(&mut object, "annotations");
    annotations.remove(labels::LAST_APPLIED_CONFIGURATION);
    for annotation in [labels::EXTENSION_BUNDLE_VERSION, labels::EXTENSION_PACKAGE_NAME] {
        let value = desired.annotations.get(annotation);
        let value = value.filter(|value| !value.is_empty());
        annotations.extend(value.map(|value| (annotation.to_owned(), json!(value))));
    }
    if annotations.is_empty() {
        map_mut(&mut object, "metadata").remove("annotations");
    }
    metadata_map_mut(&mut object, "labels").extend(owner_labels(desired));
    object
}

fn owner_labels(desired: &DesiredRevision<'_>) -> Map<String, Value> {
    let labels = [
        (labels::EXTENSION_OWNER_KIND, EXTENSION),
        (labels::EXTENSION_OWNER_NAME, desired.extension),
    ];
    labels
        .into_iter()
        .map(|(label, value)| (label.to_owned(), json!(value)))
        .collect()
}

fn owner_reference(kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns the ClusterObjectSet to apply.
fn object_set(name: &str, number: i64, phases: &[ObjectSetPhase], desired: &DesiredRevision<'_>) -> Value {
    let spec = ClusterObjectSetSpec {
        lifecycle_state: LifecycleState::Active,
        revision: number,
        phases: phases.to_vec().into(),
        collision_protection: protection(number, desired),
        progress_deadline_minutes: desired.progress_deadline_minutes,
        progression_probes: default_probes().into(),
        ..ClusterObjectSetSpec::default()
    };
    json!({
        "apiVersion": API_VERSION,
        "kind": "ClusterObjectSet",
        "metadata": {
            "name": name,
            "labels": owner_labels(desired),
            "annotations": desired.annotations,
            "finalizers": [FINALIZER],
            "ownerReferences": [owner_reference(EXTENSION, desired.extension, desired.extension_uid)],
        },
        "spec": spec,
    })
}

/// Returns the protection of objects that exist before a revision.
fn protection(number: i64, desired: &DesiredRevision<'_>) -> CollisionProtection {
    match desired.adopts && number == 1 {
        true => CollisionProtection::IfNoController,
        false => CollisionProtection::Prevent,
    }
}

fn apply_set(name: &str, set: Value) -> Action {
    let target = Target::cluster::<ClusterObjectSet>(name);
    Action::apply(target, set, labels::EXTENSION_MANAGER)
}

/// True if applying `set` would change nothing.
fn is_up_to_date(revision: &ClusterObjectSet, set: &Value) -> bool {
    let current = to_value(revision);
    let has_all = |field: &str| {
        let mut wanted = set["metadata"][field].as_object().into_iter().flatten();
        wanted.all(|(key, value)| current["metadata"][field][key] == *value)
    };
    has_all("labels")
        && has_all("annotations")
        && ["progressionProbes", "progressDeadlineMinutes"]
            .iter()
            .all(|field| current["spec"][*field] == set["spec"][*field])
}

/// Returns the archived revisions that are not kept. `revisions` are sorted, without the new one.
fn outdated<'a>(
    revisions: &'a [&'a Arc<ClusterObjectSet>],
) -> impl Iterator<Item = &'a Arc<ClusterObjectSet>> {
    let count = revisions.len().saturating_sub(KEPT);
    let oldest = revisions.iter().take(count).copied();
    oldest.filter(|revision| revision.spec.lifecycle_state == LifecycleState::Archived)
}

fn delete_set(revision: &ClusterObjectSet) -> Action {
    Action::delete(Target::of_object(revision), revision.metadata.uid.clone())
}

fn apply_secret(revision: &str, secret: PackedSecret, desired: &DesiredRevision<'_>) -> Action {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret.name,
            "namespace": desired.system_namespace,
            "labels": {labels::REVISION_NAME: revision, labels::EXTENSION_OWNER_NAME: desired.extension},
            // Until the revision exists, so that nothing is left if the extension is deleted in between.
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": EXTENSION, "name": desired.extension, "uid": desired.extension_uid,
            }],
        },
        "type": labels::OBJECT_DATA,
        "immutable": true,
    });
    Action::Apply {
        target: Target::of::<Secret>(desired.system_namespace, &secret.name),
        object,
        data: Some(SecretData::new(secret.data)),
        manager: labels::EXTENSION_MANAGER,
        identity: Identity::Operator,
    }
}
