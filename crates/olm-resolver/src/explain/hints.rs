//! What comes near what is asked for in vain.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use olm_fbc::property::Gvk;

use crate::catalog::{CatalogKey, Snapshot};
use crate::enumeration::list;
use crate::names::{COMPARED_NAMES, Names};
use crate::predicate::Predicate;
use crate::problem::{Problem, Subscription};
use crate::universe::{UNAVAILABLE_HINT, usable};
use crate::variables::Lack;

/// Hints given to one requirement. Its author may have put together any number of them.
const MAX_HINTS: usize = 8;

const UNORDERED_HINT: &str =
    "the publisher of the catalog has to repair the channel; another channel may serve";

/// What there is in the catalogs of a namespace, for who asks in vain. Asked only for what is shown of explanations: looking for
/// what comes near takes longer than to resolve.
#[derive(Debug)]
pub struct Hints {
    /// Those that can be read and used, most preferred first.
    catalogs: Vec<(CatalogKey, Arc<Snapshot>)>,
    names: Names,
    /// What was told of packages.
    versions: RefCell<BTreeMap<String, String>>,
}

/// What to do about what lies outside of a Subscription and its catalog's offer.
pub(super) fn of_cause(lack: Lack) -> &'static str {
    match lack {
        Lack::ChannelOrder => UNORDERED_HINT,
        _ => UNAVAILABLE_HINT,
    }
}

impl Hints {
    /// Hints for explanations of this problem, or of one with the same catalogs.
    pub fn new(problem: &Problem) -> Self {
        let readable = usable(problem).into_iter().filter_map(|catalog| {
            let content = catalog.content.as_ref().ok()?;
            Some((catalog.key.clone(), Arc::clone(content)))
        });
        Self {
            catalogs: readable.collect(),
            names: Names::new(COMPARED_NAMES),
            versions: RefCell::default(),
        }
    }

    fn readable(&self) -> impl Iterator<Item = (&CatalogKey, &Snapshot)> {
        self.catalogs.iter().map(|(key, snapshot)| (key, &**snapshot))
    }

    /// What there is instead of what a Subscription does not find, in words.
    pub(super) fn of_lack(&self, lack: Lack, subscription: &Subscription) -> Vec<String> {
        let Subscription {
            package,
            channel,
            starting_csv,
            catalog: key,
            ..
        } = subscription;
        let snapshot = self.readable().find(|(known, _)| *known == key);
        let snapshot = snapshot.map(|(_, snapshot)| snapshot);
        match lack {
            Lack::ReadableCatalog | Lack::ChannelOrder => vec![of_cause(lack).to_owned()],
            Lack::Catalog => {
                let is_empty = snapshot.is_some();
                let meant = self.catalog_meant(key).filter(|_| !is_empty);
                let meant =
                    meant.map(|meant| format!("there is no catalog {key} here: did you mean {meant}?"));
                let offers = self.offers(package);
                meant.into_iter().chain([offers]).collect()
            }
            Lack::Package => vec![self.offers(package)],
            Lack::Channel => {
                let names = || {
                    snapshot
                        .into_iter()
                        .flat_map(|snapshot| snapshot.channel_names(package))
                };
                let meant = self.suggestion(channel, names());
                vec![format!("channels of package {package}: {}{meant}", list(names()))]
            }
            Lack::StartingCsv => {
                let view =
                    snapshot.and_then(|snapshot| Some((snapshot, snapshot.channel(package, channel)?)));
                let names = || {
                    view.iter().flat_map(|(snapshot, view)| {
                        view.chain
                            .iter()
                            .flatten()
                            .map(|&entry| &*snapshot.entry(entry).name)
                    })
                };
                let meant = self.suggestion(starting_csv, names());
                vec![format!("the channel has {}{meant}", list(names()))]
            }
        }
    }

