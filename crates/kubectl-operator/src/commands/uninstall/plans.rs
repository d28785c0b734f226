//! Incomplete InstallPlans that would install an operator again after its removal. Pure.

use std::collections::BTreeSet;

use olm_api::labels::OWNER_KIND_CSV;
use olm_api::v1alpha1::{InstallPlan, Subscription};
use serde_json::Value;

use crate::operators::{others_of, refers};

/// An incomplete plan of the operator.
#[derive(Debug, Clone)]
pub(in crate::commands) struct OpenPlan {
    pub plan: InstallPlan,
    /// Subscriptions of other operators that refer to it as well.
    pub others: Vec<String>,
}

impl OpenPlan {
    /// Returns true if OLM is running it already.
    pub(super) fn is_approved(&self) -> bool {
        self.plan.spec.approved
    }
}

/// Returns the incomplete plans that the Subscription refers to, or that install or replace one of these ClusterServiceVersions.
pub(super) fn open_plans(
    plans: &[InstallPlan],
    subscriptions: &[Subscription],
    own: Option<&Subscription>,
    csvs: &BTreeSet<String>,
) -> Vec<OpenPlan> {
    let open = plans.iter().filter(|plan| !plan.is_over());
    open.filter(|plan| own.is_some_and(|own| refers(own, plan)) || brings(plan, csvs))
        .map(|plan| OpenPlan {
            plan: plan.clone(),
            others: others_of(subscriptions, own, plan),
        })
        .collect()
}

/// Returns true if a plan installs one of these ClusterServiceVersions or a replacement of one.
fn brings(plan: &InstallPlan, csvs: &BTreeSet<String>) -> bool {
    let status = plan.status.as_ref();
    let lookups = status.into_iter().flat_map(|status| status.bundle_lookups.iter());
    let steps = status.into_iter().flat_map(|status| status.plan.iter());
    let replaced_by_step = |manifest: &Option<String>| {
        let manifest: Value =
            serde_json::from_str(manifest.as_deref().unwrap_or_default()).unwrap_or_default();
        let replaces = manifest["spec"]["replaces"].as_str();
        replaces.is_some_and(|replaces| csvs.contains(replaces))
    };
    plan.spec
        .cluster_service_version_names
        .iter()
        .any(|name| csvs.contains(name))
        || lookups
            .into_iter()
            .any(|lookup| csvs.contains(&lookup.identifier) || csvs.contains(&lookup.replaces))
        || steps
            .into_iter()
            .any(|step| step.resource.kind == OWNER_KIND_CSV && replaced_by_step(&step.resource.manifest))
}
