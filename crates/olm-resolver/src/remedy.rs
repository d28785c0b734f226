//! The smallest changes that would make a failing part of a namespace resolvable.
//!
//! Every change proposed has been tried on a copy of the problem: with it, none of the Subscriptions concerned fails.

use std::collections::BTreeSet;

use olm_api::v1::UpgradeStrategy;
use olm_api::v1alpha1::ClusterServiceVersionPhase;

use crate::explain::Explanation;
use crate::problem::{InstalledCsv, Problem, Subscription};
use crate::resolve::{Resolution, resolve};
use crate::simulate;

/// Most resolutions tried for one explanation.
const MAX_TRIALS: usize = 60;

/// Most changes proposed.
const MAX_REMEDIES: usize = 3;

/// A change, from the least to the most of an intrusion.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Carry out the InstallPlan that waits for approval.
    Approve {
        /// The Subscription that asks for manual approval.
        subscription: String,
        /// What the plan would install.
        csv: String,
    },
    /// Let upgrades replace operators that failed.
    FailForward,
    /// Another channel of the same package.
    Channel {
        /// The Subscription.
        subscription: String,
        /// Its channel now; empty for none.
        from: String,
        /// The channel that works.
        to: String,
    },
    /// Another catalog that offers the package.
    Catalog {
        /// The Subscription.
        subscription: String,
        /// Name and namespace of the catalog that works.
        to: (String, String),
    },
    /// No particular first version.
    AnyStart {
        /// The Subscription.
        subscription: String,
        /// The `startingCSV` that stands in the way.
        starting_csv: String,
    },
    /// Without an installed operator that no Subscription answers for.
    RemoveCsv {
        /// The ClusterServiceVersion.
        csv: String,
    },
    /// Without a Subscription and what it installed.
    RemoveSubscription {
        /// The Subscription.
        subscription: String,
        /// Its ClusterServiceVersion, if one is installed.
        csv: Option<String>,
    },
}

impl Change {
    /// What to do, in one line.
    pub fn text(&self, namespace: &str) -> String {
        match self {
            Change::Approve { subscription, csv } => {
                format!("approve the InstallPlan of subscription {subscription} that brings {csv}")
            }
            Change::FailForward => format!(
                "set spec.upgradeStrategy of the OperatorGroup in namespace {namespace} to {}",
                UpgradeStrategy::TechPreviewUnsafeFailForward.as_str()
            ),
            Change::Channel {
                subscription,
                from,
                to,
            } => {
                let from = if from.is_empty() {
                    String::new()
                } else {
                    format!(" (now {from})")
                };
                format!("set spec.channel of subscription {subscription} to {to}{from}")
            }
            Change::Catalog {
                subscription,
                to: (name, home),
            } => format!(
                "set spec.source of subscription {subscription} to {name} and spec.sourceNamespace to {home}"
            ),
            Change::AnyStart {
                subscription,
                starting_csv,
            } => {
                format!(
                    "create subscription {subscription} anew without spec.startingCSV (now {starting_csv})"
                )
            }
            Change::RemoveCsv { csv } => {
                format!("delete clusterserviceversion {csv} in namespace {namespace}, if it is not needed")
            }
            Change::RemoveSubscription { subscription, csv } => {
                let with = csv
                    .as_ref()
                    .map_or_else(String::new, |csv| format!(" and clusterserviceversion {csv}"));
                format!(
                    "delete subscription {subscription}{with} in namespace {namespace}, if it is not needed"
                )
            }
        }
    }

    fn apply(&self, problem: &mut Problem) {
        if let Change::Approve { subscription, csv } = self {
            simulate::approve(problem, subscription, csv);
            return;
        }
        let Problem {
            subscriptions,
            installed,
            operator_group,
            ..
        } = problem;
        let mut change = |name: &str, edit: &dyn Fn(&mut Subscription)| {
            subscriptions.iter_mut().filter(|s| s.name == name).for_each(edit);
        };
        match self {
            Change::Approve { .. } => {}
            Change::FailForward => operator_group.fail_forward = true,
            Change::Channel { subscription, to, .. } => change(subscription, &|s| s.channel.clone_from(to)),
            Change::Catalog {
                subscription,
                to: (name, namespace),
            } => change(subscription, &|s| {
                s.catalog.name.clone_from(name);
                s.catalog.namespace.clone_from(namespace);
            }),
            Change::AnyStart { subscription, .. } => change(subscription, &|s| s.starting_csv.clear()),
            Change::RemoveCsv { csv } => installed.retain(|c| c.name != *csv),
            Change::RemoveSubscription { subscription, csv } => {
                subscriptions.retain(|s| s.name != *subscription);
                installed.retain(|c| Some(&c.name) != csv.as_ref());
            }
        }
    }
}

