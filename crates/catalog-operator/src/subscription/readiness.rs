//! Readiness of a Subscription for generic tools. Flux, `kubectl wait` and all tools with the rules of
//! kstatus read the condition `Ready`. Argo CD reads the state `UpgradeAvailable`.
//!
//! Both follow from the rest of the status and the phase of the installed ClusterServiceVersion
//! (`docs/reference/resolution.md`).

use jiff::Timestamp;
use olm_api::condition::{TRUE, csv, subscription as reasons};
use olm_api::v1alpha1::{
    ClusterServiceVersionPhase, InstallPlanPhase, SubscriptionCondition, SubscriptionSpec, SubscriptionState,
    SubscriptionStatus,
};
use olm_resolver::explain::{EVENT_LIMIT, cut};

use super::Csvs;
use super::catalog_health::CatalogFact;
use super::conditions::{self, condition_false, condition_true};

/// Sets the state and the condition; called when the rest of the status is complete.
pub(crate) fn put(
    status: &mut SubscriptionStatus,
    spec: &SubscriptionSpec,
    csvs: &Csvs,
    catalogs: &[CatalogFact],
    now: Timestamp,
) {
    let waits_for_user = waits_for_user(status, spec);
    put_state(status, waits_for_user, csvs);
    let condition = match obstacle(status, spec, waits_for_user, catalogs) {
        None => condition_true(reasons::READY, csv::INSTALL_SUCCEEDED, ""),
        Some((reason, message)) => {
            let line = message.lines().next().unwrap_or_default();
            condition_false(reasons::READY, &reason, &cut(line, EVENT_LIMIT))
        }
    };
    conditions::set(&mut status.conditions, condition, now);
}

/// True if an upgrade waits for the approval that the Subscription requires: Argo CD then evaluates the
/// installed version.
fn waits_for_user(status: &SubscriptionStatus, spec: &SubscriptionSpec) -> bool {
    let waits = find(status, reasons::INSTALL_PLAN_PENDING).is_some_and(|pending| {
        pending.reason.as_deref() == Some(InstallPlanPhase::RequiresApproval.as_str())
    });
    waits && spec.is_manual() && status.installed_csv.is_some()
}

/// Sets `UpgradeAvailable` in place of a state that Argo CD considers healthy in two cases. A newer bundle is
/// not available yet, or the next version waits for approval and the installed one has not succeeded.
/// Upstream defines this state and never writes it.
fn put_state(status: &mut SubscriptionStatus, waits_for_user: bool, csvs: &Csvs) {
    let has = |type_| find(status, type_).is_some();
    let installed = status.installed_csv.as_ref().and_then(|name| csvs.get(name));
    let has_succeeded = installed.is_some_and(|csv| *csv.phase() == ClusterServiceVersionPhase::Succeeded);
    let counts_as_healthy = match status.state {
        SubscriptionState::AtLatestKnown => true,
        SubscriptionState::UpgradePending => waits_for_user,
        _ => false,
    };
    let is_unsettled = waits_for_user && !has_succeeded
        || has(reasons::BUNDLE_UNPACKING)
        || has(reasons::BUNDLE_UNPACK_FAILED);
    if counts_as_healthy && is_unsettled {
        status.state = SubscriptionState::UpgradeAvailable;
    }
}

/// Returns reason and message of the obstacle; `None` when the requested version runs.
fn obstacle(
    status: &SubscriptionStatus,
    spec: &SubscriptionSpec,
    waits_for_user: bool,
    catalogs: &[CatalogFact],
) -> Option<(String, String)> {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let counts = |type_: &&str| !(waits_for_user && *type_ == reasons::INSTALL_PLAN_PENDING);
    let mut found = reasons::OBSTACLES.into_iter().filter(counts);
    if let Some(found) = found.find_map(|type_| find(status, type_)) {
        let mut message = text(&found.message);
        if found.type_ == reasons::CATALOG_SOURCES_UNHEALTHY {
            let target = catalogs.iter().find(|catalog| catalog.is_target_of(spec));
            if let Some(cause) = target.and_then(|target| target.unhealthy_reason.as_ref()) {
                message = format!("{message}: {cause}");
            }
        }
        return Some((text(&found.reason), message));
    }
    match &status.state {
        SubscriptionState::AtLatestKnown => None,
        SubscriptionState::UpgradePending if waits_for_user => None,
        SubscriptionState::None => Some((
            reasons::NOT_INSTALLED.to_owned(),
            "no version is installed yet".to_owned(),
        )),
        state => Some((state.to_string(), String::new())),
    }
}

/// Returns the condition of a type, if it is true.
fn find<'a>(status: &'a SubscriptionStatus, type_: &str) -> Option<&'a SubscriptionCondition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_ && condition.status == TRUE)
}
