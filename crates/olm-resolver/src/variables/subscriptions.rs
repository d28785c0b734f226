//! Candidates for Subscriptions (`docs/reference/resolution.md`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use go_compat::semver::Version;

use super::{Builder, Cause, Invalid, Lack};
use crate::catalog::Snapshot;
use crate::chain::ChainError;
use crate::entry::Entry;
use crate::problem::Subscription;
use crate::solver::{Constraint, VariableId};
use crate::universe::EntryRef;

impl<'a> Builder<'a, '_> {
    pub(super) fn add_subscription(&mut self, holder: VariableId, subscription: &'a Subscription) {
        self.constrain(holder, Constraint::Mandatory, Cause::SubscriptionExists);
        let installed = match subscription.installed_csv.as_str() {
            "" => None,
            name => self.universe.installed_named(name),
        };
        match self.offers(subscription, installed) {
            Ok(offers) => {
                if let Some(installed) = installed {
                    for &offer in &offers {
                        self.variables.upgrades.insert(offer, installed);
                    }
                }
                let candidates = offers
                    .into_iter()
                    .chain(installed.filter(|_| !subscription.must_move))
                    .map(|c| self.bundle(c))
                    .collect();
                self.constrain(
                    holder,
                    Constraint::Dependency(candidates),
                    Cause::SubscriptionRequires,
                );
            }
            Err(invalid) => {
                self.constrain(
                    holder,
                    Constraint::Prohibited,
                    Cause::SubscriptionInvalid(invalid),
                );
                // The installed operator stays. Operators that depend on it, or exclude it, share this
                // Subscription's failure instead of being resolved without it.
                if let Some(installed) = installed {
                    let installed = self.bundle(installed);
                    self.constrain(
                        holder,
                        Constraint::Dependency(vec![installed]),
                        Cause::SubscriptionRequires,
                    );
                }
            }
        }
    }

    /// Returns entries of the Subscription's own catalog that it may get, most preferred first.
    fn offers(
        &self,
        subscription: &Subscription,
        installed: Option<EntryRef>,
    ) -> Result<Vec<EntryRef>, Invalid> {
        let Subscription {
            name,
            package,
            channel,
            starting_csv,
            catalog: key,
            ..
        } = subscription;
        let missing = |reason: String, lack: Lack| Invalid { reason, lack };
        if let Some(cause) = self.universe.unavailable(key) {
            return Err(missing(cause, Lack::ReadableCatalog));
        }
        let Some((catalog, snapshot)) = self
            .universe
            .catalog(key)
            .filter(|(_, s)| !s.entries().is_empty())
        else {
            let text = format!(
                "no operators found from catalog {} in namespace {} referenced by subscription {name}",
                key.name, key.namespace
            );
            return Err(missing(text, Lack::Catalog));
        };
        if !snapshot.has_package(package) {
            let text = format!(
                "no operators found in package {package} in the catalog referenced by subscription {name}"
            );
            return Err(missing(text, Lack::Package));
        }
        let Some(view) = snapshot.channel(package, channel) else {
            let text = format!(
                "no operators found in channel {channel} of package {package} in the catalog referenced by \
                 subscription {name}"
            );
            return Err(missing(text, Lack::Channel));
        };
        self.universe.work.add(view.entries.len());
        let refer = |entry: usize| EntryRef::Catalog { catalog, entry };
        let chain = |chain: Result<Vec<usize>, ChainError>| match chain {
            Ok(chain) => Ok(gather_names(snapshot, chain)),
            Err(error) => Err(missing(error.to_string(), Lack::ChannelOrder)),
        };
        match installed {
            None if !starting_csv.is_empty() => {
                // Only entries of that name are considered, so it does not matter whether others skip them.
                let named = |&entry: &usize| *snapshot.entry(entry).name == **starting_csv;
                let entries: Vec<usize> = view.entries.iter().copied().filter(named).collect();
                if entries.is_empty() {
                    let text = format!(
                        "no operators found with name {starting_csv} in channel {channel} of package {package} in \
                         the catalog referenced by subscription {name}"
                    );
                    return Err(missing(text, Lack::StartingCsv));
                }
                Ok(gather_names(snapshot, entries).into_iter().map(refer).collect())
            }
            None => Ok(chain(view.chain)?.into_iter().map(refer).collect()),
            Some(installed) => {
                let installed = self.universe.entry(installed);
                let upgrades = chain(view.chain)?
                    .into_iter()
                    .filter(|&e| is_upgrade(snapshot.entry(e), &installed.name, installed.version.as_ref()));
                Ok(upgrades.map(refer).collect())
            }
        }
    }
}

/// Moves entries of one name to the position of the first of them. Only a Subscription that follows several
/// channels meets a name twice; it is then the same bundle. Upstream picks a channel by its random map order.
/// Its recorded answers agree on the last by name.
fn gather_names(snapshot: &Snapshot, entries: Vec<usize>) -> Vec<usize> {
    let mut first_place: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, &entry) in entries.iter().enumerate() {
        first_place.entry(&snapshot.entry(entry).name).or_insert(place);
    }
    let mut gathered = entries;
    gathered.sort_by_key(|&entry| {
        let entry = snapshot.entry(entry);
        (first_place[&*entry.name], Reverse(&entry.channel))
    });
    gathered
}

/// Returns whether an entry may directly follow the installed operator.
pub(crate) fn is_upgrade(entry: &Entry, installed: &str, version: Option<&Version>) -> bool {
    let is_it = |name: &Arc<str>| **name == *installed;
    entry.replaces.as_ref().is_some_and(is_it)
        || entry.skips.iter().any(is_it)
        || entry
            .skip_range
            .iter()
            .any(|range| version.is_some_and(|v| range.contains(v)))
}
