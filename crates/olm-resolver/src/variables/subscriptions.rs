//! What may serve a Subscription (`spec/resolver.md` section 9.2).

use super::{Builder, Cause};
use crate::entry::Entry;
use crate::problem::Subscription;
use crate::solver::{Constraint, VariableId};
use crate::universe::EntryRef;

/// Why a Subscription has no candidates at all.
struct Invalid {
    reason: String,
    /// False if the reason lies outside the Subscription and its catalog's offer.
    terminal: bool,
}

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
                let candidates = offers.into_iter().chain(installed).map(|c| self.bundle(c)).collect();
                self.constrain(holder, Constraint::Dependency(candidates), Cause::SubscriptionRequires);
            }
            Err(Invalid { reason, terminal }) => {
                self.constrain(
                    holder,
                    Constraint::Prohibited,
                    Cause::SubscriptionInvalid { reason, terminal },
                );
                // What is installed stays where it is: whoever depends on it, or cannot stand beside it, shares
                // this Subscription's fate rather than being resolved as if it were gone.
                if let Some(installed) = installed {
                    let installed = self.bundle(installed);
                    self.constrain(holder, Constraint::Dependency(vec![installed]), Cause::SubscriptionRequires);
                }
            }
        }
    }

    /// Entries of the Subscription's own catalog that it may get, most preferred first.
    fn offers(
        &self,
        subscription: &Subscription,
        installed: Option<EntryRef>,
    ) -> Result<Vec<EntryRef>, Invalid> {
        let Subscription { name, package, channel, starting_csv, catalog: key, .. } = subscription;
        let missing = |reason: String| Invalid { reason, terminal: true };
        if let Some(cause) = self.universe.unavailable(key) {
            return Err(Invalid { reason: cause, terminal: false });
        }
        let Some((catalog, snapshot)) = self.universe.catalog(key).filter(|(_, s)| !s.entries().is_empty()) else {
            return Err(missing(format!(
                "no operators found from catalog {} in namespace {} referenced by subscription {name}",
                key.name, key.namespace
            )));
        };
        if !snapshot.has_package(package) {
            return Err(missing(format!(
                "no operators found in package {package} in the catalog referenced by subscription {name}"
            )));
        }
        let Some(view) = snapshot.channel(package, channel) else {
            return Err(missing(format!(
                "no operators found in channel {channel} of package {package} in the catalog referenced by \
                 subscription {name}"
            )));
        };
        let refer = |entry: usize| EntryRef::Catalog { catalog, entry };
        match installed {
            None if !starting_csv.is_empty() => {
                // Only what bears the name is looked at, so that it does not matter whether others skip it.
                let named: Vec<EntryRef> =
                    view.entries.into_iter().filter(|&e| *snapshot.entry(e).name == **starting_csv).map(refer).collect();
                if named.is_empty() {
                    return Err(missing(format!(
                        "no operators found with name {starting_csv} in channel {channel} of package {package} in \
                         the catalog referenced by subscription {name}"
                    )));
                }
                Ok(named)
            }
            None => Ok(view.chain.map_err(|e| unordered(&e))?.into_iter().map(refer).collect()),
            Some(installed) => {
                let installed = self.universe.entry(installed);
                let chain = view.chain.map_err(|e| unordered(&e))?;
                let upgrades = chain.into_iter().filter(|&e| is_upgrade(snapshot.entry(e), installed));
                Ok(upgrades.map(refer).collect())
            }
        }
    }
}

fn unordered(error: &crate::chain::ChainError) -> Invalid {
    Invalid { reason: error.to_string(), terminal: false }
}

/// Whether an entry may directly follow what is installed.
fn is_upgrade(entry: &Entry, installed: &Entry) -> bool {
    entry.replaces.as_ref() == Some(&installed.name)
        || entry.skips.contains(&installed.name)
        || entry.skip_range.iter().any(|range| installed.version.iter().any(|v| range.contains(v)))
}
