//! Upgrade graphs as mermaid text, line for line as upstream's `render-graph` writes them.
//!
//! Arrows lead from the old version to the new one. Entries are in descending order of version. There are two deliberate
//! differences. A channel's deprecation colours only that channel, not those of the same name in other packages. And with several
//! packages, link numbers count in the order links are written. Rules: `docs/reference/catalog-files.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use go_compat::semver::{Range, Version};
use olm_fbc::property::{Typed, kinds};
use olm_fbc::schema::{Blob, Bundle, Channel, ChannelEntry, schemas};

use crate::Error;

/// Options of a drawing.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Package to draw; empty for all.
    pub package: String,
    /// Bundle below which nothing is drawn; empty for no limit.
    pub minimum_edge: String,
    /// True to mark skipped bundles and links, as OLM v0 treats them.
    pub v0_semantics: bool,
}

/// A drawing and its warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawing {
    /// The mermaid text.
    pub text: String,
    /// Skip ranges that were ignored.
    pub warnings: Vec<String>,
}

const SKIPPED_LINKS: &str = "stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;";

/// Draws the channels among `blobs`.
///
/// # Errors
/// A bundle without version, or an unknown minimum edge.
pub fn draw(blobs: &[Blob], options: &Options) -> Result<Drawing, Error> {
    let versions = bundle_versions(blobs)?;
    let mut channels: Vec<&Channel> = blobs
        .iter()
        .filter_map(|blob| match blob {
            Blob::Channel(channel) => Some(channel),
            _ => None,
        })
        .collect();
    channels.sort_by_key(|channel| (&channel.package, &channel.name));
    let floor = match options.minimum_edge.as_str() {
        "" => None,
        edge => Some(
            versions
                .get(edge)
                .ok_or_else(|| format!("unknown minimum edge name: {edge:?}"))?,
        ),
    };
    let filter = Filter {
        options,
        floor,
        package: channels
            .iter()
            .find(|channel| {
                channel
                    .entries
                    .iter()
                    .any(|entry| entry.name == options.minimum_edge)
            })
            .map(|channel| channel.package.as_str()),
        versions: &versions,
    };
    let mut writer = Writer {
        versions: &versions,
        deprecated: Deprecated::of(blobs),
        v0_semantics: options.v0_semantics,
        packages: BTreeMap::new(),
        deprecated_channels: Vec::new(),
        classes: BTreeMap::new(),
        link: 0,
        skipped_links: Vec::new(),
        warnings: Vec::new(),
    };
    for channel in channels {
        if let Some(entries) = filter.entries(channel) {
            writer.add_channel(channel, &entries);
        }
    }
    Ok(writer.finish())
}

/// Returns versions by bundle name. If two bundles have the same name, the first is used.
fn bundle_versions(blobs: &[Blob]) -> Result<BTreeMap<String, Version>, Error> {
    let mut versions = BTreeMap::new();
    for blob in blobs {
        if let Blob::Bundle(bundle) = blob
            && !versions.contains_key(&bundle.name)
        {
            versions.insert(bundle.name.clone(), bundle_version(bundle)?);
        }
    }
    Ok(versions)
}

fn bundle_version(bundle: &Bundle) -> Result<Version, Error> {
    let wrap = |reason: String| Error::from(format!("bundle {:?} {reason}", bundle.name));
    let mut packages = Vec::new();
    for property in &bundle.properties {
        match property.parse() {
            Ok(Typed::Package(package)) => packages.push(package),
            Ok(_) => {}
            // Validation accepts these, too.
            Err(_) if matches!(property.kind.as_str(), kinds::LABEL | kinds::LABEL_REQUIRED) => {}
            Err(error) => return Err(wrap(format!("has a broken property: {error}"))),
        }
    }
    let [package] = packages.as_slice() else {
        return Err(wrap(format!(
            "has {} \"olm.package\" properties, expected exactly 1",
            packages.len()
        )));
    };
    Version::parse(&package.version)
        .map_err(|error| wrap(format!("has invalid version {:?}: {error}", package.version)))
}

