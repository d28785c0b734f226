//! Which plan that was made before is taken for what is wanted now. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::{Approval, InstallPlan, InstallPlanPhase, InstallPlanStatus, Subscription};

use super::super::observed::Observed;
use super::super::plan_object::{
    GENERATE_NAME, Terms, WantedPlan, counted, has_our_name, is_made_here, is_owned_by,
};

/// What is to be told of a plan that waits for something else than it was made to. Whoever changes it on its way in has the last word,
/// but it is not what Subscriptions say. `rewritten` are the terms that plans were asked for with.
pub(super) fn rewriting(plan: &InstallPlan, rewritten: &BTreeMap<String, Terms>) -> Option<String> {
    let asked = rewritten.get(&plan.uid()?)?.meaning();
    let found = Terms::of(plan).meaning();
    (asked != found).then(|| {
        format!(
            "InstallPlan {} was created to {asked}, but a webhook changed it to {found}",
            plan.name_any()
        )
    })
}

/// The plan with the status it has or is about to have; of one that it is about to have, what Subscriptions tell of it.
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

/// A plan made for this very answer that the Subscriptions do not refer to yet, because the process ended in between.
///
/// It must be owned by every Subscription that moves on, be newer than what each of them had, hold what is wanted, and not
/// have failed. One without status must hold nothing else: its status is yet to be written from what is wanted now.
pub(super) fn find_adoptable<'a>(
    observed: &'a Observed,
    wanted: &WantedPlan,
    moved: &[&Arc<Subscription>],
    rewritten: &BTreeMap<String, Terms>,
) -> Option<&'a Arc<InstallPlan>> {
    let would_be_rewritten = |plan: &InstallPlan| {
        let asked = plan.uid().and_then(|uid| rewritten.get(&uid));
        asked.is_some_and(|asked| *asked == wanted.terms())
    };
    let fits = |plan: &&Arc<InstallPlan>| {
        let names = &plan.spec.cluster_service_version_names;
        let content = match plan.phase() {
            InstallPlanPhase::None => {
                *names == wanted.csv_names
                    && is_unadopted(plan, observed)
                    && (waits_alike(plan, wanted) || would_be_rewritten(plan))
            }
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

/// A plan made for this very answer that lost its owners on its way in, as a webhook has it. No Subscription is its owner, so none moves on
/// to it, and another one would be stored like it. One that has not even the generated name it was asked for with is none: so tools leave
/// it that bring objects back from a backup, and the next one is stored as it is made.
pub(super) fn find_ownerless<'a>(
    observed: &'a Observed,
    wanted: &WantedPlan,
) -> Option<&'a Arc<InstallPlan>> {
    let is_ownerless = |plan: &&Arc<InstallPlan>| {
        let mut owners = plan.owner_references().iter();
        plan.phase() == InstallPlanPhase::None
            && plan.metadata.deletion_timestamp.is_none()
            && has_our_name(plan)
            && plan.metadata.generate_name.as_deref() == Some(GENERATE_NAME)
            && plan.spec.cluster_service_version_names == wanted.csv_names
            && !owners.any(|owner| owner.kind == "Subscription")
    };
    observed.plans().find(is_ownerless)
}

/// Whether a plan that was just made waits for what it would now: a policy may have come, or a window closed. A user who was
/// quick to approve it has the last word, and so has whoever had it wait on its way in.
fn waits_alike(plan: &InstallPlan, wanted: &WantedPlan) -> bool {
    let is_approved = plan.spec.approved;
    let mark = plan.annotations().get(labels::UPGRADE_WAITS);
    // None is made with a mark and approved.
    let by_user = is_approved && (plan.spec.approval == Approval::Manual || mark.is_some());
    // What loses its mark on its way in waits for a user, whatever else it would wait for.
    let for_user = !is_approved && mark.is_none();
    let is_careful = !is_approved || !wanted.manual;
    by_user || for_user || (is_careful && mark == wanted.waits_by_policy.as_ref())
}

/// Made here, by its name and its owners, and without a status.
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
    let had = subscription
        .status
        .as_ref()
        .and_then(|status| counted(status.install_plan_generation))
        .unwrap_or(0);
    counted(plan.spec.generation).is_some_and(|generation| generation > had)
}
