//! Upgrades whose new version failed. Until the failure is fixed, the package does not resolve; that is a consequence and no cause.

use go_compat::semver::Version;
use olm_api::v1alpha1::ClusterServiceVersionPhase;

use crate::problem::{InstalledCsv, Problem, Subscription};
use crate::variables::is_upgrade;

/// An upgrade whose new version failed, while the version before it still exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedUpgrade {
    /// The Subscription.
    pub subscription: String,
    /// The ClusterServiceVersion that failed.
    pub csv: String,
    /// Reason and message of its status; empty if it has none yet.
    pub cause: String,
    /// The ClusterServiceVersion before it.
    pub former: String,
    /// What a user can do, if the caller knows it: which versions ever succeeded is unknown here. Empty otherwise.
    pub remedy: String,
}

impl FailedUpgrade {
    /// Returns the way out in one line.
    pub fn way_out(&self, namespace: &str) -> String {
        let Self {
            subscription,
            former,
            remedy,
            ..
        } = self;
        match remedy.is_empty() {
            true => format!(
                "to resolve: correct the cause, or go back to {former}: kubectl operator rollback {subscription} -n {namespace}"
            ),
            false => format!("to resolve: {remedy}"),
        }
    }
}

/// Returns true if this ClusterServiceVersion exists and is no copy.
fn exists(problem: &Problem, name: &str) -> bool {
    let mut installed = problem.installed.iter();
    installed.any(|csv| !csv.copied && csv.name == name)
}

/// Returns the ClusterServiceVersion that this one replaces, if this one failed and the other still exists.
pub(super) fn former_of_failed(problem: &Problem, csv: &str) -> Option<String> {
    let mut failed = problem.installed.iter().filter(is_failed);
    let former = &failed.find(|found| found.name == csv)?.replaces;
    exists(problem, former).then(|| former.clone())
}

fn is_failed(csv: &&InstalledCsv) -> bool {
    !csv.copied && csv.phase == ClusterServiceVersionPhase::Failed.as_str()
}

/// Returns the failed upgrades of these Subscriptions, without their causes.
pub(crate) fn failed_upgrades(problem: &Problem, subscriptions: &[String]) -> Vec<FailedUpgrade> {
    let failed = failed_csvs(problem, subscriptions).into_iter();
    let upgrades = failed.filter_map(|(subscription, csv)| {
        let installed = Some(&subscription.installed_csv).filter(|name| **name != csv.name);
        let mut formers = installed.into_iter().chain([&csv.replaces]);
        let former = formers.find(|name| exists(problem, name))?;
        Some(FailedUpgrade {
            subscription: subscription.name.clone(),
            csv: csv.name.clone(),
            cause: String::new(),
            former: former.clone(),
            remedy: String::new(),
        })
    });
    upgrades.collect()
}

/// Returns whether the failed operator of one of these Subscriptions has an upgrade in its channel, so that failing forward leads
/// anywhere.
pub(super) fn leads_forward(problem: &Problem, subscriptions: &[String]) -> bool {
    let mut failed = failed_csvs(problem, subscriptions).into_iter();
    failed.any(|(subscription, csv)| {
        // A plan that waits leads forward already.
        if problem.awaits_plan(subscription) {
            return false;
        }
        let Some(snapshot) = problem.snapshot(&subscription.catalog) else {
            return false;
        };
        let Some(channel) = snapshot.channel(&subscription.package, &subscription.channel) else {
            return false;
        };
        let version = Version::parse_tolerant(&csv.version).ok();
        let mut entries = channel.entries.iter().map(|&entry| snapshot.entry(entry));
        entries.any(|entry| is_upgrade(entry, &csv.name, version.as_ref()))
    })
}

/// Returns those of the Subscriptions whose newest ClusterServiceVersion failed, with it. The current one does not exist while its
/// InstallPlan waits for approval.
fn failed_csvs<'p>(
    problem: &'p Problem,
    subscriptions: &[String],
) -> Vec<(&'p Subscription, &'p InstalledCsv)> {
    let mut found = Vec::new();
    for csv in problem.installed.iter().filter(is_failed) {
        for subscription in &problem.subscriptions {
            let mut known = [&subscription.current_csv, &subscription.installed_csv].into_iter();
            let newest = known.find(|name| exists(problem, name));
            if newest == Some(&csv.name) && subscriptions.contains(&subscription.name) {
                found.push((subscription, csv));
            }
        }
    }
    found
}
