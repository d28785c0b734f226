//! What a plan is made for.

use std::collections::BTreeSet;

use crate::cluster_fit::GroupTargets;
use crate::problem::Problem;

/// What the plan needs to know beside the [`Problem`].
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The namespace with its catalogs.
    pub problem: Problem,
    /// Names of Subscriptions that ask for manual approval.
    pub manual: BTreeSet<String>,
    /// How many steps to look ahead; all where none is given.
    pub steps: Option<usize>,
    /// What the namespace's OperatorGroup selects, where that is known.
    pub targets: Option<GroupTargets>,
    /// InstallPlans that are not carried out yet.
    pub waiting: Vec<Waiting>,
    /// What of the objects is left out of the question, and why.
    pub left_out: Vec<String>,
}

/// An InstallPlan that is not carried out yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The Subscription it is for.
    pub subscription: String,
    /// The ClusterServiceVersion it brings.
    pub csv: String,
    /// Its name, where the Subscription tells it.
    pub install_plan: Option<String>,
}

impl Question {
    /// Takes it that the namespace has an OperatorGroup, where the objects leave it out as files often do. Returns what to
    /// tell whoever asks.
    pub fn assume_group(&mut self) -> Option<String> {
        if self.problem.operator_group.count > 0 {
            return None;
        }
        self.problem.operator_group.count = 1;
        Some(format!(
            "no OperatorGroup of namespace {} among the objects: one is assumed, without which OLM does nothing",
            self.problem.namespace
        ))
    }

    /// What to tell of catalogs that the namespace cannot use although they are given.
    pub fn out_of_reach(&self) -> impl Iterator<Item = String> {
        let Problem {
            namespace,
            global_namespace: global,
            catalogs,
            ..
        } = &self.problem;
        let keys = catalogs.iter().map(|catalog| &catalog.key);
        let others = keys.filter(move |key| key.namespace != *namespace && key.namespace != *global);
        others.map(move |key| {
            format!(
                "catalog {key} cannot be used from namespace {namespace}, only those of {namespace} and {global}: see \
                 --global-catalog-namespace"
            )
        })
    }

    /// What is to be said before anything is resolved.
    pub(super) fn opening_notes(&self) -> Vec<String> {
        let waiting = self.waiting.iter().map(|waiting| self.waiting_text(waiting));
        self.left_out.iter().cloned().chain(waiting).collect()
    }

    fn waiting_text(&self, waiting: &Waiting) -> String {
        let Waiting {
            subscription,
            csv,
            install_plan,
        } = waiting;
        let namespace = &self.problem.namespace;
        let plan = install_plan.as_ref().map_or_else(
            || "an InstallPlan".to_owned(),
            |name| format!("InstallPlan {name}"),
        );
        if self.manual.is_empty() {
            return format!("{plan} that brings {csv} for subscription {subscription} is being carried out");
        }
        let name = install_plan.as_deref().unwrap_or("NAME");
        format!(
            "{plan} that brings {csv} for subscription {subscription} waits for approval: kubectl patch installplan {name} -n \
             {namespace} --type merge -p '{{\"spec\":{{\"approved\":true}}}}'"
        )
    }
}
