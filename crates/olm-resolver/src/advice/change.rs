//! One change of a namespace's objects, and its harm to running operators.

use std::collections::BTreeSet;

use olm_api::labels::UPGRADE_HOLD;
use olm_api::v1::UpgradeStrategy;
use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::CatalogKey;
use crate::explain::cut;
use crate::problem::{Problem, Subscription};
use crate::simulate;

/// Maximum bytes of a range in the text of a change.
const SHOWN_RANGE: usize = 80;

/// What a change does to what runs, from the least to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Harm {
    /// Only what does not run yet is edited or removed.
    None,
    /// An operator that runs is upgraded, followed or treated otherwise, and goes on running.
    Running,
    /// An operator that runs is removed.
    Destroys,
}

/// A change. Changes of equal harm are proposed in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Approve the waiting InstallPlan.
    Approve {
        /// The Subscription that asks for manual approval.
        subscription: String,
        /// The ClusterServiceVersion that the plan would install.
        csv: String,
    },
    /// Follow another package with a similar name, because this one does not exist.
    Package {
        /// The Subscription.
        subscription: String,
        /// Its package now.
        from: String,
        /// The package that works.
        to: String,
    },
    /// Follow another channel of the same package.
    Channel {
        /// The Subscription.
        subscription: String,
        /// Its channel now; empty for none.
        from: String,
        /// The channel that works.
        to: String,
    },
    /// Follow another catalog that offers the package.
    Catalog {
        /// The Subscription.
        subscription: String,
        /// The catalog it names now.
        from: CatalogKey,
        /// The catalog that works.
        to: CatalogKey,
    },
    /// Install without a particular first version.
    AnyStart {
        /// The Subscription.
        subscription: String,
        /// The `startingCSV` that prevents the installation.
        starting_csv: String,
    },
    /// Allow any version of the package.
    Unhold {
        /// The Subscription.
        subscription: String,
        /// The range that it is held within at present.
        range: String,
    },
    /// Let upgrades replace operators that failed.
    FailForward,
    /// Remove a Subscription and keep the operator it installed.
    Unsubscribe {
        /// The Subscription.
        subscription: String,
        /// The ClusterServiceVersion that stays.
        csv: String,
    },
    /// Remove a Subscription and the operator it installed.
    RemoveSubscription {
        /// The Subscription.
        subscription: String,
        /// Its ClusterServiceVersion, if one is installed.
        csv: Option<String>,
    },
    /// Remove an installed operator that no Subscription owns.
    RemoveCsv {
        /// The ClusterServiceVersion.
        csv: String,
    },
}

/// What kind of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// Approve the waiting InstallPlan.
    Approve,
    /// Set `spec.name` of the Subscription.
    Package,
    /// Set `spec.channel` of the Subscription.
    Channel,
    /// Set `spec.source` and `spec.sourceNamespace` of the Subscription.
    Catalog,
    /// Create the Subscription anew without `spec.startingCSV`.
    AnyStart,
    /// Remove the annotation of the Subscription that holds versions.
    Unhold,
    /// Let the OperatorGroup fail forward.
    FailForward,
    /// Delete the Subscription and keep what it installed.
    Unsubscribe,
    /// Delete the Subscription, and what it installed if there is any.
    RemoveSubscription,
    /// Delete the ClusterServiceVersion.
    RemoveCsv,
}

impl Change {
    /// Returns its kind.
    pub fn kind(&self) -> ChangeKind {
        match self {
            Change::Approve { .. } => ChangeKind::Approve,
            Change::Package { .. } => ChangeKind::Package,
            Change::Channel { .. } => ChangeKind::Channel,
            Change::Catalog { .. } => ChangeKind::Catalog,
            Change::AnyStart { .. } => ChangeKind::AnyStart,
            Change::Unhold { .. } => ChangeKind::Unhold,
            Change::FailForward => ChangeKind::FailForward,
            Change::Unsubscribe { .. } => ChangeKind::Unsubscribe,
            Change::RemoveSubscription { .. } => ChangeKind::RemoveSubscription,
            Change::RemoveCsv { .. } => ChangeKind::RemoveCsv,
        }
    }

    /// Returns the Subscription that it changes.
    pub fn subscription(&self) -> Option<&str> {
        match self {
            Change::Approve { subscription, .. }
            | Change::Package { subscription, .. }
            | Change::Channel { subscription, .. }
            | Change::Catalog { subscription, .. }
            | Change::AnyStart { subscription, .. }
            | Change::Unhold { subscription, .. }
            | Change::Unsubscribe { subscription, .. }
            | Change::RemoveSubscription { subscription, .. } => Some(subscription),
            Change::FailForward | Change::RemoveCsv { .. } => None,
        }
    }

    /// Returns the ClusterServiceVersion that it removes.
    pub fn destroys(&self) -> Option<&str> {
        match self {
            Change::RemoveSubscription { csv: Some(csv), .. } | Change::RemoveCsv { csv } => Some(csv),
            _ => None,
        }
    }

