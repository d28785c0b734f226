//! The state of an operator, derived from the statuses that OLM writes.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt as _;
use olm_api::condition::subscription as condition;
use olm_api::labels;
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase as Phase, InstallPlan, InstallPlanPhase, Subscription,
};
use serde::Serialize;

use super::conditions::{message, message_or_reason, true_conditions};
use super::{Operator, plan_name};
use crate::terminal::Mark;

/// The state of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// It is installed, and no newer version is pending.
    Ready,
    /// It is installed, and its Subscription limits the versions that OLM may install.
    Held,
    /// Its first version is being installed.
    Installing,
    /// A newer version is being installed.
    Upgrading,
    /// An InstallPlan requires approval.
    RequiresApproval,
    /// OLM has not processed it yet.
    Pending,
    /// The resolution found no solution.
    Unresolved,
    /// A step failed.
    Failed,
}

impl State {
    /// Returns the state as text.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Held => "Held",
            Self::Installing => "Installing",
            Self::Upgrading => "Upgrading",
            Self::RequiresApproval => "RequiresApproval",
            Self::Pending => "Pending",
            Self::Unresolved => "Unresolved",
            Self::Failed => "Failed",
        }
    }

    /// Returns the mark of the state.
    pub(crate) fn mark(self) -> Mark {
        match self {
            Self::Ready | Self::Held => Mark::Fine,
            Self::Installing | Self::Upgrading | Self::RequiresApproval | Self::Pending => Mark::Waits,
            Self::Unresolved | Self::Failed => Mark::Bad,
        }
    }
}

/// A state and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub state: State,
    /// The pending step or the failure; for a ready operator, its hold and its deprecation.
    pub message: String,
}

impl Verdict {
    fn new(state: State, message: impl Into<String>) -> Self {
        Self {
            state,
            message: message.into(),
        }
    }
}

impl Operator<'_> {
    /// Returns the state. Failures take precedence over pending changes.
    pub(crate) fn verdict(&self) -> Verdict {
        let on_its_way = match self.former().is_some() || self.has_plan_for_another() {
            true => State::Upgrading,
            false => State::Installing,
        };
        if let Some(subscription) = self.subscription {
            let of_subscription = failure(subscription, self.current)
                .or_else(|| {
                    let pending = message(subscription, condition::INSTALL_PLAN_PENDING);
                    self.plan.and_then(|plan| of_plan(plan, pending, on_its_way))
                })
                .or_else(|| waiting(subscription, self.current, on_its_way));
            if let Some(verdict) = of_subscription {
                return verdict;
            }
        }
        let Some(csv) = self.current else {
            return Verdict::new(State::Pending, "waiting for OLM to process it");
        };
        let name = csv.name_any();
        let message = csv.status.as_ref().and_then(|status| status.message.as_deref());
        let message = format!(
            "ClusterServiceVersion {name}: {}",
            message.unwrap_or("waiting for OLM to process it")
        );
        let is_installed = self
            .installed
            .is_some_and(|installed| installed.name_any() == name);
        match csv.phase() {
            Phase::Failed => Verdict::new(State::Failed, message),
            Phase::Succeeded if is_installed => match self.hold() {
                Some(range) => {
                    let texts = [format!("held within {range}"), self.deprecation()];
                    let texts = texts.into_iter().filter(|text| !text.is_empty());
                    Verdict::new(State::Held, texts.collect::<Vec<String>>().join("; "))
                }
                None => Verdict::new(State::Ready, self.deprecation()),
            },
            Phase::Succeeded => Verdict::new(
                on_its_way,
                format!(
                    "ClusterServiceVersion {name} has succeeded; OLM has not yet recorded it as installed"
                ),
            ),
            _ => Verdict::new(on_its_way, message),
        }
    }

    /// Returns the range of versions that OLM may install, as the Subscription states it.
    fn hold(&self) -> Option<&str> {
        let annotations = self.subscription?.annotations();
        annotations.get(labels::UPGRADE_HOLD).map(String::as_str)
    }

    /// Returns true if its plan installs another version than the installed one, which a partly completed plan installed itself.
    fn has_plan_for_another(&self) -> bool {
        let plan = self.plan.map(|plan| &plan.spec.cluster_service_version_names);
        self.installed
            .zip(plan)
            .is_some_and(|(installed, names)| !names.contains(&installed.name_any()))
    }

    /// Returns the catalog problem due to which newer versions are unknown.
    pub(crate) fn unhealthy_catalog(&self) -> Option<String> {
        let subscription = self.subscription?;
        let spec = &subscription.spec;
        if let Some(text) = message_or_reason(subscription, condition::CATALOG_SOURCES_UNHEALTHY) {
            return Some(text.to_owned());
        }
        let health = subscription.status.iter();
        let mut health = health.flat_map(|status| status.catalog_health.iter());
        let is_own = |reference: &ObjectReference| {
            reference.name.as_ref() == Some(&spec.source)
                && reference.namespace.as_ref() == Some(&spec.source_namespace)
        };
        health
            .any(|catalog| !catalog.healthy && is_own(&catalog.catalog_source_ref))
            .then(|| {
                format!(
                    "catalog {}/{} does not answer",
                    spec.source_namespace, spec.source
                )
            })
    }

    /// Returns the deprecation messages of the catalog.
    fn deprecation(&self) -> String {
        let conditions = self.subscription.into_iter().flat_map(true_conditions);
        let about = [
            condition::PACKAGE_DEPRECATED,
            condition::CHANNEL_DEPRECATED,
            condition::BUNDLE_DEPRECATED,
        ];
        let texts: Vec<&str> = conditions
            .filter(|condition| about.contains(&condition.type_.as_str()))
            .map(|condition| condition.message.as_deref().unwrap_or(&condition.type_))
            .collect();
        match texts.is_empty() {
            true => String::new(),
            false => format!("deprecated: {}", texts.join("; ")),
        }
    }
}

