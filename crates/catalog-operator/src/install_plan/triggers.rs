//! Changed object → InstallPlans to reconcile. Pure functions, and [`attach`], which connects them to the stores.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanPhase};
use olm_runtime::NamespacedName;
use olm_runtime::change::Object;
use olm_runtime::queue::Queue;
use olm_runtime::store::{Change, Store};

use super::adoption;
use super::observe::{is_done, steps};
use super::restoration::is_staying;
use crate::pruning::kept_hash;
use crate::step_kind::StepKind;
use crate::stores::Stores;

/// The plan itself, unless it has failed before. One that is Complete restores what is missing; for one that has just failed, or is gone,
/// nothing is to be watched any more.
pub(crate) fn install_plan_changed(change: &Change<InstallPlan>) -> Option<NamespacedName> {
    let had_failed = |plan: &InstallPlan| plan.phase() == InstallPlanPhase::Failed;
    match change {
        Change::Applied { old, new } if had_failed(new) => {
            let has_just_failed = old.as_ref().is_some_and(|old| !had_failed(old));
            has_just_failed.then(|| NamespacedName::from_object(new.as_ref()))
        }
        Change::Applied { new: plan, .. } | Change::Deleted { old: plan } => {
            Some(NamespacedName::from_object(plan.as_ref()))
        }
    }
}

/// Plans being carried out that wait for a ClusterServiceVersion which came, or that have to do without one which went, and those
/// that may have to restore what it needs.
pub(crate) fn csv_changed(
    change: &Change<ClusterServiceVersion>,
    plans: &[Arc<InstallPlan>],
) -> Vec<NamespacedName> {
    // Only its being there, its uid and whether it stays matter: the phases it walks through are no concern of plans.
    let is_same = |old: &Arc<ClusterServiceVersion>, new: &Arc<ClusterServiceVersion>| {
        old.uid() == new.uid() && is_staying(old) == is_staying(new)
    };
    if matches!(change, Change::Applied { old: Some(old), new } if is_same(old, new)) {
        return Vec::new();
    }
    let namespace = change.object().namespace();
    NamespacedName::of_all(
        plans
            .iter()
            .filter(|plan| plan.namespace() == namespace)
            .filter(|plan| {
                matches!(
                    plan.phase(),
                    InstallPlanPhase::Installing | InstallPlanPhase::Complete
                )
            }),
    )
}

/// Plans of the group's namespace that have not failed: whether they can be carried out, or restore something, and as whom, depends
/// on it.
pub(crate) fn operator_group_changed(
    change: &Change<OperatorGroup>,
    plans: &[Arc<InstallPlan>],
) -> Vec<NamespacedName> {
    let relevant = |group: &OperatorGroup| {
        let status = group.status.as_ref();
        let has_namespaces = status.is_some_and(|status| !status.namespaces.is_empty());
        (
            has_namespaces,
            // The plan reports the reason.
            (!has_namespaces).then(|| {
                (
                    status.is_some_and(|status| status.last_updated.is_some()),
                    group.spec.selector.clone(),
                )
            }),
            group.spec.service_account_name.clone(),
            status.and_then(|status| status.service_account_ref.clone()),
        )
    };
    if matches!(change, Change::Applied { old: Some(old), new } if relevant(old) == relevant(new)) {
        return Vec::new();
    }
    let namespace = change.object().namespace();
    NamespacedName::of_all(
        plans
            .iter()
            .filter(|plan| plan.namespace() == namespace && plan.phase() != InstallPlanPhase::Failed),
    )
}

/// Plans being carried out with a step for this CustomResourceDefinition that is not done.
pub(crate) fn crd_changed<K: Object>(change: &Change<K>, plans: &[Arc<InstallPlan>]) -> Vec<NamespacedName> {
    let name = change.object().state().name;
    let waits = |plan: &InstallPlan| {
        steps(plan).iter().any(|step| {
            StepKind::of(&step.resource.kind) == Some(StepKind::CustomResourceDefinition)
                && step.resource.name == name
                && !is_done(step)
        })
    };
    NamespacedName::of_all(
        plans
            .iter()
            .filter(|plan| plan.phase() == InstallPlanPhase::Installing && waits(plan)),
    )
}

