//! The controller that writes the preview of a plan that waits for approval, once.
//!
//! It reconciles a plan that has its steps, waits and has no preview yet, and again when a missing bundle arrives. Each plan costs one
//! write; later changes of the cluster are not followed. Resolution does not wait for previews.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::InstallPlan;
use olm_runtime::driver::Reconciler;
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::plan::{Action, Guard, Plan, Target};
use olm_runtime::queue::Queue;
use olm_runtime::store::Change;
use olm_runtime::{NamespacedName, clock};
use serde_json::json;

use super::preview;
use crate::install_plan::cluster_reads::ClusterReads;
use crate::install_plan::observe::{Observed as PlanObserved, steps};
use crate::stores::Stores;

/// Reconciles InstallPlans that wait for approval.
pub(crate) struct PreviewReconciler {
    pub stores: Stores,
    /// Reads the objects that the plans will change.
    pub reads: ClusterReads,
}

/// A plan and its preview.
pub(crate) struct Observed {
    install_plan: Arc<InstallPlan>,
    /// Text of the annotation.
    preview: String,
}

/// Returns true if the plan waits for approval and has no preview.
fn lacks_preview(install_plan: &InstallPlan) -> bool {
    install_plan.waits_for_approval()
        && !steps(install_plan).is_empty()
        && !install_plan.annotations().contains_key(labels::PLAN_PREVIEW)
}

/// Connects the store to the queue. Call before the watches start.
pub(crate) fn attach(stores: &Stores, queue: &Queue<NamespacedName>) {
    stores.plans.feed(queue, |change| match change {
        Change::Applied { new, .. } if lacks_preview(new) => Some(NamespacedName::from_object(new.as_ref())),
        _ => None,
    });
}

#[async_trait]
impl Reconciler for PreviewReconciler {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "preview";
    /// Each try reads the cluster, and may fetch a bundle.
    const FIRST_BACKOFF_OF_REFUSED: Duration = Duration::from_secs(60);

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.plans, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let found = self.stores.plans.get_key(key);
        let Some(install_plan) = found.filter(|found| lacks_preview(found)) else {
            return Ok(None);
        };
        let before = PlanObserved {
            install_plan: Arc::clone(&install_plan),
            operator_groups: self.stores.groups.list_in(&key.namespace),
            csvs: self.stores.csvs.list_in(&key.namespace),
            ..PlanObserved::default()
        };
        let plans = self.stores.plans.list_in(&key.namespace);
        let preview = preview(&self.reads, before, &plans, clock::now()).await;
        // The bundle wakes the plan when it has arrived.
        Ok(preview.map(|preview| Observed {
            install_plan,
            preview,
        }))
    }

    fn decide(observed: &Observed, _: Option<&()>, _: Timestamp) -> (Plan, ()) {
        let plan = &observed.install_plan;
        let target = Target::of::<InstallPlan>(&plan.namespace().unwrap_or_default(), &plan.name_any());
        let annotations = json!({labels::PLAN_PREVIEW: observed.preview});
        let guard = Guard::of_uid(plan.uid());
        let patch = Action::patch(target, json!({"metadata": {"annotations": annotations}}), guard);
        (Plan::of(vec![patch]), ())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Other plans cost no read.
    #[test]
    fn only_plans_with_steps_that_wait_and_have_none_get_a_preview() {
        let step = json!({"resolving": "a.v1", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "",
            "group": "", "version": "v1", "kind": "ServiceAccount", "name": "a", "manifest": "{}"}});
        let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": "a", "namespace": "ns"},
            "spec": {"clusterServiceVersionNames": ["a.v1"], "approval": "Manual", "approved": false},
            "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [step]}});
        let lacks = |plan: Value| lacks_preview(&serde_json::from_value(plan).unwrap());
        assert!(lacks(plan.clone()));
        for (part, field, value) in [
            ("status", "phase", "Installing".into()),
            ("status", "plan", json!([])),
            ("spec", "approved", true.into()),
            ("metadata", "deletionTimestamp", "2026-01-01T00:00:00Z".into()),
            ("metadata", "annotations", json!({labels::PLAN_PREVIEW: ""})),
        ] {
            let mut other = plan.clone();
            other[part][field] = value;
            assert!(!lacks(other), "{field}");
        }
    }
}
