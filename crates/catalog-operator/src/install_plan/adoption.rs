//! Plans that no Subscription refers to yet.
//!
//! A plan gets its status before its Subscriptions refer to it. If the process ends in between, the next one finds the plan by
//! computing the same plan again. If the plan had been executed by then, its ClusterServiceVersion would have no Subscription, and
//! the namespace could not be resolved again.

use std::sync::Arc;

use olm_api::v1alpha1::{InstallPlan, Subscription};
use olm_runtime::NamespacedName;
use olm_runtime::store::Change;

use super::observe::{is_done, steps};
use crate::resolution::plan_object::is_owned_by;

/// True while an untouched plan is newer than the plans that its Subscriptions refer to. A plan without living Subscriptions among
/// its owners does not wait.
pub(crate) fn is_awaited(plan: &InstallPlan, subscriptions: &[Arc<Subscription>]) -> bool {
    let mut owners = subscriptions
        .iter()
        .filter(|subscription| is_owned_by(plan, subscription))
        .peekable();
    owners.peek().is_some()
        && owners.all(|subscription| generation(subscription) < plan.spec.generation.unwrap_or(0))
        && !steps(plan).iter().any(is_done)
}

/// Unfinished plans of a Subscription that refers to another one now, or is gone.
pub(crate) fn subscription_changed(
    change: &Change<Subscription>,
    plans: &[Arc<InstallPlan>],
) -> Vec<NamespacedName> {
    if let Change::Applied { old: Some(old), new } = change
        && generation(old) == generation(new)
    {
        return Vec::new();
    }
    let subscription = change.object();
    let plans = plans.iter();
    NamespacedName::of_all(plans.filter(|plan| !plan.is_over() && is_owned_by(plan, subscription)))
}

/// The generation of the plan that a Subscription refers to; 0 for none.
pub(crate) fn generation(subscription: &Subscription) -> i64 {
    let status = subscription.status.as_ref();
    status
        .and_then(|status| status.install_plan_generation)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(step: &str, phase: &str) -> Arc<InstallPlan> {
        from(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "install-a", "namespace": "ns", "ownerReferences": [
                {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "sub", "uid": "u"}]},
            "spec": {"clusterServiceVersionNames": ["a.v1"], "approval": "", "approved": true, "generation": 2},
            "status": {"phase": phase, "catalogSources": [], "plan": [{"resolving": "a.v1", "status": step, "resource":
                {"sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}}]}
        }))
    }

    fn subscription(uid: &str, generation: Option<i64>) -> Arc<Subscription> {
        from(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "sub", "namespace": "ns", "uid": uid},
            "spec": {"source": "cat", "sourceNamespace": "ns", "name": "a"},
            "status": {"installPlanGeneration": generation, "lastUpdated": null}
        }))
    }

    #[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
    fn from<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_plan_begins_when_a_subscription_refers_to_it_or_nobody_will() {
        let fresh = plan("Unknown", "Installing");
        let rows: [(&[Arc<Subscription>], bool); 6] = [
            (&[subscription("u", None)], true),
            (&[subscription("u", Some(1))], true),
            (&[subscription("u", Some(2))], false),
            (&[subscription("u", Some(3))], false),
            (&[subscription("other", None)], false),
            (&[], false),
        ];
        for (subscriptions, expected) in rows {
            assert_eq!(is_awaited(&fresh, subscriptions), expected, "{subscriptions:?}");
        }
        let begun = plan("Created", "Installing");
        assert!(!is_awaited(&begun, &[subscription("u", None)]));
    }

    #[test]
    fn a_subscription_that_refers_to_a_plan_or_goes_wakes_it() {
        let fresh = [plan("Unknown", "Installing")];
        let told = |old: Option<i64>, new: Option<i64>| Change::Applied {
            old: Some(subscription("u", old)),
            new: subscription("u", new),
        };
        assert_eq!(subscription_changed(&told(None, Some(2)), &fresh).len(), 1);
        assert_eq!(subscription_changed(&told(Some(2), Some(2)), &fresh).len(), 0);
        let gone = Change::Deleted {
            old: subscription("u", None),
        };
        assert_eq!(subscription_changed(&gone, &fresh).len(), 1);
        let over = [plan("Created", "Complete")];
        assert_eq!(subscription_changed(&told(None, Some(2)), &over).len(), 0);
    }
}
