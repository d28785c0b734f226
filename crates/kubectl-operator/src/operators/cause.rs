//! Causes in words: what an InstallPlan waits for or why it failed, and in which OperatorGroup an operator cannot run. Other causes
//! of ClusterServiceVersions are in `olm_api::cause`. And the conditions of a Subscription.

use kube::ResourceExt as _;
use olm_api::condition::csv::{
    INTER_OPERATOR_GROUP_OWNER_CONFLICT, NO_OPERATOR_GROUP, TOO_MANY_OPERATOR_GROUPS,
    UNSUPPORTED_OPERATOR_GROUP,
};
use olm_api::condition::{TRUE, install_plan, requirement, subscription as condition};
use olm_api::labels;
use olm_api::names::is_dns1123_subdomain;
use olm_api::v1alpha1::{
    Approval, ClusterServiceVersion, InstallModeType, InstallPlan, InstallPlanPhase, Subscription,
    SubscriptionCondition,
};

use super::way_out::WayOut;
use crate::preview::{name, of_plan};
use crate::terminal::plain;

/// Who approves an InstallPlan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approver {
    /// A user.
    User,
    /// The upgrade policy of its Subscriptions, unless a user does so before.
    Policy,
}

/// Returns the cause of an InstallPlan: the message of its status, its bundles that are being unpacked, and the upgrade policy that
/// delays it; without them the message of the Subscription's condition. At its end is what OLM will not change. `None` if the plan is
/// complete. Also returns who approves it, if it needs an approval.
pub(super) fn plan_cause(
    plan: &InstallPlan,
    subscription: &Subscription,
) -> Option<(String, Option<Approver>)> {
    let phase = plan.phase();
    let policy = plan.annotations().get(labels::UPGRADE_WAITS);
    let policy = policy.filter(|_| plan.waits_for_approval());
    let (type_, approval) = match phase {
        InstallPlanPhase::Complete => return None,
        InstallPlanPhase::Failed => (condition::INSTALL_PLAN_FAILED, None),
        InstallPlanPhase::RequiresApproval if !plan.spec.approved => {
            let approver = policy.map_or(Approver::User, |_| Approver::Policy);
            (condition::INSTALL_PLAN_PENDING, Some(approver))
        }
        _ => (condition::INSTALL_PLAN_PENDING, None),
    };
    let status = plan.status.as_ref();
    let own = status.and_then(|status| status.message.clone());
    let own = own.filter(|message| !message.is_empty());
    let mut parts: Vec<String> = own.into_iter().chain(open_bundles(plan)).collect();
    parts.extend(policy.cloned());
    if parts.is_empty() {
        parts.extend(message(subscription, type_).map(str::to_owned));
    }
    let rest = match approval {
        Some(Approver::User) if is_manual_otherwise(plan, subscription) => Some(
            "waiting for approval, because a Subscription of the namespace is Manual, or was when the plan was made",
        ),
        Some(Approver::User) => Some("waiting for approval"),
        _ if !parts.is_empty() => None,
        _ if phase == InstallPlanPhase::Failed => Some("its status names no cause"),
        _ => Some("waiting for OLM to create its objects"),
    };
    parts.extend(rest.map(str::to_owned));
    parts.extend(refused_change(plan));
    Some((parts.join("; "), approval))
}

/// Returns what OLM found when it created a plan that waits for approval: it will not change a CustomResourceDefinition.
pub(super) fn refused_change(plan: &InstallPlan) -> Option<String> {
    let preview = of_plan(plan).filter(|_| plan.waits_for_approval())?;
    let mut definitions = preview.definitions.iter();
    let definition = definitions.find(|definition| !definition.refused.is_empty())?;
    Some(format!(
        "OLM will not change CustomResourceDefinition {}: {}",
        name(&definition.name),
        plain(&definition.refused)
    ))
}

