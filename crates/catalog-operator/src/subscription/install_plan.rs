//! The part of a Subscription's status about its InstallPlan (`docs/reference/resolution.md`).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use olm_api::cause::{csv_cause, csv_text};
use olm_api::condition::{FALSE, bundle_lookup, install_plan as plan_reasons, subscription as reasons};
use olm_api::labels;
use olm_api::v1alpha1::{
    API_VERSION, ClusterServiceVersion, ClusterServiceVersionPhase, InstallPlan, InstallPlanCondition,
    InstallPlanPhase, InstallPlanReference, SubscriptionCondition, SubscriptionState, SubscriptionStatus,
};

use super::conditions::{self, condition_true};
use super::{Csvs, NamespaceState};

/// Time that a ClusterServiceVersion usually stays in a phase at most. The cause of a longer wait is repeated in
/// the Subscription; a shorter wait is not worth a write.
const CSV_PATIENCE: Duration = Duration::from_secs(15);

/// Returns the name of the plan that the status refers to.
pub(crate) fn referenced(status: &SubscriptionStatus) -> Option<&str> {
    status.install_plan_ref.as_ref()?.name.as_deref()
}

/// Makes the status refer to `plan`, in both fields.
pub(crate) fn refer_to(status: &mut SubscriptionStatus, plan: &InstallPlan) {
    let (name, uid) = (plan.name_any(), plan.uid().unwrap_or_default());
    let known = status
        .install_plan_ref
        .as_ref()
        .and_then(|reference| reference.uid.as_deref());
    // The reference keeps the resourceVersion of its creation.
    if known == Some(uid.as_str()) && status.install_plan.is_some() {
        return;
    }
    status.install_plan_ref = Some(ObjectReference {
        resource_version: plan.resource_version(),
        ..plan.object_ref(&())
    });
    status.install_plan = Some(InstallPlanReference {
        api_version: API_VERSION.to_owned(),
        kind: "InstallPlan".to_owned(),
        name,
        uuid: uid,
        ..InstallPlanReference::default()
    });
}

/// Forgets a plan that was deleted during its execution, so that another one is created.
///
/// Upstream computes this but only writes it if a condition changed as well; otherwise the namespace is
/// stuck. The installed version becomes current again, if it exists, because nothing newer may be wanted.
pub(crate) fn forget_lost(status: &mut SubscriptionStatus, plan: Option<&InstallPlan>, csvs: &Csvs) {
    let lost = status.install_plan_ref.is_some() && plan.is_none();
    if lost && status.state == SubscriptionState::UpgradePending {
        status.install_plan_ref = None;
        status.install_plan = None;
        let installed = status.installed_csv.clone();
        status.current_csv = installed.filter(|csv| csvs.contains_key(csv));
        status.state = SubscriptionState::None;
    }
}

/// Sets the conditions for the plan and the installed version, and removes the others of the three.
///
/// Upstream only reports the plan. Argo CD only reads these conditions and the state. So a Subscription
/// counted as healthy there while its ClusterServiceVersion was still being installed, or had failed.
pub(crate) fn put_conditions(
    status: &mut SubscriptionStatus,
    plan: Option<&InstallPlan>,
    namespace_state: &NamespaceState,
    now: Timestamp,
) {
    let of_plan = match (status.install_plan_ref.is_some(), plan) {
        (false, _) => None,
        (true, None) => Some(condition_true(
            reasons::INSTALL_PLAN_MISSING,
            reasons::REFERENCED_INSTALL_PLAN_NOT_FOUND,
            "",
        )),
        (true, Some(plan)) => condition(plan),
    };
    let is_held = plan.is_some_and(|plan| plan.phase() == InstallPlanPhase::RequiresApproval);
    let of_csv = condition_of_csv(status, is_held, namespace_state, now);
    let wanted: Vec<SubscriptionCondition> = match (of_plan, of_csv) {
        // Of one type, the plan's own says more if it has a message. Without one the end of the plan changes nothing here.
        (Some(of_plan), Some(of_csv)) if of_plan.type_ == of_csv.type_ => {
            let is_silent = of_plan.message.is_none() && of_plan.reason == of_csv.reason;
            vec![if is_silent { of_csv } else { of_plan }]
        }
        (of_plan, of_csv) => of_plan.into_iter().chain(of_csv).collect(),
    };
    let types = [
        reasons::INSTALL_PLAN_MISSING,
        reasons::INSTALL_PLAN_PENDING,
        reasons::INSTALL_PLAN_FAILED,
    ];
    conditions::replace(&mut status.conditions, &types, wanted, now);
}

/// Returns the delay until the cause of the installed ClusterServiceVersion's wait is reported. `None` if it is
/// reported already, or if there is none.
pub(crate) fn cause_delay(
    status: &SubscriptionStatus,
    namespace_state: &NamespaceState,
    now: Timestamp,
) -> Option<Duration> {
    let csv = namespace_state.csvs.get(status.installed_csv.as_deref()?)?;
    csv_cause(csv)?;
    patience_left(csv, now)
}