/// Returns the failure that OLM reports. For a failed ClusterServiceVersion, its own message has more details than the
/// Subscription's.
fn failure(subscription: &Subscription, current: Option<&ClusterServiceVersion>) -> Option<Verdict> {
    let csv_failed = current.is_some_and(|csv| *csv.phase() == Phase::Failed);
    for (type_, state) in [
        (condition::BUNDLE_UNPACK_FAILED, State::Failed),
        (condition::RESOLUTION_FAILED, State::Unresolved),
        (condition::INSTALL_PLAN_FAILED, State::Failed),
    ] {
        if csv_failed && type_ == condition::INSTALL_PLAN_FAILED {
            continue;
        }
        if let Some(text) = message_or_reason(subscription, type_) {
            return Some(Verdict::new(state, text));
        }
    }
    None
}

/// Returns the message of an InstallPlan's status; `None` if it is empty.
pub(super) fn own_message(plan: &InstallPlan) -> Option<&str> {
    let message = plan.status.as_ref()?.message.as_deref();
    message.filter(|message| !message.is_empty())
}

/// Returns the upgrade policy that delays an InstallPlan.
pub(super) fn policy(plan: &InstallPlan) -> Option<&str> {
    let text = plan.annotations().get(labels::UPGRADE_WAITS)?;
    plan.waits_for_approval().then_some(text.as_str())
}

/// Returns the reason why an InstallPlan waits: its message and its policy. Without them it is `pending`, the message of the
/// Subscription's condition.
pub(super) fn cause(plan: &InstallPlan, pending: Option<&str>) -> Option<String> {
    let texts: Vec<&str> = own_message(plan).into_iter().chain(policy(plan)).collect();
    match texts.is_empty() {
        true => pending.map(str::to_owned),
        false => Some(texts.join("; ")),
    }
}

/// Returns the state of an InstallPlan; `None` if it is complete. `pending` is the message of the Subscription's condition.
fn of_plan(plan: &InstallPlan, pending: Option<&str>, on_its_way: State) -> Option<Verdict> {
    let name = plan.name_any();
    match plan.phase() {
        InstallPlanPhase::Complete => None,
        InstallPlanPhase::Failed => {
            let message = own_message(plan).unwrap_or("no reason given");
            Some(Verdict::new(
                State::Failed,
                format!("InstallPlan {name}: {message}"),
            ))
        }
        InstallPlanPhase::RequiresApproval if !plan.spec.approved => {
            let text = match (policy(plan), cause(plan, pending)) {
                (Some(_), Some(cause)) => format!("InstallPlan {name}: {cause}"),
                (None, Some(cause)) => format!("waiting for approval of InstallPlan {name}: {cause}"),
                (_, None) => format!("waiting for approval of InstallPlan {name}"),
            };
            Some(Verdict::new(State::RequiresApproval, text))
        }
        _ => {
            let text = cause(plan, pending).map_or_else(
                || format!("waiting for InstallPlan {name} to complete"),
                |cause| format!("InstallPlan {name}: {cause}"),
            );
            Some(Verdict::new(on_its_way, text))
        }
    }
}

/// Returns what a Subscription waits for if its current ClusterServiceVersion does not exist yet.
fn waiting(
    subscription: &Subscription,
    current: Option<&ClusterServiceVersion>,
    on_its_way: State,
) -> Option<Verdict> {
    if current.is_some() {
        return None;
    }
    let status = subscription.status.as_ref();
    if let Some(name) = status.and_then(|status| status.current_csv.as_deref()) {
        let text = format!("waiting for ClusterServiceVersion {name} to be created");
        return Some(Verdict::new(on_its_way, text));
    }
    let types = [
        condition::BUNDLE_UNPACKING,
        condition::CATALOG_SOURCES_UNHEALTHY,
        condition::INSTALL_PLAN_MISSING,
        condition::INSTALL_PLAN_PENDING,
    ];
    for type_ in types {
        if let Some(text) = message_or_reason(subscription, type_) {
            return Some(Verdict::new(State::Pending, text));
        }
    }
    let text = match status.and_then(plan_name) {
        Some(plan) => format!("waiting for InstallPlan {plan}"),
        None => "waiting for OLM to resolve it".to_owned(),
    };
    Some(Verdict::new(State::Pending, text))
}
