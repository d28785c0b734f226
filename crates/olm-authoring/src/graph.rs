//! The upgrade graph of a package: one lane per channel, versions from the lowest to the highest.
//!
//! ```text
//! entries of a cluster's catalog ─┐                   ┌─ to_svg   a drawing
//!                                 ├─▶ PackageGraph ───┼─ to_text  lines, and JSON by serde
//! a catalog's files, validated ───┘                   └─ to_dot   for Graphviz
//! ```
//!
//! Marks: installed versions, channel heads, deprecated bundles, bundles without an upgrade path to the head, skipped bundles,
//! and names without a bundle. Nodes share their texts with the catalog, because a short catalog can repeat one text thousands of
//! times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use go_compat::semver::{Range, Version};
use olm_fbc::channel::head_among;
use olm_fbc::entry::BundleEntry;
use olm_fbc::printable;
use olm_fbc::schema::{Channel, ChannelEntry};
use olm_fbc::validate::PackageModel;
use serde::{Serialize, Serializer};

mod dot;
mod layout;
mod svg;
mod text;
mod way;

pub use dot::to_dot;
pub use svg::{STYLE, to_svg, to_svg_element};
pub use text::{Tone, to_text};

/// Maximum letters of a catalog's text in a drawing.
const MAX_TEXT: usize = 600;
/// Maximum number of names shown per `skips` list.
const MAX_NAMED: usize = 10;

/// Channels of one package. Serializes as the document of `kubectl operator graph -o json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageGraph {
    /// Name of the package.
    pub package: String,
    /// NAMESPACE/NAME of the CatalogSource; empty for files.
    pub catalog: String,
    /// Deprecation message of the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Arc<str>>,
    /// The default channel first, then by name.
    pub channels: Vec<ChannelGraph>,
    /// Installed versions that are in none of the channels.
    pub elsewhere: Vec<Installed>,
    /// Number of omitted versions and channels.
    pub left_out: usize,
    /// Path of the resolver: channel and bundle of each step. The first one is the installed bundle, without a channel.
    #[serde(skip)]
    pub way: Vec<(String, String)>,
}

/// An installed version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installed {
    /// Name of the CSV.
    pub name: String,
    /// NAMESPACE/NAME of Subscriptions.
    pub by: Vec<String>,
}

/// One channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelGraph {
    /// Name of the channel.
    pub name: Arc<str>,
    /// True if this is the package's default channel.
    pub is_default: bool,
    /// Deprecation message of the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Arc<str>>,
    /// Reason why the channel has no head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// Bundles from the lowest to the highest version, those without a version first. Serialized newest first.
    #[serde(rename = "entries", serialize_with = "newest_first")]
    pub nodes: Vec<Node>,
}

/// A bundle in a channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Name of the CSV.
    pub name: Arc<str>,
    /// Version; `None` without a bundle or if it cannot be parsed. Serialized as text.
    #[serde(serialize_with = "version_text")]
    pub version: Option<Version>,
    /// True if the bundle is the head of the channel.
    pub is_head: bool,
    /// True if an entry skips the bundle: it is never newly installed.
    pub is_skipped: bool,
    /// The newest entry that skips the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_by: Option<Arc<str>>,
    /// True if the channel has no entry of this name. Known only for a catalog's files.
    #[serde(skip)]
    pub is_absent: bool,
    /// True if no upgrades lead from the bundle to the head. Known only for a catalog's files.
    #[serde(skip)]
    pub is_unreachable: bool,
    /// NAMESPACE/NAME of Subscriptions that have the bundle installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub installed_by: Vec<String>,
    /// NAMESPACE/NAME of Subscriptions that are being upgraded to the bundle, or whose upgrade to it failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upgrading: Vec<String>,
    /// Deprecation message of the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Arc<str>>,
    /// Name of the CSV that the bundle replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Arc<str>>,
    /// Names of the CSVs that the bundle skips.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub skips: Arc<[Arc<str>]>,
    /// Versions that the bundle skips. Serialized as text.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "range_text")]
    pub skip_range: Option<Arc<Range>>,
}

