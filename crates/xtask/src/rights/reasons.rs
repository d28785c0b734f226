//! Reasons for permissions of OLM's accounts that no test uses, or that are wide: `reasons.yaml`.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde::Deserialize;

use super::rule::Right;

/// Verbs that grant or assume permissions of others. The first two never appear in a log of requests.
const OF_OTHERS: [&str; 3] = ["bind", "escalate", "impersonate"];

/// The content of `reasons.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reasons {
    /// Permissions that the tests do not use, for a reason.
    pub(super) unused: Vec<Reason>,
    /// Permissions with wildcards, and those to grant or assume permissions of others. `docs/security.md` has the same texts.
    pub(super) wide: Vec<Reason>,
}

/// A reason for the permissions of one account that match `groups`, `resources` and `verbs`, as written in the chart.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    account: String,
    groups: BTreeSet<String>,
    resources: BTreeSet<String>,
    verbs: BTreeSet<String>,
    pub(super) why: String,
    /// True if some test runs use them.
    #[serde(default)]
    pub(super) sometimes: bool,
}

impl Reasons {
    /// Returns the reasons of this checkout.
    ///
    /// # Errors
    /// The file has another format.
    pub(super) fn read() -> anyhow::Result<Self> {
        serde_saphyr::from_str(include_str!("reasons.yaml")).context("crates/xtask/src/rights/reasons.yaml")
    }
}

impl Reason {
    /// Returns true if it is for this permission.
    pub(super) fn is_about(&self, right: &Right) -> bool {
        self.account == right.account
            && self.groups.contains(&right.subject.group)
            && self.resources.contains(&right.subject.resource)
            && self.verbs.contains(&right.verb)
    }
}

/// Returns true if a permission requires a reason even if it is used.
pub(super) fn is_wide(right: &Right) -> bool {
    right.has_wildcard() || OF_OTHERS.contains(&right.verb.as_str())
}

/// Returns reasons for permissions that the chart does not grant, and wide permissions without a reason.
pub(super) fn faults(reasons: &Reasons, rights: &[Right]) -> Vec<String> {
    let stale = |list: &'static str, reasons: &[Reason]| -> Vec<String> {
        let stale = reasons
            .iter()
            .filter(|reason| !rights.iter().any(|right| reason.is_about(right)));
        stale
            .map(|reason| {
                format!(
                    "reasons.yaml, {list}: the chart gives no such right: {:?}",
                    reason.why
                )
            })
            .collect()
    };
    let mut faults = stale("unused", &reasons.unused);
    faults.extend(stale("wide", &reasons.wide));
    for right in rights.iter().filter(|right| is_wide(right)) {
        if !reasons.wide.iter().any(|reason| reason.is_about(right)) {
            faults.push(format!(
                "{} may {} {} ({}) and nothing in reasons.yaml, wide, says why: narrow the rule, or say it there and in docs/security.md",
                right.account, right.verb, right.subject, right.role
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{manifest, workspace};

    fn chart() -> Vec<Right> {
        super::super::chart_rights(&workspace::root()).unwrap()
    }

    #[test]
    fn every_wide_right_of_the_chart_has_its_reason_and_every_reason_its_right() {
        assert_eq!(faults(&Reasons::read().unwrap(), &chart()), [""; 0]);
    }

    #[test]
    fn a_wide_right_without_a_reason_and_a_reason_without_a_right_are_reported() {
        let mut reasons = Reasons::read().unwrap();
        let escalate = chart().iter().filter(|right| right.verb == "escalate").count();
        assert!(escalate > 0);
        reasons.wide.retain(|reason| !reason.verbs.contains("escalate"));
        let told = faults(&reasons, &chart());
        assert_eq!(
            told.iter().filter(|fault| fault.contains("may escalate")).count(),
            escalate,
            "{told:?}"
        );

        let nothing: Vec<Right> = chart()
            .into_iter()
            .filter(|right| right.account == "packageserver")
            .collect();
        let reasons = Reasons::read().unwrap();
        let told = faults(&reasons, &nothing).len();
        let about = |list: &[Reason]| {
            list.iter()
                .filter(|reason| reason.account != "packageserver")
                .count()
        };
        assert_eq!(told, about(&reasons.unused) + about(&reasons.wide));
    }

    #[test]
    fn the_security_page_has_the_reason_for_each_wide_right() {
        let page = std::fs::read_to_string(workspace::root().join("docs/security.md")).unwrap();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = words(&page);
        for reason in Reasons::read().unwrap().wide {
            assert!(
                page.contains(&words(&reason.why)),
                "docs/security.md does not say: {}",
                reason.why
            );
        }
    }

    /// The ClusterServiceVersion requests the permissions that the ClusterRole grants: OLM checks the former, and the latter is
    /// effective.
    #[test]
    fn the_package_servers_version_asks_for_the_rights_that_its_role_gives() {
        let objects = manifest::read_folder(&workspace::root().join("manifests/olm")).unwrap();
        let find = |kind: &str, name: &str| {
            let mut objects = objects.iter();
            objects
                .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
                .unwrap()
        };
        let version = find("ClusterServiceVersion", "packageserver");
        let asked = version
            .pointer("/spec/install/spec/clusterPermissions/0/rules")
            .unwrap();
        assert_eq!(asked, &find("ClusterRole", "olm:packageserver")["rules"]);
    }
}
