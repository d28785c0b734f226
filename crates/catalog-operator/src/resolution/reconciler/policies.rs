//! What is read of Subscriptions' policies, and of what they look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use go_compat::semver::Version;
use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase, InstallPlanPhase, Subscription, SubscriptionStatus,
};
use olm_runtime::plan::EventDraft;

use super::super::observed::PolicyFacts;
use super::super::outcome::subscription_warning;
use super::ResolutionReconciler;
use crate::subscription::install_plan::referenced;
use crate::upgrade_policy::{InstalledVersion, UpgradePolicy};

impl ResolutionReconciler {
    /// Policies by Subscription. Nothing is read for those that have none.
    pub(super) fn policies(
        &self,
        namespace: &str,
        subscriptions: &[(Arc<Subscription>, SubscriptionStatus)],
    ) -> BTreeMap<String, PolicyFacts> {
        let facts = subscriptions.iter().filter_map(|(object, status)| {
            let name = object.name_any();
            let policy = UpgradePolicy::read(&name, object.annotations())?;
            let csv = |name: &Option<String>| self.stores.csvs.get(namespace, name.as_deref()?);
            let installed = status.installed_csv.clone().filter(|name| !name.is_empty());
            let is_unsettled = csv(&status.installed_csv).is_some_and(|csv| is_unsettled(&csv));
            let facts = PolicyFacts {
                subscription: name.clone(),
                policy,
                is_unsettled,
                installed: installed.map(|name| InstalledVersion {
                    version: csv(&status.installed_csv).and_then(|csv| version_of(&csv)),
                    csv: name,
                }),
                // What is current is forgotten with a plan that somebody deletes; what failed is still there.
                failed: self.is_plan_failed(namespace, status)
                    || [&status.current_csv, &status.installed_csv]
                        .into_iter()
                        .any(|name| csv(name).is_some_and(|csv| is_failed(&csv))),
            };
            Some((name, facts))
        });
        facts.collect()
    }

    fn is_plan_failed(&self, namespace: &str, status: &SubscriptionStatus) -> bool {
        let plan = referenced(status).and_then(|name| self.stores.plans.get(namespace, name));
        plan.is_some_and(|plan| plan.phase() == InstallPlanPhase::Failed)
    }
}

fn version_of(csv: &ClusterServiceVersion) -> Option<Version> {
    Version::parse_tolerant(csv.spec.version.as_deref()?).ok()
}

fn is_failed(csv: &ClusterServiceVersion) -> bool {
    let status = csv.status.as_ref();
    status.is_some_and(|status| status.phase == ClusterServiceVersionPhase::Failed)
}

/// Whether it is being installed, for the first time or anew: what will come of it is not known.
fn is_unsettled(csv: &ClusterServiceVersion) -> bool {
    use ClusterServiceVersionPhase::{Deleting, Failed, Replacing, Succeeded};
    let phase = csv.status.as_ref().map(|status| &status.phase);
    !matches!(phase, Some(Succeeded | Failed | Replacing | Deleting))
}

/// What cannot be read of policies, as events on their Subscriptions.
pub(super) fn warnings(
    subscriptions: &[(Arc<Subscription>, SubscriptionStatus)],
    policies: &BTreeMap<String, PolicyFacts>,
) -> Vec<EventDraft> {
    let warnings = subscriptions.iter().flat_map(|(object, _)| {
        let facts = policies.get(&object.name_any());
        let complaints = facts.map(|facts| facts.policy.complaints()).unwrap_or_default();
        let name = object.name_any();
        complaints.into_iter().map(move |text| {
            let text = format!("Subscription {name}: {text}");
            subscription_warning(object, reasons::UPGRADE_POLICY_INVALID, &text)
        })
    });
    warnings.collect()
}
