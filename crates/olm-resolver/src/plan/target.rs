//! The way to one version: which channels to follow, step by step, until it is installed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use go_compat::semver::Version;

use super::{CHANNEL, Edit, MAX_STEPS, Plan, Question, STARTING_CSV, Unsatisfiable, notes, plan};
use crate::catalog::Snapshot;
use crate::explain::Tree;
use crate::problem::{Problem, Subscription};
use crate::resolve::{Resolution, ResolveError, resolve};
use crate::simulate;

/// Most resolutions tried in search of a way.
const MAX_TRIALS: usize = 4_000;

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A version, with or without `v`, or the name of a ClusterServiceVersion.
    pub version: String,
    /// The Subscription that is to get there; may be left out where only one could.
    pub subscription: Option<String>,
}

/// The question for a target cannot be put.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No Subscription of this name.
    #[error("{0}")]
    UnknownSubscription(String),
    /// Several Subscriptions could get there.
    #[error("several subscriptions could go to {version}: {names}; name one with --subscription")]
    Ambiguous {
        /// The target.
        version: String,
        /// The Subscriptions.
        names: String,
    },
    /// No Subscription has the version in its package.
    #[error("no package subscribed to in namespace {namespace} has version {version}: {offers}")]
    UnknownVersion {
        /// The namespace.
        namespace: String,
        /// The target.
        version: String,
        /// What there is.
        offers: String,
    },
    /// The namespace cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

impl Target {
    fn is(&self, name: &str, version: Option<&Version>) -> bool {
        let wanted = self.version.trim_start_matches('v');
        name == self.version || version.is_some_and(|version| version.to_string() == wanted)
    }
}

/// Plans the way to a version. If there is none, the plan says so among what is unsatisfiable, with the reasons.
///
/// Of several ways, the one with the fewest changes of channel is taken, then the one with the fewest steps.
///
/// # Errors
/// When it is not clear which Subscription is meant, or the namespace cannot be resolved.
pub fn plan_to(question: &Question, target: &Target) -> Result<Plan, TargetError> {
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
    match search(question, &subscription.name, target)? {
        Some(way) => Ok(way.told(question, &subscription, target)),
        None => no_way(question, &subscription, target),
    }
}

fn snapshot<'p>(problem: &'p Problem, subscription: &Subscription) -> Option<&'p Snapshot> {
    let catalog = problem
        .catalogs
        .iter()
        .find(|catalog| catalog.key == subscription.catalog)?;
    catalog.content.as_deref().ok()
}

/// Whether the Subscription's package has the target's version.
fn offers_target(problem: &Problem, subscription: &Subscription, target: &Target) -> bool {
    snapshot(problem, subscription).is_some_and(|snapshot| {
        let mut entries = snapshot
            .entries()
            .iter()
            .filter(|entry| *entry.package == *subscription.package);
        entries.any(|entry| target.is(&entry.name, entry.version.as_ref()))
    })
}

fn find_subscription(problem: &Problem, target: &Target) -> Result<Subscription, TargetError> {
    let namespace = problem.namespace.clone();
    let names = |subscriptions: &[&Subscription]| {
        let names: Vec<&str> = subscriptions.iter().map(|s| s.name.as_str()).collect();
        names.join(", ")
    };
    if let Some(name) = &target.subscription {
        let all: Vec<&Subscription> = problem.subscriptions.iter().collect();
        let found = all.iter().find(|s| s.name == *name).map(|s| (*s).clone());
        return found.ok_or_else(|| TargetError::UnknownSubscription(problem.unknown_subscription(name)));
    }
    let version = target.version.clone();
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
            Err(TargetError::UnknownVersion {
                namespace,
                version,
                offers: texts.join("; "),
            })
        }
        several => Err(TargetError::Ambiguous {
            version,
            names: names(several),
        }),
    }
}

fn versions_text(problem: &Problem, subscription: &Subscription) -> String {
    let mut versions: Vec<Version> = snapshot(problem, subscription)
        .iter()
        .flat_map(|snapshot| snapshot.entries())
        .filter(|entry| *entry.package == *subscription.package)
        .filter_map(|entry| entry.version.clone())
        .collect();
    versions.sort();
    versions.dedup();
    let texts: Vec<String> = versions.iter().rev().map(ToString::to_string).collect();
    let names = crate::enumeration::list(texts.iter().map(String::as_str));
    format!(
        "package {} of subscription {} has {names}",
        subscription.package, subscription.name
    )
}

/// A way: what was resolved at each step, and what was changed before it.
#[derive(Clone, Default)]
struct Way {
    /// What is changed before each step, the problem with that, and its resolution.
    steps: Vec<(Vec<Edit>, Problem, Resolution)>,
}

/// Cheapest first: changes, then steps, then in the order found.
type Queued = Reverse<(usize, usize, usize)>;

