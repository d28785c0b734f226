//! Parts of a namespace that no advised change connects, so that a trial needs no more than its own part.

use std::collections::{BTreeMap, BTreeSet};

use super::change::ChangeKind;
use crate::catalog::CatalogKey;
use crate::disjoint_sets::DisjointSets;
use crate::explain::Explanation;
use crate::installed::{self, Readings};
use crate::names::Names;
use crate::problem::{Problem, Subscription};
use crate::universe::{EntryRef, Universe};
use crate::variables::{self, Subject};
use crate::work::Work;

/// The parts of a namespace. Its members would be connected if every Subscription could follow every channel
/// of its package in every catalog, which is as far as changes go.
pub(super) struct Regions {
    /// Number of the part of each Subscription and each installed operator, by name.
    of_subscription: BTreeMap<String, usize>,
    of_installed: BTreeMap<String, usize>,
    /// Positions of the Subscriptions and the installed operators of each part.
    members: BTreeMap<usize, Members>,
}

#[derive(Default)]
struct Members {
    subscriptions: Vec<usize>,
    installed: Vec<usize>,
}

/// A Subscription as a change could make it, with the Subscriptions that it could be made from.
type Variants = BTreeMap<(CatalogKey, String, String, String), Vec<usize>>;

impl Regions {
    /// Returns the parts. `None` if the namespace cannot be read as a whole, or has too many variants.
    pub(super) fn new(problem: &Problem, compared: &Names, readings: &Readings, work: &Work) -> Option<Self> {
        let mut wide = problem.clone();
        let first_variant = problem.subscriptions.len();
        let mut owners: Vec<Vec<usize>> = (0..first_variant).map(|place| vec![place]).collect();
        for ((catalog, package, channel, starting_csv), places) in variants(problem, compared)? {
            wide.subscriptions.push(Subscription {
                // No object has such a name.
                name: format!("/{}", owners.len()),
                package,
                channel,
                starting_csv,
                catalog,
                ..Subscription::default()
            });
            owners.push(places);
        }
        let places: BTreeMap<&str, usize> = wide
            .subscriptions
            .iter()
            .enumerate()
            .map(|(place, s)| (s.name.as_str(), place))
            .collect();
        let universe = Universe::new(&wide, readings, work).ok()?;
        let variables = variables::build(&wide, &universe).ok()?;
        let entries: Vec<String> = universe
            .installed()
            .map(|(_, entry)| entry.name.to_string())
            .collect();
        let mut sets = DisjointSets::new(first_variant + entries.len());
        for component in variables.instance.components() {
            let mut first = None;
            for &variable in component.variables() {
                let entry;
                let joined: &[usize] = match variables.subject(variable) {
                    Subject::Subscription(s) => {
                        places.get(s.name.as_str()).map_or(&[], |&place| &owners[place])
                    }
                    Subject::Bundle(EntryRef::Installed(place)) => {
                        entry = [first_variant + place];
                        &entry
                    }
                    _ => &[],
                };
                for &member in joined {
                    sets.join(*first.get_or_insert(member), member);
                }
            }
        }
        let mut regions = Self {
            of_subscription: BTreeMap::new(),
            of_installed: BTreeMap::new(),
            members: BTreeMap::new(),
        };
        for (place, entry) in entries.into_iter().enumerate() {
            regions
                .of_installed
                .insert(entry, sets.root(first_variant + place));
        }
        for (place, subscription) in problem.subscriptions.iter().enumerate() {
            let part = sets.root(place);
            regions.of_subscription.insert(subscription.name.clone(), part);
            regions.members.entry(part).or_default().subscriptions.push(place);
        }
        regions.add_installed(problem);
        Some(regions)
    }

    /// Adds the installed operators. An operator that is being replaced joins its successor, because it
    /// counts again if that is removed.
    fn add_installed(&mut self, problem: &Problem) {
        let successors = installed::successors(problem);
        for (place, csv) in problem.installed.iter().enumerate() {
            let mut current = csv;
            for _ in 0..=problem.installed.len() {
                if let Some(&part) = self.of_installed.get(&current.name) {
                    self.members.entry(part).or_default().installed.push(place);
                    break;
                }
                match successors.get(current.name.as_str()) {
                    Some(next) => current = next,
                    None => break,
                }
            }
        }
    }

