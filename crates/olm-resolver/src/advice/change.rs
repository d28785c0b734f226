//! One change of the objects of a namespace, and what it does to what runs.

use std::collections::BTreeSet;

use olm_api::labels::UPGRADE_HOLD;
use olm_api::v1::UpgradeStrategy;
use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::CatalogKey;
use crate::explain::cut;
use crate::problem::{Problem, Subscription};
use crate::simulate;

/// Bytes of a range that the text of a change shows.
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

/// A change. Those of one kind of harm are proposed in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Carry out the InstallPlan that waits for approval.
    Approve {
        /// The Subscription that asks for manual approval.
        subscription: String,
        /// What the plan would install.
        csv: String,
    },
    /// Another package, whose name is like the one that is not there.
    Package {
        /// The Subscription.
        subscription: String,
        /// Its package now.
        from: String,
        /// The package that works.
        to: String,
    },
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
        /// The catalog it names now.
        from: CatalogKey,
        /// The catalog that works.
        to: CatalogKey,
    },
    /// No particular first version.
    AnyStart {
        /// The Subscription.
        subscription: String,
        /// The `startingCSV` that stands in the way.
        starting_csv: String,
    },
    /// Any version of the package.
    Unhold {
        /// The Subscription.
        subscription: String,
        /// The range that it is held within now.
        range: String,
    },
    /// Let upgrades replace operators that failed.
    FailForward,
    /// Without a Subscription; what it installed stays.
    Unsubscribe {
        /// The Subscription.
        subscription: String,
        /// The ClusterServiceVersion that stays.
        csv: String,
    },
    /// Without a Subscription and what it installed.
    RemoveSubscription {
        /// The Subscription.
        subscription: String,
        /// Its ClusterServiceVersion, if one is installed.
        csv: Option<String>,
    },
    /// Without an installed operator that no Subscription answers for.
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

impl ChangeKind {
    /// All of them.
    pub const ALL: [ChangeKind; 10] = [
        ChangeKind::Approve,
        ChangeKind::Package,
        ChangeKind::Channel,
        ChangeKind::Catalog,
        ChangeKind::AnyStart,
        ChangeKind::Unhold,
        ChangeKind::FailForward,
        ChangeKind::Unsubscribe,
        ChangeKind::RemoveSubscription,
        ChangeKind::RemoveCsv,
    ];
}

impl Change {
    /// Its kind.
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

    /// The Subscription it is about.
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

    /// The ClusterServiceVersion it removes.
    pub fn destroys(&self) -> Option<&str> {
        match self {
            Change::RemoveSubscription { csv: Some(csv), .. } | Change::RemoveCsv { csv } => Some(csv),
            _ => None,
        }
    }

    /// What it does to what runs in a namespace.
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
            Change::Package {
                subscription,
                from,
                to,
            } => format!("set spec.name of subscription {subscription} to {to} (now {from})"),
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
                format!(
                    "create subscription {subscription} anew without spec.startingCSV (now {starting_csv})"
                )
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

    /// The namespace after the change.
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

/// What runs in a namespace.
pub(super) struct Running<'p> {
    /// Subscriptions with something that they installed.
    subscriptions: BTreeSet<&'p str>,
    /// Whether an InstallPlan that waits would upgrade what runs.
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

    /// A plan brings what all Subscriptions of the namespace wait for.
    pub(super) fn harm_of_approval(&self) -> Harm {
        if self.upgrades_wait {
            Harm::Running
        } else {
            Harm::None
        }
    }
}

/// Marks text about a change that removes a ClusterServiceVersion with what it runs.
pub(crate) fn destroys_mark(csv: &str) -> String {
    format!(" [destroys what runs: {csv}]")
}

/// Text about beginning anew with a Subscription, at the price of what it installed.
pub(crate) fn anew_text(subscription: &str, csv: &str) -> String {
    let mark = destroys_mark(csv);
    format!("delete subscription {subscription} and clusterserviceversion {csv}, and subscribe again{mark}")
}
