//! `cargo xtask rights`: compares the requests of OLM's accounts, from the API server's audit log, with the permissions in the
//! chart.
//!
//! A fault is a request that was denied due to missing permission. Also, each permission with a wildcard, or over permissions of
//! others, needs a reason in `reasons.yaml`. If the log covers all tests, unused permissions need a reason as well, and a used
//! one must not be listed as unused.

mod asked;
mod granted;
mod reasons;
mod rule;

use std::path::Path;

use self::asked::Asked;
use self::reasons::Reasons;
use self::rule::Right;
use crate::cluster::Cluster;
use crate::{manifest, workspace};

/// Namespace of OLM's accounts.
const NAMESPACE: &str = "olm";
/// Folder of the applied objects, which include the roles.
const MANIFESTS: &str = "manifests/olm";

/// Result of the comparison.
#[derive(Debug)]
pub(crate) struct Report {
    /// Faults to fix; empty if there are none.
    pub(crate) faults: Vec<String>,
    requests: u64,
    rights: usize,
    unused: usize,
}

impl Report {
    /// Returns a summary in one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "rights: {} requests of OLM's accounts; {} rights in the chart, {} of them not used; {} faults",
            self.requests,
            self.rights,
            self.unused,
            self.faults.len()
        )
    }
}

/// Runs `cargo xtask rights`: prints the faults and a summary. Returns false if there are any.
///
/// # Errors
/// The log or the manifests cannot be read.
pub(crate) fn run(name: &str) -> anyhow::Result<bool> {
    let report = of_log(&Cluster::open(name)?.audit_log(), false)?;
    for fault in &report.faults {
        println!("FAULT {fault}");
    }
    println!("{}", report.summary());
    Ok(report.faults.is_empty())
}

/// Compares an audit log with the permissions; `whole` if the log covers all tests.
///
/// # Errors
/// The log or the manifests cannot be read.
pub(crate) fn of_log(log: &Path, whole: bool) -> anyhow::Result<Report> {
    let rights = chart_rights(&workspace::root())?;
    let asked = Asked::read(log, &rights)?;
    Ok(judge(&rights, &asked, &Reasons::read()?, whole))
}

/// Returns the permissions in the chart, as rendered with its default values.
fn chart_rights(root: &Path) -> anyhow::Result<Vec<Right>> {
    granted::rights(&manifest::read_folder(&root.join(MANIFESTS))?, NAMESPACE)
}

fn judge(rights: &[Right], asked: &Asked, reasons: &Reasons, whole: bool) -> Report {
    let mut faults: Vec<String> = asked
        .refused
        .iter()
        .map(|(request, number)| format!("{request} was refused {number} times: the chart lacks the right, or the program should not ask"))
        .collect();
    faults.extend(reasons::faults(reasons, rights));
    let used = |place: usize| asked.used.get(&place).copied().unwrap_or_default();
    if whole {
        for (place, right) in rights.iter().enumerate() {
            let why: Vec<_> = reasons
                .unused
                .iter()
                .filter(|reason| reason.is_about(right))
                .collect();
            let what = format!(
                "{} may {} {} ({})",
                right.account, right.verb, right.subject, right.role
            );
            if used(place) == 0 && why.is_empty() {
                faults.push(format!(
                    "{what} and no test uses it: take it out of charts/olm, or say in reasons.yaml, unused, what it is for"
                ));
            } else if used(place) > 0 && !why.is_empty() && !why.iter().any(|reason| reason.sometimes) {
                faults.push(format!(
                    "{what}, which is used: take it out of reasons.yaml, unused"
                ));
            }
        }
    }
    Report {
        faults,
        requests: asked.requests,
        rights: rights.len(),
        unused: (0..rights.len()).filter(|place| used(*place) == 0).count(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::rights::rule::Subject;

    fn right(verb: &str, resource: &str) -> Right {
        Right {
            account: "a".to_owned(),
            role: "r".to_owned(),
            namespace: None,
            subject: Subject {
                group: String::new(),
                resource: resource.to_owned(),
            },
            names: BTreeSet::new(),
            verb: verb.to_owned(),
        }
    }

    fn reasons(unused: &str, wide: &str) -> Reasons {
        serde_saphyr::from_str(&format!("unused: [{unused}]\nwide: [{wide}]")).unwrap()
    }

    const GET: &str = r#"{account: a, groups: [""], resources: [pods], verbs: [get], why: for a rainy day}"#;

    #[test]
    fn a_right_that_is_not_used_is_a_fault_of_the_whole_run_unless_there_is_a_reason() {
        let rights = [right("get", "pods"), right("list", "pods")];
        let asked = Asked {
            used: BTreeMap::from([(1, 3)]),
            ..Asked::default()
        };
        let told = judge(&rights, &asked, &reasons("", ""), true).faults;
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("a may get pods (r) and no test uses it"),
            "{told:?}"
        );
        // A part of the tests does not show that a permission is unused.
        assert!(judge(&rights, &asked, &reasons("", ""), false).faults.is_empty());
        let report = judge(&rights, &asked, &reasons(GET, ""), true);
        assert!(report.faults.is_empty());
        assert_eq!(
            report.summary(),
            "rights: 0 requests of OLM's accounts; 2 rights in the chart, 1 of them not used; 0 faults"
        );
    }

    #[test]
    fn a_reason_for_what_is_used_is_a_fault_unless_only_some_runs_use_it() {
        let rights = [right("get", "pods")];
        let asked = Asked {
            used: BTreeMap::from([(0, 1)]),
            ..Asked::default()
        };
        let told = judge(&rights, &asked, &reasons(GET, ""), true).faults;
        assert_eq!(
            told,
            ["a may get pods (r), which is used: take it out of reasons.yaml, unused"]
        );
        assert!(judge(&rights, &asked, &reasons(GET, ""), false).faults.is_empty());
        let sometimes = GET.replace("why:", "sometimes: true, why:");
        let both = format!("{GET}, {sometimes}");
        assert!(
            judge(&rights, &asked, &reasons(&both, ""), true)
                .faults
                .is_empty()
        );
        assert!(
            judge(&rights, &asked, &reasons(&sometimes, ""), true)
                .faults
                .is_empty()
        );
    }

    #[test]
    fn a_refused_request_is_a_fault_of_any_run() {
        let asked = Asked {
            refused: BTreeMap::from([("a: get pods".to_owned(), 2)]),
            ..Asked::default()
        };
        let told = judge(&[], &asked, &reasons("", ""), false).faults;
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("a: get pods was refused 2 times"), "{told:?}");
    }
}
