//! Lanes and rows of a drawing, newest version first.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ChannelGraph, Edge, Node, PackageGraph};

/// One version.
pub(super) struct Row<'a> {
    pub version: &'a Node,
    /// The version in each lane that has it, by position of the lane.
    pub nodes: BTreeMap<usize, &'a Node>,
}

/// Lanes and rows of a drawing.
pub(super) struct Layout<'a> {
    /// Channels with the same upgrades share a lane, also if some end earlier. The longest is the first of its lane.
    pub lanes: Vec<Vec<&'a ChannelGraph>>,
    pub rows: Vec<Row<'a>>,
    /// Upgrades between rows, with the position of the lane.
    pub edges: Vec<(usize, Edge)>,
    /// Texts about the resolver's path, by version.
    pub way_notes: BTreeMap<Arc<str>, String>,
    positions: BTreeMap<&'a str, usize>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(graph: &'a PackageGraph) -> Self {
        let mut versions = graph.versions();
        versions.reverse();
        let positions = versions.iter().copied().enumerate();
        let positions = positions.map(|(at, node)| (&*node.name, at)).collect();
        let rows = versions.into_iter().map(|version| Row {
            version,
            nodes: BTreeMap::new(),
        });
        let lanes = lanes(graph);
        let mut layout = Self {
            lanes: Vec::new(),
            rows: rows.collect(),
            edges: Vec::new(),
            way_notes: graph.way_notes(),
            positions,
        };
        for (lane, channels) in lanes.iter().enumerate() {
            layout.fill(lane, channels);
        }
        layout.lanes = lanes;
        layout
    }

    /// Adds the versions and upgrades of a lane.
    fn fill(&mut self, lane: usize, channels: &[&'a ChannelGraph]) {
        let Some((&longest, shorter)) = channels.split_first() else {
            return;
        };
        // The head of a shorter channel is an ordinary version of the longest one.
        let heads = shorter.iter().copied().flat_map(|channel| &channel.nodes);
        for node in longest.nodes.iter().chain(heads.filter(|node| node.is_head)) {
            let row = self.positions.get(&*node.name);
            if let Some(row) = row.and_then(|row| self.rows.get_mut(*row)) {
                row.nodes.insert(lane, node);
            }
        }
        let row = |at: usize| self.row(&longest.nodes.get(at)?.name);
        let edges = longest.edges(false).into_iter().filter_map(|edge| {
            let (from, to) = (row(edge.from)?, row(edge.to)?);
            (from != to).then_some((lane, Edge { from, to, ..edge }))
        });
        let edges: Vec<(usize, Edge)> = edges.collect();
        self.edges.extend(edges);
    }

    /// Returns the row of a version.
    pub(super) fn row(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Returns true if the lane has no version between two rows.
    pub(super) fn is_next(&self, lane: usize, one: usize, other: usize) -> bool {
        let between = one.min(other) + 1..one.max(other);
        let mut rows = self.rows.get(between).into_iter().flatten();
        rows.all(|row| !row.nodes.contains_key(&lane))
    }
}

/// Returns the channels by lane.
fn lanes(graph: &PackageGraph) -> Vec<Vec<&ChannelGraph>> {
    let mut lanes: Vec<Vec<&ChannelGraph>> = Vec::new();
    // Channels with the very same upgrades are compared once.
    for same in graph.lanes() {
        let Some(channel) = same.first().copied() else {
            continue;
        };
        let found = lanes.iter_mut().find_map(|lane| {
            let first = lane.first().copied()?;
            let is_part = channel.begins(first);
            (is_part || first.begins(channel)).then_some((lane, is_part))
        });
        match found {
            Some((lane, true)) => lane.extend(same),
            Some((lane, false)) => drop(lane.splice(0..0, same)),
            None => lanes.push(same),
        }
    }
    lanes
}
