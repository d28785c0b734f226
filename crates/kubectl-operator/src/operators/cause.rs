//! Causes in the words that OLM writes into statuses: of a ClusterServiceVersion and of an InstallPlan.

use kube::ResourceExt as _;
use olm_api::condition::requirement;
use olm_api::labels;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase, InstallPlan};

/// Maximum number of requirements named per ClusterServiceVersion.
const MAX_REQUIREMENTS: usize = 5;

/// Returns what a ClusterServiceVersion waits for, or why it failed.
pub(super) fn csv_cause(csv: &ClusterServiceVersion) -> String {
    if let Some(unmet) = unmet(csv) {
        return format!("waiting for {unmet}");
    }
    let message = csv.status.as_ref().and_then(|status| status.message.clone());
    message.unwrap_or_else(|| "waiting for OLM to process it".to_owned())
}

/// Returns the cause when the ClusterServiceVersion that a Subscription installed does not exist.
pub(crate) fn deleted(csv: &str) -> String {
    format!("its ClusterServiceVersion {csv} was deleted, and OLM does not restore it")
}

/// Returns the first [`MAX_REQUIREMENTS`] requirements that are not met; `None` if OLM does not wait for any.
fn unmet(csv: &ClusterServiceVersion) -> Option<String> {
    if *csv.phase() != Phase::Pending {
        return None;
    }
    let met = [
        requirement::PRESENT,
        requirement::SATISFIED,
        requirement::DEPLOYMENT_FOUND,
    ];
    let all = csv
        .status
        .iter()
        .flat_map(|status| status.requirement_status.iter());
    let unmet: Vec<String> = all
        .filter(|found| !met.contains(&found.status.as_str()))
        .filter(|found| !found.message.starts_with(requirement::MISSING_RIGHTS))
        .map(|found| match found.message.as_str() {
            "" => format!("{} {}", found.kind, found.name),
            message => format!("{} {} ({message})", found.kind, found.name),
        })
        .collect();
    let more = unmet.len().saturating_sub(MAX_REQUIREMENTS);
    let named = unmet.get(..MAX_REQUIREMENTS).unwrap_or(&unmet).join("; ");
    match (unmet.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(named),
        (false, more) => Some(format!("{named}; and {more} more")),
    }
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
pub(super) fn plan_cause(plan: &InstallPlan, pending: Option<&str>) -> Option<String> {
    let texts: Vec<&str> = own_message(plan).into_iter().chain(policy(plan)).collect();
    match texts.is_empty() {
        true => pending.map(str::to_owned),
        false => Some(texts.join("; ")),
    }
}