/// An upgrade from one bundle to another, by position in [`ChannelGraph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Installed bundle.
    pub from: usize,
    /// Bundle after the upgrade.
    pub to: usize,
    /// Field that defines the upgrade.
    pub kind: EdgeKind,
}

/// Fields that define an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// `replaces`
    Replaces,
    /// `skips`
    Skips,
    /// `skipRange`
    SkipRange,
}

impl PackageGraph {
    /// Returns the graph of a package's entries. If a channel has several entries of one name, the first counts.
    ///
    /// `installed` has the Subscriptions, as NAMESPACE/NAME, by the installed CSV.
    pub fn new<'a>(
        package: &str,
        catalog: &str,
        entries: impl IntoIterator<Item = &'a BundleEntry>,
        installed: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        let mut graph = Self {
            package: package.to_owned(),
            catalog: catalog.to_owned(),
            ..Self::default()
        };
        let mut by_channel: BTreeMap<&Arc<str>, Vec<&BundleEntry>> = BTreeMap::new();
        let mut known: BTreeSet<(&str, &str)> = BTreeSet::new();
        for entry in entries {
            if known.insert((&*entry.channel, &*entry.name)) {
                by_channel.entry(&entry.channel).or_default().push(entry);
            }
        }
        let mut deprecations = by_channel
            .values()
            .flatten()
            .filter_map(|entry| entry.deprecation.as_ref());
        graph.deprecated = deprecations.find_map(|found| found.package.clone());
        graph.channels = by_channel
            .into_iter()
            .map(|(name, entries)| ChannelGraph::new(name, entries, installed))
            .collect();
        graph.channels.sort_by_key(|channel| !channel.is_default);
        let shown: BTreeSet<&str> = known.into_iter().map(|(_, name)| name).collect();
        graph.elsewhere = installed
            .iter()
            .filter(|(name, _)| !shown.contains(name.as_str()))
            .map(|(name, by)| Installed {
                name: name.clone(),
                by: by.clone(),
            })
            .collect();
        graph
    }

    /// Marks the bundles that Subscriptions, as NAMESPACE/NAME, are being upgraded to, by CSV.
    pub fn mark_upgrades(&mut self, upgrades: &BTreeMap<String, Vec<String>>) {
        for node in self.channels.iter_mut().flat_map(|channel| &mut channel.nodes) {
            node.upgrading = upgrades.get(&*node.name).cloned().unwrap_or_default();
        }
    }

    /// Returns the graph of a package in a catalog's files, of all its channels or of one, with the names that have no bundle.
    pub fn of_model(name: &str, package: &PackageModel, channel: Option<&str>) -> Self {
        let channels = package
            .channels
            .values()
            .filter(|known| channel.is_none_or(|wanted| wanted == known.name));
        let entries: Vec<BundleEntry> = channels
            .flat_map(|channel| channel.entries.iter().map(move |entry| (channel, entry)))
            .map(|(channel, entry)| bundle_entry(name, package, channel, entry))
            .collect();
        let mut graph = Self::new(name, "", &entries, &BTreeMap::new());
        let deprecations = &package.deprecations;
        let message = |found: Option<&String>| found.map(|text| Arc::from(text.as_str()));
        graph.deprecated = message(deprecations.package.as_ref());
        for lane in &mut graph.channels {
            let Some(channel) = package.channels.get(&*lane.name) else {
                continue;
            };
            lane.deprecated = message(deprecations.channels.get(&channel.name));
            lane.add_absent();
            let reaching = lane.reaching_head();
            for (at, node) in lane.nodes.iter_mut().enumerate() {
                node.is_unreachable = !node.is_absent && !reaching.contains(&at);
                node.deprecated = message(deprecations.bundles.get(&*node.name));
            }
        }
        graph
    }

    /// Keeps the first channels and the newest versions, and at most as many others that are installed or on the resolver's path.
    pub fn cut(&mut self, max_versions: usize, max_channels: usize) {
        self.left_out += self.channels.len().saturating_sub(max_channels);
        self.channels.truncate(max_channels);
        let way: BTreeSet<&str> = self.way.iter().map(|(_, name)| name.as_str()).collect();
        let all = self.versions();
        let (old, new) = all.split_at(all.len().saturating_sub(max_versions));
        let wanted = old
            .iter()
            .filter(|node| !node.installed_by.is_empty() || way.contains(&*node.name));
        let kept: BTreeSet<Arc<str>> = wanted
            .take(max_versions)
            .chain(new)
            .map(|node| Arc::clone(&node.name))
            .collect();
        self.left_out += all.len() - kept.len();
        for channel in &mut self.channels {
            channel.nodes.retain(|node| kept.contains(&node.name));
        }
        self.channels.retain(|channel| !channel.nodes.is_empty());
    }

    /// Returns notes on what the graph omits.
    pub fn notes(&self) -> Vec<String> {
        let elsewhere = self.elsewhere.iter().map(|found| {
            let (name, by) = (plain(&found.name), plain(&found.by.join(", ")));
            format!("{name} is installed by {by}, but is in none of these channels")
        });
        let left_out = (self.left_out > 0)
            .then(|| format!("{} older versions or channels are not shown", self.left_out));
        elsewhere.chain(left_out).collect()
    }

    /// Returns the channels to draw. Channels that have the same upgrades are one group.
    pub fn lanes(&self) -> Vec<Vec<&ChannelGraph>> {
        let mut lanes: Vec<Vec<&ChannelGraph>> = Vec::new();
        for channel in &self.channels {
            let same = lanes
                .iter_mut()
                .find(|lane| lane.first().is_some_and(|first| first.nodes == channel.nodes));
            match same {
                Some(lane) => lane.push(channel),
                None => lanes.push(vec![channel]),
            }
        }
        lanes
    }

    /// Returns one node per name, from the lowest to the highest version.
    fn versions(&self) -> Vec<&Node> {
        let nodes = self.channels.iter().flat_map(|channel| &channel.nodes);
        let by_name: BTreeMap<&str, &Node> = nodes.map(|node| (&*node.name, node)).collect();
        let mut versions: Vec<&Node> = by_name.into_values().collect();
        versions.sort_by(|one, other| one.order().cmp(&other.order()));
        versions
    }
}