    /// Returns the numbers of the parts that a failure concerns.
    fn parts(&self, explanation: &Explanation) -> BTreeSet<usize> {
        let subscriptions = explanation
            .subscriptions
            .iter()
            .filter_map(|name| self.of_subscription.get(name));
        let installed = explanation
            .installed
            .iter()
            .filter_map(|name| self.of_installed.get(name));
        subscriptions.chain(installed).copied().collect()
    }

    /// Returns the number of Subscriptions and installed operators in the result of [`Regions::limit`].
    pub(super) fn size(&self, explanation: &Explanation) -> usize {
        let parts = self.parts(explanation);
        let members = parts.iter().filter_map(|part| self.members.get(part));
        members
            .map(|members| members.subscriptions.len() + members.installed.len())
            .sum()
    }

    /// Returns the problem without the objects that have nothing to do with the failure, whatever is changed.
    pub(super) fn limit(&self, problem: &Problem, explanation: &Explanation) -> Problem {
        let parts = self.parts(explanation);
        let members = || parts.iter().filter_map(|part| self.members.get(part));
        problem.limited(
            members()
                .flat_map(|members| &members.subscriptions)
                .map(|&place| &problem.subscriptions[place]),
            members()
                .flat_map(|members| &members.installed)
                .map(|&place| &problem.installed[place]),
        )
    }
}

/// Maximum number of variants. Above it, the namespace is one part.
const MAX_VARIANTS: usize = 50_000;

/// Effect of a kind of change on a Subscription's connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Widening {
    /// No new connection.
    None,
    /// It may follow every channel of its package in every catalog, and begin there with any entry.
    Follows,
    /// It has the operator it waits for.
    HasWhatWaits,
}

/// Returns the connections that a kind of change can add. A new kind does not compile without an entry here.
const fn widening(kind: ChangeKind) -> Widening {
    match kind {
        ChangeKind::Package
        | ChangeKind::Channel
        | ChangeKind::Catalog
        | ChangeKind::AnyStart
        // Without its operator, a Subscription begins again with its own channel.
        | ChangeKind::RemoveCsv
        | ChangeKind::RemoveSubscription => Widening::Follows,
        ChangeKind::Approve => Widening::HasWhatWaits,
        // A hold does not limit the connections.
        ChangeKind::FailForward | ChangeKind::Unhold | ChangeKind::Unsubscribe => Widening::None,
    }
}

/// Returns every Subscription as every change could make it; `None` if there are too many.
fn variants(problem: &Problem, compared: &Names) -> Option<Variants> {
    let mut variants = Variants::new();
    let has = |wanted: Widening| ChangeKind::ALL.into_iter().any(|kind| widening(kind) == wanted);
    // Each Subscription with each channel it could follow.
    let mut followed = 0;
    for (place, subscription) in problem.subscriptions.iter().enumerate() {
        let Subscription {
            package,
            channel,
            catalog,
            current_csv,
            installed_csv,
            ..
        } = subscription;
        let mut add = |catalog: &CatalogKey, package: &str, channel: &str, start: &str| {
            let variant = (
                catalog.clone(),
                package.to_owned(),
                channel.to_owned(),
                start.to_owned(),
            );
            variants.entry(variant).or_default().push(place);
        };
        if has(Widening::HasWhatWaits) && !current_csv.is_empty() && current_csv != installed_csv {
            add(catalog, package, channel, current_csv);
        }
        for catalog in problem.catalogs.iter().filter(|_| has(Widening::Follows)) {
            let Ok(snapshot) = &catalog.content else { continue };
            let meant;
            let package = if snapshot.has_package(package) {
                package.as_str()
            } else {
                meant = compared.package(&catalog.key, snapshot, package);
                let Some(meant) = &meant else { continue };
                meant
            };
            for channel in snapshot.channel_names(package) {
                followed += 1;
                if followed > MAX_VARIANTS {
                    return None;
                }
                add(&catalog.key, package, channel, "");
            }
        }
    }
    Some(variants)
}
