//! Changes that might end a failure, of objects that take part in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::did_you_mean::did_you_mean;

use super::Fix;
use super::change::{Change, ChangeKind, Harm, Running};
use super::failed_upgrade::{former_of_failed, leads_forward};
use crate::catalog::Snapshot;
use crate::explain::{Explanation, Reason};
use crate::problem::{Problem, Subscription};

/// Maximum number of other channels, or other catalogs, that are considered for one Subscription.
const MAX_ALTERNATIVES: usize = 50;

/// Returns possible changes with their harm, the gentlest first. Among equals, the likeliest change of each
/// Subscription and kind precedes the second of any, so that none is left out because of its name. Users
/// cannot change the Subscriptions that are `untouchable`; `adoptable` are installed operators without one, by package.
pub(super) fn of(
    problem: &Problem,
    explanation: &Explanation,
    untouchable: &BTreeSet<String>,
    adoptable: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Fix> {
    let mut groups: Vec<Vec<Change>> = Vec::new();
    let names = explanation.taking_part();
    let running = Running::of(problem);
    let mut contested = replaced_by(explanation);
    // Without its operator a Subscription may begin again. Another Subscription may have the same operator.
    let taking_part = problem
        .subscriptions
        .iter()
        .filter(|s| names.contains(s.name.as_str()));
    contested.extend(
        taking_part
            .map(|s| s.installed_csv.as_str())
            .filter(|csv| !csv.is_empty()),
    );
    for subscription in problem
        .subscriptions
        .iter()
        .filter(|s| !untouchable.contains(&s.name))
    {
        if explanation.subscriptions.contains(&subscription.name) {
            groups.push(adoptions(
                problem,
                subscription,
                adoptable.get(&subscription.package),
            ));
        }
        let takes_part = names.contains(subscription.name.as_str())
            || contested.contains(subscription.installed_csv.as_str());
        if takes_part {
            groups.extend(of_subscription(
                problem,
                subscription,
                explanation.is_unsatisfiable(),
                running.has(subscription),
            ));
        }
        if (takes_part || explanation.subscriptions.contains(&subscription.name))
            && problem.awaits_plan(subscription)
        {
            groups.push(vec![Change {
                csv: Some(subscription.current_csv.clone()),
                ..Change::new(ChangeKind::Approve, Some(&subscription.name))
            }]);
        }
    }
    if !problem.operator_group.fail_forward && leads_forward(problem, &explanation.subscriptions) {
        groups.push(vec![Change::new(ChangeKind::FailForward, None)]);
    }
    if explanation.is_unsatisfiable() {
        groups.extend(free_csvs(problem, explanation).map(|csv| {
            vec![Change {
                csv: Some(csv),
                ..Change::new(ChangeKind::RemoveCsv, None)
            }]
        }));
    }
    let mut changes: Vec<(Harm, usize, Change)> = Vec::new();
    for group in groups {
        let mut places: BTreeMap<Harm, usize> = BTreeMap::new();
        for change in group {
            let harm = change.harm(&running);
            let place = places.entry(harm).or_default();
            changes.push((harm, *place, change));
            *place += 1;
        }
    }
    changes.sort();
    changes
        .into_iter()
        .map(|(harm, _, change)| Fix { change, harm })
        .collect()
}

/// Returns the installed operators that an upgrade in the contradiction would replace.
fn replaced_by(explanation: &Explanation) -> BTreeSet<&str> {
    let replaced = explanation.reasons().iter().filter_map(|reason| match reason {
        Reason::Replaces { installed, .. } => Some(installed.csv()),
        _ => None,
    });
    replaced.collect()
}

/// Returns the installed operators that take part although no Subscription owns them.
fn free_csvs<'a>(problem: &'a Problem, explanation: &'a Explanation) -> impl Iterator<Item = String> {
    let found: BTreeSet<String> = explanation
        .reasons()
        .iter()
        .filter_map(|reason| match reason {
            Reason::NotReferenced { bundle } => Some(bundle.csv().to_owned()),
            _ => None,
        })
        .filter(|csv| problem.installed.iter().any(|installed| installed.name == *csv))
        .collect();
    found.into_iter()
}

