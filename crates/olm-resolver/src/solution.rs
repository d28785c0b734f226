//! Changes of a resolved namespace (`docs/reference/resolution.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::CatalogKey;
use crate::entry::Entry;
use crate::problem::{Problem, Subscription};
use crate::solver::{Selection, Step};
use crate::universe::{EntryRef, Universe};
use crate::variables::{Subject, Variables};

/// The bundles to install and the Subscriptions that move on. Empty if there is nothing to do.
#[derive(Clone, Debug, Default)]
pub struct Solution {
    /// Bundles to install, by name, package and channel.
    pub operators: Vec<Operator>,
    /// Subscriptions whose `status.currentCSV` changes, by name.
    pub updates: Vec<SubscriptionUpdate>,
}

/// One bundle to install.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The entry: name, package, channel, version, bundle image and properties.
    pub entry: Arc<Entry>,
    /// Catalog of the entry.
    pub catalog: CatalogKey,
    /// Name of the ClusterServiceVersion it replaces: the installed one for an upgrade, otherwise the
    /// catalog's. Empty for none.
    pub replaces: String,
    /// Subscriptions of its package, channel and catalog, by name.
    pub subscriptions: Vec<String>,
    /// Names of the bundles whose requirements caused it.
    pub required_by: Vec<String>,
    /// A Subscription to create with automatic approval, if none exists for it. Its name is
    /// `<package>-<channel>-<catalog>-<catalog namespace>`.
    pub generated_subscription: Option<Subscription>,
}

/// A Subscription that gets a new current ClusterServiceVersion.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriptionUpdate {
    /// Name of the Subscription.
    pub subscription: String,
    /// Its new `status.currentCSV`.
    pub current_csv: String,
}

/// Indexes of Subscriptions and installed operators, as a namespace may have thousands.
pub(crate) struct Lookup<'a> {
    by_package: BTreeMap<&'a str, Vec<&'a Subscription>>,
    installed: BTreeSet<&'a str>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Self {
        let mut by_package: BTreeMap<&str, Vec<&Subscription>> = BTreeMap::new();
        for subscription in &problem.subscriptions {
            by_package
                .entry(&subscription.package)
                .or_default()
                .push(subscription);
        }
        Self {
            by_package,
            installed: problem.installed.iter().map(|csv| csv.name.as_str()).collect(),
        }
    }

    fn of_package(&self, package: &str) -> impl Iterator<Item = &'a Subscription> {
        self.by_package.get(package).into_iter().flatten().copied()
    }
}

/// Adds the selection of one component to the solution.
pub(crate) fn collect(
    lookup: &Lookup<'_>,
    universe: &Universe<'_>,
    variables: &Variables<'_>,
    selection: &Selection,
    solution: &mut Solution,
) {
    let mut required_by: BTreeMap<EntryRef, Vec<String>> = BTreeMap::new();
    for Step { origin, taken, .. } in &selection.steps {
        if let (Some((holder, _)), Subject::Bundle(taken)) = (origin, variables.subject(*taken))
            && let Subject::Bundle(holder) = variables.subject(*holder)
            && holder != taken
        {
            required_by
                .entry(*taken)
                .or_default()
                .push(universe.entry(*holder).name.to_string());
        }
    }
    for variable in selection.selected() {
        let Subject::Bundle(reference @ EntryRef::Catalog { catalog, .. }) = *variables.subject(variable)
        else {
            continue;
        };
        let mut names = required_by.remove(&reference).unwrap_or_default();
        names.sort();
        names.dedup();
        let replaced = variables
            .upgrades
            .get(&reference)
            .map(|&installed| universe.entry(installed).name.as_ref());
        let entry = universe.entry(reference);
        let replaces = replaced
            .or(entry.replaces.as_deref())
            .unwrap_or_default()
            .to_owned();
        let catalog = universe.catalog_key(catalog);
        if let Some(operator) = operator(lookup, Arc::clone(entry), catalog, replaces, names) {
            let moved = lookup.of_package(&operator.entry.package).filter(|s| {
                operator.subscriptions.contains(&s.name) && *s.current_csv != *operator.entry.name
            });
            solution.updates.extend(moved.map(|s| SubscriptionUpdate {
                subscription: s.name.clone(),
                current_csv: operator.entry.name.to_string(),
            }));
            solution.operators.push(operator);
        }
    }
}

/// Returns the operator for an entry. `None` if it is installed and every Subscription has it as its current
/// one.
fn operator(
    lookup: &Lookup<'_>,
    entry: Arc<Entry>,
    catalog: &CatalogKey,
    replaces: String,
    required_by: Vec<String>,
) -> Option<Operator> {
    let matching: Vec<&Subscription> = lookup
        .of_package(&entry.package)
        .filter(|s| is_for(s, &entry, catalog))
        .collect();
    let current = matching.iter().all(|s| *s.current_csv == *entry.name);
    let exists = lookup.installed.contains(&*entry.name);
    if !matching.is_empty() && current && exists {
        return None;
    }
    let mut subscriptions: Vec<String> = matching.iter().map(|s| s.name.clone()).collect();
    subscriptions.sort();
    let generated = || Subscription {
        name: format!(
            "{}-{}-{}-{}",
            entry.package, entry.channel, catalog.name, catalog.namespace
        ),
        package: entry.package.to_string(),
        channel: entry.channel.to_string(),
        catalog: catalog.clone(),
        starting_csv: entry.name.to_string(),
        ..Subscription::default()
    };
    let generated_subscription = subscriptions.is_empty().then(generated);
    Some(Operator {
        entry,
        catalog: catalog.clone(),
        replaces,
        subscriptions,
        required_by,
        generated_subscription,
    })
}

fn is_for(subscription: &Subscription, entry: &Entry, catalog: &CatalogKey) -> bool {
    let any_catalog = subscription.catalog.name.is_empty() && subscription.catalog.namespace.is_empty();
    *subscription.package == *entry.package
        && (subscription.channel.is_empty() || *subscription.channel == *entry.channel)
        && (any_catalog || subscription.catalog == *catalog)
}

impl Solution {
    /// Sorts everything by content alone.
    pub(crate) fn sort(&mut self) {
        self.operators.sort_by(|a, b| {
            let key = |o: &Operator| {
                (
                    o.entry.name.clone(),
                    o.entry.package.clone(),
                    o.entry.channel.clone(),
                )
            };
            (key(a), &a.catalog).cmp(&(key(b), &b.catalog))
        });
        self.updates.sort();
    }
}
