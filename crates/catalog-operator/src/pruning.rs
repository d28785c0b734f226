//! What stores keep of InstallPlans, and of accounts and RBAC that plans restore. Pure.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::Resource;
use kube::core::ObjectMeta;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, Step};
use olm_api::{labels, permission};
use serde_json::Value;

use crate::manifest::Manifest;
use crate::object;
use crate::step_kind::StepKind;

/// Drops unused parts of a stored plan: the text of its preview, and the manifests of plans that are over, which may be large. For objects
/// that a Complete plan restores, a fingerprint stays.
pub fn prune(install_plan: &mut InstallPlan) {
    let annotations = install_plan.metadata.annotations.as_mut();
    if let Some(preview) = annotations.and_then(|annotations| annotations.get_mut(labels::PLAN_PREVIEW)) {
        *preview = String::new();
    }
    if !install_plan.is_over() {
        return;
    }
    let restores = install_plan.phase() == InstallPlanPhase::Complete;
    if let Some(status) = &mut install_plan.status {
        for step in status.plan.iter_mut() {
            step.resource.manifest = restores.then(|| fingerprint(step)).flatten();
        }
        for lookup in status.bundle_lookups.iter_mut() {
            lookup.properties = None;
        }
    }
}

/// What a store keeps of a step's manifest once the plan is Complete: the hash of the content for RBAC whose name is derived from
/// it, nothing but its presence for ServiceAccounts and other RBAC that the step carries whole, and none for everything else.
///
/// Two operators of a namespace may bring RBAC of one name with different rules. Their plans would overwrite each other's for
/// ever, so that such objects are only made again when they are gone. The label that derived ones have proves nothing by its
/// presence, since bundles may have it, too: it has to say what is in the object.
pub(crate) fn fingerprint(step: &Step) -> Option<String> {
    let kind = StepKind::of(&step.resource.kind)?;
    if !kind.is_account_or_rbac() {
        return None;
    }
    let Ok(Manifest::Inline(object)) = Manifest::parse(step.resource.manifest.as_deref()?) else {
        return None;
    };
    let hash = hash_of_value(kind, &object);
    let is_derived = object::metadata_entries(&object, "labels")
        .any(|(key, value)| key == labels::PERMISSIONS_HASH && value == hash);
    Some(if is_derived { hash } else { String::new() })
}

fn hash_of_value(kind: StepKind, object: &Value) -> String {
    let field = |name: &str| object.get(name).cloned().unwrap_or_default();
    match kind {
        StepKind::Role | StepKind::ClusterRole => {
            content_hash(&serde_json::from_value(field("rules")).unwrap_or_default())
        }
        StepKind::RoleBinding | StepKind::ClusterRoleBinding => binding_hash(
            &serde_json::from_value(field("roleRef")).unwrap_or_default(),
            &serde_json::from_value(field("subjects")).unwrap_or_default(),
        ),
        _ => String::new(),
    }
}

/// The hash by which a store knows the rules of a Role or ClusterRole.
pub(crate) fn content_hash(rules: &Option<Vec<PolicyRule>>) -> String {
    // Lists of text always have a JSON form.
    permission::rules_hash(rules.as_deref().unwrap_or_default()).unwrap_or_default()
}

/// The hash by which a store knows a binding.
pub(crate) fn binding_hash(role: &RoleRef, subjects: &Option<Vec<Subject>>) -> String {
    permission::binding_hash(role, subjects.as_deref().unwrap_or_default()).unwrap_or_default()
}

/// Annotation, in stores alone, with the hash of what was pruned; the name cannot be one of an object in a cluster.
const CONTENT_HASH: &str = "$content";

pub(crate) fn kept_hash(object: &impl Resource) -> String {
    let annotations = object.meta().annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(CONTENT_HASH))
        .cloned()
        .unwrap_or_default()
}

fn keep_hash(metadata: &mut ObjectMeta, hash: String) {
    metadata.annotations = Some([(CONTENT_HASH.to_owned(), hash)].into());
}

/// Leaves metadata and pull secrets.
pub(crate) fn prune_account(account: &mut ServiceAccount) {
    account.secrets = None;
    account.metadata.annotations = None;
}

/// Leaves metadata and a hash of the rules.
pub(crate) fn prune_role(role: &mut Role) {
    keep_hash(&mut role.metadata, content_hash(&role.rules.take()));
}

/// Leaves metadata and a hash of the rules.
pub(crate) fn prune_cluster_role(role: &mut ClusterRole) {
    keep_hash(&mut role.metadata, content_hash(&role.rules.take()));
}

/// Leaves metadata and a hash of role and subjects.
pub(crate) fn prune_role_binding(binding: &mut RoleBinding) {
    let hash = binding_hash(&binding.role_ref, &binding.subjects.take());
    keep_hash(&mut binding.metadata, hash);
}

/// Leaves metadata and a hash of role and subjects.
pub(crate) fn prune_cluster_role_binding(binding: &mut ClusterRoleBinding) {
    let hash = binding_hash(&binding.role_ref, &binding.subjects.take());
    keep_hash(&mut binding.metadata, hash);
}