/// Selects the entries and edges to draw.
struct Filter<'a> {
    options: &'a Options,
    floor: Option<&'a Version>,
    /// Package of the minimum edge.
    package: Option<&'a str>,
    versions: &'a BTreeMap<String, Version>,
}

impl Filter<'_> {
    /// Returns the entries of a channel that are drawn; `None` if the channel is not drawn at all.
    fn entries(&self, channel: &Channel) -> Option<Vec<ChannelEntry>> {
        let wanted = &self.options.package;
        if !wanted.is_empty() && channel.package != *wanted {
            return None;
        }
        let Some(floor) = self.floor else {
            let is_drawn = wanted.is_empty() || !channel.entries.is_empty();
            return is_drawn.then(|| channel.entries.clone());
        };
        if self.package.is_some_and(|package| package != channel.package) {
            return None;
        }
        let entries: Vec<ChannelEntry> = channel
            .entries
            .iter()
            .filter_map(|entry| self.above(entry, floor))
            .collect();
        (!entries.is_empty()).then_some(entries)
    }

    /// Returns the entry with the edges that do not reach below the floor; `None` if nothing of it remains.
    fn above(&self, entry: &ChannelEntry, floor: &Version) -> Option<ChannelEntry> {
        let mut kept = ChannelEntry {
            name: entry.name.clone(),
            ..ChannelEntry::default()
        };
        // All edges of the floor itself lead below it.
        if entry.name == self.options.minimum_edge {
            return Some(kept);
        }
        let is_above = |name: &str| version_of(self.versions, name) >= *floor;
        if !entry.replaces.is_empty() && is_above(&entry.replaces) {
            kept.replaces.clone_from(&entry.replaces);
        }
        kept.skips = entry
            .skips
            .iter()
            .filter(|skip| is_above(skip))
            .cloned()
            .collect();
        if Range::parse(&entry.skip_range).is_ok_and(|range| range.contains(floor)) {
            kept.skip_range.clone_from(&entry.skip_range);
        }
        let has_edges = |entry: &ChannelEntry| {
            !(entry.replaces.is_empty() && entry.skips.is_empty() && entry.skip_range.is_empty())
        };
        (has_edges(&kept) || !has_edges(entry) && is_above(&entry.name)).then_some(kept)
    }
}

/// Returns the version of a bundle; 0.0.0 for a name without a bundle.
fn version_of(versions: &BTreeMap<String, Version>, name: &str) -> Version {
    versions
        .get(name)
        .cloned()
        .unwrap_or_else(|| Version::new(0, 0, 0))
}

#[derive(Default)]
struct Deprecated<'a> {
    packages: BTreeSet<&'a str>,
    /// Package and channel.
    channels: BTreeSet<(&'a str, &'a str)>,
    /// Package and bundle.
    bundles: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Deprecated<'a> {
    fn of(blobs: &'a [Blob]) -> Self {
        let mut found = Self::default();
        for blob in blobs {
            let Blob::Deprecations(deprecations) = blob else {
                continue;
            };
            let package = deprecations.package.as_str();
            for entry in &deprecations.entries {
                let name = entry.reference.name.as_str();
                match entry.reference.schema.as_str() {
                    schemas::PACKAGE => found.packages.insert(package),
                    schemas::CHANNEL => found.channels.insert((package, name)),
                    schemas::BUNDLE => found.bundles.insert((package, name)),
                    _ => false,
                };
            }
        }
        found
    }
}

struct Writer<'a> {
    versions: &'a BTreeMap<String, Version>,
    deprecated: Deprecated<'a>,
    v0_semantics: bool,
    packages: BTreeMap<String, String>,
    deprecated_channels: Vec<String>,
    /// Ids by class.
    classes: BTreeMap<&'static str, Vec<String>>,
    link: usize,
    skipped_links: Vec<String>,
    warnings: Vec<String>,
}