fn search(question: &Question, name: &str, target: &Target) -> Result<Option<Way>, ResolveError> {
    let mut states: Vec<(Problem, Way)> = vec![(question.problem.clone(), Way::default())];
    let mut queue: BinaryHeap<Queued> = BinaryHeap::from([Reverse((0, 0, 0))]);
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let mut trials = 0;
    while let Some(Reverse((changes, steps, index))) = queue.pop() {
        let (problem, way) = states[index].clone();
        let Some(subscription) = problem.subscriptions.iter().find(|s| s.name == name).cloned() else {
            continue;
        };
        if is_at(&problem, &subscription, target) {
            return Ok(Some(way));
        }
        let state = (subscription.installed_csv.clone(), subscription.channel.clone());
        if !seen.insert(state) || steps >= MAX_STEPS {
            continue;
        }
        for Move { edit, changed } in moves(&problem, &subscription, target) {
            trials += 1;
            if trials > MAX_TRIALS {
                return Ok(None);
            }
            let resolution = resolve(&changed)?;
            let mut updates = resolution.solution.updates.iter();
            if !updates.any(|update| update.subscription == name) {
                continue;
            }
            let price = edit.iter().map(|edit| edit.fields.len()).sum::<usize>();
            let mut way = way.clone();
            let mut after = changed.clone();
            simulate::carry_out(&mut after, &resolution.solution);
            way.steps.push((edit.into_iter().collect(), changed, resolution));
            states.push((after, way));
            queue.push(Reverse((changes + price, steps + 1, states.len() - 1)));
        }
    }
    Ok(None)
}

fn is_at(problem: &Problem, subscription: &Subscription, target: &Target) -> bool {
    let csv = problem
        .installed
        .iter()
        .find(|csv| csv.name == subscription.installed_csv);
    csv.is_some_and(|csv| target.is(&csv.name, Version::parse_tolerant(&csv.version).ok().as_ref()))
}

/// A namespace to resolve next, and what was changed in it.
struct Move {
    edit: Option<Edit>,
    changed: Problem,
}

/// What may be tried next: nothing changed, another channel, and for a first installation the version itself.
fn moves(problem: &Problem, subscription: &Subscription, target: &Target) -> Vec<Move> {
    let with =
        |fields: Vec<(&'static str, String, String)>, recreate: bool, edit: &dyn Fn(&mut Subscription)| {
            let mut changed = problem.clone();
            let subscriptions = changed.subscriptions.iter_mut();
            subscriptions
                .filter(|s| s.name == subscription.name)
                .for_each(edit);
            Move {
                edit: Some(Edit {
                    subscription: subscription.name.clone(),
                    fields,
                    recreate,
                }),
                changed,
            }
        };
    let mut moves = vec![Move {
        edit: None,
        changed: problem.clone(),
    }];
    let Some(snapshot) = snapshot(problem, subscription) else {
        return moves;
    };
    let Subscription {
        package,
        channel: now,
        ..
    } = subscription;
    let to_channel = |channel: &str| (CHANNEL, now.clone(), channel.to_owned());
    for channel in snapshot.channel_names(package).filter(|channel| channel != now) {
        moves.push(with(vec![to_channel(channel)], false, &|s| {
            channel.clone_into(&mut s.channel);
        }));
    }
    if subscription.installed_csv.is_empty() {
        let starts = snapshot
            .entries()
            .iter()
            .filter(|entry| *entry.package == **package && target.is(&entry.name, entry.version.as_ref()));
        for entry in starts {
            let own = now.is_empty() || *entry.channel == **now;
            let start = (
                STARTING_CSV,
                subscription.starting_csv.clone(),
                entry.name.to_string(),
            );
            let channel = (!own).then(|| to_channel(&entry.channel));
            let fields = std::iter::once(start).chain(channel).collect();
            moves.push(with(fields, true, &|s| {
                s.starting_csv = entry.name.to_string();
                if !own {
                    s.channel = entry.channel.to_string();
                }
            }));
        }
    }
    moves
}

impl Way {
    fn told(self, question: &Question, subscription: &Subscription, target: &Target) -> Plan {
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
                    "the channel goes on after {}: to stay there, set spec.installPlanApproval of subscription {} to \
                     Manual",
                    target.version, subscription.name
                ));
            }
        }
        plan
    }
}

/// The plan of a target that cannot be reached: what will happen instead is not part of it.
fn no_way(question: &Question, subscription: &Subscription, target: &Target) -> Result<Plan, TargetError> {
    let leaf = |text: String| Tree {
        text,
        because: Vec::new(),
    };
    let ahead = plan(question)?;
    let mut tree: Vec<Tree> = vec![leaf(versions_text(&question.problem, subscription))];
    let reached: Vec<&str> = ahead
        .install()
        .filter(|install| install.package == subscription.package)
        .map(|install| install.name.as_str())
        .collect();
    if !reached.is_empty() {
        tree.push(leaf(format!(
            "the channel leads to {} instead",
            reached.join(", then ")
        )));
    }
    if !subscription.installed_csv.is_empty() {
        tree.push(leaf(format!(
            "no entry of any channel leads from {} to it by replaces, skips or skipRange; to get there, delete \
             subscription {} and its clusterserviceversion, and subscribe again with spec.startingCSV [destroys what runs: {}]",
            subscription.installed_csv, subscription.name, subscription.installed_csv
        )));
    }
    let concerned = |failure: &&Unsatisfiable| failure.subscriptions.contains(&subscription.name);
    tree.extend(
        ahead
            .unsatisfiable
            .iter()
            .filter(concerned)
            .flat_map(|failure| failure.tree.clone()),
    );
    let from = match subscription.installed_csv.as_str() {
        "" => "nothing installed",
        csv => csv,
    };
    let message = format!(
        "no way from {from} to {} for subscription {}",
        target.version, subscription.name
    );
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
