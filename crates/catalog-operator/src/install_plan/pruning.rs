//! What stores keep of InstallPlans, and of accounts and RBAC that plans restore. Pure.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Resource;
use kube::core::ObjectMeta;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase};

use super::observe::is_over;
use super::restoration;

/// Drops what nobody reads from a plan kept in a store: manifests of plans that are over, which may be large, but for a
/// fingerprint of what a Complete plan restores.
pub fn prune(install_plan: &mut InstallPlan) {
    if !is_over(install_plan) {
        return;
    }
    let restores = install_plan.phase() == InstallPlanPhase::Complete;
    if let Some(status) = &mut install_plan.status {
        for step in status.plan.iter_mut() {
            step.resource.manifest = restoration::fingerprint(step).filter(|_| restores);
        }
        for lookup in status.bundle_lookups.iter_mut() {
            lookup.properties = None;
        }
    }
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

/// Leaves metadata and a hash of the rules.
pub(crate) fn prune_role(role: &mut Role) {
    let hash = restoration::content_hash(&role.rules.take());
    keep_hash(&mut role.metadata, hash);
}

/// Leaves metadata and a hash of the rules.
pub(crate) fn prune_cluster_role(role: &mut ClusterRole) {
    let hash = restoration::content_hash(&role.rules.take());
    keep_hash(&mut role.metadata, hash);
}

/// Leaves metadata and a hash of role and subjects.
pub(crate) fn prune_role_binding(binding: &mut RoleBinding) {
    let hash = restoration::binding_hash(&binding.role_ref, &binding.subjects.take());
    keep_hash(&mut binding.metadata, hash);
}

/// Leaves metadata and a hash of role and subjects.
pub(crate) fn prune_cluster_role_binding(binding: &mut ClusterRoleBinding) {
    let hash = restoration::binding_hash(&binding.role_ref, &binding.subjects.take());
    keep_hash(&mut binding.metadata, hash);
}
