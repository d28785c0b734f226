//! What comes near a requirement that nothing meets.

use std::collections::BTreeSet;

use crate::enumeration::list;
use crate::predicate::Predicate;
use crate::universe::Universe;
use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::property::Gvk;

/// What there is instead of what is required, in words; empty where nothing comes near.
pub(super) fn near(universe: &Universe<'_>, requirement: &Predicate) -> Vec<String> {
    let mut hints = Vec::new();
    collect(universe, requirement, &mut hints);
    hints
}

fn collect(universe: &Universe<'_>, requirement: &Predicate, hints: &mut Vec<String>) {
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
    let names = universe
        .readable()
        .flat_map(|(_, snapshot)| snapshot.package_names());
    match did_you_mean(package, names) {
        Some(name) => format!("no catalog has package {package}: did its author mean {name}?"),
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
