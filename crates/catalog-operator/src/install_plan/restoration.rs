//! Accounts and RBAC of an installed operator that were removed or changed by others: the plan that created them restores them
//! (decision record 0015).
//!
//! Of the Complete plans that brought an existing ClusterServiceVersion the one with the highest generation is its restorer. What
//! it restores is what its steps carry whole: ServiceAccounts, Roles, ClusterRoles and bindings; never what the
//! ClusterServiceVersion says, which a tenant may edit. Whether something is missing is seen in stores of metadata, so that a plan
//! at rest costs no read and no write.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase, InstallPlan, InstallPlanPhase, Step,
};
use olm_runtime::error::ObserveError;
use olm_runtime::plan::Target;

use super::observe::{KnownStep, Observed, Reads, StepState, steps};
use crate::manifest::Manifest;
use crate::object;
use crate::pruning::{fingerprint, kept_hash};
use crate::step_kind::StepKind;
use crate::stores::Stores;

/// The content hash of an account or RBAC object (empty for ServiceAccounts), see [`pruning`](crate::pruning); none when it is not there or does not carry OLM's mark. `namespace` is empty for cluster-scoped kinds.
fn content(stores: &Stores, kind: StepKind, namespace: &str, name: &str) -> Option<String> {
    fn hash<K: Resource>(found: Option<Arc<K>>) -> Option<String> {
        found.map(|found| kept_hash(&*found))
    }
    match kind {
        StepKind::ServiceAccount => hash(stores.accounts.get(namespace, name)),
        StepKind::Role => hash(stores.roles.get(namespace, name)),
        StepKind::RoleBinding => hash(stores.role_bindings.get(namespace, name)),
        StepKind::ClusterRole => hash(stores.cluster_roles.get(namespace, name)),
        StepKind::ClusterRoleBinding => hash(stores.cluster_role_bindings.get(namespace, name)),
        _ => None,
    }
}

/// The plan that may restore what a ClusterServiceVersion of this name needs, if it has [`InstallPlan::found_or_made`] it: of the Complete ones with steps for it the one with the highest generation.
pub(crate) fn restorer<'a>(csv: &str, plans: &'a [Arc<InstallPlan>]) -> Option<&'a Arc<InstallPlan>> {
    plans
        .iter()
        .filter(|plan| plan.phase() == InstallPlanPhase::Complete && brought(plan, csv))
        .max_by_key(|plan| {
            let generation = plan.spec.generation.unwrap_or_default();
            (generation, plan.creation_timestamp(), plan.name_any())
        })
}

fn brought(plan: &InstallPlan, csv: &str) -> bool {
    steps(plan).iter().any(|step| step.resolving == csv)
}

/// A ClusterServiceVersion that is not being deleted: objects that are deleted with it must not be created again.
pub(crate) fn is_staying(csv: &ClusterServiceVersion) -> bool {
    csv.metadata.deletion_timestamp.is_none()
        && !matches!(
            csv.phase(),
            ClusterServiceVersionPhase::Replacing | ClusterServiceVersionPhase::Deleting
        )
}

/// Names of the ClusterServiceVersions that lack something which `plan` has to restore; `plan` is as its store keeps it.
fn lacking(
    stores: &Stores,
    plan: &InstallPlan,
    plans: &[Arc<InstallPlan>],
    csvs: &[Arc<ClusterServiceVersion>],
) -> BTreeSet<String> {
    let own = plan.uid();
    csvs.iter()
        .filter(|csv| is_staying(csv) && plan.found_or_made(&csv.metadata))
        .map(|csv| csv.name_any())
        .filter(|csv| restorer(csv, plans).is_some_and(|restorer| restorer.uid() == own))
        .filter(|csv| {
            let mut of_csv = steps(plan).iter().filter(|step| step.resolving == *csv);
            of_csv.any(|step| is_missing(stores, plan, step))
        })
        .collect()
}

/// Whether what a step carries whole is not there as it should be; the manifest is a [`fingerprint`].
fn is_missing(stores: &Stores, plan: &InstallPlan, step: &Step) -> bool {
    let (Some(kind), Some(wanted)) = (StepKind::of(&step.resource.kind), &step.resource.manifest) else {
        return false;
    };
    let namespace = if kind.is_cluster_scoped() == Some(true) {
        String::new()
    } else {
        plan.namespace().unwrap_or_default()
    };
    match content(stores, kind, &namespace, &step.resource.name) {
        None => true,
        Some(found) => !wanted.is_empty() && found != *wanted,
    }
}

/// Reads the objects that have to be restored. If nothing is missing, nothing is read, and the result is `None`.
///
/// The plan and the ClusterServiceVersions are read from the API server: the stores may not know yet that one is being deleted, and
/// RBAC created again after its finalizer has run would never be deleted.
///
/// # Errors
/// A read failed.
pub(crate) async fn observe(
    reads: &impl Reads,
    stores: &Stores,
    mut observed: Observed,
    plans: &[Arc<InstallPlan>],
) -> Result<Option<Observed>, ObserveError> {
    let mut lacking = lacking(stores, &observed.install_plan, plans, &observed.csvs);
    let namespace = observed.namespace();
    for name in lacking.clone() {
        let target = Target::of::<ClusterServiceVersion>(&namespace, &name);
        let live = reads.get(&target).await?;
        let known = observed.find_csv(&name).and_then(|csv| csv.uid());
        let stays = live.is_some_and(|live| {
            object::metadata_text(&live, "deletionTimestamp").is_none()
                && object::metadata_text(&live, "uid") == known.as_deref()
        });
        if !stays {
            lacking.remove(&name);
        }
    }
    if lacking.is_empty() {
        return Ok(None);
    }
    let kept = Arc::clone(&observed.install_plan);
    let target = Target::of::<InstallPlan>(&namespace, &kept.name_any());
    let Some(whole) = reads
        .get(&target)
        .await?
        .and_then(|whole| serde_json::from_value::<InstallPlan>(whole).ok())
        .filter(|whole| whole.uid() == kept.uid() && whole.phase() == InstallPlanPhase::Complete)
    else {
        return Ok(None);
    };
    for step in steps(&whole) {
        let state = if lacking.contains(&step.resolving) {
            missing_object(reads, stores, &whole, step).await?
        } else {
            StepState::Done
        };
        observed.steps.push(state);
    }
    observed.install_plan = Arc::new(whole);
    Ok(Some(observed))
}

async fn missing_object(
    reads: &impl Reads,
    stores: &Stores,
    plan: &InstallPlan,
    step: &Step,
) -> Result<StepState, ObserveError> {
    let Some(fingerprint) = fingerprint(step) else {
        return Ok(StepState::Done);
    };
    let mut known = step.clone();
    known.resource.manifest = Some(fingerprint);
    if !is_missing(stores, plan, &known) {
        return Ok(StepState::Done);
    }
    let text = step.resource.manifest.as_deref().unwrap_or_default();
    let kind = StepKind::of(&step.resource.kind);
    let (Ok(Manifest::Inline(object)), Some(kind)) = (Manifest::parse(text), kind) else {
        return Ok(StepState::Done);
    };
    let (Some(api), Some(cluster_scoped)) = (kind.api_resource(), kind.is_cluster_scoped()) else {
        return Ok(StepState::Done);
    };
    let namespace = plan.namespace().filter(|_| !cluster_scoped);
    let target = Target::dynamic(api.clone(), namespace.as_deref(), &step.resource.name);
    let current = reads.get(&target).await?;
    Ok(StepState::Known(Box::new(KnownStep {
        object,
        api,
        namespaced: !cluster_scoped,
        current,
    })))
}
