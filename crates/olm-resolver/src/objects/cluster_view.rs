//! The objects of a namespace as the cluster sees them: deleted ones do not count, and statuses follow the
//! existing objects.

use std::collections::BTreeSet;

use kube_core::{Resource, ResourceExt};
use olm_api::install_mode::NAMESPACE_ALL;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase, Subscription, SubscriptionStatus,
};

use super::{installed_csv, resolver_subscription};
use crate::cluster_fit::GroupTargets;
use crate::installed::{adopts, mark_replaced};
use crate::plan::{NotSucceeded, Waiting};
use crate::problem::InstalledCsv;

/// The Subscriptions and ClusterServiceVersions that count.
pub(super) struct ClusterView<'o> {
    /// Subscriptions with their settled statuses.
    pub(super) subscriptions: Vec<(&'o Subscription, SubscriptionStatus)>,
    csvs: Vec<&'o ClusterServiceVersion>,
    /// Description of the objects that do not count.
    pub(super) left_out: Vec<String>,
}

impl<'o> ClusterView<'o> {
    pub(super) fn of(subscriptions: &[&'o Subscription], csvs: &[&'o ClusterServiceVersion]) -> Self {
        let mut left_out = Vec::new();
        let mut stays = |kind: &str, name: String, is_deleted: bool| {
            if is_deleted {
                left_out.push(format!(
                    "{kind} {name} is being deleted; the plan treats it as deleted"
                ));
            }
            !is_deleted
        };
        let csvs: Vec<&ClusterServiceVersion> = csvs
            .iter()
            .copied()
            .filter(|csv| stays("clusterserviceversion", csv.name_any(), is_deleted(*csv)))
            .collect();
        let subscriptions: Vec<&Subscription> = subscriptions
            .iter()
            .copied()
            .filter(|s| stays("subscription", s.name_any(), is_deleted(*s)))
            .collect();
        let there: BTreeSet<String> = csvs.iter().map(|csv| csv.name_any()).collect();
        let statuses = subscriptions.iter().filter_map(|object| object.status.as_ref());
        let subscribed: BTreeSet<String> = statuses
            .flat_map(|status| status.installed_csv.iter().chain(&status.current_csv))
            .cloned()
            .collect();
        let subscriptions = subscriptions.into_iter().map(|object| {
            let mut status = object.status.clone().unwrap_or_default();
            if csvs.iter().any(|csv| adopts(object, &status, csv, &subscribed)) {
                status.current_csv = object.spec.starting_csv().map(str::to_owned);
            }
            // catalog-operator sets this as soon as the ClusterServiceVersion exists, before it resolves.
            if let Some(current) = status.current_csv.clone().filter(|csv| there.contains(csv)) {
                status.installed_csv = Some(current);
            }
            (object, status)
        });
        let subscriptions: Vec<_> = subscriptions.collect();
        left_out.extend(unmatched(&subscriptions, &csvs));
        Self {
            subscriptions,
            csvs,
            left_out,
        }
    }

    pub(super) fn resolver_subscriptions(&self) -> Vec<crate::problem::Subscription> {
        let subscriptions = self.subscriptions.iter();
        subscriptions
            .map(|(object, status)| resolver_subscription(object, status))
            .collect()
    }

    pub(super) fn installed(&self) -> Vec<InstalledCsv> {
        let mut installed: Vec<InstalledCsv> = self.csvs.iter().map(|csv| installed_csv(csv)).collect();
        mark_replaced(&mut installed, &self.resolver_subscriptions());
        installed
    }

    /// Returns the ClusterServiceVersions that do not run, with their statuses.
    pub(super) fn not_succeeded(&self) -> Vec<NotSucceeded> {
        let own = self.csvs.iter().filter(|csv| !csv.is_copied());
        let told = own.filter_map(|csv| {
            let status = csv.status.clone().unwrap_or_default();
            // A ClusterServiceVersion that is being replaced still runs.
            let runs = [
                ClusterServiceVersionPhase::Succeeded,
                ClusterServiceVersionPhase::Replacing,
                ClusterServiceVersionPhase::Deleting,
            ];
            (!runs.contains(&status.phase)).then(|| NotSucceeded {
                csv: csv.name_any(),
                phase: status.phase.to_string(),
                reason: status.reason.unwrap_or_default(),
                message: status.message.unwrap_or_default(),
            })
        });
        told.collect()
    }

