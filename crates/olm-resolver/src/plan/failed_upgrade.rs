//! Upgrades whose new version failed. Until one is mended, its package does not resolve, which is a consequence and no cause.

use super::{Question, Unsatisfiable};
use crate::enumeration::list;
use crate::one_line::OneLine;

/// Phase of a ClusterServiceVersion that failed.
const FAILED: &str = "Failed";

/// An upgrade whose new version failed, while the version before it still exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedUpgrade {
    /// The Subscription.
    pub subscription: String,
    /// The ClusterServiceVersion that failed.
    pub csv: String,
    /// Reason and message of its status; empty if it has none.
    pub cause: String,
    /// The ClusterServiceVersion before it.
    pub former: String,
}

impl FailedUpgrade {
    /// Returns the cause and the way out.
    fn lines(&self, namespace: &str) -> impl Iterator<Item = String> {
        let Self {
            subscription,
            csv,
            cause,
            former,
        } = self;
        let cause = (!cause.is_empty()).then(|| format!("ClusterServiceVersion {csv}: {}", OneLine(cause)));
        let way_out = format!(
            "to resolve: correct the cause, or go back to {former}: kubectl operator rollback {subscription} -n {namespace}"
        );
        cause.into_iter().chain([way_out])
    }
}

impl Question {
    /// Adds the upgrades that failed to the failures which they cause, and removes advice that deletes operators.
    pub(super) fn add_failed_upgrades(&self, parts: &mut [Unsatisfiable]) {
        for part in parts {
            part.failed_upgrades = self.failed_upgrades(&part.subscriptions);
            if part.failed_upgrades.is_empty() {
                continue;
            }
            let advice = &mut part.advice;
            let count = advice.fixes.len();
            advice.fixes.retain(|fix| fix.change.destroys().is_none());
            if advice.fixes.len() < count {
                // The others are no gentler.
                advice.more = 0;
            }
            advice.is_stuck = false;
        }
    }

    fn failed_upgrades(&self, subscriptions: &[String]) -> Vec<FailedUpgrade> {
        let own = || self.problem.installed.iter().filter(|csv| !csv.copied);
        let exists = |name: &str| own().any(|csv| csv.name == name);
        let all = self.problem.subscriptions.iter();
        let concerned = all.filter(|found| subscriptions.contains(&found.name));
        let failed = concerned.filter_map(|subscription| {
            let csv = own().find(|csv| csv.name == subscription.current_csv && csv.phase == FAILED)?;
            let installed = Some(&subscription.installed_csv).filter(|name| **name != csv.name);
            let mut formers = installed.into_iter().chain([&csv.replaces]);
            let former = formers.find(|name| exists(name))?;
            let mut statuses = self.not_succeeded.iter();
            let status = statuses.find(|found| found.csv == csv.name);
            let texts = status
                .into_iter()
                .flat_map(|status| [&status.reason, &status.message]);
            let texts: Vec<&str> = texts
                .map(String::as_str)
                .filter(|text| !text.is_empty())
                .collect();
            Some(FailedUpgrade {
                subscription: subscription.name.clone(),
                csv: csv.name.clone(),
                cause: texts.join(": "),
                former: former.clone(),
            })
        });
        failed.collect()
    }
}

impl Unsatisfiable {
    /// Returns the kind of the failure: an upgrade that failed, or no solution.
    pub fn kind(&self) -> String {
        let failed = self.failed_upgrades.iter().map(|failed| failed.csv.as_str());
        match self.failed_upgrades.is_empty() {
            true => "cannot be resolved".to_owned(),
            false => format!("version {} failed", list(failed)),
        }
    }

    /// Returns the causes and ways out of upgrades that failed.
    pub fn failed_upgrade_lines(&self, namespace: &str) -> impl Iterator<Item = String> {
        self.failed_upgrades
            .iter()
            .flat_map(move |failed| failed.lines(namespace))
    }

    /// Returns the summary, as a consequence if an upgrade failed.
    pub(super) fn summary_line(&self) -> String {
        match self.failed_upgrades.is_empty() {
            true => self.summary.clone(),
            false => format!("until then nothing newer resolves: {}", self.summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Advice, Change, ChangeKind, Fix, Harm};
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

    fn part(subscription: &str) -> Unsatisfiable {
        let fix = |change: Change, harm: Harm| Fix { change, harm };
        let removal = Change {
            csv: Some("etcd.v1".to_owned()),
            ..Change::new(ChangeKind::RemoveCsv, None)
        };
        Unsatisfiable {
            subscriptions: vec![subscription.to_owned()],
            summary: "constraints not satisfiable".to_owned(),
            advice: Advice {
                fixes: vec![
                    fix(Change::new(ChangeKind::FailForward, None), Harm::Running),
                    fix(removal, Harm::Destroys),
                ],
                more: 1,
                ..Advice::default()
            },
            ..Unsatisfiable::default()
        }
    }

    #[test]
    fn the_cause_and_the_way_back_come_first_and_no_advice_destroys() {
        for installed in ["etcd.v1", "etcd.v2", ""] {
            let mut parts = [part("db")];
            question(installed, "Failed").add_failed_upgrades(&mut parts);
            assert_eq!(parts[0].kind(), "version etcd.v2 failed");
            assert_eq!(
                parts[0].lines("shop"),
                [
                    "ClusterServiceVersion etcd.v2: InstallCheckFailed: install timeout",
                    "to resolve: correct the cause, or go back to etcd.v1: kubectl operator rollback db -n shop",
                    "until then nothing newer resolves: constraints not satisfiable",
                    "to resolve: set spec.upgradeStrategy of the OperatorGroup in namespace shop to TechPreviewUnsafeFailForward",
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
            let mut parts = [part(subscription)];
            question.add_failed_upgrades(&mut parts);
            assert_eq!(parts, [part(subscription)]);
            assert_eq!(parts[0].kind(), "cannot be resolved");
        }
    }
}
