//! Why there is no way to a version, and what would help.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use go_compat::semver::Version;

use super::way::{Move, Searched, Target, moves, search, versions_text};
use super::{MAX_STEPS, Plan, Question, Unsatisfiable, plan};
use crate::advice::anew_text;
use crate::entry::Entry;
use crate::explain::{Explanation, Hints, Tree};
use crate::installed::Readings;
use crate::problem::{Problem, Subscription};
use crate::resolve::{ResolveError, failing, resolve};
use crate::variables::is_upgrade;
use crate::work::Work;

/// The plan of a target to which no way was found by `searched`, with at most so many resolutions: what will happen instead is
/// not part of it.
///
/// # Errors
/// When the namespace as a whole cannot be resolved.
pub(super) fn no_way(
    question: &Question,
    subscription: &Subscription,
    target: &Target,
    searched: &Searched,
    max_trials: usize,
) -> Result<Plan, ResolveError> {
    let ahead = plan(question)?;
    let mut tree: Vec<Tree> = vec![Tree::leaf(versions_text(&question.problem, subscription))];
    let instead: Vec<&str> = ahead
        .install()
        .filter(|install| install.package == subscription.package)
        .map(|install| install.name.as_str())
        .collect();
    if !instead.is_empty() {
        tree.push(Tree::leaf(format!(
            "the channel leads to {} instead",
            instead.join(", then ")
        )));
    }
    let installed = subscription.installed_csv.as_str();
    let distances = Distances::new(&question.problem, subscription, target);
    if !installed.is_empty() && !distances.known.contains_key(installed) {
        tree.push(Tree::leaf(format!(
            "no entry of any channel leads from {installed} to it by replaces, skips or skipRange"
        )));
    }
    match obstacle(&searched.reached, &subscription.name, target, &distances)? {
        Some(obstacle) => tree.push(obstacle),
        None => {
            let concerned = |failure: &&Unsatisfiable| failure.subscriptions.contains(&subscription.name);
            let failures = ahead.unsatisfiable.iter().filter(concerned);
            tree.extend(failures.flat_map(|failure| failure.tree.clone()));
        }
    }
    tree.extend(anew(&question.problem, subscription, target, max_trials)?);
    let from = if installed.is_empty() {
        "nothing installed"
    } else {
        installed
    };
    let message = format!(
        "no way from {from} to {} for subscription {}",
        target.version, subscription.name
    );
    let message = if searched.gave_up {
        tree.insert(0, Tree::leaf(given_up(max_trials)));
        format!("{message} was found before the search was given up")
    } else {
        message
    };
    Ok(Plan {
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
    })
}

/// What it means that a search ended early.
fn given_up(max_trials: usize) -> String {
    format!(
        "the search was given up after {max_trials} resolutions or {MAX_STEPS} steps, so there may be a way all the same: name a \
         version on the way with --target, and go on from there"
    )
}

/// How many entries there are, one replacing or skipping the other, from a version to the target.
struct Distances {
    /// By name of the ClusterServiceVersion; what nothing leads on from is not in it.
    known: BTreeMap<String, usize>,
}

impl Distances {
    fn new(problem: &Problem, subscription: &Subscription, target: &Target) -> Self {
        let entries: Vec<&Entry> = problem
            .snapshot(&subscription.catalog)
            .iter()
            .flat_map(|snapshot| snapshot.entries())
            .filter(|entry| *entry.package == *subscription.package)
            .map(|entry| &**entry)
            .collect();
        let mut versions: BTreeMap<&str, Option<Version>> = entries
            .iter()
            .map(|entry| (&*entry.name, entry.version.clone()))
            .collect();
        // What is installed need not be in the catalog any more.
        versions.extend(
            problem
                .installed
                .iter()
                .filter(|csv| csv.name == subscription.installed_csv)
                .map(|csv| (csv.name.as_str(), Version::parse_tolerant(&csv.version).ok())),
        );
        let mut by_name: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            by_name.entry(&entry.name).or_default().push(entry);
        }
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut open: VecDeque<&str> = VecDeque::new();
        for (name, version) in &versions {
            if target.is(name, version.as_ref()) && by_name.contains_key(name) {
                known.insert((*name).to_owned(), 0);
                open.push_back(name);
            }
        }
        while let Some(name) = open.pop_front() {
            let next = known.get(name).map_or(0, |distance| distance + 1);
            for (before, version) in &versions {
                let leads = |entry: &&Entry| is_upgrade(entry, before, version.as_ref());
                if !known.contains_key(*before) && by_name.get(name).into_iter().flatten().any(leads) {
                    known.insert((*before).to_owned(), next);
                    open.push_back(before);
                }
            }
        }
        Self { known }
    }
}

