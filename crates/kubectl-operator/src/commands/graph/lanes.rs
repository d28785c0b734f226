//! Upgrade graph of a package for drawing: one lane per channel, the newest version first. Pure.
//!
//! The pages of `ui` have their own lanes. These pages refresh each minute and show only a part of a package. They share the
//! catalog's strings and mark the resolver's path. Here the graph is complete and also available as JSON.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::semver::Version;
use olm_fbc::channel::Graph;
use olm_fbc::entry::BundleEntry;
use olm_fbc::schema::ChannelEntry;
use serde::Serialize;

use crate::terminal::plain;

/// Maximum number of entries of a package; the rest is omitted.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// Maximum number of names in all `skips` lists. A catalog shares one long list between entries at no cost; here each is a copy.
const MAX_SKIPS: usize = 1_000_000;

/// The channels of one package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PackageLanes {
    pub package: String,
    /// NAMESPACE/NAME of the CatalogSource.
    pub catalog: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// The default channel first, then by name.
    pub channels: Vec<Lane>,
    /// Installed versions that are in none of the channels.
    pub elsewhere: Vec<Installed>,
    /// Number of omitted entries.
    pub left_out: usize,
}

/// An installed version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Installed {
    pub name: String,
    /// NAMESPACE/NAME of Subscriptions.
    pub by: Vec<String>,
}

/// One channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lane {
    pub name: String,
    pub is_default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// Reason why the channel has no head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// Newest first; entries without version last.
    pub entries: Vec<Stop>,
}

/// A version in a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stop {
    /// Name of the ClusterServiceVersion.
    pub name: String,
    pub version: String,
    pub is_head: bool,
    /// True if another entry skips it, so that it is not newly installed.
    pub is_skipped: bool,
    /// NAMESPACE/NAME of Subscriptions that have it installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub installed_by: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skip_range: String,
    #[serde(skip)]
    pub semver: Option<Version>,
}

impl PackageLanes {
    /// Builds the lanes from the entries of one package. If a channel has several entries of one name, the first counts.
    pub(super) fn new<'a>(
        package: &str,
        catalog: &str,
        entries: impl Iterator<Item = &'a BundleEntry>,
        installed: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        let (mut by_channel, mut deprecated, mut left_out) =
            (BTreeMap::<&str, Vec<&BundleEntry>>::new(), None, 0);
        let (mut known, mut skips) = (BTreeSet::<(&str, &str)>::new(), 0);
        for entry in entries {
            let name = (&*entry.channel, &*entry.name);
            if known.contains(&name) {
                continue;
            }
            if known.len() >= MAX_ENTRIES || skips + entry.skips.len() > MAX_SKIPS {
                left_out += 1;
                continue;
            }
            known.insert(name);
            skips += entry.skips.len();
            let of_package = entry
                .deprecation
                .as_ref()
                .and_then(|found| found.package.as_deref());
            deprecated = deprecated.or_else(|| of_package.map(str::to_owned));
            by_channel.entry(&entry.channel).or_default().push(entry);
        }
        let mut channels: Vec<Lane> = by_channel
            .into_iter()
            .map(|(name, entries)| lane(name, &entries, installed))
            .collect();
        channels.sort_by(|one, other| (!one.is_default, &one.name).cmp(&(!other.is_default, &other.name)));
        let shown: BTreeSet<&str> = channels
            .iter()
            .flat_map(|lane| &lane.entries)
            .map(|stop| stop.name.as_str())
            .collect();
        let elsewhere = installed
            .iter()
            .filter(|(name, _)| !shown.contains(name.as_str()))
            .map(|(name, by)| Installed {
                name: name.clone(),
                by: by.clone(),
            });
        Self {
            package: package.to_owned(),
            catalog: catalog.to_owned(),
            deprecated,
            elsewhere: elsewhere.collect(),
            channels,
            left_out,
        }
    }

    /// Returns notes on what the drawing omits.
    pub(super) fn notes(&self) -> Vec<String> {
        let elsewhere = self.elsewhere.iter().map(|found| {
            format!(
                "{} is installed by {}, but is in none of these channels",
                plain(&found.name),
                plain(&found.by.join(", "))
            )
        });
        let cut = (self.left_out > 0)
            .then(|| format!("the package has {} more entries than are drawn", self.left_out));
        elsewhere.chain(cut).collect()
    }
}

fn lane(name: &str, entries: &[&BundleEntry], installed: &BTreeMap<String, Vec<String>>) -> Lane {
    let edges: Vec<ChannelEntry> = entries
        .iter()
        .map(|entry| ChannelEntry {
            name: entry.name.to_string(),
            replaces: entry.replaces.as_deref().unwrap_or_default().to_owned(),
            skips: entry.skips.iter().map(ToString::to_string).collect(),
            ..ChannelEntry::default()
        })
        .collect();
    let (head, broken) = match Graph::new(&edges).head() {
        Ok(head) => (Some(head), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let skipped: BTreeSet<&str> = edges
        .iter()
        .flat_map(|edge| &edge.skips)
        .map(String::as_str)
        .collect();
    let mut stops: Vec<Stop> = entries
        .iter()
        .zip(&edges)
        .map(|(entry, edge)| Stop {
            version: entry
                .version
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            is_head: head == Some(edge.name.as_str()),
            is_skipped: skipped.contains(edge.name.as_str()),
            installed_by: installed.get(&edge.name).cloned().unwrap_or_default(),
            deprecated: entry
                .deprecation
                .as_ref()
                .and_then(|found| found.bundle.as_deref())
                .map(str::to_owned),
            skip_range: entry
                .skip_range
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            semver: entry.version.clone(),
            name: edge.name.clone(),
            replaces: edge.replaces.clone(),
            skips: edge.skips.clone(),
        })
        .collect();
    stops.sort_by(|one, other| (&other.semver, &other.name).cmp(&(&one.semver, &one.name)));
    Lane {
        name: name.to_owned(),
        is_default: entries.iter().any(|entry| entry.default_channel),
        deprecated: entries
            .iter()
            .find_map(|entry| entry.deprecation.as_ref()?.channel.as_deref().map(str::to_owned)),
        broken,
        entries: stops,
    }
}