impl ChannelGraph {
    fn new(
        name: &Arc<str>,
        mut entries: Vec<&BundleEntry>,
        installed: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        entries.sort_by(|one, other| (&one.version, &one.name).cmp(&(&other.version, &other.name)));
        let replaced: BTreeSet<&str> = entries
            .iter()
            .filter_map(|entry| entry.replaces.as_deref())
            .collect();
        // Of several entries that skip a name, the newest one remains.
        let skipped: BTreeMap<&str, &Arc<str>> = entries
            .iter()
            .flat_map(|entry| entry.skips.iter().map(move |skip| (&**skip, &entry.name)))
            .collect();
        let names = entries.iter().map(|entry| &*entry.name);
        let head = head_among(names.filter(|name| !replaced.contains(name) && !skipped.contains_key(name)));
        let nodes = entries.iter().map(|entry| {
            let skipped_by = skipped.get(&*entry.name).copied().map(Arc::clone);
            let deprecation = entry.deprecation.as_ref();
            Node {
                name: Arc::clone(&entry.name),
                version: entry.version.clone(),
                is_head: head.as_ref().is_ok_and(|head| **head == *entry.name),
                is_skipped: skipped_by.is_some(),
                skipped_by,
                installed_by: installed.get(&*entry.name).cloned().unwrap_or_default(),
                deprecated: deprecation.and_then(|found| found.bundle.clone()),
                replaces: entry.replaces.clone(),
                skips: Arc::clone(&entry.skips),
                skip_range: entry.skip_range.clone(),
                ..Node::default()
            }
        });
        Self {
            name: Arc::clone(name),
            is_default: entries.iter().any(|entry| entry.default_channel),
            deprecated: entries
                .iter()
                .find_map(|entry| entry.deprecation.as_ref()?.channel.clone()),
            nodes: nodes.collect(),
            broken: head.err().map(|error| error.to_string()),
        }
    }

