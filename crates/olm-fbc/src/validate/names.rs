//! Rules about names and references between blobs, in upstream's order: packages, channels, bundles, entries, deprecations.

use std::collections::{BTreeMap, BTreeSet};

use crate::load::Origin;
use crate::misspelling::near_name;
use crate::schema::{Channel, Deprecations, Package, Reference, schemas};

use super::bundle::Facts;
use super::fault::hinted;
use super::{Faults, Model, PackageModel};

/// Maximum number of names in one fault that get a hint.
pub(super) const MAX_HINTS: usize = 3;

/// Schemas that can be deprecated.
const DEPRECATED: [&str; 3] = [schemas::PACKAGE, schemas::CHANNEL, schemas::BUNDLE];

/// Origins of blobs.
#[derive(Default)]
pub(super) struct Origins {
    /// Origins of packages, by name.
    pub(super) packages: BTreeMap<String, Origin>,
    /// Origins of channels, by package and name.
    pub(super) channels: BTreeMap<(String, String), Origin>,
    /// Origins of bundles, by package and name.
    pub(super) bundles: BTreeMap<(String, String), BundleOrigin>,
    /// Origins of deprecations, by package.
    pub(super) deprecations: BTreeMap<String, Origin>,
}

/// Data of a bundle beyond its summary: its origin, and true if it has a release.
pub(super) struct BundleOrigin {
    pub(super) origin: Origin,
    pub(super) has_release: bool,
}

pub(super) fn add_packages(
    model: &mut Model,
    packages: Vec<(Package, Origin)>,
    origins: &mut Origins,
    faults: &mut Faults,
) {
    for (package, origin) in packages {
        if package.name.is_empty() {
            faults.add("config contains package with no name".to_owned(), &origin);
            continue;
        }
        if let Some(reasons) = label_faults(&package.name) {
            let text = format!("invalid package name {:?}: [{reasons}]", package.name);
            faults.add(text, &origin);
        }
        let name = package.name.clone();
        if model.packages.contains_key(&name) {
            faults.add(format!("duplicate package {name:?}"), &origin);
            continue;
        }
        let entry = PackageModel {
            package,
            ..PackageModel::default()
        };
        model.packages.insert(name.clone(), entry);
        origins.packages.insert(name, origin);
    }
}

/// Returns why a name is not a DNS label (RFC 1123), in the words of Kubernetes; `None` if it is one.
fn label_faults(name: &str) -> Option<String> {
    let mut reasons = Vec::new();
    if name.len() > 63 {
        reasons.push("must be no more than 63 characters");
    }
    let is_label = |label: &str| {
        let edge = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
        label.starts_with(edge)
            && label.ends_with(edge)
            && label.chars().all(|char| edge(char) || char == '-')
    };
    if !is_label(name) {
        reasons.push(if name.split('.').all(is_label) {
            "must not contain dots"
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        });
    }
    (!reasons.is_empty()).then(|| reasons.join(" "))
}

pub(super) fn add_channels(
    model: &mut Model,
    channels: Vec<(Channel, Origin)>,
    origins: &mut Origins,
    faults: &mut Faults,
) {
    for (channel, origin) in channels {
        let (package, name) = (channel.package.clone(), channel.name.clone());
        let Some(known) = model.packages.get_mut(&package) else {
            let meant = faults.did_you_mean(&package, model.packages.keys());
            let text = format!("unknown package {package:?} for channel {name:?}");
            faults.add(hinted(text, meant), &origin);
            continue;
        };
        if name.is_empty() {
            let text = format!("package {package:?} contains channel with no name");
            faults.add(text, &origin);
            continue;
        }
        if known.channels.contains_key(&name) {
            let text = format!("package {package:?} has duplicate channel {name:?}");
            faults.add(text, &origin);
            continue;
        }
        let mut seen = BTreeSet::new();
        for entry in &channel.entries {
            if !seen.insert(&entry.name) {
                faults.add(
                    format!(
                        "invalid package {package:?}, channel {name:?}: duplicate entry {:?}",
                        entry.name
                    ),
                    &origin,
                );
            }
        }
        known.channels.insert(name.clone(), channel);
        origins.channels.insert((package, name), origin);
    }
}

pub(super) fn add_bundles(
    model: &mut Model,
    bundles: Vec<(Facts, Origin)>,
    origins: &mut Origins,
    faults: &mut Faults,
) {
    let listed: BTreeSet<(String, String)> = model
        .packages
        .iter()
        .flat_map(|(package, known)| {
            known
                .channels
                .values()
                .flat_map(|channel| &channel.entries)
                .map(|entry| (package.clone(), entry.name.clone()))
        })
        .collect();
    for (facts, origin) in bundles {
        let Facts {
            name,
            package,
            summary,
            faults: own,
            has_release,
            ..
        } = facts;
        let meant = match model.packages.contains_key(&package) {
            true => None,
            false => faults.did_you_mean(&package, model.packages.keys()),
        };
        let known = model.packages.get_mut(&package);
        let misplaced = match &known {
            _ if package.is_empty() => Some(format!("package name must be set for bundle {name:?}")),
            None => Some(format!("unknown package {package:?} for bundle {name:?}")),
            Some(known) if known.bundles.contains_key(&name) => {
                Some(format!("package {package:?} has duplicate bundle {name:?}"))
            }
            Some(_) => None,
        };
        let is_misplaced = misplaced.is_some();
        if let Some(text) = misplaced {
            faults.add(hinted(text, meant), &origin);
        }
        for text in own {
            faults.add(text, &origin);
        }
        let (Some(known), false) = (known, is_misplaced) else {
            continue;
        };
        if !listed.contains(&(package.clone(), name.clone())) {
            let text = format!("package {package:?}, bundle {name:?} not found in any channel entries");
            faults.add(text, &origin);
        }
        known.bundles.insert(name.clone(), summary);
        let place = BundleOrigin { origin, has_release };
        origins.bundles.insert((package, name), place);
    }
}