    /// What to add to a list of known names where one of them was probably meant.
    fn suggestion<'n>(&self, word: &str, known: impl Iterator<Item = &'n str>) -> String {
        let meant = self.names.meant(word, known);
        meant.map_or_else(String::new, |name| format!("; did you mean {name}?"))
    }

    /// Where else a package could be had, or which catalogs there are at all.
    fn offers(&self, package: &str) -> String {
        let keys = |has_it: bool| -> Vec<String> {
            self.readable()
                .filter(|(_, snapshot)| !has_it || snapshot.has_package(package))
                .map(|(key, _)| key.to_string())
                .collect()
        };
        let (offering, all) = (keys(true), keys(false));
        if !offering.is_empty() {
            return format!("package {package} is offered by catalog {}", offering.join(", "));
        }
        if all.is_empty() {
            return "no catalog can be used from this namespace".to_owned();
        }
        let meant = self.package_meant(package);
        let meant = meant.map_or_else(String::new, |(name, key)| {
            format!("; did you mean {name}, which catalog {key} has?")
        });
        format!(
            "no catalog offers package {package}; the namespace can use {}{meant}",
            all.join(", ")
        )
    }

    /// The package that was probably meant where no catalog has the one named, with a catalog that has it.
    fn package_meant(&self, package: &str) -> Option<(&str, &CatalogKey)> {
        let names = self.readable().flat_map(|(_, snapshot)| snapshot.package_names());
        let name = self.names.meant(package, names)?;
        let (key, _) = self.readable().find(|(_, snapshot)| snapshot.has_package(name))?;
        Some((name, key))
    }

    /// The catalog that was probably meant where there is none of this key: of the same name in another namespace that can be
    /// used, or of a name like it.
    fn catalog_meant(&self, wanted: &CatalogKey) -> Option<&CatalogKey> {
        let keys = || self.readable().map(|(key, _)| key);
        if let Some(namesake) = keys().find(|key| key.name == wanted.name && *key != wanted) {
            return Some(namesake);
        }
        let name = self
            .names
            .meant(&wanted.name, keys().map(|key| key.name.as_str()))?;
        keys().find(|key| key.name == name)
    }

    /// What there is instead of what is required, in words; empty where nothing comes near.
    pub(super) fn near(&self, requirement: &Predicate) -> Vec<String> {
        let mut hints = Vec::new();
        self.collect(requirement, &mut hints);
        hints
    }

    fn collect(&self, requirement: &Predicate, hints: &mut Vec<String>) {
        if hints.len() >= MAX_HINTS {
            return;
        }
        match requirement {
            Predicate::Package(package) => hints.push(self.versions(package)),
            Predicate::ProvidesApi(api) => hints.extend(self.other_versions(api)),
            Predicate::All(parts) | Predicate::Any(parts) => {
                parts.iter().for_each(|part| self.collect(part, hints));
            }
            Predicate::WithMessage(_, test) => self.collect(test, hints),
            Predicate::VersionInRange(_) | Predicate::Label(_) | Predicate::Not(_) | Predicate::Cel(..) => {}
        }
    }

    /// The versions of a package that there are, by catalog; the same answer each time.
    fn versions(&self, package: &str) -> String {
        if let Some(known) = self.versions.borrow().get(package) {
            return known.clone();
        }
        let text = self.find_versions(package);
        let mut versions = self.versions.borrow_mut();
        versions.insert(package.to_owned(), text.clone());
        text
    }

    fn find_versions(&self, package: &str) -> String {
        let offers = self.readable().filter_map(|(key, snapshot)| {
            let versions: Vec<String> = snapshot
                .versions(package)
                .into_iter()
                .map(ToString::to_string)
                .collect();
            (!versions.is_empty())
                .then(|| format!("{} in catalog {key}", list(versions.iter().map(String::as_str))))
        });
        let offers: Vec<String> = offers.collect();
        if !offers.is_empty() {
            return format!("package {package} has {}", offers.join(", and "));
        }
        match self.package_meant(package) {
            Some((name, _)) => format!("no catalog has package {package}: did its author mean {name}?"),
            None => format!("no catalog has package {package}"),
        }
    }

    /// The versions in which the kind of an API is offered, with bundles that do.
    fn other_versions(&self, api: &Gvk) -> Option<String> {
        let Gvk { group, version, kind } = api;
        let found: BTreeSet<(&str, &str)> = self
            .readable()
            .flat_map(|(_, snapshot)| snapshot.providers_of_kind(group, kind))
            .map(|(api, entry)| (api.version.as_str(), &*entry.name))
            .filter(|(other, _)| other != version)
            .collect();
        let versions: BTreeSet<&str> = found.iter().map(|(version, _)| *version).collect();
        let (_, example) = found.first()?;
        let versions = list(versions.into_iter());
        Some(format!(
            "{kind} of {group} is offered in version {versions}, by {example} for example"
        ))
    }
}
