//! All entries that a namespace can choose from, in order of preference.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bundle_id::BundleId;
use crate::catalog::{Catalog, CatalogKey, Snapshot};
use crate::cel::{Budget, TooCostly};
use crate::chain::ChainError;
use crate::entry::Entry;
use crate::installed::{self, InstalledError, Readings};
use crate::predicate::Predicate;
use crate::problem::Problem;
use crate::work::Work;

/// Way out if a catalog cannot be read.
pub(crate) const UNAVAILABLE_HINT: &str = "see the status and the pod of that catalogsource, or add it again; resolution continues once it can be read";

/// Identifies one entry: an installed one, or an entry of a catalog. Ordered by position only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntryRef {
    Installed(usize),
    Catalog { catalog: usize, entry: usize },
}

/// The installed entries and the catalogs a namespace may use.
pub(crate) struct Universe<'a> {
    namespace: &'a str,
    installed: Vec<Arc<Entry>>,
    installed_by_name: BTreeMap<Arc<str>, usize>,
    /// Readable catalogs, most preferred first unless a requirement prefers one of them.
    catalogs: Vec<(&'a CatalogKey, &'a Snapshot)>,
    /// Catalogs that could not be read, with the number of readable ones preferred to them and the reason.
    unavailable: BTreeMap<&'a CatalogKey, (usize, &'a str)>,
    /// Cached names of bundles in messages.
    identifiers: RefCell<BTreeMap<EntryRef, BundleId>>,
    /// Counter of the work.
    pub(crate) work: &'a Work,
}

/// Returns the catalogs that a namespace may use, most preferred first unless a requirement prefers one of
/// them.
pub(crate) fn usable(problem: &Problem) -> Vec<&Catalog> {
    let visible = |catalog: &&Catalog| {
        let namespace = &catalog.key.namespace;
        *namespace == problem.namespace
            || (!problem.operator_group.exclude_global_namespace && *namespace == problem.global_namespace)
    };
    let mut ordered: Vec<&Catalog> = problem.catalogs.iter().filter(visible).collect();
    ordered.sort_by_key(|c| (Reverse(c.priority), c.key.namespace != problem.namespace, &c.key));
    ordered
}

impl<'a> Universe<'a> {
    pub(crate) fn new(
        problem: &'a Problem,
        readings: &Readings,
        work: &'a Work,
    ) -> Result<Self, InstalledError> {
        let mut catalogs = Vec::new();
        let mut unavailable = BTreeMap::new();
        for catalog in usable(problem) {
            match &catalog.content {
                Ok(snapshot) => catalogs.push((&catalog.key, &**snapshot)),
                Err(cause) => {
                    unavailable.insert(&catalog.key, (catalogs.len(), cause.as_str()));
                }
            }
        }
        let installed = installed::entries(problem, readings, work)?;
        let names = installed.iter().enumerate();
        Ok(Universe {
            namespace: &problem.namespace,
            installed_by_name: names
                .map(|(index, entry)| (Arc::clone(&entry.name), index))
                .collect(),
            installed,
            catalogs,
            unavailable,
            identifiers: RefCell::default(),
            work,
        })
    }

    pub(crate) fn entry(&self, reference: EntryRef) -> &Arc<Entry> {
        match reference {
            EntryRef::Installed(index) => &self.installed[index],
            EntryRef::Catalog { catalog, entry } => self.catalogs[catalog].1.entry(entry),
        }
    }

    /// Returns an entry's name in messages.
    pub(crate) fn identifier(&self, reference: EntryRef) -> BundleId {
        if let Some(known) = self.identifiers.borrow().get(&reference) {
            return known.clone();
        }
        let entry = self.entry(reference);
        let identifier = match reference {
            EntryRef::Installed(_) => BundleId::of_installed(self.namespace, &entry.name),
            EntryRef::Catalog { catalog, .. } => {
                BundleId::of_catalog(self.catalogs[catalog].0, &entry.channel, &entry.name)
            }
        };
        self.identifiers
            .borrow_mut()
            .insert(reference, identifier.clone());
        identifier
    }

