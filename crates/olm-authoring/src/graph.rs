//! The upgrade graph of a package, ready to be drawn: one part per channel, versions from the lowest to the highest.
//!
//! Marks: deprecated bundles, bundles without an upgrade path to the head, skipped bundles, and names without a bundle.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::semver::{Range, Version};
use olm_fbc::channel::Graph;
use olm_fbc::schema::Channel;
use olm_fbc::validate::PackageModel;

mod dot;
mod mermaid;
mod svg;

pub use dot::to_dot;
pub use mermaid::to_mermaid;
pub use svg::to_svg;

/// Channels of one package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageGraph {
    /// Name of the package.
    pub package: String,
    /// True if the package is deprecated.
    pub deprecated: bool,
    /// Channels by name.
    pub channels: Vec<ChannelGraph>,
}

/// One channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelGraph {
    /// Name of the channel.
    pub name: String,
    /// True if this is the package's default channel.
    pub is_default: bool,
    /// True if the channel is deprecated.
    pub deprecated: bool,
    /// Bundles from the lowest to the highest version; names without a bundle first.
    pub nodes: Vec<Node>,
    /// Upgrades between the nodes.
    pub edges: Vec<Edge>,
}

/// A bundle in a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the CSV.
    pub name: String,
    /// Version; `None` for a name without a bundle.
    pub version: Option<Version>,
    /// True if the bundle is the head of the channel.
    pub is_head: bool,
    /// True if the bundle is deprecated.
    pub deprecated: bool,
    /// True if an entry skips the bundle: it is never newly installed.
    pub skipped: bool,
    /// True if no upgrades lead from the bundle to the head.
    pub unreachable: bool,
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

impl Node {
    /// Returns marks as words, for legends and classes; empty for an ordinary bundle.
    pub fn marks(&self) -> Vec<&'static str> {
        [
            (self.is_head, "head"),
            (self.deprecated, "deprecated"),
            (self.skipped, "skipped"),
            (self.unreachable, "unreachable"),
            (self.version.is_none(), "absent"),
        ]
        .into_iter()
        .filter_map(|(is_so, mark)| is_so.then_some(mark))
        .collect()
    }
}

impl PackageGraph {
    /// Returns the graph of a package, of all its channels or of one.
    pub fn new(name: &str, package: &PackageModel, channel: Option<&str>) -> Self {
        let channels = package
            .channels
            .values()
            .filter(|known| channel.is_none_or(|wanted| wanted == known.name))
            .map(|channel| channel_graph(package, channel))
            .collect();
        Self {
            package: name.to_owned(),
            deprecated: package.deprecations.package.is_some(),
            channels,
        }
    }
}

fn channel_graph(package: &PackageModel, channel: &Channel) -> ChannelGraph {
    let version = |name: &str| Some(package.bundles.get(name)?.version.clone()?.version);
    let skipped: BTreeSet<&str> = channel
        .entries
        .iter()
        .flat_map(|entry| entry.skips.iter().map(String::as_str))
        .collect();
    let names: BTreeSet<&str> = channel
        .entries
        .iter()
        .flat_map(|entry| [entry.name.as_str(), entry.replaces.as_str()])
        .chain(skipped.iter().copied())
        .filter(|name| !name.is_empty())
        .collect();
    let entries: BTreeSet<&str> = channel.entries.iter().map(|entry| entry.name.as_str()).collect();
    let head = Graph::new(&channel.entries).head().ok();
    let reached = head
        .map(|head| reaching(head, channel, package))
        .unwrap_or_default();
    let mut nodes: Vec<Node> = names
        .into_iter()
        .map(|name| Node {
            name: name.to_owned(),
            // A bundle of another channel is absent here, like a name without any bundle.
            version: entries.contains(name).then(|| version(name)).flatten(),
            is_head: head == Some(name),
            deprecated: package.deprecations.bundles.contains_key(name),
            skipped: skipped.contains(name),
            unreachable: entries.contains(name) && !reached.contains(name),
        })
        .collect();
    nodes.sort_by(|a, b| (&a.version, &a.name).cmp(&(&b.version, &b.name)));
    ChannelGraph {
        name: channel.name.clone(),
        is_default: package.package.default_channel == channel.name,
        deprecated: package.deprecations.channels.contains_key(&channel.name),
        edges: edges(channel, &nodes),
        nodes,
    }
}

fn edges(channel: &Channel, nodes: &[Node]) -> Vec<Edge> {
    let places: BTreeMap<&str, usize> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| (node.name.as_str(), index))
        .collect();
    let mut edges = BTreeSet::new();
    for entry in &channel.entries {
        let Some(&to) = places.get(entry.name.as_str()) else {
            continue;
        };
        let named = std::iter::once((&entry.replaces, EdgeKind::Replaces))
            .chain(entry.skips.iter().map(|skip| (skip, EdgeKind::Skips)));
        for (from, kind) in named {
            if let Some(&from) = places.get(from.as_str()) {
                edges.insert(Edge { from, to, kind });
            }
        }
        let Ok(range) = Range::parse(&entry.skip_range) else {
            continue;
        };
        for (from, node) in nodes.iter().enumerate() {
            let is_in = node
                .version
                .as_ref()
                .is_some_and(|version| range.contains(version));
            let is_named = node.name == entry.replaces || entry.skips.contains(&node.name);
            if is_in && from != to && !is_named {
                edges.insert(Edge {
                    from,
                    to,
                    kind: EdgeKind::SkipRange,
                });
            }
        }
    }
    edges.into_iter().collect()
}

/// Returns the entries from which upgrades lead to `head`, found backwards from it.
pub(crate) fn reaching<'a>(head: &'a str, channel: &'a Channel, package: &PackageModel) -> BTreeSet<&'a str> {
    let entries: BTreeMap<&str, _> = channel
        .entries
        .iter()
        .map(|entry| {
            let version = package
                .bundles
                .get(&entry.name)
                .and_then(|bundle| Some(bundle.version.as_ref()?.version.clone()));
            (entry.name.as_str(), (entry, version))
        })
        .collect();
    let mut reached = BTreeSet::from([head]);
    let mut next = vec![head];
    while let Some((entry, _)) = next.pop().and_then(|name| entries.get(name)) {
        let range = Range::parse(&entry.skip_range)
            .ok()
            .filter(|_| !entry.skip_range.is_empty());
        let named = std::iter::once(entry.replaces.as_str())
            .chain(entry.skips.iter().map(String::as_str))
            .filter_map(|from| entries.get_key_value(from))
            .map(|(from, _)| *from);
        let ranged = entries
            .iter()
            .filter(|(_, (_, version))| match (&range, version) {
                (Some(range), Some(version)) => range.contains(version),
                _ => false,
            })
            .map(|(from, _)| *from);
        for from in named.chain(ranged) {
            if reached.insert(from) {
                next.push(from);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests;
