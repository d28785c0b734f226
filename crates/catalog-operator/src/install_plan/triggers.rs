//! Changed object → InstallPlans to look at. Pure.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanPhase};
use olm_runtime::NamespacedName;
use olm_runtime::queue::Queue;
use olm_runtime::store::Change;

use super::kind::StepKind;
use super::observe::{is_done, is_over, phase, steps};
use super::{InstallPlanStores, adoption};

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
    stores
        .install_plans
        .on_change(move |change| add_all(&own, install_plan_changed(change)));
    let (plans, of_csvs) = (stores.install_plans.clone(), queue.clone());
    stores.csvs.on_change(move |change| {
        let namespace = change.object().namespace().unwrap_or_default();
        add_all(&of_csvs, csv_changed(change, &plans.list_in(&namespace)));
    });
    let (plans, of_subscriptions) = (stores.install_plans.clone(), queue.clone());
    stores.subscriptions.on_change(move |change| {
        let namespace = change.object().namespace().unwrap_or_default();
        add_all(
            &of_subscriptions,
            adoption::subscription_changed(change, &plans.list_in(&namespace)),
        );
    });
    let (plans, of_groups) = (stores.install_plans.clone(), queue.clone());
    stores.operator_groups.on_change(move |change| {
        let namespace = change.object().namespace().unwrap_or_default();
        add_all(
            &of_groups,
            operator_group_changed(change, &plans.list_in(&namespace)),
        );
    });
    let (plans, of_crds) = (stores.install_plans.clone(), queue.clone());
    stores
        .crds
        .on_change(move |change| add_all(&of_crds, crd_changed(change, &plans.list())));
}

fn add_all(queue: &Queue<NamespacedName>, keys: impl IntoIterator<Item = NamespacedName>) {
    keys.into_iter().for_each(|key| queue.add(key));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(name: &str, phase: &str, crd_status: &str) -> Arc<InstallPlan> {
        let step = json!({"resolving": "a.v1", "status": crd_status, "resource": {"sourceName": "", "sourceNamespace": "",
            "group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "name": "demos.example.com"}});
        from(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"clusterServiceVersionNames": [], "approval": "", "approved": true},
            "status": {"phase": phase, "catalogSources": [], "plan": [step]}}),
        )
    }

    fn from<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn csv(uid: &str, phase: &str) -> Arc<ClusterServiceVersion> {
        from(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1", "namespace": "ns", "uid": uid}, "spec": {}, "status": {"phase": phase}}),
        )
    }

    #[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
    fn group(namespaces: Value) -> Arc<OperatorGroup> {
        from(
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "og", "namespace": "ns"},
            "spec": {}, "status": {"namespaces": namespaces, "lastUpdated": null}}),
        )
    }

    fn names(keys: impl IntoIterator<Item = NamespacedName>) -> Vec<String> {
        keys.into_iter().map(|key| key.to_string()).collect()
    }

    fn plans() -> Vec<Arc<InstallPlan>> {
        vec![
            plan("over", "Complete", "Created"),
            plan("running", "Installing", "WaitingForApi"),
            plan("waiting", "RequiresApproval", "Unknown"),
        ]
    }

    #[test]
    fn plan_that_is_over_is_not_looked_at() {
        let changed = |plan: &Arc<InstallPlan>| {
            names(install_plan_changed(&Change::Applied {
                old: None,
                new: Arc::clone(plan),
            }))
        };
        assert_eq!(
            plans().iter().flat_map(changed).collect::<Vec<_>>(),
            ["ns/running", "ns/waiting"]
        );
        assert!(
            install_plan_changed(&Change::Deleted {
                old: plan("gone", "Installing", "Unknown")
            })
            .is_none()
        );
    }

    #[test]
    fn only_coming_and_going_of_csvs_matters() {
        let applied = |old: Option<&str>, new: &str| Change::Applied {
            old: old.map(|uid| csv(uid, "")),
            new: csv(new, "Pending"),
        };
        assert_eq!(names(csv_changed(&applied(None, "1"), &plans())), ["ns/running"]);
        assert!(csv_changed(&applied(Some("1"), "1"), &plans()).is_empty());
        assert_eq!(
            names(csv_changed(&applied(Some("1"), "2"), &plans())),
            ["ns/running"]
        );
        assert_eq!(
            names(csv_changed(&Change::Deleted { old: csv("1", "") }, &plans())),
            ["ns/running"]
        );
    }

    #[test]
    fn group_wakes_plans_when_it_begins_or_ends_to_manage() {
        let change = |old: Value, new: Value| Change::Applied {
            old: Some(group(old)),
            new: group(new),
        };
        assert_eq!(
            names(operator_group_changed(
                &change(json!([]), json!(["ns"])),
                &plans()
            )),
            ["ns/running", "ns/waiting"]
        );
        assert!(operator_group_changed(&change(json!(["ns"]), json!(["ns", "other"])), &plans()).is_empty());
        assert_eq!(
            operator_group_changed(
                &Change::Deleted {
                    old: group(json!(["ns"]))
                },
                &plans()
            )
            .len(),
            2
        );
    }

    #[test]
    fn crd_wakes_the_plan_that_waits_for_it() {
        let crd = |name: &str| {
            let object = json!({"metadata": {"name": name}});
            Change::Applied {
                old: None,
                new: from::<kube::core::PartialObjectMeta<ClusterServiceVersion>>(object),
            }
        };
        let mut all = plans();
        all.push(plan("has it", "Installing", "Created"));
        assert_eq!(
            names(crd_changed(&crd("demos.example.com"), &all)),
            ["ns/running"]
        );
        assert!(crd_changed(&crd("others.example.com"), &all).is_empty());
    }
}