/// Checks that every entry has a bundle. Upstream checks only one channel per package here and fails later for the others.
pub(super) fn check_entries(model: &Model, origins: &Origins, faults: &mut Faults) {
    for (package, known) in &model.packages {
        let in_channels: BTreeSet<&String> = known
            .channels
            .values()
            .flat_map(|channel| &channel.entries)
            .map(|entry| &entry.name)
            .collect();
        for (name, channel) in &known.channels {
            let missing: Vec<&str> = channel
                .entries
                .iter()
                .map(|entry| entry.name.as_str())
                .filter(|entry| !known.bundles.contains_key(*entry))
                .collect();
            if let (false, Some(origin)) = (
                missing.is_empty(),
                origins.channels.get(&(package.clone(), name.clone())),
            ) {
                let text = format!(
                    "no olm.bundle blobs found in package {package:?} for olm.channel entries [{}] of channel {name:?}",
                    missing.join(" ")
                );
                // Versions differ by a character or two, so only bundles that no entry names are suggested.
                let unused = || {
                    known
                        .bundles
                        .keys()
                        .filter(|bundle| !in_channels.contains(bundle))
                };
                let hints: Vec<String> = missing
                    .iter()
                    .filter_map(|entry| Some((entry, faults.meant(entry, unused())?)))
                    .take(MAX_HINTS)
                    .map(|(entry, meant)| format!("by {entry:?}, did you mean {meant:?}?"))
                    .collect();
                let hint = (!hints.is_empty()).then(|| hints.join(" "));
                faults.add(hinted(text, hint), origin);
            }
        }
    }
}

pub(super) fn add_deprecations(
    model: &mut Model,
    list: Vec<(Deprecations, Origin)>,
    origins: &mut Origins,
    faults: &mut Faults,
) {
    for (index, (deprecations, origin)) in list.into_iter().enumerate() {
        let package = &deprecations.package;
        if package.is_empty() {
            let text = format!("package name must be set for deprecation item {index}");
            faults.add(text, &origin);
            continue;
        }
        let Some(known) = model.packages.get_mut(package) else {
            let meant = faults.did_you_mean(package, model.packages.keys());
            let text = format!("cannot apply deprecations to an unknown package {package:?}");
            faults.add(hinted(text, meant), &origin);
            continue;
        };
        if origins.deprecations.contains_key(package) {
            let text = format!("expected a maximum of one deprecation per package: {package:?}");
            faults.add(text, &origin);
            continue;
        }
        apply_deprecations(known, &deprecations, &origin, faults);
        origins.deprecations.insert(deprecations.package, origin);
    }
}

fn apply_deprecations(
    known: &mut PackageModel,
    deprecations: &Deprecations,
    origin: &Origin,
    faults: &mut Faults,
) {
    let package = &deprecations.package;
    let mut seen = BTreeSet::new();
    for (index, entry) in deprecations.entries.iter().enumerate() {
        let Reference { schema, name } = &entry.reference;
        let shown = format!("declcfg.PackageScopedReference{{Schema:{schema:?}, Name:{name:?}}}");
        if schema.is_empty() {
            let text = format!("schema must be set for deprecation entry [{index}] for package {package:?}");
            faults.add(text, origin);
            continue;
        }
        if !seen.insert(&entry.reference) {
            let twice = match name.as_str() {
                "" => format!("{schema} is deprecated twice"),
                name => format!("{schema} {name:?} is deprecated twice"),
            };
            let text = format!("duplicate deprecation entry {shown} for package {package:?}");
            faults.add(hinted(text, Some(twice)), origin);
            continue;
        }
        let message = entry.message.clone();
        match schema.as_str() {
            schemas::PACKAGE if name.is_empty() => known.deprecations.package = Some(message),
            schemas::PACKAGE => faults.add(
                format!("package name must be empty for deprecated package {package:?} (specified {name:?})"),
                origin,
            ),
            schemas::CHANNEL if known.channels.contains_key(name) => {
                known.deprecations.channels.insert(name.clone(), message);
            }
            schemas::CHANNEL => {
                let meant = faults.did_you_mean(name, known.channels.keys());
                let text =
                    format!("cannot deprecate channel {name:?} for package {package:?}: channel not found");
                faults.add(hinted(text, meant), origin);
            }
            schemas::BUNDLE if known.bundles.contains_key(name) => {
                known.deprecations.bundles.insert(name.clone(), message);
            }
            schemas::BUNDLE => {
                let meant = faults.did_you_mean(name, known.bundles.keys());
                let text =
                    format!("cannot deprecate bundle {name:?} for package {package:?}: bundle not found");
                faults.add(hinted(text, meant), origin);
            }
            _ => {
                let text = format!(
                    "cannot deprecate object {shown} referenced by entry {index} for package {package:?}: object schema unknown"
                );
                let known = DEPRECATED.join(", ");
                let meant = near_name(schema, &DEPRECATED)
                    .map_or_else(String::new, |meant| format!(", did you mean {meant:?}?"));
                let hint = format!("reference.schema {schema:?} is not one of {known}{meant}");
                faults.add(hinted(text, Some(hint)), origin);
            }
        }
    }
}
