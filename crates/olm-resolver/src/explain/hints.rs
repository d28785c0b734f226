//! What comes near what is asked for in vain.

use std::collections::BTreeSet;

use olm_fbc::property::Gvk;

use crate::catalog::CatalogKey;
use crate::enumeration::list;
use crate::predicate::Predicate;
use crate::problem::Subscription;
use crate::universe::{UNAVAILABLE_HINT, Universe};
use crate::variables::Lack;

/// Hints given to one requirement. Its author may have put together any number of them.
const MAX_HINTS: usize = 8;

/// What there is instead of what a Subscription does not find, in words.
pub(super) fn of_lack(universe: &Universe<'_>, subscription: &Subscription, lack: Lack) -> Vec<String> {
    let Subscription {
        package,
        channel,
        starting_csv,
        catalog: key,
        ..
    } = subscription;
    let snapshot = universe.catalog(key).map(|(_, snapshot)| snapshot);
    match lack {
        Lack::ReadableCatalog => vec![UNAVAILABLE_HINT.to_owned()],
        Lack::ChannelOrder => {
            vec![
                "the publisher of the catalog has to repair the channel; another channel may serve"
                    .to_owned(),
            ]
        }
        Lack::Catalog => {
            let is_empty = snapshot.is_some();
            let meant = catalog_meant(universe, key).filter(|_| !is_empty);
            let meant = meant.map(|meant| format!("there is no catalog {key} here: did you mean {meant}?"));
            let offers = offers(universe, package);
            meant.into_iter().chain([offers]).collect()
        }
        Lack::Package => vec![offers(universe, package)],
        Lack::Channel => {
            let names = || {
                snapshot
                    .into_iter()
                    .flat_map(|snapshot| snapshot.channel_names(package))
            };
            let meant = suggestion(universe, channel, names());
            vec![format!("channels of package {package}: {}{meant}", list(names()))]
        }
        Lack::StartingCsv => {
            let view = snapshot.and_then(|snapshot| Some((snapshot, snapshot.channel(package, channel)?)));
            let names = || {
                view.iter().flat_map(|(snapshot, view)| {
                    view.chain
                        .iter()
                        .flatten()
                        .map(|&entry| &*snapshot.entry(entry).name)
                })
            };
            let meant = suggestion(universe, starting_csv, names());
            vec![format!("the channel has {}{meant}", list(names()))]
        }
    }
}

/// What to add to a list of known names where one of them was probably meant.
fn suggestion<'n>(universe: &Universe<'_>, word: &str, known: impl Iterator<Item = &'n str>) -> String {
    let meant = universe.names.meant(word, known);
    meant.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// Where else a package could be had, or which catalogs there are at all.
fn offers(universe: &Universe<'_>, package: &str) -> String {
    let keys = |has_it: bool| -> Vec<String> {
        universe
            .readable()
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
    let meant = package_meant(universe, package);
    let meant = meant.map_or_else(String::new, |(name, key)| {
        format!("; did you mean {name}, which catalog {key} has?")
    });
    format!(
        "no catalog offers package {package}; the namespace can use {}{meant}",
        all.join(", ")
    )
}

/// The package that was probably meant where no catalog has the one named, with a catalog that has it.
fn package_meant<'a>(universe: &Universe<'a>, package: &str) -> Option<(&'a str, &'a CatalogKey)> {
    let names = universe
        .readable()
        .flat_map(|(_, snapshot)| snapshot.package_names());
    let name = universe.names.meant(package, names)?;
    let (key, _) = universe
        .readable()
        .find(|(_, snapshot)| snapshot.has_package(name))?;
    Some((name, key))
}

/// The catalog that was probably meant where there is none of this key: of the same name in another namespace that can be
/// used, or of a name like it.
fn catalog_meant<'a>(universe: &Universe<'a>, wanted: &CatalogKey) -> Option<&'a CatalogKey> {
    let keys = || universe.readable().map(|(key, _)| key);
    if let Some(namesake) = keys().find(|key| key.name == wanted.name && *key != wanted) {
        return Some(namesake);
    }
    let name = universe
        .names
        .meant(&wanted.name, keys().map(|key| key.name.as_str()))?;
    keys().find(|key| key.name == name)
}

/// What there is instead of what is required, in words; empty where nothing comes near.
pub(super) fn near(universe: &Universe<'_>, requirement: &Predicate) -> Vec<String> {
    let mut hints = Vec::new();
    collect(universe, requirement, &mut hints);
    hints
}

fn collect(universe: &Universe<'_>, requirement: &Predicate, hints: &mut Vec<String>) {
    if hints.len() >= MAX_HINTS {
        return;
    }
    match requirement {
        Predicate::Package(package) => hints.push(versions(universe, package)),
        Predicate::ProvidesApi(api) => hints.extend(other_versions(universe, api)),
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().for_each(|part| collect(universe, part, hints));
        }
        Predicate::WithMessage(_, test) => collect(universe, test, hints),
        Predicate::VersionInRange(_) | Predicate::Label(_) | Predicate::Not(_) | Predicate::Cel(..) => {}
    }
}

/// The versions of a package that there are, by catalog.
fn versions(universe: &Universe<'_>, package: &str) -> String {
    let offers = universe.readable().filter_map(|(key, snapshot)| {
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
    match package_meant(universe, package) {
        Some((name, _)) => format!("no catalog has package {package}: did its author mean {name}?"),
        None => format!("no catalog has package {package}"),
    }
}

/// The versions in which the kind of an API is offered, with bundles that do.
fn other_versions(universe: &Universe<'_>, api: &Gvk) -> Option<String> {
    let Gvk { group, version, kind } = api;
    let found: BTreeSet<(&str, &str)> = universe
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