    /// Adds the names that entries replace or skip and that have no entry.
    fn add_absent(&mut self) {
        let mut absent: BTreeMap<Arc<str>, Option<Arc<str>>> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(name) = &node.replaces {
                absent.entry(Arc::clone(name)).or_default();
            }
            for name in node.skips.iter() {
                absent.insert(Arc::clone(name), Some(Arc::clone(&node.name)));
            }
        }
        for node in &self.nodes {
            absent.remove(&node.name);
        }
        let absent = absent.into_iter().map(|(name, skipped_by)| Node {
            name,
            is_skipped: skipped_by.is_some(),
            skipped_by,
            is_absent: true,
            ..Node::default()
        });
        self.nodes.extend(absent);
        self.nodes.sort_by(|one, other| one.order().cmp(&other.order()));
    }

    /// Returns the upgrades between the nodes, sorted.
    ///
    /// Without `all_ranges` only the head's `skipRange` counts. In a drawing the others would repeat the same lines.
    pub fn edges(&self, all_ranges: bool) -> Vec<Edge> {
        let positions: BTreeMap<&str, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (&*node.name, at))
            .collect();
        let mut edges = BTreeSet::new();
        for (to, node) in self.nodes.iter().enumerate() {
            let replaced = node.replaces.iter().map(|name| (name, EdgeKind::Replaces));
            let skipped = node.skips.iter().map(|name| (name, EdgeKind::Skips));
            let mut named = BTreeSet::from([to]);
            for (name, kind) in replaced.chain(skipped) {
                if let Some(&from) = positions.get(&**name) {
                    named.insert(from);
                    edges.insert(Edge { from, to, kind });
                }
            }
            let range = node.skip_range.as_ref().filter(|_| all_ranges || node.is_head);
            let Some(range) = range else { continue };
            for (from, other) in self.nodes.iter().enumerate() {
                let is_in = |version: &Version| range.contains(version);
                if !named.contains(&from) && other.version.as_ref().is_some_and(is_in) {
                    let kind = EdgeKind::SkipRange;
                    edges.insert(Edge { from, to, kind });
                }
            }
        }
        edges.into_iter().collect()
    }

    /// Returns the positions of the nodes from which upgrades lead to the head, found backwards from it.
    fn reaching_head(&self) -> BTreeSet<usize> {
        let head = self.nodes.iter().position(|node| node.is_head);
        let mut reaching: BTreeSet<usize> = head.into_iter().collect();
        let edges = self.edges(true);
        loop {
            let known = reaching.len();
            for edge in edges.iter().rev() {
                if reaching.contains(&edge.to) {
                    reaching.insert(edge.from);
                }
            }
            if reaching.len() == known {
                return reaching;
            }
        }
    }

    /// Returns true if the channel ends where the other one goes on: its versions are the oldest of the other, with the same
    /// upgrades. A drawing shows the range of a head only, so a head with a range is not the same as a version that is no head.
    fn begins(&self, other: &Self) -> bool {
        let are_same = |(own, others): (&Node, &Node)| {
            let is_head = match own.skip_range {
                Some(_) => others.is_head,
                None => own.is_head,
            };
            let others = others.clone();
            *own == Node { is_head, ..others }
        };
        self.broken.is_none()
            && other.broken.is_none()
            && self.nodes.len() <= other.nodes.len()
            && self.nodes.iter().zip(&other.nodes).all(are_same)
    }

    /// Returns the name with the properties of the channel.
    fn title(&self) -> String {
        let marks = [
            (self.is_default, " (default)"),
            (self.deprecated.is_some(), " (deprecated)"),
            (self.broken.is_some(), " (broken)"),
        ];
        let marks = marks
            .into_iter()
            .filter_map(|(is_so, mark)| is_so.then_some(mark));
        plain(&self.name) + &marks.collect::<String>()
    }
}

