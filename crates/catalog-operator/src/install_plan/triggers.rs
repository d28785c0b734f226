//! Changed object → InstallPlans to look at. Pure.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanPhase};
use olm_runtime::NamespacedName;
use olm_runtime::queue::Queue;
use olm_runtime::store::Change;

use super::InstallPlanStores;
use super::kind::StepKind;
use super::observe::{is_done, is_over, phase, steps};

/// The plan itself, unless it is over or gone.
pub fn install_plan_changed(change: &Change<InstallPlan>) -> Option<NamespacedName> {
    match change {
        Change::Applied { new, .. } if !is_over(new) => Some(NamespacedName::from_object(new.as_ref())),
        Change::Applied { .. } | Change::Deleted { .. } => None,
    }
}

/// Plans being carried out that wait for a ClusterServiceVersion which came, or that have to do without one which went.
pub fn csv_changed(
    change: &Change<ClusterServiceVersion>,
    plans: &[Arc<InstallPlan>],
) -> Vec<NamespacedName> {
    // Only its being there and its uid matter: the phases it walks through are no concern of plans.
    let is_same = |old: &Arc<ClusterServiceVersion>, new: &Arc<ClusterServiceVersion>| old.uid() == new.uid();
    if matches!(change, Change::Applied { old: Some(old), new } if is_same(old, new)) {
        return Vec::new();
    }
    let namespace = change.object().namespace();
    keys(
        plans
            .iter()
            .filter(|plan| plan.namespace() == namespace && phase(plan) == InstallPlanPhase::Installing),
    )
}

/// Plans of the group's namespace that are not over: whether they can be carried out, and as whom, depends on it.
pub fn operator_group_changed(
    change: &Change<OperatorGroup>,
    plans: &[Arc<InstallPlan>],
) -> Vec<NamespacedName> {
    let relevant = |group: &OperatorGroup| {
        let status = group.status.as_ref();
        let has_namespaces = status.is_some_and(|status| !status.namespaces.is_empty());
        (
            has_namespaces,
            group.spec.service_account_name.clone(),
            status.and_then(|status| status.service_account_ref.clone()),
        )
    };
    if matches!(change, Change::Applied { old: Some(old), new } if relevant(old) == relevant(new)) {
        return Vec::new();
    }
    let namespace = change.object().namespace();
    keys(
        plans
            .iter()
            .filter(|plan| plan.namespace() == namespace && !is_over(plan)),
    )
}

/// Plans being carried out with a step for this CustomResourceDefinition that is not done.
pub fn crd_changed<K: Resource>(change: &Change<K>, plans: &[Arc<InstallPlan>]) -> Vec<NamespacedName> {
    let Some(name) = change.object().meta().name.as_deref() else {
        return Vec::new();
    };
    let waits = |plan: &InstallPlan| {
        steps(plan).iter().any(|step| {
            StepKind::of(&step.resource.kind) == Some(StepKind::CustomResourceDefinition)
                && step.resource.name == name
                && !is_done(step)
        })
    };
    keys(
        plans
            .iter()
            .filter(|plan| phase(plan) == InstallPlanPhase::Installing && waits(plan)),
    )
}

fn keys<'a>(plans: impl Iterator<Item = &'a Arc<InstallPlan>>) -> Vec<NamespacedName> {
    plans
        .map(|plan| NamespacedName::from_object(plan.as_ref()))
        .collect()
}

/// Connects the stores to the queue by the functions above. Call before the watches start.
pub fn attach(stores: &InstallPlanStores, queue: &Queue<NamespacedName>) {
    let own = queue.clone();
    stores.install_plans.on_change(move |change| {
        install_plan_changed(change)
            .into_iter()
            .for_each(|key| own.add(key))
    });
    let (plans, of_csvs) = (stores.install_plans.clone(), queue.clone());
    stores.csvs.on_change(move |change| {
        let namespace = change.object().namespace().unwrap_or_default();
        csv_changed(change, &plans.list_in(&namespace))
            .into_iter()
            .for_each(|key| of_csvs.add(key));
    });
    let (plans, of_groups) = (stores.install_plans.clone(), queue.clone());
    stores.operator_groups.on_change(move |change| {
        let namespace = change.object().namespace().unwrap_or_default();
        operator_group_changed(change, &plans.list_in(&namespace))
            .into_iter()
            .for_each(|key| of_groups.add(key));
    });
    let (plans, of_crds) = (stores.install_plans.clone(), queue.clone());
    stores.crds.on_change(move |change| {
        crd_changed(change, &plans.list())
            .into_iter()
            .for_each(|key| of_crds.add(key))
    });
}
