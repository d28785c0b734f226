//! Rules about packages, channels and bundles as a whole; their faults form a tree.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::semver::Range;

use super::fault::hinted;
use super::names::{MAX_HINTS, Origins};
use super::{Faults, Model, PackageModel};
use crate::channel::{Graph, GraphError};
use crate::load::Origin;
use crate::schema::{Channel, ChannelEntry};

const NO_MESSAGE: &str = "invalid deprecation: message must be set";
/// Hint for the author of a range that cannot be parsed.
const RANGE_FORM: &str = "a range is written as in \">=1.0.0 <1.2.0\"";

pub(super) fn check(model: &Model, origins: &Origins, faults: &mut Faults) {
    for (name, package) in &model.packages {
        let path = vec![format!("invalid package {name:?}")];
        let package_origin = origins.packages.get(name);
        check_package(&path, package, faults, package_origin);
        let deprecated = &package.deprecations;
        // Reports a deprecation without message, at the deprecating document.
        let check_message = |path: &[String], message: Option<&String>, faults: &mut Faults| {
            if message.is_some_and(String::is_empty) {
                faults.add_at(path, NO_MESSAGE.to_owned(), origins.deprecations.get(name));
            }
        };
        check_message(&path, deprecated.package.as_ref(), faults);
        for (channel_name, channel) in &package.channels {
            let path = [path[0].clone(), format!("invalid channel {channel_name:?}")];
            let origin = origins.channels.get(&(name.clone(), channel_name.clone()));
            check_channel(&path, channel, faults, origin);
            check_message(&path, deprecated.channels.get(channel_name), faults);
            for entry in &channel.entries {
                let path = [&path[..], &[format!("invalid bundle {:?}", entry.name)]].concat();
                check_entry(&path, entry, faults, origin);
                check_bundle(&path, package, entry, origins, faults);
                check_message(&path, deprecated.bundles.get(&entry.name), faults);
            }
        }
        let default = &package.package.default_channel;
        if !default.is_empty() && !package.channels.contains_key(default) {
            // Upstream creates the missing channel and then reports it as empty.
            let path = [path[0].clone(), format!("invalid channel {default:?}")];
            let text = "channel must contain at least one bundle: it is the default channel but not defined";
            let meant = faults.did_you_mean(default, package.channels.keys());
            let meant = meant.or_else(|| channels_of(package));
            faults.add_at(&path, hinted(text.to_owned(), meant), package_origin);
        }
    }
}

fn check_package(path: &[String], package: &PackageModel, faults: &mut Faults, origin: Option<&Origin>) {
    if package.package.default_channel.is_empty() {
        let text = "default channel must be set".to_owned();
        faults.add_at(path, hinted(text, channels_of(package)), origin);
    }
    let mut add = |message: String| faults.add_at(path, message, origin);
    if package.channels.is_empty() {
        add("package must contain at least one channel".to_owned());
    }
    let mut versions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, bundle) in &package.bundles {
        if let Some(version) = &bundle.version {
            versions.entry(version.to_string()).or_default().push(name);
        }
    }
    let duplicates: Vec<String> = versions
        .into_iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(version, names)| format!("{{{version}: [{}]}}", names.join(", ")))
        .collect();
    if !duplicates.is_empty() {
        add(format!(
            "duplicate versions found in bundles: [{}]",
            duplicates.join(" ")
        ));
    }
}

fn check_channel(path: &[String], channel: &Channel, faults: &mut Faults, origin: Option<&Origin>) {
    if channel.entries.is_empty() {
        faults.add_at(
            path,
            "channel must contain at least one bundle".to_owned(),
            origin,
        );
    } else if let Err(error) = Graph::new(&channel.entries).check() {
        let hint = edge_hint(channel, &error, faults);
        faults.add_at(path, hinted(error.to_string(), hint), origin);
    }
}

/// Returns possible values of `defaultChannel` as a hint.
fn channels_of(package: &PackageModel) -> Option<String> {
    let names: Vec<String> = package
        .channels
        .keys()
        .take(MAX_HINTS)
        .map(|name| format!("{name:?}"))
        .collect();
    match package.channels.len().saturating_sub(names.len()) {
        _ if names.is_empty() => None,
        0 => Some(format!("the package has channel {}", names.join(", "))),
        more => Some(format!(
            "the package has channel {} and {more} more",
            names.join(", ")
        )),
    }
}

/// Returns a hint with the edges that lead to no entry of the channel, and the unreferenced entries that were probably meant.
fn edge_hint(channel: &Channel, error: &GraphError, faults: &mut Faults) -> Option<String> {
    let (GraphError::SeveralHeads(lost) | GraphError::Stranded(lost)) = error else {
        return None;
    };
    let entries: BTreeSet<&str> = channel.entries.iter().map(|entry| entry.name.as_str()).collect();
    let dangling = channel
        .entries
        .iter()
        .filter(|entry| !entry.replaces.is_empty() && !entries.contains(entry.replaces.as_str()));
    let hints: Vec<String> = dangling
        .take(MAX_HINTS)
        .map(|ChannelEntry { name, replaces, .. }| {
            let meant = faults
                .did_you_mean(replaces, lost.iter().filter(|lost| *lost != name))
                .map_or_else(String::new, |meant| format!(", {meant}"));
            format!("{name:?} replaces {replaces:?}, which is not in the channel{meant}")
        })
        .collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// Checks an entry of a channel.
fn check_entry(path: &[String], entry: &ChannelEntry, faults: &mut Faults, origin: Option<&Origin>) {
    if entry.name.is_empty() {
        faults.add_at(path, "name must be set".to_owned(), origin);
    }
    for (index, skip) in entry.skips.iter().enumerate() {
        if skip.is_empty() {
            faults.add_at(path, format!("skip[{index}] is empty"), origin);
        }
    }
    if !entry.skip_range.is_empty()
        && let Err(error) = Range::parse(&entry.skip_range)
    {
        let text = format!("invalid skipRange {:?}: {error}", entry.skip_range);
        faults.add_at(path, hinted(text, Some(RANGE_FORM.to_owned())), origin);
    }
}

/// Checks the bundle of an entry.
fn check_bundle(
    path: &[String],
    package: &PackageModel,
    entry: &ChannelEntry,
    origins: &Origins,
    faults: &mut Faults,
) {
    let Some(bundle) = package.bundles.get(&entry.name) else {
        return;
    };
    let place = origins
        .bundles
        .get(&(package.package.name.clone(), entry.name.clone()));
    let mut add = |message: String| faults.add_at(path, message, place.map(|place| &place.origin));
    if bundle.image.is_empty() && !bundle.has_objects {
        add("bundle image must be set".to_owned());
    }
    if let (Some(true), Some(version)) = (place.map(|place| place.has_release), &bundle.version) {
        let normalised = format!("{}-v{version}", package.package.name);
        if entry.name != normalised {
            add(format!(
                "name {:?} does not match normalized name {normalised:?}",
                entry.name
            ));
        }
        if !version.version.build.is_empty() {
            add("cannot use build metadata in version with a release version".to_owned());
        }
    }
}
