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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What kind of change it is.
    pub kind: ChangeKind,
    /// The Subscription it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// The ClusterServiceVersion it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<String>,
    /// What is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What works; a catalog as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What kind of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// Set `spec.startingCSV` of the Subscription to an operator that runs, which it adopts.
    Adopt,
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
    /// Returns a change without its details.
    pub fn new(kind: ChangeKind, subscription: Option<&str>) -> Self {
        Change {
            kind,
            subscription: subscription.map(str::to_owned),
            csv: None,
            from: None,
            to: None,
        }
    }

    /// Returns the ClusterServiceVersion that it removes.
    pub fn destroys(&self) -> Option<&str> {
        let removes = matches!(self.kind, ChangeKind::RemoveSubscription | ChangeKind::RemoveCsv);
        self.csv.as_deref().filter(|_| removes)
    }

    /// Returns Subscription, ClusterServiceVersion, present value and new value; empty for none.
    fn details(&self) -> [&str; 4] {
        [&self.subscription, &self.csv, &self.from, &self.to]
            .map(|field| field.as_deref().unwrap_or_default())
    }

    /// Returns its harm to the running operators of a namespace.
    pub(super) fn harm(&self, running: &Running<'_>) -> Harm {
        if self.destroys().is_some() {
            return Harm::Destroys;
        }
        let of_approval = match self.kind {
            ChangeKind::Approve => running.harm_of_approval(),
            _ => Harm::None,
        };
        match self.subscription.as_deref() {
            Some(name) if !running.subscriptions.contains(name) => of_approval,
            _ => Harm::Running,
        }
    }

    /// Returns the instruction in one line.
    pub fn text(&self, namespace: &str) -> String {
        let [subscription, csv, from, to] = self.details();
        match self.kind {
            ChangeKind::Adopt => {
                let back = match csv.is_empty() {
                    true => String::new(),
                    false => format!("; it failed: correct the cause then, or go back to {csv}"),
                };
                format!(
                    "set spec.startingCSV of subscription {subscription} to {to}{}{back}",
                    now_text(from)
                )
            }
            ChangeKind::Approve => {
                format!("approve the InstallPlan of subscription {subscription} that installs {csv}")
            }
            ChangeKind::FailForward => format!(
                "set spec.upgradeStrategy of the OperatorGroup in namespace {namespace} to {}",
                UpgradeStrategy::TechPreviewUnsafeFailForward.as_str()
            ),
            ChangeKind::Package => {
                format!("set spec.name of subscription {subscription} to {to} (now {from})")
            }
            ChangeKind::Channel => channel_text(subscription, from, to),
            ChangeKind::Catalog => {
                let CatalogKey { name, namespace } = catalog_key(to);
                format!(
                    "set spec.source of subscription {subscription} to {name} and spec.sourceNamespace to {namespace} (now \
                     catalog {from})"
                )
            }
            ChangeKind::AnyStart => {
                format!("recreate subscription {subscription} without spec.startingCSV (now {from})")
            }
            ChangeKind::Unhold => format!(
                "remove annotation {UPGRADE_HOLD} of subscription {subscription}, or widen its range (now {:?})",
                cut(from, SHOWN_RANGE)
            ),
            ChangeKind::Unsubscribe => format!(
                "delete subscription {subscription} in namespace {namespace}; {csv} stays and gets no upgrades"
            ),
            ChangeKind::RemoveCsv => {
                format!("delete clusterserviceversion {csv} in namespace {namespace}, if it is not needed")
            }
            ChangeKind::RemoveSubscription => {
                let with = self
                    .csv
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
        let [subscription, csv, _, to] = self.details();
        match self.kind {
            ChangeKind::Approve => simulate::approve(problem, subscription, csv),
            ChangeKind::FailForward => problem.operator_group.fail_forward = true,
            ChangeKind::Unsubscribe | ChangeKind::RemoveSubscription | ChangeKind::RemoveCsv => {
                let gone = self.destroys();
                problem.subscriptions.retain(|s| s.name != subscription);
                problem.installed.retain(|c| Some(c.name.as_str()) != gone);
            }
            kind => {
                let all = problem.subscriptions.iter_mut();
                for s in all.filter(|s| s.name == subscription) {
                    match kind {
                        ChangeKind::Adopt => {
                            for field in [&mut s.starting_csv, &mut s.current_csv, &mut s.installed_csv] {
                                to.clone_into(field);
                            }
                        }
                        ChangeKind::Package => to.clone_into(&mut s.package),
                        ChangeKind::Channel => to.clone_into(&mut s.channel),
                        ChangeKind::Catalog => s.catalog = catalog_key(to),
                        ChangeKind::AnyStart => s.starting_csv.clear(),
                        _ => s.hold = None,
                    }
                }
            }
        }
    }
}

/// Returns a catalog by its text, `namespace/name`.
fn catalog_key(text: &str) -> CatalogKey {
    let (namespace, name) = text.split_once('/').unwrap_or_default();
    CatalogKey {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
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
    format!(
        "set spec.channel of subscription {subscription} to {to}{}",
        now_text(from)
    )
}

/// Returns the mention of a present value; empty for none.
fn now_text(from: &str) -> String {
    match from.is_empty() {
        true => String::new(),
        false => format!(" (now {from})"),
    }
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
