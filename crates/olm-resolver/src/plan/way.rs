//! Search for the way to one version: the channels to follow, step by step, until it is installed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use go_compat::semver::Version;

use super::{Edit, MAX_STEPS, Plan, Question, notes};
use crate::advice::channel_text;
use crate::problem::{Problem, Subscription};
use crate::resolve::{Resolution, ResolveError, resolve};
use crate::simulate;

/// Maximum resolutions tried in search of a way.
pub(super) const MAX_TRIALS: usize = 4_000;

/// Target of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A version, with or without `v`, or the name of a ClusterServiceVersion.
    pub version: String,
    /// The Subscription that shall reach it; may be omitted if only one could.
    pub subscription: Option<String>,
}

impl Target {
    pub(super) fn is(&self, name: &str, version: Option<&Version>) -> bool {
        let wanted = self.version.trim_start_matches('v');
        name == self.version || version.is_some_and(|version| version.to_string() == wanted)
    }
}

/// Lists the versions of the package.
pub(super) fn versions_text(problem: &Problem, subscription: &Subscription) -> String {
    let snapshot = problem.snapshot(&subscription.catalog);
    let versions = snapshot.map(|snapshot| snapshot.versions(&subscription.package));
    let versions = versions.unwrap_or_default();
    let texts: Vec<String> = versions.into_iter().map(ToString::to_string).collect();
    let names = crate::enumeration::list(texts.iter().map(String::as_str));
    format!(
        "package {} of subscription {} has {names}",
        subscription.package, subscription.name
    )
}

/// A way: the resolution of each step, and the changes before it.
#[derive(Clone, Default)]
pub(super) struct Way {
    /// Changes before each step, the changed problem, and its resolution.
    pub(super) steps: Vec<(Vec<Edit>, Problem, Resolution)>,
}

/// Sort key, cheapest first: changes, then steps, then the order of discovery.
type Queued = Reverse<(usize, usize, usize)>;

/// Result of a search.
pub(super) struct Searched {
    /// The way, if there is one.
    pub(super) way: Option<Way>,
    /// True if the search ended before all was tried, so that a way may still exist.
    pub(super) gave_up: bool,
}

/// Searches for the cheapest way from the present namespace, with a limit on resolutions.
pub(super) fn search(
    start: &Problem,
    name: &str,
    target: &Target,
    max_trials: usize,
) -> Result<Searched, ResolveError> {
    let mut states: Vec<(Problem, Way)> = vec![(start.clone(), Way::default())];
    let mut queue: BinaryHeap<Queued> = BinaryHeap::from([Reverse((0, 0, 0))]);
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let (mut trials, mut gave_up) = (0, false);
    'search: while let Some(Reverse((changes, steps, index))) = queue.pop() {
        let (problem, way) = states[index].clone();
        let Some(subscription) = problem.subscriptions.iter().find(|s| s.name == name).cloned() else {
            continue;
        };
        if is_at(&problem, &subscription, target) {
            return Ok(Searched {
                way: Some(way),
                gave_up,
            });
        }
        let state = (subscription.installed_csv.clone(), subscription.channel.clone());
        if !seen.insert(state) {
            continue;
        }
        if steps >= MAX_STEPS {
            gave_up = true;
            continue;
        }
        for step in moves(&problem, &subscription, target) {
            trials += 1;
            if trials > max_trials {
                gave_up = true;
                break 'search;
            }
            let price = step.price();
            let Move { edit, changed } = step;
            let resolution = resolve(&changed)?;
            let mut updates = resolution.solution.updates.iter();
            if !updates.any(|update| update.subscription == name) {
                continue;
            }
            let mut way = way.clone();
            let mut after = changed.clone();
            simulate::carry_out(&mut after, &resolution.solution);
            way.steps.push((edit.into_iter().collect(), changed, resolution));
            states.push((after, way));
            queue.push(Reverse((changes + price, steps + 1, states.len() - 1)));
        }
    }
    Ok(Searched { way: None, gave_up })
}