    /// Returns its harm to the running operators of a namespace.
    pub(super) fn harm(&self, running: &Running<'_>) -> Harm {
        if self.destroys().is_some() {
            return Harm::Destroys;
        }
        let of_approval = match self {
            Change::Approve { .. } => running.harm_of_approval(),
            _ => Harm::None,
        };
        match self.subscription() {
            Some(name) if !running.subscriptions.contains(name) => of_approval,
            _ => Harm::Running,
        }
    }

    /// Returns the instruction in one line.
    pub fn text(&self, namespace: &str) -> String {
        match self {
            Change::Approve { subscription, csv } => {
                format!("approve the InstallPlan of subscription {subscription} that installs {csv}")
            }
            Change::FailForward => format!(
                "set spec.upgradeStrategy of the OperatorGroup in namespace {namespace} to {}",
                UpgradeStrategy::TechPreviewUnsafeFailForward.as_str()
            ),
            Change::Package {
                subscription,
                from,
                to,
            } => format!("set spec.name of subscription {subscription} to {to} (now {from})"),
            Change::Channel {
                subscription,
                from,
                to,
            } => channel_text(subscription, from, to),
            Change::Catalog {
                subscription,
                from,
                to:
                    CatalogKey {
                        name,
                        namespace: home,
                    },
            } => format!(
                "set spec.source of subscription {subscription} to {name} and spec.sourceNamespace to {home} (now catalog \
                 {from})"
            ),
            Change::AnyStart {
                subscription,
                starting_csv,
            } => {
                format!("recreate subscription {subscription} without spec.startingCSV (now {starting_csv})")
            }
            Change::Unhold { subscription, range } => format!(
                "remove annotation {UPGRADE_HOLD} of subscription {subscription}, or widen its range (now {:?})",
                cut(range, SHOWN_RANGE)
            ),
            Change::Unsubscribe { subscription, csv } => format!(
                "delete subscription {subscription} in namespace {namespace}; {csv} stays and gets no upgrades"
            ),
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

    /// Returns the namespace after the change.
    #[must_use]
    pub fn applied(&self, problem: &Problem) -> Problem {
        let mut changed = problem.clone();
        self.apply(&mut changed);
        changed
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
            Change::Package { subscription, to, .. } => change(subscription, &|s| s.package.clone_from(to)),
            Change::Channel { subscription, to, .. } => change(subscription, &|s| s.channel.clone_from(to)),
            Change::Catalog { subscription, to, .. } => change(subscription, &|s| s.catalog.clone_from(to)),
            Change::AnyStart { subscription, .. } => change(subscription, &|s| s.starting_csv.clear()),
            Change::Unhold { subscription, .. } => change(subscription, &|s| s.hold = None),
            Change::RemoveCsv { csv } => installed.retain(|c| c.name != *csv),
            Change::Unsubscribe { subscription, .. } => subscriptions.retain(|s| s.name != *subscription),
            Change::RemoveSubscription { subscription, csv } => {
                subscriptions.retain(|s| s.name != *subscription);
                installed.retain(|c| Some(&c.name) != csv.as_ref());
            }
        }
    }
}

/// The running operators of a namespace.
pub(super) struct Running<'p> {
    /// Subscriptions with an installed operator.
    subscriptions: BTreeSet<&'p str>,
    /// True if a waiting InstallPlan would upgrade a running operator.
    upgrades_wait: bool,
}

impl<'p> Running<'p> {
    pub(super) fn of(problem: &'p Problem) -> Self {
        let installed = problem.installed.iter().filter(|csv| !csv.copied);
        let installed: BTreeSet<&str> = installed.map(|csv| csv.name.as_str()).collect();
        let running = || {
            let all = problem.subscriptions.iter();
            all.filter(|s| installed.contains(s.installed_csv.as_str()))
        };
        Self {
            subscriptions: running().map(|s| s.name.as_str()).collect(),
            upgrades_wait: running().any(|s| problem.awaits_plan(s)),
        }
    }

    pub(super) fn has(&self, subscription: &Subscription) -> bool {
        self.subscriptions.contains(subscription.name.as_str())
    }

    /// Returns the harm of approving a plan, which installs for all Subscriptions of the namespace.
    pub(super) fn harm_of_approval(&self) -> Harm {
        if self.upgrades_wait {
            Harm::Running
        } else {
            Harm::None
        }
    }
}

/// Returns the instruction to follow another channel; `from` is empty for none.
pub(crate) fn channel_text(subscription: &str, from: &str, to: &str) -> String {
    let now = if from.is_empty() {
        String::new()
    } else {
        format!(" (now {from})")
    };
    format!("set spec.channel of subscription {subscription} to {to}{now}")
}

/// Returns the mark for a change that removes a ClusterServiceVersion with its workloads.
pub(crate) fn destroys_mark(csv: &str) -> String {
    format!(" [destroys what runs: {csv}]")
}

/// Returns the instruction to recreate a Subscription, which destroys the operator it installed.
pub(crate) fn anew_text(subscription: &str, csv: &str) -> String {
    let mark = destroys_mark(csv);
    format!("delete subscription {subscription} and clusterserviceversion {csv}, and subscribe again{mark}")
}