/// What stands in the way at the place nearest to the target from which entries lead on.
fn obstacle(
    reached: &[Problem],
    name: &str,
    target: &Target,
    distances: &Distances,
) -> Result<Option<Tree>, ResolveError> {
    let subscription_of = |problem: &Problem| problem.subscriptions.iter().find(|s| s.name == name).cloned();
    let nearest = reached
        .iter()
        .filter_map(|problem| {
            let subscription = subscription_of(problem)?;
            let distance = match subscription.installed_csv.as_str() {
                // A first installation may begin at the target.
                "" => Some(1),
                csv => distances.known.get(csv).copied(),
            };
            Some((distance?, problem, subscription))
        })
        .min_by_key(|(distance, ..)| *distance);
    let Some((distance, problem, subscription)) = nearest else {
        return Ok(None);
    };
    for Move { edit, mut changed } in moves(problem, &subscription, target) {
        let Some(asking) = changed.subscriptions.iter_mut().find(|s| s.name == name) else {
            continue;
        };
        // Without anything installed only the way that names the target is about it.
        if subscription.installed_csv.is_empty() && !edit.is_some_and(|edit| edit.recreate) {
            continue;
        }
        asking.must_move = true;
        let (channel, starting_csv) = (asking.channel.clone(), asking.starting_csv.clone());
        if !leads_nearer(&changed, &subscription, &channel, distance, distances) {
            continue;
        }
        let resolution = resolve(&changed)?;
        let concerned = |failure: &&Explanation| failure.subscriptions.iter().any(|s| s == name);
        if let Some(failure) = resolution.failures.iter().find(concerned) {
            let text = if subscription.installed_csv.is_empty() {
                format!("it cannot be installed first with spec.startingCSV {starting_csv}")
            } else {
                format!(
                    "entries lead to it by way of {}, and what follows there cannot be installed",
                    subscription.installed_csv
                )
            };
            return Ok(Some(Tree {
                text,
                because: failure.tree(&Hints::new(&changed)),
            }));
        }
    }
    Ok(None)
}

/// Whether the channel has an entry that follows what the Subscription has and is nearer to the target.
fn leads_nearer(
    problem: &Problem,
    subscription: &Subscription,
    channel: &str,
    distance: usize,
    distances: &Distances,
) -> bool {
    let Some(snapshot) = problem.snapshot(&subscription.catalog) else {
        return false;
    };
    if subscription.installed_csv.is_empty() {
        return true;
    }
    let csv = problem
        .installed
        .iter()
        .find(|csv| csv.name == subscription.installed_csv);
    let version = csv.and_then(|csv| Version::parse_tolerant(&csv.version).ok());
    snapshot
        .entries()
        .iter()
        .filter(|entry| *entry.package == *subscription.package)
        .filter(|entry| channel.is_empty() || *entry.channel == *channel)
        .filter(|entry| distances.known.get(&*entry.name).is_some_and(|d| *d < distance))
        .any(|entry| is_upgrade(entry, &subscription.installed_csv, version.as_ref()))
}

/// That subscribing anew gets there, at the price of what runs, if the resolver says so.
fn anew(
    problem: &Problem,
    subscription: &Subscription,
    target: &Target,
    max_trials: usize,
) -> Result<Option<Tree>, ResolveError> {
    let installed = subscription.installed_csv.as_str();
    if installed.is_empty() {
        return Ok(None);
    }
    let mut without = problem.clone();
    without.installed.retain(|csv| csv.name != installed);
    for changed in without
        .subscriptions
        .iter_mut()
        .filter(|s| s.name == subscription.name)
    {
        changed.installed_csv.clear();
        changed.current_csv.clear();
        changed.starting_csv.clear();
    }
    let Some(way) = search(&without, &subscription.name, target, max_trials)?.way else {
        return Ok(None);
    };
    let Some((edits, first, _)) = way.steps.first() else {
        return Ok(None);
    };
    // What others lose by it would be no way out.
    let fails = |problem: &Problem| failing(problem, &Readings::default(), &Work::default());
    let known = fails(problem)?;
    let is_new = |name: &String| !known.contains(name) && name != &subscription.name;
    if fails(first)?.iter().any(is_new) {
        return Ok(None);
    }
    let fields: BTreeSet<String> = edits
        .iter()
        .flat_map(|edit| &edit.fields)
        .map(|(field, _, to)| format!("{field} {to}"))
        .collect();
    let with = if fields.is_empty() {
        " as before".to_owned()
    } else {
        format!(" with {}", fields.into_iter().collect::<Vec<_>>().join(" and "))
    };
    let anew = anew_text(&subscription.name, installed, &with);
    Ok(Some(Tree::leaf(format!("to get there, {anew}"))))
}
