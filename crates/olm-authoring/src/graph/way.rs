//! Texts about the resolver's path, for users who read the graph as a list or with a screen reader.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ChannelGraph, Node, PackageGraph, plain};

impl PackageGraph {
    /// Returns a text for each version on the resolver's path after the installed one, and for each version that the path passes
    /// over, with the reason. By name of the CSV.
    pub fn way_notes(&self) -> BTreeMap<Arc<str>, String> {
        let mut notes = BTreeMap::new();
        let upgrades = self.way.len().saturating_sub(1);
        for (number, pair) in self.way.windows(2).enumerate() {
            let [(_, from), (channel, to)] = pair else {
                continue;
            };
            let channel = self.channels.iter().find(|found| *found.name == **channel);
            let Some(channel) = channel else { continue };
            let Some(node) = channel.nodes.iter().find(|node| *node.name == **to) else {
                continue;
            };
            let step = format!("upgrade {} of {upgrades}", number + 1);
            notes.insert(Arc::clone(&node.name), step);
            let why = format!("passed over: {}", reason(node, from));
            for passed in self.between(channel, from, to) {
                notes
                    .entry(Arc::clone(&passed.name))
                    .or_insert_with(|| why.clone());
            }
        }
        notes
    }

    /// Returns the versions of a channel between two, without those on the path.
    fn between<'a>(
        &'a self,
        channel: &'a ChannelGraph,
        from: &str,
        to: &'a str,
    ) -> impl Iterator<Item = &'a Node> {
        let is_on_way = move |name: &str| self.way.iter().any(|(_, own)| own == name);
        let before = move |node: &&Node| *node.name != *to;
        // The installed version may be in another channel.
        let start = self.versions().into_iter().find(|node| *node.name == *from);
        let is_newer = move |node: &&Node| start.is_some_and(|start| start.order() < node.order());
        let older = channel.nodes.iter().take_while(before);
        older.filter(is_newer).filter(move |node| !is_on_way(&node.name))
    }
}

/// Returns the field by which one version follows another.
fn reason(node: &Node, from: &str) -> String {
    let name = plain(&node.name);
    let is_from = |other: &Arc<str>| **other == *from;
    match &node.skip_range {
        _ if node.replaces.as_ref().is_some_and(is_from) => format!("{name} replaces {}", plain(from)),
        _ if node.skips.iter().any(is_from) => format!("{name} skips {}", plain(from)),
        Some(range) => format!("{name} has skipRange {}", plain(range.as_str())),
        None => format!("OLM installs {name} next"),
    }
}