/// Returns how much longer the cause of a ClusterServiceVersion is not reported; `None` when it is due, as that
/// of a failure is at once.
fn patience_left(csv: &ClusterServiceVersion, now: Timestamp) -> Option<Duration> {
    if *csv.phase() == ClusterServiceVersionPhase::Failed {
        return None;
    }
    let since = csv.status.as_ref()?.last_transition_time.as_ref()?;
    // A time in the future means that a clock is wrong, and is not waited for.
    let waited = Duration::try_from(now.duration_since(since.0)).unwrap_or(CSV_PATIENCE);
    CSV_PATIENCE.checked_sub(waited).filter(|left| !left.is_zero())
}

/// Returns the condition for the installed ClusterServiceVersion, unless a plan is replacing it: `None` once
/// it has succeeded. It names the cause of a failure, and of a wait that lasts.
fn condition_of_csv(
    status: &SubscriptionStatus,
    is_held: bool,
    namespace_state: &NamespaceState,
    now: Timestamp,
) -> Option<SubscriptionCondition> {
    if status.state != SubscriptionState::AtLatestKnown && !is_held {
        return None;
    }
    let name = status.installed_csv.as_deref()?;
    let csv = namespace_state.csvs.get(name)?;
    match csv.phase() {
        ClusterServiceVersionPhase::Succeeded => None,
        ClusterServiceVersionPhase::Failed => Some(condition_true(
            reasons::INSTALL_PLAN_FAILED,
            plan_reasons::INSTALL_COMPONENT_FAILED,
            &csv_text(csv),
        )),
        _ => {
            let text = match csv_cause(csv).filter(|_| patience_left(csv, now).is_none()) {
                Some(_) => csv_text(csv),
                None => format!("waiting for ClusterServiceVersion {name} to succeed"),
            };
            Some(pending(InstallPlanPhase::Installing.as_str(), &text))
        }
    }
}

/// Returns the condition for the plan. A reason that blocks the execution of the plan is reported before the
/// policy for which it waits.
fn condition(plan: &InstallPlan) -> Option<SubscriptionCondition> {
    let installed = installed_condition(plan);
    let phase = plan.phase();
    Some(match &phase {
        InstallPlanPhase::Complete => return None,
        InstallPlanPhase::Failed => {
            let failed = installed.filter(|condition| condition.status.as_deref() == Some(FALSE));
            let reason = failed
                .and_then(|condition| condition.reason.as_deref())
                .filter(|reason| !reason.is_empty());
            let message = failed
                .and_then(|condition| condition.message.as_deref())
                .unwrap_or_default();
            let reason = reason.unwrap_or(reasons::REASON_INSTALL_PLAN_FAILED);
            condition_true(reasons::INSTALL_PLAN_FAILED, reason, message)
        }
        InstallPlanPhase::None => pending(reasons::INSTALL_PLAN_NOT_YET_RECONCILED, &extract_message(plan)),
        InstallPlanPhase::RequiresApproval => {
            let policy = plan.annotations().get(labels::UPGRADE_WAITS);
            let policy = policy.filter(|_| !plan.spec.approved);
            let texts = [extract_message(plan), policy.cloned().unwrap_or_default()];
            let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            pending(phase.as_str(), &texts.join("; "))
        }
        phase => pending(phase.as_str(), &extract_message(plan)),
    })
}

fn pending(reason: &str, message: &str) -> SubscriptionCondition {
    condition_true(reasons::INSTALL_PLAN_PENDING, reason, message)
}

fn installed_condition(plan: &InstallPlan) -> Option<&InstallPlanCondition> {
    let conditions = plan.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .find(|condition| condition.type_.as_deref() == Some(plan_reasons::INSTALLED))
}

/// Returns the reason of the plan's wait: the message of its Installed condition, its own, or those of its
/// pending bundles.
fn extract_message(plan: &InstallPlan) -> String {
    let installed = installed_condition(plan).and_then(|condition| condition.message.clone());
    let own = || plan.status.as_ref().and_then(|status| status.message.clone());
    let filled = |message: &String| !message.is_empty();
    installed
        .filter(filled)
        .or_else(|| own().filter(filled))
        .unwrap_or_else(|| pending_bundles(plan))
}

fn pending_bundles(plan: &InstallPlan) -> String {
    let lookups = plan.status.iter().flat_map(|status| &status.bundle_lookups);
    let pending = lookups
        .flat_map(|lookup| &lookup.conditions)
        .filter(|condition| condition.type_ == bundle_lookup::PENDING);
    let messages = pending
        .filter_map(|condition| condition.message.as_deref())
        .filter(|message| !message.is_empty());
    let sentences: Vec<String> = messages.map(|message| format!("{message}.")).collect();
    sentences.join(" ")
}