impl Writer<'_> {
    fn add_channel(&mut self, channel: &Channel, entries: &[ChannelEntry]) {
        let id = format!("{}-{}", channel.package, channel.name);
        let mut text = format!("    %% channel {0:?}\n    subgraph {id}[{0:?}]\n", channel.name);
        if self
            .deprecated
            .channels
            .contains(&(channel.package.as_str(), channel.name.as_str()))
        {
            self.deprecated_channels.push(id.clone());
        }
        let mut sorted: Vec<&ChannelEntry> = entries.iter().collect();
        sorted.sort_by_key(|entry| std::cmp::Reverse(version_of(self.versions, &entry.name)));
        let mut skipped = BTreeSet::new();
        for entry in sorted {
            self.add_entry(&mut text, channel, &id, entries, entry, &mut skipped);
        }
        text.push_str("    end\n");
        self.packages
            .entry(channel.package.clone())
            .or_default()
            .push_str(&text);
    }

    fn add_entry(
        &mut self,
        text: &mut String,
        channel: &Channel,
        channel_id: &str,
        entries: &[ChannelEntry],
        entry: &ChannelEntry,
        skipped: &mut BTreeSet<String>,
    ) {
        let id = |name: &str| format!("{channel_id}-{name}[{name:?}]");
        let own = id(&entry.name);
        let _ = writeln!(text, "      {own}");
        self.decorate(channel, channel_id, entry, skipped);
        for skip in &entry.skips {
            let _ = writeln!(text, "      {}-- skip --> {own}", id(skip));
            if self.v0_semantics && !skipped.insert(skip.clone()) {
                self.skipped_links.push(self.link.to_string());
            }
            self.link += 1;
        }
        let mut others = Vec::new();
        if !entry.skip_range.is_empty() {
            match Range::parse(&entry.skip_range) {
                Ok(range) => others.extend(
                    entries
                        .iter()
                        .filter(|other| range.contains(&version_of(self.versions, &other.name)))
                        .map(|other| (&other.name, format!("\"skipRange({})\"", entry.skip_range))),
                ),
                Err(error) => self.warnings.push(format!(
                    "ignoring invalid SkipRange for package/edge {:?}/{:?}: {error}",
                    channel.package, entry.name
                )),
            }
        }
        // Replaces edges are last, because earlier skips affect them.
        if !entry.replaces.is_empty() {
            others.push((&entry.replaces, "replace".to_owned()));
        }
        for (from, label) in others {
            let _ = writeln!(text, "      {}-- {label} --> {own}", id(from));
            if skipped.contains(&entry.name) {
                self.skipped_links.push(self.link.to_string());
            }
            self.link += 1;
        }
    }

    fn decorate(
        &mut self,
        channel: &Channel,
        channel_id: &str,
        entry: &ChannelEntry,
        skipped: &BTreeSet<String>,
    ) {
        let is_deprecated = self
            .deprecated
            .bundles
            .contains(&(channel.package.as_str(), entry.name.as_str()));
        let class = match (is_deprecated, skipped.contains(&entry.name)) {
            (true, true) => "deprecatedskipped",
            (true, false) => "deprecated",
            (false, true) => "skipped",
            (false, false) => return,
        };
        self.classes
            .entry(class)
            .or_default()
            .push(format!("{channel_id}-{}", entry.name));
    }

    fn finish(self) -> Drawing {
        let mut text = "graph LR\n  classDef deprecated fill:#E8960F\n  classDef skipped stroke:#FF0000,stroke-width:4px\n  \
                        classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px\n"
            .to_owned();
        for (package, channels) in &self.packages {
            let _ = write!(
                text,
                "  %% package {package:?}\n  subgraph {package:?}\n{channels}  end\n"
            );
        }
        for package in self.packages.keys() {
            if self.deprecated.packages.contains(package.as_str()) {
                let _ = writeln!(text, "style {package} fill:#989695");
            }
        }
        for channel in &self.deprecated_channels {
            let _ = writeln!(text, "style {channel} fill:#DCD0FF");
        }
        for (class, mut ids) in self.classes {
            ids.sort_unstable();
            let _ = writeln!(text, "class {} {class}", ids.join(","));
        }
        if !self.skipped_links.is_empty() {
            let _ = writeln!(text, "linkStyle {} {SKIPPED_LINKS}", self.skipped_links.join(","));
        }
        Drawing {
            text,
            warnings: self.warnings,
        }
    }
}

#[cfg(test)]
mod tests;
