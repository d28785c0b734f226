//! Graphs as a drawing that needs no other tool: one row per channel, versions from left to right, upgrades as arcs.

use std::fmt::Write as _;

use super::{ChannelGraph, Edge, EdgeKind, Node, PackageGraph};

const MARGIN: usize = 24;
const GAP: usize = 36;
const NODE_HEIGHT: usize = 40;
/// Width of a letter of the names, in a monospaced font.
const LETTER: usize = 7;
/// Height an arc gains for each node it passes, and the maximum height.
const RISE: usize = 14;
const HIGHEST: usize = 160;
const TITLE: usize = 30;
const LEGEND: &str = "solid: replaces · dashed: skips · dotted: skipRange · green: head · yellow: deprecated · red: no upgrades lead to the head · gray: no bundle";

/// Returns the graph as SVG.
pub fn to_svg(graph: &PackageGraph) -> String {
    let mut body = String::new();
    let mut top = MARGIN + TITLE;
    let mut width = LEGEND.chars().count() * 6 + 2 * MARGIN;
    for channel in &graph.channels {
        let boxes = place(channel);
        let right = boxes.last().map_or(0, |(x, node_width)| x + node_width) + MARGIN;
        width = width
            .max(right)
            .max(channel.name.chars().count() * LETTER + 30 * LETTER);
        let over = arc_height(channel, |kind| kind == EdgeKind::Replaces);
        let under = arc_height(channel, |kind| kind != EdgeKind::Replaces);
        draw_channel(&mut body, channel, &boxes, top, over);
        top += TITLE + over + NODE_HEIGHT + under + GAP;
    }
    let title = match graph.deprecated {
        true => format!("{} (deprecated)", graph.package),
        false => graph.package.clone(),
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"11\">
<title>{title}</title>
<defs><marker id=\"arrow\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>
<rect width=\"100%\" height=\"100%\" fill=\"white\"/>
<text x=\"{MARGIN}\" y=\"{MARGIN}\" font-size=\"16\" font-weight=\"bold\">{title}</text>
{body}<text x=\"{MARGIN}\" y=\"{legend}\" font-size=\"10\" fill=\"#5f6368\">{LEGEND}</text>
</svg>
",
        height = top + MARGIN,
        legend = top,
        title = escaped(&title),
    )
}

/// Returns the left edge and width of each node.
fn place(channel: &ChannelGraph) -> Vec<(usize, usize)> {
    let mut x = MARGIN;
    channel
        .nodes
        .iter()
        .map(|node| {
            let letters = node.name.chars().count().max(second_line(node).chars().count());
            let width = letters.max(10) * LETTER + 16;
            let at = x;
            x += width + GAP;
            (at, width)
        })
        .collect()
}

fn arc_height(channel: &ChannelGraph, counts: impl Fn(EdgeKind) -> bool) -> usize {
    channel
        .edges
        .iter()
        .filter(|edge| counts(edge.kind))
        .map(rise)
        .max()
        .unwrap_or(0)
}

/// Returns the distance of an arc from the row: 0 between neighbours.
fn rise(edge: &Edge) -> usize {
    let distance = edge.from.abs_diff(edge.to);
    match (distance, edge.kind) {
        (0 | 1, EdgeKind::Replaces) => 0,
        _ => (distance * RISE).clamp(RISE, HIGHEST),
    }
}

fn draw_channel(out: &mut String, channel: &ChannelGraph, boxes: &[(usize, usize)], top: usize, over: usize) {
    let mut title = channel.name.clone();
    for (is_so, mark) in [
        (channel.is_default, " (default)"),
        (channel.deprecated, " (deprecated)"),
    ] {
        if is_so {
            title += mark;
        }
    }
    let color = if channel.deprecated { "#b06000" } else { "black" };
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"13\" fill=\"{color}\">channel {}</text>",
        top + 12,
        escaped(&title)
    );
    let row = top + TITLE + over;
    for edge in &channel.edges {
        draw_edge(out, edge, boxes, row);
    }
    for (node, (x, width)) in channel.nodes.iter().zip(boxes) {
        draw_node(out, node, *x, *width, row);
    }
}

fn draw_edge(out: &mut String, edge: &Edge, boxes: &[(usize, usize)], row: usize) {
    let (Some(from), Some(to)) = (boxes.get(edge.from), boxes.get(edge.to)) else {
        return;
    };
    let rise = rise(edge);
    let dash = match edge.kind {
        EdgeKind::Replaces => "",
        EdgeKind::Skips => " stroke-dasharray=\"6 3\"",
        EdgeKind::SkipRange => " stroke-dasharray=\"1 4\"",
    };
    let path = if rise == 0 {
        let y = row + NODE_HEIGHT / 2;
        let (start, end) = match edge.from < edge.to {
            true => (from.0 + from.1, to.0),
            false => (from.0, to.0 + to.1),
        };
        format!("M{start},{y} L{end},{y}")
    } else {
        let (start, end) = (from.0 + from.1 / 2, to.0 + to.1 / 2);
        // Replaces edges are above the row, the others below. The top of an arc is at half the height of its control points.
        let (y, control) = match edge.kind {
            EdgeKind::Replaces => (row, row.saturating_sub(rise * 4 / 3)),
            _ => (row + NODE_HEIGHT, row + NODE_HEIGHT + rise * 4 / 3),
        };
        format!("M{start},{y} C{start},{control} {end},{control} {end},{y}")
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#3c4043\"{dash} marker-end=\"url(#arrow)\"/>"
    );
}

fn draw_node(out: &mut String, node: &Node, x: usize, width: usize, row: usize) {
    let (fill, stroke) = if node.unreachable {
        ("#f4c7c3", "#b31412")
    } else if node.deprecated {
        ("#fde293", "#b06000")
    } else if node.version.is_none() {
        ("#f1f3f4", "#9aa0a6")
    } else if node.is_head {
        ("#ceead6", "#0d652d")
    } else {
        ("white", "#3c4043")
    };
    let dash = match node.version {
        None => " stroke-dasharray=\"3 3\"",
        Some(_) => "",
    };
    let middle = x + width / 2;
    let name = escaped(&node.name);
    let _ = writeln!(
        out,
        "<g><title>{name}</title><rect x=\"{x}\" y=\"{row}\" width=\"{width}\" height=\"{NODE_HEIGHT}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\"{dash}/>\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{name}</text>\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-size=\"9\" fill=\"#5f6368\">{}</text></g>",
        row + 17,
        row + 31,
        escaped(&second_line(node))
    );
}

/// Returns version and marks.
fn second_line(node: &Node) -> String {
    let marks = node.marks().join(", ");
    match &node.version {
        Some(version) if marks.is_empty() => version.to_string(),
        Some(version) => format!("{version} · {marks}"),
        None => marks,
    }
}

fn escaped(text: &str) -> String {
    text.chars()
        .filter(|char| !char.is_control())
        .map(|char| match char {
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '&' => "&amp;".to_owned(),
            '"' => "&quot;".to_owned(),
            other => other.to_string(),
        })
        .collect()
}
