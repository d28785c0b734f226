//! Rows of a drawing, newest version first. Neighbouring versions with the same upgrades are folded into one row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ChannelGraph, Edge, EdgeKind, Node, PackageGraph};

/// Minimum number of versions that are folded.
const MIN_FOLDED: usize = 3;

/// One version, or several with the same upgrades, newest first.
pub(super) struct Row<'a> {
    /// Names of the CSVs and their versions.
    pub versions: Vec<&'a Node>,
    /// The first of the versions in each lane that has them, by position of the lane.
    pub nodes: BTreeMap<usize, &'a Node>,
}

/// Lanes and rows of a drawing.
pub(super) struct Layout<'a> {
    /// Channels with the same upgrades share a lane, also if some end earlier. The longest is the first of its lane.
    pub lanes: Vec<Vec<&'a ChannelGraph>>,
    pub rows: Vec<Row<'a>>,
    /// Upgrades between rows, with the position of the lane.
    pub edges: BTreeSet<(usize, Edge)>,
    /// Texts about the resolver's path, by version.
    pub way_notes: BTreeMap<Arc<str>, String>,
    positions: BTreeMap<&'a str, usize>,
}

/// What a version has in common with others of its row: the lanes with marks, and the upgrades from and to it. The other end of
/// a `replaces` is relative, as versions usually replace the one before.
type Shape = (
    BTreeSet<(usize, Vec<String>)>,
    BTreeSet<(usize, EdgeKind, bool, usize)>,
);

impl<'a> Layout<'a> {
    pub(super) fn new(graph: &'a PackageGraph) -> Self {
        let lanes = lanes(graph);
        let mut versions = graph.versions();
        versions.reverse();
        let positions: BTreeMap<&str, usize> = versions
            .iter()
            .enumerate()
            .map(|(at, node)| (&*node.name, at))
            .collect();
        let (shapes, edges) = shapes(&lanes, &positions, versions.len());
        let way: BTreeSet<&str> = graph.way.iter().map(|(_, name)| name.as_str()).collect();
        let is_special =
            |node: &Node| node.is_head || !node.installed_by.is_empty() || way.contains(&*node.name);
        let nodes = graph.channels.iter().flat_map(|channel| &channel.nodes);
        let special: BTreeSet<&str> = nodes
            .filter(|node| is_special(node))
            .map(|node| &*node.name)
            .collect();
        let folded = |one: usize, other: usize| {
            let is_plain = |at: usize| {
                versions
                    .get(at)
                    .is_some_and(|node| !special.contains(&*node.name))
            };
            is_plain(one) && is_plain(other) && shapes.get(one) == shapes.get(other)
        };
        let numbers: Vec<usize> = (0..versions.len()).collect();
        let runs = numbers.chunk_by(|one, other| folded(*one, *other));
        let parts = runs.flat_map(|run| match run.len() < MIN_FOLDED {
            true => run.chunks(1),
            false => run.chunks(run.len()),
        });
        let mut layout = Self {
            lanes,
            rows: Vec::new(),
            edges: BTreeSet::new(),
            way_notes: graph.way_notes(),
            positions: BTreeMap::new(),
        };
        for part in parts {
            let members = part.iter().filter_map(|at| versions.get(*at).copied());
            for node in members.clone() {
                layout.positions.insert(&node.name, layout.rows.len());
            }
            layout.rows.push(Row {
                versions: members.collect(),
                nodes: BTreeMap::new(),
            });
        }
        for (lane, channels) in layout.lanes.iter().enumerate() {
            for node in channels
                .first()
                .copied()
                .into_iter()
                .flat_map(|channel| channel.nodes.iter().rev())
            {
                let row = layout.positions.get(&*node.name);
                if let Some(row) = row.and_then(|row| layout.rows.get_mut(*row)) {
                    row.nodes.entry(lane).or_insert(node);
                }
            }
            // The head of a shorter channel is an ordinary version of the longest one.
            let heads = channels
                .iter()
                .skip(1)
                .copied()
                .flat_map(|channel| &channel.nodes);
            for node in heads.filter(|node| node.is_head) {
                let row = layout.positions.get(&*node.name);
                if let Some(row) = row.and_then(|row| layout.rows.get_mut(*row)) {
                    row.nodes.insert(lane, node);
                }
            }
        }
        let row = |at: usize| layout.row(&versions.get(at)?.name);
        let between = edges.into_iter().filter_map(|(lane, edge)| {
            let (from, to) = (row(edge.from)?, row(edge.to)?);
            (from != to).then_some((lane, Edge { from, to, ..edge }))
        });
        layout.edges = between.collect();
        layout
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

/// Returns the shape of each version, and the upgrades with lanes, both by position of the version.
fn shapes(
    lanes: &[Vec<&ChannelGraph>],
    positions: &BTreeMap<&str, usize>,
    count: usize,
) -> (Vec<Shape>, Vec<(usize, Edge)>) {
    let (mut shapes, mut edges) = (vec![Shape::default(); count], Vec::new());
    for (lane, channel) in lanes
        .iter()
        .enumerate()
        .filter_map(|(lane, channels)| Some((lane, channels.first()?)))
    {
        let at: Vec<usize> = channel
            .nodes
            .iter()
            .filter_map(|node| positions.get(&*node.name).copied())
            .collect();
        for (node, at) in channel.nodes.iter().zip(&at) {
            if let Some((marks, _)) = shapes.get_mut(*at) {
                marks.insert((lane, node.facts(&|_, word| word.to_owned())));
            }
        }
        for edge in channel.edges(false) {
            let (Some(from), Some(to)) = (at.get(edge.from), at.get(edge.to)) else {
                continue;
            };
            let (from, to) = (*from, *to);
            edges.push((lane, Edge { from, to, ..edge }));
            for (is_from, own, other) in [(true, from, to), (false, to, from)] {
                let other = match edge.kind {
                    EdgeKind::Replaces => own.abs_diff(other),
                    _ => other,
                };
                if let Some((_, upgrades)) = shapes.get_mut(own) {
                    upgrades.insert((lane, edge.kind, is_from, other));
                }
            }
        }
    }
    (shapes, edges)
}
