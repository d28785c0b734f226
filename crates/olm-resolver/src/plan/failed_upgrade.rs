//! Text about upgrades whose new version failed.

use super::{Question, Unsatisfiable};
use crate::advice::FailedUpgrade;
use crate::enumeration::list;
use crate::one_line::OneLine;

impl Question {
    /// Adds the causes of failed upgrades to the failures that are their consequence.
    pub(super) fn add_causes(&self, parts: &mut [Unsatisfiable]) {
        for failed in parts.iter_mut().flat_map(|part| &mut part.advice.failed_upgrades) {
            let mut statuses = self.not_succeeded.iter();
            let status = statuses.find(|found| found.csv == failed.csv);
            let texts = status
                .into_iter()
                .flat_map(|status| [&status.reason, &status.message]);
            let texts: Vec<&str> = texts
                .map(String::as_str)
                .filter(|text| !text.is_empty())
                .collect();
            failed.cause = texts.join(": ");
        }
    }
}

impl Unsatisfiable {
    /// Returns the kind of the failure: an upgrade that failed, or no solution.
    pub fn kind(&self) -> String {
        let failed = self
            .advice
            .failed_upgrades
            .iter()
            .map(|failed| failed.csv.as_str());
        match self.advice.failed_upgrades.is_empty() {
            true => "cannot be resolved".to_owned(),
            false => format!("version {} failed", list(failed)),
        }
    }

    /// Returns the causes and ways out of upgrades that failed.
    pub fn failed_upgrade_lines(&self, namespace: &str) -> impl Iterator<Item = String> {
        self.advice.failed_upgrades.iter().flat_map(move |failed| {
            let FailedUpgrade { csv, cause, .. } = failed;
            let cause =
                (!cause.is_empty()).then(|| format!("ClusterServiceVersion {csv}: {}", OneLine(cause)));
            cause.into_iter().chain([failed.way_out(namespace)])
        })
    }

    /// Returns the summary, as a consequence if an upgrade failed.
    pub(super) fn summary_line(&self) -> String {
        match self.advice.failed_upgrades.is_empty() {
            true => self.summary.clone(),
            false => format!("until then nothing newer resolves: {}", self.summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Advice, failed_upgrades};
    use crate::plan::NotSucceeded;
    use crate::problem::{InstalledCsv, Subscription};

    fn installed(name: &str, replaces: &str, phase: &str) -> InstalledCsv {
        InstalledCsv {
            name: name.to_owned(),
            replaces: replaces.to_owned(),
            phase: phase.to_owned(),
            ..InstalledCsv::default()
        }
    }

    fn question(installed_csv: &str, phase: &str) -> Question {
        let mut question = Question::default();
        question.problem.namespace = "shop".to_owned();
        question.problem.subscriptions.push(Subscription {
            name: "db".to_owned(),
            current_csv: "etcd.v2".to_owned(),
            installed_csv: installed_csv.to_owned(),
            ..Subscription::default()
        });
        question.problem.installed = vec![
            installed("etcd.v1", "", "Replacing"),
            installed("etcd.v2", "etcd.v1", phase),
        ];
        question.not_succeeded.push(NotSucceeded {
            csv: "etcd.v2".to_owned(),
            phase: phase.to_owned(),
            reason: "InstallCheckFailed".to_owned(),
            message: "install\ntimeout".to_owned(),
        });
        question
    }

    /// Returns the failure of a Subscription, with its failed upgrades.
    fn part(question: &Question, subscription: &str) -> Unsatisfiable {
        let subscriptions = vec![subscription.to_owned()];
        Unsatisfiable {
            summary: "constraints not satisfiable".to_owned(),
            advice: Advice {
                failed_upgrades: failed_upgrades(&question.problem, &subscriptions),
                ..Advice::default()
            },
            subscriptions,
            ..Unsatisfiable::default()
        }
    }

    #[test]
    fn the_cause_and_the_way_back_come_first() {
        for (installed, current) in [
            ("etcd.v1", "etcd.v2"),
            ("etcd.v2", "etcd.v2"),
            ("", "etcd.v2"),
            // The plan of the next version waits for approval.
            ("etcd.v2", "etcd.v3"),
        ] {
            let mut question = question(installed, "Failed");
            current.clone_into(&mut question.problem.subscriptions[0].current_csv);
            let mut parts = [part(&question, "db")];
            question.add_causes(&mut parts);
            assert_eq!(parts[0].kind(), "version etcd.v2 failed");
            assert_eq!(
                parts[0].lines("shop"),
                [
                    "ClusterServiceVersion etcd.v2: InstallCheckFailed: install timeout",
                    "to resolve: correct the cause, or go back to etcd.v1: kubectl operator rollback db -n shop",
                    "until then nothing newer resolves: constraints not satisfiable",
                ]
            );
        }
    }

    #[test]
    fn other_failures_stay_as_they_are() {
        let mut alone = question("etcd.v2", "Failed");
        alone.problem.installed.remove(0);
        for (question, subscription) in [
            (question("etcd.v2", "Installing"), "db"),
            (question("etcd.v2", "Failed"), "other"),
            (alone, "db"),
        ] {
            let part = part(&question, subscription);
            assert_eq!(part.lines("shop"), ["constraints not satisfiable"]);
            assert_eq!(part.kind(), "cannot be resolved");
        }
    }
}
