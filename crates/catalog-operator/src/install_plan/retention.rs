//! Selects the InstallPlans of a namespace that are kept. Pure; resolution deletes the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;
use olm_api::v1alpha1::{InstallPlan, Subscription};

use super::restoration::restorer;

/// Number of finished plans that a namespace keeps as its history, regardless of the number of plans that wait.
const KEPT: usize = 5;

/// Plans that may go, oldest first, so that [`KEPT`] of those that are over remain: of these the ones with the lowest generation that
/// no Subscription refers to and that restore nothing of an existing ClusterServiceVersion.
///
/// Upstream looks at an arbitrary ten and deletes what a Subscription points to or a user is about to approve.
pub(crate) fn find_surplus(
    plans: &[Arc<InstallPlan>],
    subscriptions: &[Arc<Subscription>],
    csvs: &BTreeSet<String>,
) -> Vec<Arc<InstallPlan>> {
    let restoring: BTreeSet<String> = csvs
        .iter()
        .filter_map(|csv| restorer(csv, plans))
        .map(|plan| plan.name_any())
        .collect();
    let referenced: BTreeSet<String> = subscriptions
        .iter()
        .filter_map(|subscription| {
            subscription
                .status
                .as_ref()?
                .install_plan_ref
                .as_ref()?
                .name
                .clone()
        })
        .collect();
    let mut candidates: Vec<_> = plans
        .iter()
        .filter(|plan| {
            let name = plan.name_any();
            plan.is_over() && !referenced.contains(&name) && !restoring.contains(&name)
        })
        .cloned()
        .collect();
    candidates.sort_by_key(|plan| {
        (
            plan.spec.generation.unwrap_or_default(),
            plan.creation_timestamp(),
            plan.name_any(),
        )
    });
    let over = plans.iter().filter(|plan| plan.is_over()).count();
    candidates.truncate(over.saturating_sub(KEPT));
    candidates
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NONE: BTreeSet<String> = BTreeSet::new();

    fn plan(name: &str, generation: i64, phase: &str) -> Arc<InstallPlan> {
        let value = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"clusterServiceVersionNames": [], "approval": "Automatic", "approved": true, "generation": generation},
            "status": {"phase": phase, "catalogSources": []}});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn subscription(install_plan: &str) -> Arc<Subscription> {
        let value = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "s", "namespace": "ns"},
            "spec": {"source": "c", "sourceNamespace": "ns", "name": "p"},
            "status": {"lastUpdated": null, "installPlanRef": {"name": install_plan}}});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn names(plans: &[Arc<InstallPlan>]) -> Vec<String> {
        plans.iter().map(|plan| plan.name_any()).collect()
    }

    /// Exactly five remain, the newest among them, and a second look finds nothing.
    #[test]
    fn five_newest_plans_remain() {
        let plans: Vec<_> = [
            ("a", 3),
            ("b", 1),
            ("c", 1),
            ("d", 7),
            ("e", 5),
            ("f", 6),
            ("g", 2),
            ("h", 4),
        ]
        .iter()
        .map(|(name, generation)| plan(name, *generation, "Complete"))
        .collect();
        let surplus = names(&find_surplus(&plans, &[], &NONE));
        assert_eq!(surplus, ["b", "c", "g"]);
        let rest: Vec<_> = plans
            .into_iter()
            .filter(|plan| !surplus.contains(&plan.name_any()))
            .collect();
        assert!(find_surplus(&rest, &[], &NONE).is_empty());
    }

    /// What is referred to or not over stays, however old; the one of them that is over is one of the five.
    #[test]
    fn plans_in_use_are_never_surplus() {
        let mut plans = vec![
            plan("awaited", 1, "RequiresApproval"),
            plan("referenced", 2, "Complete"),
        ];
        plans.extend((3..9).map(|generation| plan(&format!("p{generation}"), generation, "Failed")));
        assert_eq!(
            names(&find_surplus(&plans, &[subscription("referenced")], &NONE)),
            ["p3", "p4"]
        );
    }

    /// One for each Subscription that waits, and what failed before can still be read.
    #[test]
    fn plans_that_wait_push_no_history_out() {
        let mut plans: Vec<_> = (1..6)
            .map(|generation| plan(&format!("p{generation}"), generation, "Failed"))
            .collect();
        for generation in 6..16 {
            plans.push(plan(&format!("p{generation}"), generation, "RequiresApproval"));
            assert_eq!(names(&find_surplus(&plans, &[], &NONE)), Vec::<String>::new());
        }
        plans.push(plan("p16", 16, "Complete"));
        assert_eq!(names(&find_surplus(&plans, &[], &NONE)), ["p1"]);
    }

    /// A plan that has to restore the rights of a living operator stays, however old; the ones it was before do not.
    #[test]
    fn the_newest_plan_of_an_existing_csv_is_never_surplus() {
        let mut plans: Vec<_> = (1..9)
            .map(|generation| plan(&format!("p{generation}"), generation, "Complete"))
            .collect();
        for of_csv in [0, 1] {
            let plan = Arc::make_mut(&mut plans[of_csv]);
            let step = json!([{"resolving": "a.v1", "status": "Created", "resource": {"sourceName": "", "sourceNamespace": "",
                "group": "", "version": "v1", "kind": "ServiceAccount", "name": "a"}}]);
            plan.status.as_mut().unwrap().plan = serde_json::from_value(step).unwrap();
        }
        let csvs = BTreeSet::from(["a.v1".to_owned()]);
        assert_eq!(names(&find_surplus(&plans, &[], &csvs)), ["p1", "p3", "p4"]);
        assert_eq!(names(&find_surplus(&plans, &[], &NONE)), ["p1", "p2", "p3"]);
    }

    #[test]
    fn few_plans_all_stay() {
        assert!(find_surplus(&[plan("a", 1, "Complete")], &[], &NONE).is_empty());
        assert!(find_surplus(&[], &[], &NONE).is_empty());
    }
}
