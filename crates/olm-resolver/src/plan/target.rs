//! Plans the way to one version.

use super::way::{MAX_TRIALS, Target, is_at, search, versions_text};
use super::{MAX_STEPS, Plan, Question, Unsatisfiable};
use crate::explain::Tree;
use crate::problem::{Problem, Subscription};
use crate::resolve::ResolveError;

/// A target cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It is not clear which Subscription is meant, or none has the version in its package.
    #[error("{0}")]
    Unclear(String),
    /// The namespace cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

/// Plans the way to a version. If there is none, the plan reports that as unsatisfiable, with the existing
/// versions.
///
/// The way with the fewest changes of channel is chosen, then the one with the fewest steps.
///
/// # Errors
/// It is not clear which Subscription is meant, or the namespace cannot be resolved.
pub fn plan_to(question: &Question, target: &Target) -> Result<Plan, TargetError> {
    plan_within(question, target, MAX_TRIALS)
}

fn plan_within(question: &Question, target: &Target, max_trials: usize) -> Result<Plan, TargetError> {
    let subscription = find_subscription(&question.problem, target)?;
    if is_at(&question.problem, &subscription, target) {
        return Ok(Plan {
            namespace: question.problem.namespace.clone(),
            notes: vec![format!(
                "subscription {} has {} already",
                subscription.name, subscription.installed_csv
            )],
            ..Plan::default()
        });
    }
    let searched = search(&question.problem, &subscription.name, target, max_trials)?;
    Ok(match searched.way {
        Some(way) => way.told(question, &subscription, target),
        None => no_way(
            question,
            &subscription,
            target,
            searched.gave_up.then_some(max_trials),
        ),
    })
}

/// Returns the plan which reports that there is no way. `given_up` is the number of resolutions after which
/// the search ended early.
fn no_way(
    question: &Question,
    subscription: &Subscription,
    target: &Target,
    given_up: Option<usize>,
) -> Plan {
    let from = match subscription.installed_csv.as_str() {
        "" => "nothing installed",
        installed => installed,
    };
    let mut message = format!(
        "no path from {from} to {} for subscription {}",
        target.version, subscription.name
    );
    let mut tree = vec![
        Tree::leaf(versions_text(&question.problem, subscription)),
        Tree::leaf("without --target the plan shows where the channel leads".to_owned()),
    ];
    if let Some(trials) = given_up {
        message.push_str(" was found before the search stopped");
        tree.insert(
            0,
            Tree::leaf(format!(
                "the search stopped after {trials} resolutions or {MAX_STEPS} steps, so an upgrade path may exist: use --target with \
                 a version between, and continue from there"
            )),
        );
    }
    Plan {
        namespace: question.problem.namespace.clone(),
        unsatisfiable: vec![Unsatisfiable {
            subscriptions: vec![subscription.name.clone()],
            summary: message.clone(),
            message,
            tree,
            ..Unsatisfiable::default()
        }],
        notes: question.opening_notes(),
        ..Plan::default()
    }
}

/// Returns whether the Subscription's package has the target's version.
fn offers_target(problem: &Problem, subscription: &Subscription, target: &Target) -> bool {
    problem.snapshot(&subscription.catalog).is_some_and(|snapshot| {
        let mut entries = snapshot
            .entries()
            .iter()
            .filter(|entry| *entry.package == *subscription.package);
        entries.any(|entry| target.is(&entry.name, entry.version.as_ref()))
    })
}

/// Returns the Subscription that shall reach a target: the named one, or the only one whose package has the version.
///
/// # Errors
/// There is none, or there are several.
pub fn find_subscription(problem: &Problem, target: &Target) -> Result<Subscription, TargetError> {
    if let Some(name) = &target.subscription {
        let found = problem.subscriptions.iter().find(|s| s.name == *name);
        return found
            .cloned()
            .ok_or_else(|| TargetError::Unclear(problem.unknown_subscription(name)));
    }
    let version = &target.version;
    let fitting: Vec<&Subscription> = problem
        .subscriptions
        .iter()
        .filter(|s| offers_target(problem, s, target))
        .collect();
    match fitting.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            let texts: Vec<String> = problem
                .subscriptions
                .iter()
                .map(|s| versions_text(problem, s))
                .collect();
            Err(TargetError::Unclear(format!(
                "no package subscribed to in namespace {} has version {version}: {}",
                problem.namespace,
                texts.join("; ")
            )))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|s| s.name.as_str()).collect();
            Err(TargetError::Unclear(format!(
                "several subscriptions could go to {version}: {}; name one with --subscription",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use go_compat::semver::Version;
    use olm_fbc::entry::{BundleEntry, EntryProperty};

    use super::*;
    use crate::catalog::{Catalog, CatalogKey, Snapshot};

    /// Returns a package with versions 1.0.0 to 9.0.0 in one channel, each replacing the one before. Its
    /// Subscription has none installed.
    fn question(requires: &str) -> Question {
        let key = CatalogKey {
            name: "cat".to_owned(),
            namespace: "ns".to_owned(),
        };
        let entries = (1..10).map(|number: u64| BundleEntry {
            name: format!("p.v{number}").into(),
            package: "p".into(),
            channel: "stable".into(),
            version: Some(Version::new(number, 0, 0)),
            replaces: (number > 1).then(|| format!("p.v{}", number - 1).into()),
            properties: if number == 9 {
                [EntryProperty::new("olm.label.required", requires)].into()
            } else {
                Arc::default()
            },
            ..BundleEntry::default()
        });
        let installed = crate::InstalledCsv {
            name: "p.v1".to_owned(),
            version: "1.0.0".to_owned(),
            ..Default::default()
        };
        Question {
            problem: Problem {
                namespace: "ns".to_owned(),
                subscriptions: vec![Subscription {
                    name: "s".to_owned(),
                    package: "p".to_owned(),
                    channel: "stable".to_owned(),
                    catalog: key.clone(),
                    current_csv: installed.name.clone(),
                    installed_csv: installed.name.clone(),
                    ..Subscription::default()
                }],
                installed: vec![installed],
                catalogs: vec![Catalog {
                    key,
                    priority: 0,
                    content: Ok(Arc::new(Snapshot::new(entries))),
                }],
                ..Problem::default()
            },
            ..Question::default()
        }
    }

    fn told(question: &Question, max_trials: usize) -> String {
        let target = Target {
            version: "9.0.0".to_owned(),
            subscription: None,
        };
        plan_within(question, &target, max_trials).unwrap().to_string()
    }

    #[test]
    fn an_aborted_search_is_not_reported_as_no_path() {
        let unreachable = question(r#"{"label":"nobody has it"}"#);
        insta::assert_snapshot!(told(&unreachable, 3), @r"
        namespace ns

        cannot be resolved: s
          no path from p.v1 to 9.0.0 for subscription s was found before the search stopped
          - the search stopped after 3 resolutions or 1000 steps, so an upgrade path may exist: use --target with a version
            between, and continue from there
          - package p of subscription s has 9.0.0, 8.0.0, 7.0.0, 6.0.0, 5.0.0, 4.0.0, 3.0.0, 2.0.0, 1.0.0
          - without --target the plan shows where the channel leads
        ");
        let told_whole = told(&unreachable, MAX_TRIALS);
        assert!(
            told_whole.contains("no path from p.v1 to 9.0.0 for subscription s"),
            "{told_whole}"
        );
        assert!(!told_whole.contains("given up"), "{told_whole}");
    }
}
