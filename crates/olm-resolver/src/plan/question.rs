//! Input of a plan.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster_fit::GroupTargets;
use crate::one_line::OneLine;
use crate::problem::Problem;

/// Input of a plan: the [`Problem`], and facts that resolution does not use.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The namespace with its catalogs.
    pub problem: Problem,
    /// Names of Subscriptions with manual approval.
    pub manual: BTreeSet<String>,
    /// Number of steps to look ahead; `None` for all.
    pub steps: Option<usize>,
    /// Namespaces that the OperatorGroup selects, if known.
    pub targets: Option<GroupTargets>,
    /// InstallPlans that are not complete.
    pub waiting: Vec<Waiting>,
    /// ClusterServiceVersions of the namespace that do not run.
    pub not_succeeded: Vec<NotSucceeded>,
    /// Objects that are left out of the question, with the reason.
    pub left_out: Vec<String>,
}

/// An InstallPlan that is not complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The Subscription of the plan.
    pub subscription: String,
    /// The ClusterServiceVersion it installs.
    pub csv: String,
    /// Its name, if the Subscription has it.
    pub install_plan: Option<String>,
    /// True if it is known to be approved already.
    pub is_approved: bool,
    /// The hold of the Subscription that excludes its version, such as `held within <2.0.0`.
    pub hold: Option<String>,
}

impl Waiting {
    /// Returns the name for its approval: the plan's, or the Subscription's.
    fn name(&self) -> &str {
        self.install_plan.as_deref().unwrap_or(&self.subscription)
    }
}

/// A ClusterServiceVersion whose operator does not run, in the words of its status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotSucceeded {
    /// Its name.
    pub csv: String,
    /// Where it is; empty where nobody has looked at it yet.
    pub phase: String,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl fmt::Display for NotSucceeded {
    /// Prints one line, whatever the message contains.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            csv,
            phase,
            reason,
            message,
        } = self;
        let phase = if phase.is_empty() {
            "not processed yet"
        } else {
            phase
        };
        let reason = match reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let message = match message.as_str() {
            "" => String::new(),
            message => format!(": {message}"),
        };
        write!(
            f,
            "{}",
            OneLine(format_args!("{csv} is {phase}{reason}{message}"))
        )
    }
}

impl Question {
    /// Returns the ClusterServiceVersions that do not run: those of one Subscription by its name, or all.
    pub(super) fn not_succeeded_of(&self, name: Option<&str>) -> Vec<NotSucceeded> {
        let subscription = self
            .problem
            .subscriptions
            .iter()
            .find(|s| Some(s.name.as_str()) == name);
        let is_asked = |csv: &str| match (name, subscription) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(s)) => s.installed_csv == csv || s.current_csv == csv,
        };
        let all = self.not_succeeded.iter();
        all.filter(|found| is_asked(&found.csv)).cloned().collect()
    }

    /// Assumes an OperatorGroup if the objects have none, as files often leave it out. Returns a remark about
    /// it.
    pub(crate) fn assume_group(&mut self) -> Option<String> {
        if self.problem.operator_group.count > 0 {
            return None;
        }
        self.problem.operator_group.count = 1;
        Some(format!(
            "no OperatorGroup of namespace {} among the objects: the plan assumes one, because OLM does nothing without it",
            self.problem.namespace
        ))
    }

    /// Reports given catalogs that the namespace cannot use.
    pub(crate) fn out_of_reach(&self) -> impl Iterator<Item = String> {
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

    /// Returns the remarks that precede the resolution.
    pub(super) fn opening_notes(&self) -> Vec<String> {
        let waiting = self.waiting.iter().map(|waiting| self.waiting_text(waiting));
        self.left_out.iter().cloned().chain(waiting).collect()
    }

    fn waiting_text(&self, waiting: &Waiting) -> String {
        let Waiting {
            subscription,
            csv,
            install_plan,
            is_approved,
            hold,
        } = waiting;
        let namespace = &self.problem.namespace;
        let plan = install_plan.as_ref().map_or_else(
            || "an InstallPlan".to_owned(),
            |name| format!("InstallPlan {name}"),
        );
        if self.manual.is_empty() || *is_approved {
            return format!("{plan} that installs {csv} for subscription {subscription} is in progress");
        }
        match hold {
            Some(hold) => format!(
                "{plan} that installs {csv} for subscription {subscription} cannot be approved, as the subscription is {hold}; to allow \
                 it: kubectl operator unhold {subscription} -n {namespace}"
            ),
            None => format!(
                "{plan} that installs {csv} for subscription {subscription} requires approval: kubectl operator approve {} -n \
                 {namespace}",
                waiting.name()
            ),
        }
    }

    /// Describes the plan that a Subscription waits for.
    pub(super) fn awaited_text(&self, waiting: &Waiting) -> String {
        let (csv, name, namespace) = (&waiting.csv, waiting.name(), &self.problem.namespace);
        let plan = waiting.install_plan.as_ref().map_or_else(
            || "its InstallPlan".to_owned(),
            |name| format!("InstallPlan {name}"),
        );
        match (self.manual.is_empty() || waiting.is_approved, &waiting.hold) {
            (true, _) => format!("waits for {csv}: {plan} is in progress"),
            (false, Some(hold)) => format!(
                "waits for {csv}: {plan} cannot be approved, as the subscription is {hold} (kubectl operator unhold {} -n {namespace})",
                waiting.subscription
            ),
            (false, None) => format!(
                "waits for {csv}: {plan} requires approval (kubectl operator approve {name} -n {namespace}), unless it is in progress \
                 already"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_waits_is_named_with_the_command_that_shows_and_approves_it() {
        let mut waiting = Waiting {
            subscription: "db".to_owned(),
            csv: "etcd.v1".to_owned(),
            install_plan: Some("install-1".to_owned()),
            is_approved: false,
            hold: None,
        };
        let mut question = Question::default();
        question.problem.namespace = "shop".to_owned();
        let running = "waits for etcd.v1: InstallPlan install-1 is in progress";
        assert_eq!(question.awaited_text(&waiting), running);
        question.manual.insert("db".to_owned());
        for (plan, name) in [(Some("install-1".to_owned()), "install-1"), (None, "db")] {
            waiting.install_plan = plan;
            let command = format!("kubectl operator approve {name} -n shop");
            for text in [question.awaited_text(&waiting), question.waiting_text(&waiting)] {
                assert!(text.contains(&command), "{text}");
            }
        }
        // The command that `approve` names itself.
        waiting.hold = Some("held within =1.0.0".to_owned());
        for text in [question.awaited_text(&waiting), question.waiting_text(&waiting)] {
            let is_right =
                text.contains("held within =1.0.0") && text.contains("kubectl operator unhold db -n shop");
            assert!(is_right && !text.contains("operator approve"), "{text}");
        }
        waiting.hold = None;
        waiting.install_plan = Some("install-1".to_owned());
        waiting.is_approved = true;
        assert_eq!(question.awaited_text(&waiting), running);
        assert_eq!(
            question.waiting_text(&waiting),
            "InstallPlan install-1 that installs etcd.v1 for subscription db is in progress"
        );
    }
}
