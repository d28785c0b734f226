//! The status of a Subscription, as one pure function of all its input.
//!
//! There is no reconciler of single Subscriptions. The conditions of a Subscription have four sources: health
//! of the catalogs, its InstallPlan, deprecation, and the resolution of its namespace. Its references only
//! change when the namespace is resolved, and all Subscriptions of a namespace change together.
//!
//! The API server treats the list of conditions as one value, so two writers would overwrite each other.
//! Therefore the [resolution](crate::resolution) reconciler of the namespace is the only writer. It observes
//! all four sources at once, composes the status of each Subscription here, and writes those that changed.
//!
//! So a new Subscription is written at most four times until its operator runs: while its catalog starts,
//! with its InstallPlan, with its ClusterServiceVersion, and when that has succeeded. A ClusterServiceVersion
//! that takes longer than usual adds a write for each cause that it waits for.
//!
//! Rules: `docs/reference/resolution.md`, "Why a Subscription waits".

pub(crate) mod catalog_health;
pub(crate) mod conditions;
pub(crate) mod deprecation;
pub(crate) mod install_plan;
pub(crate) mod readiness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_api::labels;
use olm_api::v1alpha1::{
    ClusterServiceVersion, InstallPlan, InstallPlanPhase, Subscription, SubscriptionState, SubscriptionStatus,
};
use olm_fbc::entry::Deprecation;
use olm_resolver::installed::adopts;
use olm_runtime::condition::stored_time;

use self::catalog_health::CatalogFact;
use self::conditions::condition_true;

/// InstallPlans of a namespace by name.
pub(crate) type Plans = BTreeMap<String, Arc<InstallPlan>>;

/// ClusterServiceVersions of a namespace by name, without copies.
pub(crate) type Csvs = BTreeMap<String, Arc<ClusterServiceVersion>>;

/// State of a Subscription's namespace.
#[derive(Debug, Clone, Default)]
pub struct NamespaceState {
    /// Its InstallPlans.
    pub plans: Plans,
    /// Its ClusterServiceVersions.
    pub csvs: Csvs,
    /// Names of the ClusterServiceVersions that its Subscriptions have.
    pub subscribed: BTreeSet<String>,
    /// Its OperatorGroup allows to upgrade out of failure.
    pub fail_forward: bool,
}

/// Outcome of the namespace's resolution, as all of its Subscriptions show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResolutionOutcome {
    /// Nothing new is known: the conditions do not change.
    #[default]
    Unknown,
    /// Resolved, and nothing is left to do here.
    Resolved,
    /// No set of operators was found.
    ResolutionFailed {
        /// One of the reasons of condition ResolutionFailed.
        reason: &'static str,
        /// Message for users.
        message: String,
    },
    /// Bundles are being fetched.
    Unpacking {
        /// Reason for the wait, if it is worth a report.
        message: String,
    },
    /// A bundle is unavailable, or the plan cannot be created.
    UnpackFailed {
        /// One of the reasons of condition BundleUnpackFailed.
        reason: &'static str,
        /// Message for users.
        message: String,
    },
}

/// A plan that resolution has chosen for a Subscription.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The plan.
    pub plan: Arc<InstallPlan>,
    /// The ClusterServiceVersion that the Subscription gets from it.
    pub csv: String,
}

/// Result of resolution for one Subscription, besides the state of its namespace.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Visible catalogs, in the order of [`catalog_health::sort`].
    pub catalogs: &'a [CatalogFact],
    /// Outcome of resolution.
    pub outcome: &'a ResolutionOutcome,
    /// Deprecations of its package, channel and installed version; `None` when its catalog is unavailable at the moment.
    pub deprecation: Option<&'a Deprecation>,
    /// A new plan for it.
    pub assignment: Option<&'a Assignment>,
}

/// Returns the part of the status that resolution builds on: current references and state.
///
/// A deleted plan is forgotten. The plan that created a generated Subscription is adopted, and so is an
/// installed version that the Subscription asks for. The state follows the existence of the
/// ClusterServiceVersion, not its phase, as users know it.
pub fn settle(subscription: &Subscription, namespace_state: &NamespaceState) -> SubscriptionStatus {
    let mut status = subscription.status.clone().unwrap_or_default();
    let plan = plan_of(&status, namespace_state);
    install_plan::forget_lost(&mut status, plan, &namespace_state.csvs);
    adopt_generated(&mut status, subscription, namespace_state);
    adopt_installed(&mut status, subscription, namespace_state);
    follow_csv(&mut status, namespace_state);
    status
}

/// Returns the complete status.
pub fn compose(
    subscription: &Subscription,
    namespace_state: &NamespaceState,
    facts: &Facts<'_>,
    now: Timestamp,
) -> SubscriptionStatus {
    let mut status = settle(subscription, namespace_state);
    if let Some(Assignment { plan, csv }) = facts.assignment {
        install_plan::refer_to(&mut status, plan);
        status.current_csv = Some(csv.clone());
        status.install_plan_generation = plan.spec.generation;
        status.state = SubscriptionState::UpgradePending;
        follow_csv(&mut status, namespace_state);
    }
    catalog_health::put(&mut status, &subscription.spec, facts.catalogs, now);
    put_outcome(&mut status, facts.outcome, now);
    let plan = plan_of(&status, namespace_state);
    install_plan::put_conditions(&mut status, plan, namespace_state, now);
    if let Some(fact) = facts.deprecation {
        let installed = status.installed_csv.clone().unwrap_or_default();
        let names = [
            subscription.spec.name.as_str(),
            subscription.spec.channel().unwrap_or_default(),
            &installed,
        ];
        deprecation::put(&mut status, fact, names, now);
    }
    readiness::put(
        &mut status,
        &subscription.spec,
        &namespace_state.csvs,
        facts.catalogs,
        now,
    );
    let old = subscription.status.clone().unwrap_or_default();
    if status != old || old.last_updated.is_none() {
        status.last_updated = Some(stored_time(now));
    }
    status
}

