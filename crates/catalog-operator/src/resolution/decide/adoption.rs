//! Decides which existing plan is used for what is wanted now. No I/O.
//!
//! A plan is adopted if the Subscriptions that move own it, it is newer than those they refer to, and it installs what is
//! wanted. One without status must also have been made here. Whether it waits does not matter: a user or a webhook may have
//! changed its approval, and the status follows that.

use std::sync::Arc;

use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, InstallPlanStatus, Subscription};

use super::super::observed::Observed;
use super::super::plan_object::{WantedPlan, is_made_here, is_owned_by};
use crate::install_plan::adoption::generation;

/// Returns the plan with the status that it has or is about to get, without its steps: Subscriptions do not mention them.
pub(super) fn adopted(found: Arc<InstallPlan>, wanted: &WantedPlan) -> Arc<InstallPlan> {
    if found.phase() != InstallPlanPhase::None {
        return found;
    }
    let status = InstallPlanStatus {
        plan: Vec::new().into(),
        ..wanted.status(found.spec.approved)
    };
    Arc::new(InstallPlan {
        status: Some(status),
        ..InstallPlan::clone(&found)
    })
}

/// Returns the plan for what is wanted that its Subscriptions do not refer to yet.
///
/// It must be owned by every Subscription that moves on, be newer than what each of them had, hold what is wanted, and not
/// have failed. One without status must hold nothing else: its status is yet to be written from what is wanted now.
pub(super) fn find_adoptable<'a>(
    observed: &'a Observed,
    wanted: &WantedPlan,
    moved: &[&Arc<Subscription>],
) -> Option<&'a Arc<InstallPlan>> {
    let fits = |plan: &&Arc<InstallPlan>| {
        let names = &plan.spec.cluster_service_version_names;
        let content = match plan.phase() {
            InstallPlanPhase::None => *names == wanted.csv_names && is_unadopted(plan, observed),
            InstallPlanPhase::Failed => false,
            _ => wanted.csv_names.iter().all(|name| names.contains(name)),
        };
        content
            && moved
                .iter()
                .all(|subscription| is_owned_by(plan, subscription) && is_newer(plan, subscription))
    };
    observed
        .plans()
        .filter(fits)
        .max_by_key(|plan| plan.spec.generation)
}

/// True for a plan without status that was made here, by its name and its owners.
pub(super) fn is_unadopted(plan: &InstallPlan, observed: &Observed) -> bool {
    plan.phase() == InstallPlanPhase::None
        && plan
            .status
            .as_ref()
            .is_none_or(|status| status.plan.is_empty() && status.bundle_lookups.is_empty())
        && is_made_here(plan)
        && observed
            .subscriptions
            .iter()
            .any(|subscription| is_owned_by(plan, subscription))
}

fn is_newer(plan: &InstallPlan, subscription: &Subscription) -> bool {
    let had = generation(subscription);
    plan.spec.generation.is_some_and(|generation| generation > had)
}