/// Returns whether the Subscription has the target.
pub(super) fn is_at(problem: &Problem, subscription: &Subscription, target: &Target) -> bool {
    let csv = problem
        .installed
        .iter()
        .find(|csv| csv.name == subscription.installed_csv);
    csv.is_some_and(|csv| target.is(&csv.name, Version::parse_tolerant(&csv.version).ok().as_ref()))
}

/// A namespace to resolve next, with its change.
struct Move {
    edit: Option<Edit>,
    changed: Problem,
}

impl Move {
    fn of(problem: &Problem, edit: Edit) -> Self {
        let mut changed = problem.clone();
        for subscription in changed
            .subscriptions
            .iter_mut()
            .filter(|s| s.name == edit.subscription)
        {
            if let Some(channel) = &edit.channel {
                subscription.channel.clone_from(channel);
            }
            if let Some(csv) = &edit.starting_csv {
                subscription.starting_csv.clone_from(csv);
            }
        }
        Move {
            edit: Some(edit),
            changed,
        }
    }

    /// Returns the number of changed fields.
    fn price(&self) -> usize {
        let fields =
            |edit: &Edit| usize::from(edit.channel.is_some()) + usize::from(edit.starting_csv.is_some());
        self.edit.as_ref().map_or(0, fields)
    }
}

/// Returns the possible next moves: no change, another channel, and for a first installation the version
/// itself.
fn moves(problem: &Problem, subscription: &Subscription, target: &Target) -> Vec<Move> {
    let Subscription {
        name,
        package,
        channel: now,
        ..
    } = subscription;
    let mut moves = vec![Move {
        edit: None,
        changed: problem.clone(),
    }];
    let Some(snapshot) = problem.snapshot(&subscription.catalog) else {
        return moves;
    };
    let others = snapshot.channel_names(package).filter(|channel| channel != now);
    moves.extend(others.map(|channel| {
        let edit = Edit {
            subscription: name.clone(),
            channel: Some(channel.to_owned()),
            text: channel_text(name, now, channel),
            ..Edit::default()
        };
        Move::of(problem, edit)
    }));
    if subscription.installed_csv.is_empty() {
        let starts = snapshot
            .entries()
            .iter()
            .filter(|entry| *entry.package == **package && target.is(&entry.name, entry.version.as_ref()));
        moves.extend(starts.map(|entry| {
            let mut text = format!("create subscription {name} with spec.startingCSV {}", entry.name);
            let is_other = !now.is_empty() && *entry.channel != **now;
            if is_other {
                text.push_str(&format!(" and spec.channel {}", entry.channel));
            }
            let edit = Edit {
                subscription: name.clone(),
                recreate: true,
                channel: is_other.then(|| entry.channel.to_string()),
                starting_csv: Some(entry.name.to_string()),
                text,
            };
            Move::of(problem, edit)
        }));
    }
    moves
}

impl Way {
    /// Returns the plan of the way.
    pub(super) fn told(self, question: &Question, subscription: &Subscription, target: &Target) -> Plan {
        let mut plan = Plan {
            namespace: question.problem.namespace.clone(),
            notes: question.opening_notes(),
            ..Plan::default()
        };
        for (edits, problem, resolution) in &self.steps {
            plan.add_step(problem, &question.manual, edits.clone(), resolution);
        }
        if let Some((_, problem, resolution)) = self.steps.last() {
            let mut after = problem.clone();
            simulate::carry_out(&mut after, &resolution.solution);
            plan.notes.extend(notes::deprecations(&after));
            let goes_on = resolve(&after).is_ok_and(|next| {
                let mut updates = next.solution.updates.iter();
                updates.any(|update| update.subscription == subscription.name)
            });
            if goes_on && !question.manual.contains(&subscription.name) {
                plan.notes.push(format!(
                    "the channel continues after {}: to stay there, set spec.installPlanApproval of subscription {} to \
                     Manual",
                    target.version, subscription.name
                ));
            }
        }
        plan
    }
}