/// Returns true if the plan is Manual although its Subscription is `Automatic`. One `Manual` Subscription makes the plans of all
/// Subscriptions of its namespace Manual, and a plan stays so after its Subscription became `Automatic`.
fn is_manual_otherwise(plan: &InstallPlan, subscription: &Subscription) -> bool {
    let is_automatic = subscription.spec.install_plan_approval == Some(Approval::Automatic);
    is_automatic && plan.spec.approval == Approval::Manual
}

/// Change that helps if OperatorGroups with a common namespace provide the same API.
pub(crate) const PART_GROUPS: &str =
    "change the targets of a group so that the groups have no namespace in common";

/// Returns the conflict of a ClusterServiceVersion with its OperatorGroup in words, and the way out, if that is why it failed. The
/// message of the status does not name the group.
pub(super) fn unsuited_group(csv: &ClusterServiceVersion) -> Option<(String, WayOut)> {
    let reason = csv.status.as_ref()?.reason.as_deref()?;
    let name = csv.annotations().get(labels::OPERATOR_GROUP)?.clone();
    if name.is_empty() {
        return None;
    }
    let (text, change) = match reason {
        UNSUPPORTED_OPERATOR_GROUP => {
            let modes = csv.spec.install_modes.iter().filter(|mode| mode.supported);
            let modes: Vec<&InstallModeType> = modes.map(|mode| &mode.type_).collect();
            let names: Vec<&str> = modes.iter().map(|mode| mode.as_str()).collect();
            let supported = match names.is_empty() {
                true => "no install mode".to_owned(),
                false => names.join(", "),
            };
            let text = format!("OperatorGroup {name} does not suit it, as it supports {supported}");
            let namespace = csv.namespace().unwrap_or_default();
            let change = if modes.contains(&&InstallModeType::OwnNamespace) {
                format!("set spec.targetNamespaces of the group to [{namespace}]")
            } else if modes.contains(&&InstallModeType::AllNamespaces) {
                "remove spec.targetNamespaces and spec.selector of the group, which then selects all namespaces"
                    .to_owned()
            } else {
                format!("set spec.targetNamespaces of the group to a namespace other than {namespace}")
            };
            (
                text,
                format!("install the operator in another namespace, or {change}"),
            )
        }
        INTER_OPERATOR_GROUP_OWNER_CONFLICT => (
            format!("OperatorGroup {name} of this one has namespaces in common with it"),
            format!("uninstall one of the two operators, or {PART_GROUPS}"),
        ),
        _ => return None,
    };
    Some((text, WayOut::ChangeGroup { name, change }))
}

/// Returns the text of a plan that waits for approval if OLM found, when it created the plan, that the OperatorGroup does not suit an
/// operator.
pub(crate) fn stated_misfit(plan: &InstallPlan) -> Option<&str> {
    let message = plan.status.as_ref()?.message.as_deref()?;
    let is_misfit = message.contains(&format!("will fail with {UNSUPPORTED_OPERATOR_GROUP}"));
    (is_misfit && plan.waits_for_approval()).then_some(message)
}

/// Returns the error after which OLM carries out a plan again; `None` if there was none.
pub(crate) fn retry_error(plan: &InstallPlan) -> Option<&str> {
    let status = plan.status.as_ref()?;
    let message = status.message.as_deref().filter(|_| !plan.is_over())?;
    message.strip_prefix(install_plan::RETRYING)
}

/// Returns the way out of a cause that the status of a ClusterServiceVersion names and that is in the user's hands: its namespace has
/// no OperatorGroup or several, or a ResourceQuota is used up.
pub(super) fn way_out_of(csv: &ClusterServiceVersion) -> Option<WayOut> {
    let status = csv.status.as_ref()?;
    match status.reason.as_deref() {
        Some(NO_OPERATOR_GROUP) => return Some(WayOut::CreateGroup),
        Some(TOO_MANY_OPERATOR_GROUPS) => return Some(WayOut::KeepOneGroup),
        _ => {}
    }
    quota_in(status.message.as_deref()?)
}