impl Node {
    /// Returns marks as words, for labels and classes; empty for an ordinary bundle.
    pub fn marks(&self) -> Vec<&'static str> {
        [
            (!self.installed_by.is_empty(), "installed"),
            (self.is_head, "head"),
            (self.deprecated.is_some(), "deprecated"),
            (self.is_skipped, "skipped"),
            (self.is_unreachable, "unreachable"),
            (self.is_absent, "absent"),
        ]
        .into_iter()
        .filter_map(|(is_so, mark)| is_so.then_some(mark))
        .collect()
    }

    /// Returns the version as text; empty for none.
    pub fn version(&self) -> String {
        let version = self.version.as_ref();
        version
            .map(|version| plain(&version.to_string()))
            .unwrap_or_default()
    }

    /// Returns what the marks mean for this bundle, with reasons. `paint` colours a word for a terminal.
    fn facts(&self, paint: &dyn Fn(Tone, &str) -> String) -> Vec<String> {
        let mut facts = Vec::new();
        if !self.installed_by.is_empty() {
            let by = plain(&self.installed_by.join(", "));
            facts.push(format!("{} by {by}", paint(Tone::Fine, "installed")));
        }
        if !self.upgrading.is_empty() {
            let by = plain(&self.upgrading.join(", "));
            facts.push(format!("{} to it: {by}", paint(Tone::Warning, "upgrading")));
        }
        if self.is_head {
            facts.push("head".to_owned());
        }
        if let Some(by) = &self.skipped_by {
            facts.push(format!("skipped by {}", plain(by)));
        }
        if let Some(why) = &self.deprecated {
            facts.push(format!("{}: {}", paint(Tone::Warning, "deprecated"), plain(why)));
        }
        if self.is_unreachable {
            facts.push(paint(Tone::Bad, "no upgrades lead to the head"));
        }
        if self.is_absent {
            facts.push("not in this channel".to_owned());
        }
        facts
    }

    /// Returns the marks with reasons, and the fields that define upgrades.
    pub fn details(&self, paint: &dyn Fn(Tone, &str) -> String) -> Vec<String> {
        let mut details = self.facts(paint);
        if let Some(replaces) = &self.replaces {
            details.push(format!("replaces {}", plain(replaces)));
        }
        if !self.skips.is_empty() {
            details.push(format!("skips {}", named(self.skips.iter().map(|name| &**name))));
        }
        if let Some(range) = &self.skip_range {
            details.push(format!("skipRange {}", plain(range.as_str())));
        }
        details
    }

    /// Order in a channel.
    fn order(&self) -> (Option<&Version>, &str) {
        (self.version.as_ref(), &self.name)
    }
}

/// Returns a text as one line without control characters, of limited length.
fn plain(text: &str) -> String {
    printable::line(text, MAX_TEXT)
}

/// Returns the first names of a list and the number of the others.
fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let first: Vec<String> = names.take(MAX_NAMED).map(plain).collect();
    match more {
        0 => first.join(", "),
        _ => format!("{} and {more} more", first.join(", ")),
    }
}

fn newest_first<S: Serializer>(nodes: &[Node], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(nodes.iter().rev())
}

fn version_text<S: Serializer>(version: &Option<Version>, serializer: S) -> Result<S::Ok, S::Error> {
    match version {
        Some(version) => serializer.collect_str(version),
        None => serializer.serialize_str(""),
    }
}

fn range_text<S: Serializer>(range: &Option<Arc<Range>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(range.as_ref().map_or("", |range| range.as_str()))
}

fn bundle_entry(name: &str, package: &PackageModel, channel: &Channel, entry: &ChannelEntry) -> BundleEntry {
    let version = package
        .bundles
        .get(&entry.name)
        .and_then(|bundle| bundle.version.as_ref());
    let text = Some(entry.skip_range.as_str()).filter(|text| !text.is_empty());
    BundleEntry {
        name: entry.name.as_str().into(),
        package: name.into(),
        channel: channel.name.as_str().into(),
        default_channel: package.package.default_channel == channel.name,
        version: version.map(|version| version.version.clone()),
        replaces: (!entry.replaces.is_empty()).then(|| entry.replaces.as_str().into()),
        skips: entry.skips.iter().map(|name| name.as_str().into()).collect(),
        skip_range: text.and_then(|text| Range::parse(text).ok()).map(Arc::new),
        ..BundleEntry::default()
    }
}

#[cfg(test)]
mod tests;
