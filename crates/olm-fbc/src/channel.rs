//! The upgrade graph of a channel.
//!
//! The head is the entry that no entry of the channel replaces or skips; `skipRange` is ignored. From the head the chain of
//! `replaces` leads to the tail, which may replace a name outside the channel. Rules: `docs/reference/catalog-files.md`.

use std::collections::{BTreeMap, BTreeSet};

use crate::schema::ChannelEntry;

/// Errors of a channel's graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Every entry is replaced or skipped by another.
    #[error("no channel head found in graph")]
    NoHead,
    /// Several entries that no entry replaces or skips, sorted.
    #[error("multiple channel heads found in graph: {}", .0.join(", "))]
    SeveralHeads(Vec<String>),
    /// The chain of `replaces` returns to an entry; the value is the path from that entry to itself.
    #[error("detected cycle in replaces chain of upgrade graph: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// Entries neither on the chain nor skipped, sorted.
    #[error("channel contains one or more stranded bundles: {}", .0.join(", "))]
    Stranded(Vec<String>),
}

/// The graph over a channel's entries.
pub struct Graph<'a> {
    entries: BTreeMap<&'a str, &'a ChannelEntry>,
    skipped: BTreeSet<&'a str>,
}

impl<'a> Graph<'a> {
    /// Creates the graph. If two entries have the same name, the last is used; `validate` reports such a pair.
    pub fn new(entries: &'a [ChannelEntry]) -> Self {
        Self {
            entries: entries.iter().map(|entry| (entry.name.as_str(), entry)).collect(),
            skipped: entries
                .iter()
                .flat_map(|entry| entry.skips.iter().map(String::as_str))
                .collect(),
        }
    }

    /// Returns the entry that no entry replaces or skips.
    ///
    /// # Errors
    /// There is no such entry, or more than one.
    pub fn head(&self) -> Result<&'a str, GraphError> {
        let replaced: BTreeSet<&str> = self
            .entries
            .values()
            .map(|entry| entry.replaces.as_str())
            .collect();
        let names = self.entries.keys().copied();
        head_among(names.filter(|name| !replaced.contains(name) && !self.skipped.contains(name)))
    }

    /// Returns the names from `head` along `replaces`. An entry whose `replaces` is skipped by any entry ends the chain.
    ///
    /// # Errors
    /// The chain is a cycle.
    pub fn chain(&self, head: &'a str) -> Result<Vec<&'a str>, GraphError> {
        let mut chain: Vec<&str> = Vec::new();
        let mut seen = BTreeMap::new();
        let mut current = self.entries.get_key_value(head);
        while let Some((&name, entry)) = current {
            if let Some(&start) = seen.get(name) {
                let mut path: Vec<String> = chain[start..].iter().map(|name| (*name).to_owned()).collect();
                path.push(name.to_owned());
                return Err(GraphError::Cycle(path));
            }
            seen.insert(name, chain.len());
            chain.push(name);
            if self.skipped.contains(entry.replaces.as_str()) {
                break;
            }
            current = self.entries.get_key_value(entry.replaces.as_str());
        }
        Ok(chain)
    }

    /// Checks head and chain, and that every entry can be reached from the head or is skipped.
    ///
    /// # Errors
    /// The first failed check.
    pub fn check(&self) -> Result<(), GraphError> {
        let head = self.head()?;
        let on_chain: BTreeSet<&str> = self.chain(head)?.into_iter().collect();
        let stranded: Vec<String> = self
            .entries
            .keys()
            .filter(|name| !on_chain.contains(*name) && !self.skipped.contains(*name))
            .map(|name| (*name).to_owned())
            .collect();
        if stranded.is_empty() {
            Ok(())
        } else {
            Err(GraphError::Stranded(stranded))
        }
    }
}

/// Returns the head of a channel: the only one of the names that no entry replaces or skips.
///
/// # Errors
/// There is no such name, or more than one.
pub fn head_among<'a>(names: impl Iterator<Item = &'a str>) -> Result<&'a str, GraphError> {
    let mut heads: Vec<&str> = names.collect();
    heads.sort_unstable();
    match heads.as_slice() {
        [] => Err(GraphError::NoHead),
        [head] => Ok(head),
        several => Err(GraphError::SeveralHeads(
            several.iter().map(|name| (*name).to_owned()).collect(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses entries: `name`, `name>replaced`, `name>replaced!skipped!skipped`.
    fn entries(text: &str) -> Vec<ChannelEntry> {
        text.split_whitespace()
            .map(|entry| {
                let mut parts = entry.split('!');
                let (name, replaces) = parts
                    .next()
                    .and_then(|first| first.split_once('>'))
                    .unwrap_or((entry.split('!').next().unwrap_or_default(), ""));
                ChannelEntry {
                    name: name.to_owned(),
                    replaces: replaces.to_owned(),
                    skips: parts.map(str::to_owned).collect(),
                    ..ChannelEntry::default()
                }
            })
            .collect()
    }

    #[test]
    fn graphs() {
        for (text, head, check) in [
            ("a", "a", ""),
            ("b>a a", "b", ""),
            ("b>gone", "b", ""),
            ("c!b!a b a", "c", ""),
            ("c>b!a b a", "c", ""),
            ("c>b!a b>a a", "c", ""),
            ("", "", "no channel head found in graph"),
            ("a>a", "", "no channel head found in graph"),
            ("a>b b>a", "", "no channel head found in graph"),
            ("a b", "", "multiple channel heads found in graph: a, b"),
            (
                "d>c c>b b>a a>c",
                "d",
                "detected cycle in replaces chain of upgrade graph: c -> b -> a -> c",
            ),
            (
                "b>a a>a",
                "b",
                "detected cycle in replaces chain of upgrade graph: a -> a",
            ),
            // The head's own replaces is skipped, so the entries below it cannot be reached.
            (
                "d>c!c c>b b>a a",
                "d",
                "channel contains one or more stranded bundles: a, b",
            ),
        ] {
            let entries = entries(text);
            let graph = Graph::new(&entries);
            assert_eq!(graph.head().unwrap_or_default(), head, "{text}");
            assert_eq!(
                graph.check().map_err(|error| error.to_string()),
                if check.is_empty() {
                    Ok(())
                } else {
                    Err(check.to_owned())
                },
                "{text}"
            );
        }
    }

    proptest::proptest! {
        /// A channel has exactly one head or is rejected, for any edges.
        #[test]
        fn the_head_is_unique_or_refused(edges in proptest::collection::vec((0..6_u8, 0..8_u8, 0..8_u8), 0..8)) {
            let entries: Vec<ChannelEntry> = edges
                .iter()
                .map(|(name, replaces, skip)| ChannelEntry {
                    name: name.to_string(),
                    replaces: replaces.to_string(),
                    skips: vec![skip.to_string()],
                    ..ChannelEntry::default()
                })
                .collect();
            let graph = Graph::new(&entries);
            if let Ok(head) = graph.head() {
                for entry in graph.entries.values() {
                    proptest::prop_assert!(entry.replaces != head && !entry.skips.iter().any(|skip| skip == head));
                }
                let _ = graph.chain(head);
            }
        }
    }
}