    /// Returns the InstallPlans in statuses that have not installed their ClusterServiceVersion yet. If it
    /// existed before, the plan is done: it is installed, or was deleted since.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let there: BTreeSet<String> = self.csvs.iter().map(|csv| csv.name_any()).collect();
        let waiting = self.subscriptions.iter().filter_map(|(object, status)| {
            let csv = status
                .current_csv
                .clone()
                .filter(|csv| !csv.is_empty() && !there.contains(csv) && !was_deleted(status, &there))?;
            let reference = status
                .install_plan_ref
                .as_ref()
                .and_then(|plan| plan.name.clone());
            let older = status.install_plan.as_ref().map(|plan| plan.name.clone());
            Some(Waiting {
                subscription: object.name_any(),
                csv,
                install_plan: reference.or(older).filter(|name| !name.is_empty()),
                // Files have no InstallPlans.
                is_approved: false,
                hold: None,
            })
        });
        waiting.filter(|waiting| waiting.install_plan.is_some()).collect()
    }
}

/// Describes mismatches between statuses and ClusterServiceVersions. Only the name in a status counts.
fn unmatched(
    subscriptions: &[(&Subscription, SubscriptionStatus)],
    csvs: &[&ClusterServiceVersion],
) -> Vec<String> {
    let there: BTreeSet<String> = csvs.iter().map(|csv| csv.name_any()).collect();
    let named = |status: &SubscriptionStatus| status.installed_csv.clone().filter(|csv| !csv.is_empty());
    let missing = subscriptions.iter().filter_map(|(object, status)| {
        let csv = named(status).filter(|csv| !there.contains(csv))?;
        if was_deleted(status, &there) {
            return Some(format!(
                "subscription {}: {csv}, which it has, was deleted, and OLM does not restore it; delete and recreate the \
                 subscription, as the plan assumes",
                object.name_any()
            ));
        }
        Some(format!(
            "subscription {} says that {csv} is installed, which does not exist; the plan treats the subscription as new",
            object.name_any()
        ))
    });
    let told: Vec<String> = missing.collect();
    let has_one = |(_, status): &(&Subscription, SubscriptionStatus)| {
        named(status).is_some_and(|csv| there.contains(&csv))
    };
    // If every Subscription has its own, the others were installed by hand.
    if subscriptions.iter().all(has_one) {
        return told;
    }
    let owned: BTreeSet<String> = subscriptions
        .iter()
        .filter_map(|(_, status)| named(status))
        .chain(
            csvs.iter()
                .filter_map(|csv| csv.spec.replaces().map(str::to_owned)),
        )
        .collect();
    let unowned = csvs
        .iter()
        .filter(|csv| !csv.is_copied() && !owned.contains(&csv.name_any()));
    let unowned = unowned.map(|csv| {
        format!(
            "clusterserviceversion {} exists and no subscription's status names it: it stays, beside what the plan \
             installs",
            csv.name_any()
        )
    });
    told.iter().cloned().chain(unowned).collect()
}

/// Returns whether the Subscription's last ClusterServiceVersion existed and was deleted. Then no
/// installation is under way.
fn was_deleted(status: &SubscriptionStatus, there: &BTreeSet<String>) -> bool {
    let installed = status.installed_csv.as_deref().unwrap_or_default();
    !installed.is_empty() && status.installed_csv == status.current_csv && !there.contains(installed)
}

/// Returns whether an object is being deleted. ClusterServiceVersions and Subscriptions stay visible until
/// their finalizers have run.
fn is_deleted<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Returns the selected namespaces. `None` if labels decide, because only the cluster knows those.
pub fn targets(group: &OperatorGroup) -> Option<GroupTargets> {
    let told = group
        .status
        .as_ref()
        .map(|status| status.namespaces.iter().cloned().collect::<Vec<_>>());
    let listed: Vec<String> = group.spec.target_namespaces.iter().cloned().collect();
    let namespaces = match told.filter(|told| !told.is_empty()) {
        Some(told) => told,
        None if !listed.is_empty() => listed,
        None if group.spec.selector.is_some() => return None,
        None => vec![NAMESPACE_ALL.to_owned()],
    };
    Some(GroupTargets {
        group: group.name_any(),
        namespaces,
    })
}