/// Returns the adoptions of installed operators of its package by a new Subscription. Those of a failed upgrade name the version to
/// go back to.
fn adoptions(
    problem: &Problem,
    subscription: &Subscription,
    adoptable: Option<&BTreeSet<String>>,
) -> Vec<Change> {
    let is_new = subscription.installed_csv.is_empty() && subscription.current_csv.is_empty();
    let names = adoptable.filter(|_| is_new).into_iter().flatten();
    let now = &subscription.starting_csv;
    let changes = names.map(|csv| Change {
        csv: former_of_failed(problem, csv),
        from: (!now.is_empty()).then(|| now.clone()),
        to: Some(csv.clone()),
        ..Change::new(ChangeKind::Adopt, Some(&subscription.name))
    });
    changes.collect()
}

/// Returns the changes of one Subscription, grouped by kind, the likeliest of each kind first.
fn of_subscription(
    problem: &Problem,
    subscription: &Subscription,
    removable: bool,
    is_running: bool,
) -> Vec<Vec<Change>> {
    let change = |kind, from: Option<String>, to: Option<String>| Change {
        from,
        to,
        ..Change::new(kind, Some(&subscription.name))
    };
    let mut groups = Vec::new();
    if let Some(snapshot) = problem.snapshot(&subscription.catalog) {
        if snapshot.has_package(&subscription.package) {
            groups.push(channels(snapshot, subscription));
        } else if !is_running {
            // A running operator proves that the package existed by its name. Another package would replace
            // that operator.
            let meant = did_you_mean(&subscription.package, snapshot.package_names());
            groups.extend(meant.map(|to| {
                let now = subscription.package.clone();
                vec![change(ChangeKind::Package, Some(now), Some(to.to_owned()))]
            }));
        }
    }
    let mut others: Vec<_> = problem
        .catalogs
        .iter()
        .filter(|catalog| catalog.key != subscription.catalog)
        .filter(|catalog| {
            let snapshot = catalog.content.as_deref().ok();
            snapshot.is_some_and(|snapshot| snapshot.has_package(&subscription.package))
        })
        .collect();
    // In the resolver's order of preference, after catalogs of the same name.
    others.sort_by_key(|catalog| {
        let key = &catalog.key;
        let is_namesake = key.name == subscription.catalog.name;
        (
            !is_namesake,
            Reverse(catalog.priority),
            key.namespace != problem.namespace,
            key,
        )
    });
    let catalogs = others.into_iter().map(|catalog| {
        let now = subscription.catalog.to_string();
        change(ChangeKind::Catalog, Some(now), Some(catalog.key.to_string()))
    });
    groups.push(catalogs.take(MAX_ALTERNATIVES).collect());
    if !subscription.starting_csv.is_empty() && !is_running {
        let now = subscription.starting_csv.clone();
        groups.push(vec![change(ChangeKind::AnyStart, Some(now), None)]);
    }
    if removable {
        let hold = subscription.hold.clone();
        groups.extend(hold.map(|range| vec![change(ChangeKind::Unhold, Some(range), None)]));
        let csv = is_running.then(|| subscription.installed_csv.clone());
        let kinds = [
            csv.as_ref().map(|_| ChangeKind::Unsubscribe),
            Some(ChangeKind::RemoveSubscription),
        ];
        groups.extend(kinds.into_iter().flatten().map(|kind| {
            vec![Change {
                csv: csv.clone(),
                ..change(kind, None, None)
            }]
        }));
    }
    groups
}

/// Returns other channels of the package: a similar name first, then the default channel, then those with the
/// newest heads.
fn channels(snapshot: &Snapshot, subscription: &Subscription) -> Vec<Change> {
    let (package, now) = (&subscription.package, &subscription.channel);
    // An existing channel is not a typing error.
    let is_there = snapshot.channel_names(package).any(|channel| channel == now);
    let meant = Some(()).filter(|()| !is_there);
    let meant = meant.and_then(|()| did_you_mean(now, snapshot.channel_names(package)));
    let mut others: Vec<&str> = snapshot
        .channel_names(package)
        .filter(|channel| channel != now)
        .collect();
    others.sort_by_cached_key(|channel| {
        let (is_default, newest) = snapshot.channel_rank(package, channel);
        (Some(*channel) != meant, !is_default, Reverse(newest), *channel)
    });
    let changes = others.into_iter().take(MAX_ALTERNATIVES).map(|to| Change {
        from: Some(now.clone()),
        to: Some(to.to_owned()),
        ..Change::new(ChangeKind::Channel, Some(&subscription.name))
    });
    changes.collect()
}