    pub(crate) fn installed(&self) -> impl Iterator<Item = (EntryRef, &Arc<Entry>)> {
        self.installed
            .iter()
            .enumerate()
            .map(|(index, entry)| (EntryRef::Installed(index), entry))
    }

    pub(crate) fn installed_named(&self, name: &str) -> Option<EntryRef> {
        self.installed_by_name.get(name).copied().map(EntryRef::Installed)
    }

    /// Returns a catalog by its key, with its position.
    pub(crate) fn catalog(&self, key: &CatalogKey) -> Option<(usize, &'a Snapshot)> {
        let position = self.catalogs.iter().position(|(k, _)| *k == key)?;
        Some((position, self.catalogs[position].1))
    }

    pub(crate) fn catalog_key(&self, position: usize) -> &'a CatalogKey {
        self.catalogs[position].0
    }

    /// Returns why a catalog cannot be read; `None` if it can.
    pub(crate) fn unavailable(&self, key: &CatalogKey) -> Option<String> {
        self.unavailable
            .get(key)
            .map(|(_, cause)| unavailable_text(key, cause))
    }

    /// Returns the reasons of all unreadable catalogs, in upstream's format for several errors.
    pub(crate) fn all_unavailable(&self) -> Option<String> {
        let mut texts: Vec<String> = self
            .unavailable
            .iter()
            .map(|(key, (_, cause))| unavailable_text(key, cause))
            .collect();
        texts.dedup();
        match texts.len() {
            0 => None,
            1 => texts.pop(),
            _ => Some(format!("[{}]", texts.join(", "))),
        }
    }

    /// Returns whether an unreadable catalog could have offered something preferred to `chosen` for a
    /// requirement of `holder`.
    pub(crate) fn may_be_outdone(&self, holder: EntryRef, chosen: EntryRef) -> bool {
        let EntryRef::Catalog { catalog: chosen, .. } = chosen else {
            return false;
        };
        let own = matches!(holder, EntryRef::Catalog { catalog, .. } if catalog == chosen);
        !own && self.unavailable.values().any(|&(position, _)| position <= chosen)
    }

    /// Returns the entries that pass the test, most preferred first for a requirement of `holder`. These are
    /// installed ones, those of the holder's own catalog, then the other catalogs.
    ///
    /// # Errors
    /// A CEL rule takes too many steps on them.
    pub(crate) fn candidates(
        &self,
        holder: EntryRef,
        predicate: &Predicate,
    ) -> Result<Vec<EntryRef>, TooCostly> {
        let own = match holder {
            EntryRef::Installed(_) => None,
            EntryRef::Catalog { catalog, .. } => Some(catalog),
        };
        let others = (0..self.catalogs.len()).filter(|position| Some(*position) != own);
        let budget = Budget::of_catalog(self.installed.len());
        self.work.add(self.installed.len());
        let passing = self
            .installed()
            .filter(|(_, entry)| entry.meets_within(predicate, &budget))
            .map(|(reference, _)| reference);
        let mut candidates: Vec<EntryRef> = passing.collect();
        budget.check()?;
        for catalog in own.into_iter().chain(others) {
            let entries = self.catalogs[catalog].1.candidates(predicate, self.work)?;
            candidates.extend(entries.iter().map(|&entry| EntryRef::Catalog { catalog, entry }));
        }
        Ok(candidates)
    }

    /// Returns the errors of channels that were left out for lack of an order, although they have entries
    /// that pass the test.
    pub(crate) fn broken_channels(&self, predicate: &Predicate) -> impl Iterator<Item = &ChainError> {
        self.catalogs
            .iter()
            .flat_map(|(_, snapshot)| snapshot.broken_channels(predicate, self.work))
    }
}

fn unavailable_text(key: &CatalogKey, cause: &str) -> String {
    format!("error using catalogsource {key}: {cause}")
}