/// Changes that would end the failure, least intrusive first; empty if none of the kind is enough on its own.
pub fn remedies(problem: &Problem, explanation: &Explanation) -> Vec<Change> {
    let mut found: Vec<Change> = Vec::new();
    for (trials, change) in proposals(problem, explanation).into_iter().enumerate() {
        // Removing something is proposed only where nothing gentler helps.
        let removes = matches!(
            change,
            Change::RemoveCsv { .. } | Change::RemoveSubscription { .. }
        );
        let useless = removes && !explanation.is_unsatisfiable();
        if useless || found.len() >= MAX_REMEDIES || trials >= MAX_TRIALS || (removes && !found.is_empty()) {
            break;
        }
        let mut changed = problem.clone();
        change.apply(&mut changed);
        if resolve(&changed).is_ok_and(|resolution| is_cured(explanation, &resolution)) {
            found.push(change);
        }
    }
    found
}

fn is_cured(explanation: &Explanation, resolution: &Resolution) -> bool {
    let concerned: BTreeSet<&String> = explanation
        .subscriptions
        .iter()
        .chain(&explanation.installed)
        .collect();
    resolution.failures.iter().all(|failure| {
        failure
            .subscriptions
            .iter()
            .chain(&failure.installed)
            .all(|name| !concerned.contains(name))
    })
}

fn proposals(problem: &Problem, explanation: &Explanation) -> Vec<Change> {
    let mut proposals = Vec::new();
    let concerned = |s: &&Subscription| explanation.subscriptions.contains(&s.name);
    for subscription in problem.subscriptions.iter().filter(concerned) {
        let name = || subscription.name.clone();
        let waiting = !subscription.current_csv.is_empty()
            && subscription.current_csv != subscription.installed_csv
            && !problem
                .installed
                .iter()
                .any(|csv| csv.name == subscription.current_csv);
        if waiting {
            proposals.push(Change::Approve {
                subscription: name(),
                csv: subscription.current_csv.clone(),
            });
        }
        for catalog in &problem.catalogs {
            let Ok(snapshot) = &catalog.content else { continue };
            if catalog.key == subscription.catalog {
                let others = snapshot
                    .channel_names(&subscription.package)
                    .filter(|c| *c != subscription.channel);
                proposals.extend(others.map(|to| Change::Channel {
                    subscription: name(),
                    from: subscription.channel.clone(),
                    to: to.to_owned(),
                }));
            } else if snapshot.has_package(&subscription.package) {
                let to = (catalog.key.name.clone(), catalog.key.namespace.clone());
                proposals.push(Change::Catalog {
                    subscription: name(),
                    to,
                });
            }
        }
        if !subscription.starting_csv.is_empty() && subscription.installed_csv.is_empty() {
            let starting_csv = subscription.starting_csv.clone();
            proposals.push(Change::AnyStart {
                subscription: name(),
                starting_csv,
            });
        }
        let csv = Some(subscription.installed_csv.clone()).filter(|csv| !csv.is_empty());
        proposals.push(Change::RemoveSubscription {
            subscription: name(),
            csv,
        });
    }
    let failed = |csv: &InstalledCsv| csv.phase == ClusterServiceVersionPhase::Failed.as_str();
    if !problem.operator_group.fail_forward && problem.installed.iter().any(failed) {
        proposals.push(Change::FailForward);
    }
    let owned = |csv: &String| problem.subscriptions.iter().any(|s| s.installed_csv == *csv);
    let free = explanation.installed.iter().filter(|csv| !owned(csv));
    proposals.extend(free.map(|csv| Change::RemoveCsv { csv: csv.clone() }));
    proposals.sort();
    proposals
}