/// Complete plans with a step for this account or RBAC object, when it came, went or is another one now.
pub(crate) fn rbac_changed<K: Resource>(
    change: &Change<K>,
    kind: StepKind,
    plans: &[Arc<InstallPlan>],
) -> Vec<NamespacedName> {
    if let Change::Applied { old: Some(old), new } = change
        && old.meta().uid == new.meta().uid
        && kept_hash(old.as_ref()) == kept_hash(new.as_ref())
        && new.meta().deletion_timestamp.is_none()
    {
        return Vec::new();
    }
    let object = change.object().meta();
    let Some(name) = object.name.as_deref() else {
        return Vec::new();
    };
    let has_step = |plan: &InstallPlan| {
        steps(plan)
            .iter()
            .any(|step| step.resource.name == name && StepKind::of(&step.resource.kind) == Some(kind))
    };
    NamespacedName::of_all(plans.iter().filter(|plan| {
        plan.phase() == InstallPlanPhase::Complete
            && (object.namespace.is_none() || object.namespace == plan.namespace())
            && has_step(plan)
    }))
}

/// Connects the stores to the queue by the functions above. Call before the watches start.
pub(crate) fn attach(stores: &Stores, queue: &Queue<NamespacedName>) {
    stores.plans.feed(queue, install_plan_changed);
    let plans = stores.plans.clone();
    stores.csvs.feed(queue, move |change| {
        csv_changed(change, &neighbours(&plans, change))
    });
    let plans = stores.plans.clone();
    stores.subscriptions.feed(queue, move |change| {
        adoption::subscription_changed(change, &neighbours(&plans, change))
    });
    let plans = stores.plans.clone();
    stores.groups.feed(queue, move |change| {
        operator_group_changed(change, &neighbours(&plans, change))
    });
    attach_rbac(&stores.accounts, StepKind::ServiceAccount, stores, queue);
    attach_rbac(&stores.roles, StepKind::Role, stores, queue);
    attach_rbac(&stores.role_bindings, StepKind::RoleBinding, stores, queue);
    attach_rbac(&stores.cluster_roles, StepKind::ClusterRole, stores, queue);
    attach_rbac(
        &stores.cluster_role_bindings,
        StepKind::ClusterRoleBinding,
        stores,
        queue,
    );
    let plans = stores.plans.clone();
    stores
        .crds
        .feed(queue, move |change| crd_changed(change, &plans.list()));
}

/// The plans in the namespace of the changed object.
fn neighbours<K: Resource>(plans: &Store<InstallPlan>, change: &Change<K>) -> Vec<Arc<InstallPlan>> {
    let namespace = change.object().meta().namespace.as_deref();
    plans.list_in(namespace.unwrap_or_default())
}