/// True when two statuses differ. `lastUpdated` depends on the rest and does not count.
pub fn is_worth_writing(old: Option<&SubscriptionStatus>, new: &SubscriptionStatus) -> bool {
    let Some(old) = old.filter(|old| old.last_updated.is_some()) else {
        return true;
    };
    let comparable = |status: &SubscriptionStatus| SubscriptionStatus {
        last_updated: None,
        ..status.clone()
    };
    comparable(old) != comparable(new)
}

/// Returns the plan that a status refers to, if it exists.
pub(crate) fn plan_of<'a>(
    status: &SubscriptionStatus,
    namespace_state: &'a NamespaceState,
) -> Option<&'a InstallPlan> {
    let plan = namespace_state.plans.get(install_plan::referenced(status)?)?;
    let uid = status.install_plan_ref.as_ref()?.uid.as_ref();
    // A later plan of the same name is another plan.
    (uid.is_none() || uid == plan.metadata.uid.as_ref()).then_some(plan.as_ref())
}

/// A Subscription that a plan brought along is served by that plan. A plan that no longer exists is no plan, and one made
/// later under its name did not bring it: names come back when all that knew of them is gone.
fn adopt_generated(
    status: &mut SubscriptionStatus,
    subscription: &Subscription,
    namespace_state: &NamespaceState,
) {
    if status.install_plan_ref.is_some() || status.install_plan.is_some() {
        return;
    }
    let generated_by = subscription.annotations().get(labels::GENERATED_BY);
    let plan = generated_by.and_then(|name| namespace_state.plans.get(name));
    let Some(plan) = plan.filter(|plan| brings(plan, &subscription.name_any())) else {
        return;
    };
    install_plan::refer_to(status, plan);
    status.current_csv = subscription.spec.starting_csv().map(str::to_owned);
    status.state = pending_state(plan, namespace_state);
}

/// A new Subscription that asks for exactly the version that runs has it, without a plan. If that version was
/// being deleted at the time, the Subscription is new again.
fn adopt_installed(
    status: &mut SubscriptionStatus,
    subscription: &Subscription,
    namespace_state: &NamespaceState,
) {
    let Some(starting) = subscription.spec.starting_csv() else {
        return;
    };
    let csv = namespace_state.csvs.get(starting);
    let has_it = |name: &Option<String>| name.as_deref() == Some(starting);
    let adopted =
        status.install_plan_ref.is_none() && has_it(&status.installed_csv) && has_it(&status.current_csv);
    if adopted && csv.is_none() {
        status.installed_csv = None;
        status.current_csv = None;
        status.state = SubscriptionState::None;
    }
    if csv.is_some_and(|csv| adopts(subscription, status, csv, &namespace_state.subscribed)) {
        status.current_csv = Some(starting.to_owned());
    }
}

/// True when a step of the plan is the Subscription of this name.
fn brings(plan: &InstallPlan, name: &str) -> bool {
    let steps = plan.status.iter().flat_map(|status| &status.plan);
    let mut resources = steps.map(|step| &step.resource);
    resources.any(|resource| resource.kind == "Subscription" && resource.name == name)
}

fn pending_state(plan: &InstallPlan, namespace_state: &NamespaceState) -> SubscriptionState {
    if namespace_state.fail_forward && plan.phase() == InstallPlanPhase::Failed {
        SubscriptionState::UpgradeFailed
    } else {
        SubscriptionState::UpgradePending
    }
}

fn follow_csv(status: &mut SubscriptionStatus, namespace_state: &NamespaceState) {
    let Some(current) = status.current_csv.clone().filter(|name| !name.is_empty()) else {
        return;
    };
    if namespace_state.csvs.contains_key(&current) {
        status.state = SubscriptionState::AtLatestKnown;
        status.installed_csv = Some(current);
    } else {
        let failed = plan_of(status, namespace_state).map(|plan| pending_state(plan, namespace_state));
        status.state = failed.unwrap_or(SubscriptionState::UpgradePending);
    }
}

fn put_outcome(status: &mut SubscriptionStatus, outcome: &ResolutionOutcome, now: Timestamp) {
    let kept = match outcome {
        ResolutionOutcome::Unknown => return,
        ResolutionOutcome::Resolved => None,
        ResolutionOutcome::ResolutionFailed { reason, message } => {
            Some(condition_true(reasons::RESOLUTION_FAILED, reason, message))
        }
        ResolutionOutcome::Unpacking { message } => Some(condition_true(
            reasons::BUNDLE_UNPACKING,
            reasons::UNPACKING_IN_PROGRESS,
            message,
        )),
        ResolutionOutcome::UnpackFailed { reason, message } => {
            Some(condition_true(reasons::BUNDLE_UNPACK_FAILED, reason, message))
        }
    };
    let types = [
        reasons::RESOLUTION_FAILED,
        reasons::BUNDLE_UNPACKING,
        reasons::BUNDLE_UNPACK_FAILED,
    ];
    conditions::replace(&mut status.conditions, &types, Vec::from_iter(kept), now);
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
