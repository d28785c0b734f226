//! Hints about alternatives to something that does not exist.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::property::Gvk;

use crate::catalog::{CatalogKey, Snapshot};
use crate::enumeration::list;
use crate::predicate::Predicate;
use crate::problem::{Problem, Subscription};
use crate::universe::{UNAVAILABLE_HINT, usable};
use crate::variables::Lack;

/// Maximum hints for one requirement. Its author may have combined any number of parts.
const MAX_HINTS: usize = 8;

const UNORDERED_HINT: &str =
    "the publisher of the catalog has to repair the channel; until then use another channel";

/// Content of a namespace's catalogs, for hints. Hints are computed only for the displayed parts of
/// explanations: the search for alternatives takes longer than the resolution.
#[derive(Debug)]
pub struct Hints {
    /// Readable catalogs that may be used, most preferred first.
    catalogs: Vec<(CatalogKey, Arc<Snapshot>)>,
    /// Namespaces whose catalogs may be used.
    reach: Vec<String>,
    /// Cached descriptions of packages' versions.
    versions: RefCell<BTreeMap<String, String>>,
}

/// Returns the way out for a cause outside of a Subscription and its catalog's offer.
pub(super) fn of_cause(lack: Lack) -> &'static str {
    match lack {
        Lack::ChannelOrder => UNORDERED_HINT,
        _ => UNAVAILABLE_HINT,
    }
}

/// Returns a suggestion if one of the known names was probably meant, else an empty text.
fn suggestion<'n>(word: &str, known: impl Iterator<Item = &'n str>) -> String {
    let meant = did_you_mean(word, known);
    meant.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

impl Hints {
    /// Returns hints for explanations of this problem, or of one with the same catalogs.
    pub fn new(problem: &Problem) -> Self {
        let readable = usable(problem).into_iter().filter_map(|catalog| {
            let content = catalog.content.as_ref().ok()?;
            Some((catalog.key.clone(), Arc::clone(content)))
        });
        let global = (!problem.operator_group.exclude_global_namespace).then_some(&problem.global_namespace);
        let reach = std::iter::once(&problem.namespace).chain(global);
        Self {
            catalogs: readable.collect(),
            reach: reach.cloned().collect(),
            versions: RefCell::default(),
        }
    }

    fn readable(&self) -> impl Iterator<Item = (&CatalogKey, &Snapshot)> {
        self.catalogs.iter().map(|(key, snapshot)| (key, &**snapshot))
    }

    /// Describes the alternatives to the missing object of a Subscription.
    pub(super) fn of_lack(&self, lack: Lack, subscription: &Subscription) -> Vec<String> {
        let Subscription {
            name,
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
                let is_missing = !is_empty && self.reach.contains(&key.namespace);
                // A user may name anything, so only a name becomes part of a command.
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
                let add = match key.name.chars().all(is_name) {
                    true => format!(
                        "kubectl operator catalog add {} IMAGE -n {}",
                        key.name, key.namespace
                    ),
                    false => "kubectl operator catalog add".to_owned(),
                };
                let first = match is_missing {
                    true => Some(format!(
                        "catalog {key} does not exist: add it again ({add}), or set spec.source of subscription {name} to one that \
                         exists{}",
                        meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
                    )),
                    false => {
                        meant.map(|meant| format!("there is no catalog {key} here: did you mean {meant}?"))
                    }
                };
                // Without any catalog the first hint already names the way out.
                let is_told = is_missing && self.catalogs.is_empty();
                let offers = (!is_told).then(|| self.offers(package));
                first.into_iter().chain(offers).collect()
            }
            Lack::Package => vec![self.offers(package)],
            Lack::Channel => {
                let names = || {
                    snapshot
                        .into_iter()
                        .flat_map(|snapshot| snapshot.channel_names(package))
                };
                let meant = suggestion(channel, names());
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
                let meant = suggestion(starting_csv, names());
                vec![format!("the channel has {}{meant}", list(names()))]
            }
        }
    }

    /// Describes the catalogs that offer a package, or else all catalogs.
    fn offers(&self, package: &str) -> String {
        if package.is_empty() {
            return "the subscription names no package: set spec.name".to_owned();
        }
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
            return "no catalog can be used from this namespace: add one (kubectl operator catalog add)"
                .to_owned();
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

    /// Returns the package that was probably meant, with a catalog that has it. For names that no catalog
    /// has.
    fn package_meant(&self, package: &str) -> Option<(&str, &CatalogKey)> {
        let names = self.readable().flat_map(|(_, snapshot)| snapshot.package_names());
        let name = did_you_mean(package, names)?;
        let (key, _) = self.readable().find(|(_, snapshot)| snapshot.has_package(name))?;
        Some((name, key))
    }

    /// Returns the catalog that was probably meant by an unknown key. It has the same name in another usable
    /// namespace, or a similar name.
    fn catalog_meant(&self, wanted: &CatalogKey) -> Option<&CatalogKey> {
        let keys = || self.readable().map(|(key, _)| key);
        if let Some(namesake) = keys().find(|key| key.name == wanted.name && *key != wanted) {
            return Some(namesake);
        }
        let name = did_you_mean(&wanted.name, keys().map(|key| key.name.as_str()))?;
        keys().find(|key| key.name == name)
    }

    /// Describes alternatives to a requirement; empty if there are none.
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

    /// Returns a package's versions by catalog, cached.
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

    /// Describes the versions in which an API's kind is offered, with bundles that provide them.
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