fn attach_rbac<K>(store: &Store<K>, kind: StepKind, stores: &Stores, queue: &Queue<NamespacedName>)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let plans = stores.plans.clone();
    store.feed(queue, move |change| {
        let in_reach = match change.object().namespace() {
            Some(namespace) => plans.list_in(&namespace),
            None => plans.list(),
        };
        rbac_changed(change, kind, &in_reach)
    });
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
    fn plan_that_has_failed_is_not_looked_at() {
        let changed = |plan: &Arc<InstallPlan>| {
            names(install_plan_changed(&Change::Applied {
                old: None,
                new: Arc::clone(plan),
            }))
        };
        assert_eq!(
            plans().iter().flat_map(changed).collect::<Vec<_>>(),
            ["ns/over", "ns/running", "ns/waiting"],
            "one that is over may have to restore something"
        );
        let failed = |old: Option<&str>| {
            names(install_plan_changed(&Change::Applied {
                old: old.map(|phase| plan("failed", phase, "Unknown")),
                new: plan("failed", "Failed", "Unknown"),
            }))
        };
        assert_eq!(failed(None), Vec::<String>::new());
        assert_eq!(failed(Some("Failed")), Vec::<String>::new());
        assert_eq!(
            failed(Some("Installing")),
            ["ns/failed"],
            "what was watched for it is not needed any more"
        );
        let gone = Change::Deleted {
            old: plan("gone", "Installing", "Unknown"),
        };
        assert_eq!(names(install_plan_changed(&gone)), ["ns/gone"]);
    }

    #[test]
    fn only_coming_and_going_of_csvs_matters() {
        let applied = |old: Option<&str>, new: &str| Change::Applied {
            old: old.map(|uid| csv(uid, "")),
            new: csv(new, "Pending"),
        };
        let both = ["ns/over", "ns/running"];
        assert_eq!(names(csv_changed(&applied(None, "1"), &plans())), both);
        assert!(csv_changed(&applied(Some("1"), "1"), &plans()).is_empty());
        assert_eq!(names(csv_changed(&applied(Some("1"), "2"), &plans())), both);
        let replaced = Change::Applied {
            old: Some(csv("1", "Replacing")),
            new: csv("1", "Pending"),
        };
        assert_eq!(names(csv_changed(&replaced, &plans())), both);
        assert_eq!(
            names(csv_changed(&Change::Deleted { old: csv("1", "") }, &plans())),
            both
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
            ["ns/over", "ns/running", "ns/waiting"]
        );
        assert!(operator_group_changed(&change(json!(["ns"]), json!(["ns", "other"])), &plans()).is_empty());
        let mut looked_at = OperatorGroup::clone(&group(json!([])));
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        looked_at.status.as_mut().unwrap().last_updated = Some(time);
        let looked_at = Change::Applied {
            old: Some(group(json!([]))),
            new: Arc::new(looked_at),
        };
        let woken = operator_group_changed(&looked_at, &plans());
        assert_eq!(woken.len(), 3, "why it manages nothing is told");
        assert_eq!(
            operator_group_changed(
                &Change::Deleted {
                    old: group(json!(["ns"]))
                },
                &plans()
            )
            .len(),
            3
        );
    }

    #[test]
    fn account_or_role_that_goes_or_changes_wakes_the_completed_plan_that_made_it() {
        use k8s_openapi::api::rbac::v1::Role;
        let role = |namespace: &str, uid: &str, verb: &str| -> Arc<Role> {
            let mut role: Role = serde_json::from_value(
                json!({"metadata": {"namespace": namespace, "name": "demos.example.com", "uid": uid},
                "rules": [{"verbs": [verb]}]}),
            )
            .unwrap();
            crate::pruning::prune_role(&mut role);
            Arc::new(role)
        };
        let of_role = |phase: &str| {
            let mut plan = plan(phase, phase, "Created");
            let steps = &mut Arc::make_mut(&mut plan).status.as_mut().unwrap().plan;
            steps
                .iter_mut()
                .for_each(|step| step.resource.kind = "Role".into());
            plan
        };
        let all = [
            of_role("Complete"),
            of_role("Installing"),
            plan("other kind", "Complete", "Created"),
        ];
        let woken = |change: &Change<Role>| names(rbac_changed(change, StepKind::Role, &all));
        let changed = |old: Arc<Role>, new: Arc<Role>| Change::Applied { old: Some(old), new };
        assert_eq!(
            woken(&Change::Deleted {
                old: role("ns", "1", "get")
            }),
            ["ns/Complete"]
        );
        assert_eq!(
            woken(&changed(role("ns", "1", "get"), role("ns", "2", "get"))),
            ["ns/Complete"]
        );
        assert_eq!(
            woken(&changed(role("ns", "1", "get"), role("ns", "1", "list"))),
            ["ns/Complete"]
        );
        assert!(woken(&changed(role("ns", "1", "get"), role("ns", "1", "get"))).is_empty());
        assert!(
            woken(&Change::Deleted {
                old: role("elsewhere", "1", "get")
            })
            .is_empty()
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