/// Returns the ResourceQuota that is used up as the way out, if this message names one.
pub(super) fn quota_in(message: &str) -> Option<WayOut> {
    // The API server names it: `exceeded quota: NAME, requested: …`.
    let (_, rest) = message.split_once("exceeded quota: ")?;
    let (quota, _) = rest.split_once(',')?;
    // A user may have written the status.
    is_dns1123_subdomain(quota).then(|| WayOut::RaiseQuota(quota.to_owned()))
}

/// Returns true if a ClusterServiceVersion waits for a CustomResourceDefinition of its own operator that does not exist.
pub(super) fn lacks_own_definition(csv: &ClusterServiceVersion) -> bool {
    let rows = csv.status.iter();
    let mut rows = rows.flat_map(|status| status.requirement_status.iter());
    rows.any(|row| {
        row.kind == "CustomResourceDefinition"
            && row.status == requirement::NOT_PRESENT
            && csv.spec.owns_crd(&row.name)
    })
}

/// Returns why the bundle of the next version of a Subscription cannot be unpacked, or is not unpacked yet.
pub(crate) fn next_unread(subscription: &Subscription) -> Option<&str> {
    let types = [condition::BUNDLE_UNPACK_FAILED, condition::BUNDLE_UNPACKING];
    types.into_iter().find_map(|type_| message(subscription, type_))
}

/// Returns the bundles of an InstallPlan that are not unpacked yet, each with its cause.
fn open_bundles(plan: &InstallPlan) -> impl Iterator<Item = String> {
    let lookups = plan.status.iter().flat_map(|status| status.bundle_lookups.iter());
    lookups.flat_map(|lookup| {
        let conditions = lookup.conditions.iter();
        let open = conditions.filter(|found| found.status == TRUE);
        open.map(move |found| {
            let text = found.message.as_deref().or(found.reason.as_deref());
            format!("bundle {}: {}", lookup.identifier, text.unwrap_or(&found.type_))
        })
    })
}

/// Returns the conditions that are true.
pub(super) fn true_conditions(subscription: &Subscription) -> impl Iterator<Item = &SubscriptionCondition> {
    let status = subscription.status.iter();
    let conditions = status.flat_map(|status| status.conditions.iter());
    conditions.filter(|found| found.status == TRUE)
}

/// Returns the message of a condition that is true; if it has none, a text for its type, else its reason or type.
pub(crate) fn message_or_reason<'a>(subscription: &'a Subscription, type_: &str) -> Option<&'a str> {
    let found = true_conditions(subscription).find(|found| found.type_ == type_)?;
    let text = message(subscription, type_).or_else(|| default_text(type_));
    Some(text.or(found.reason.as_deref()).unwrap_or(&found.type_))
}

/// Returns the text for a condition that OLM writes without a message, as upstream does.
fn default_text(type_: &str) -> Option<&'static str> {
    match type_ {
        condition::INSTALL_PLAN_MISSING => {
            Some("the InstallPlan that status.installPlanRef names does not exist")
        }
        condition::BUNDLE_UNPACKING => Some("waiting for OLM to unpack the bundle"),
        _ => None,
    }
}

/// Returns the message of a condition that is true; `None` if it is empty.
pub(super) fn message<'a>(subscription: &'a Subscription, type_: &str) -> Option<&'a str> {
    let found = true_conditions(subscription).find(|found| found.type_ == type_)?;
    found.message.as_deref().filter(|message| !message.is_empty())
}

/// Returns the problem of the catalog that a Subscription names. The condition about catalogs has upstream's text; `Ready` repeats it
/// and appends the cause.
pub(super) fn catalog_problem(subscription: &Subscription) -> Option<&str> {
    let text = message_or_reason(subscription, condition::CATALOG_SOURCES_UNHEALTHY)?;
    let status = subscription.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter());
    let ready = conditions.find(|found| found.type_ == condition::READY);
    let with_cause = ready.and_then(|ready| ready.message.as_deref());
    Some(with_cause.filter(|found| found.starts_with(text)).unwrap_or(text))
}
