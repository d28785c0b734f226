//! Rules about upgrade graphs.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::semver::{Range, Version};
use olm_fbc::channel::Graph;
use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::schema::{Channel, ChannelEntry};
use olm_fbc::validate::PackageModel;

use super::{Linter, Rule};
use crate::graph::PackageGraph;

/// Maximum number of bundles of a package that are compared with an unknown name.
const MAX_COMPARED: usize = 1000;

impl Linter<'_> {
    pub(super) fn graph(&mut self, name: &str, package: &PackageModel) {
        for channel in package.channels.values() {
            self.channel(name, package, channel);
        }
        let default = &package.package.default_channel;
        let Some(channel) = package.channels.get(default) else {
            return;
        };
        let object = format!("channel {default:?}");
        if let Ok(head) = Graph::new(&channel.entries).head()
            && package.deprecations.bundles.contains_key(head)
        {
            self.find(
                Rule::DeprecatedHead,
                name,
                object.clone(),
                format!("its head {head:?} is deprecated, and new installations get it"),
            );
        }
        let newest = |names: &mut dyn Iterator<Item = &String>| -> Option<(Version, String)> {
            names
                .filter_map(|name| Some((version(package, name)?, name.clone())))
                .filter(|(version, _)| !version.is_prerelease())
                .max()
        };
        let offered = newest(&mut channel.entries.iter().map(|entry| &entry.name));
        if let (Some((best, bundle)), Some((offered, _))) = (newest(&mut package.bundles.keys()), offered)
            && best > offered
        {
            self.find(
                Rule::DefaultChannelBehind,
                name,
                object,
                format!(
                    "the default channel goes up to {offered}, but the package has {bundle:?}, version {best}: add it to the channel, or name another channel in defaultChannel"
                ),
            );
        }
    }

    fn channel(&mut self, name: &str, package: &PackageModel, channel: &Channel) {
        let object = format!("channel {:?}", channel.name);
        let versions: BTreeMap<&str, Version> = channel
            .entries
            .iter()
            .filter_map(|entry| Some((entry.name.as_str(), version(package, &entry.name)?)))
            .collect();
        let ranges: Vec<(&ChannelEntry, Range)> = channel
            .entries
            .iter()
            .filter(|entry| !entry.skip_range.is_empty())
            .filter_map(|entry| Some((entry, Range::parse(&entry.skip_range).ok()?)))
            .collect();
        for (entry, range) in &ranges {
            if versions
                .get(entry.name.as_str())
                .is_some_and(|own| range.contains(own))
            {
                self.find(
                    Rule::SkipRangeOfItself,
                    name,
                    object.clone(),
                    format!(
                        "skipRange {:?} of {:?} includes its own version",
                        entry.skip_range, entry.name
                    ),
                );
            }
        }
        for entry in &channel.entries {
            if !entry.replaces.is_empty() && !package.bundles.contains_key(&entry.replaces) {
                let meant = nearest_below(package, entry)
                    .map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
                self.find(
                    Rule::DanglingReplaces,
                    name,
                    object.clone(),
                    format!(
                        "{:?} replaces {:?}, which is not in the package, so nobody can upgrade from it{meant}",
                        entry.name, entry.replaces
                    ),
                );
            }
            let lower = std::iter::once(&entry.replaces)
                .chain(&entry.skips)
                .filter(|from| versions.get(from.as_str()) > versions.get(entry.name.as_str()));
            for from in lower.filter(|from| versions.contains_key(from.as_str())) {
                self.find(
                    Rule::Downgrade,
                    name,
                    object.clone(),
                    format!("{:?} upgrades to {:?}, a lower version", from, entry.name),
                );
            }
        }
        let Ok(head) = Graph::new(&channel.entries).head() else {
            return;
        };
        let graph = PackageGraph::of_model(name, package, Some(&channel.name));
        let nodes = graph.channels.iter().flat_map(|channel| &channel.nodes);
        let unreachable: BTreeSet<&str> = nodes
            .filter(|node| node.is_unreachable)
            .map(|node| &*node.name)
            .collect();
        for entry in channel
            .entries
            .iter()
            .filter(|entry| unreachable.contains(entry.name.as_str()))
        {
            self.find(
                Rule::NoUpgradePath,
                name,
                object.clone(),
                format!(
                    "no upgrades lead from {:?} to the head {head:?}: let an entry on the way to the head replace or skip it",
                    entry.name
                ),
            );
        }
    }
}

/// Returns the bundle that a dangling `replaces` may have meant: the one with the nearest name among those below the entry's
/// version.
fn nearest_below<'a>(package: &'a PackageModel, entry: &ChannelEntry) -> Option<&'a str> {
    let own = version(package, &entry.name);
    let is_below =
        |name: &&'a String| **name != entry.name && (own.is_none() || version(package, name) < own);
    let below = package.bundles.keys().filter(is_below).take(MAX_COMPARED);
    did_you_mean(&entry.replaces, below.map(String::as_str))
}

fn version(package: &PackageModel, bundle: &str) -> Option<Version> {
    Some(package.bundles.get(bundle)?.version.clone()?.version)
}
