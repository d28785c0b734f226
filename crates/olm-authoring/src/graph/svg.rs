//! Graphs as a drawing that needs no other file: one lane per channel, versions from top to bottom, newest first.

use std::fmt::Write as _;

use super::layout::{Layout, Row};
use super::{ChannelGraph, Edge, EdgeKind, Node, PackageGraph, Tone, plain, printable};

/// Style of the drawing, for light and dark colour schemes.
pub const STYLE: &str = include_str!("svg.css");

/// Maximum letters of a label; the title of its circle is complete.
const MAX_LETTERS: usize = 120;
/// Width of a letter, in a monospaced font.
const LETTER: usize = 8;

const MARGIN: usize = 20;
const LANE: usize = 60;
const ROW: usize = 32;
const LINE: usize = 20;
const RADIUS: usize = 7;
/// Left edge of the second column of the legend.
const SECOND: usize = 400;

/// Circles of the legend, by class.
const CIRCLES: [(&str, &str); 7] = [
    ("", "a version"),
    ("installed", "installed"),
    ("head", "head of its channel"),
    ("skipped", "skipped by a newer version"),
    ("deprecated", "deprecated"),
    ("unreachable", "no upgrades lead to the head"),
    ("absent", "not in this channel"),
];
/// Lines of the legend, by class.
const LINES: [(&str, &str); 4] = [
    ("edge", "replaces"),
    ("edge skips", "skips"),
    ("edge range", "skipRange of a head"),
    ("way", "upgrade path"),
];

/// Returns the graph as an SVG file.
pub fn to_svg(graph: &PackageGraph) -> String {
    drawing(graph, &format!("<style>{STYLE}</style>\n"))
}

/// Returns the graph as an SVG element for a page that has [`STYLE`].
pub fn to_svg_element(graph: &PackageGraph) -> String {
    drawing(graph, "")
}

fn drawing(graph: &PackageGraph, style: &str) -> String {
    let layout = Layout::new(graph);
    let mut out = String::new();
    let titles: Vec<(usize, String)> = layout
        .lanes
        .iter()
        .enumerate()
        .flat_map(|(lane, channels)| {
            let longest = channels.first().map_or(0, |first| first.nodes.len());
            let titles = channels.iter().map(move |channel| title(channel, longest));
            titles.map(move |title| (lane, title))
        })
        .collect();
    let places = Places {
        top: 2 * MARGIN + titles.len() * LINE,
        labels: MARGIN + layout.lanes.len() * LANE,
    };
    let bottom = places.top + layout.rows.len() * ROW;
    for (at, (lane, title)) in titles.iter().enumerate() {
        let (x, y) = (places.x(*lane), 2 * MARGIN + at * LINE);
        let title = escaped(title);
        let _ = writeln!(
            out,
            "<path class=\"lane\" d=\"M{x},{} V{bottom}\"/><text class=\"channel\" x=\"{}\" y=\"{}\">channel {title}</text>",
            y + LINE / 2,
            x + RADIUS,
            y + LINE / 2 + 4
        );
    }
    draw_way(&mut out, graph, &layout, &places);
    for (lane, edge) in &layout.edges {
        draw_edge(&mut out, &layout, &places, *lane, edge);
    }
    let mut letters = titles
        .iter()
        .map(|(_, title)| "channel ".len() + title.len())
        .max()
        .unwrap_or(0);
    for (at, row) in layout.rows.iter().enumerate() {
        letters = letters.max(draw_row(&mut out, &layout, row, &places, at));
    }
    let end = draw_legend(&mut out, &graph.notes(), bottom + LINE);
    let mut title = format!("Upgrade graph of {}", graph.package);
    if !graph.catalog.is_empty() {
        title = format!("{title}, catalog {}", graph.catalog);
    }
    if graph.deprecated.is_some() {
        title += " (deprecated)";
    }
    let title = escaped(&title);
    let width = (places.labels + letters * LETTER + MARGIN).max(2 * SECOND);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"graph\" role=\"img\" width=\"{width}\" height=\"{end}\" viewBox=\"0 0 {width} {end}\">\n\
         <title>{title}</title>\n{style}\
         <defs><marker id=\"to\" markerUnits=\"userSpaceOnUse\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{MARGIN}\">{title}</text>\n{out}</svg>\n"
    )
}

/// Returns the title of a channel in a lane whose longest channel has this many versions.
fn title(channel: &ChannelGraph, longest: usize) -> String {
    let last = channel.nodes.last().filter(|_| channel.nodes.len() < longest);
    match last {
        Some(last) => format!("{}, up to {}", channel.title(), short(last)),
        None => channel.title(),
    }
}

/// Returns the version; the name without one.
fn short(node: &Node) -> String {
    match node.version() {
        version if version.is_empty() => plain(&node.name),
        version => version,
    }
}

/// Coordinates of rows and lanes.
struct Places {
    top: usize,
    labels: usize,
}

impl Places {
    fn x(&self, lane: usize) -> usize {
        MARGIN + lane * LANE + LANE / 2
    }

    fn y(&self, row: usize) -> usize {
        self.top + row * ROW + ROW / 2
    }
}

fn draw_edge(out: &mut String, layout: &Layout<'_>, places: &Places, lane: usize, edge: &Edge) {
    let (class, is_left) = match edge.kind {
        EdgeKind::Replaces => ("edge", true),
        EdgeKind::Skips => ("edge skips", false),
        EdgeKind::SkipRange => ("edge range", false),
    };
    let (x, from, to) = (places.x(lane), places.y(edge.from), places.y(edge.to));
    let path = match is_left && layout.is_next(lane, edge.from, edge.to) {
        true if from > to => format!("M{x},{} V{}", from - RADIUS, to + RADIUS),
        true => format!("M{x},{} V{}", from + RADIUS, to - RADIUS),
        false => arc(x, from, to, is_left),
    };
    let _ = writeln!(
        out,
        "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#to)\"/>"
    );
}

/// Returns a curve between two rows of a lane, on the left or the right of the circles.
fn arc(x: usize, from: usize, to: usize, is_left: bool) -> String {
    let bow = 8 + (from.abs_diff(to) / 6).min(LANE / 3);
    let (x, control) = match is_left {
        true => (x - RADIUS, x.saturating_sub(RADIUS + bow)),
        false => (x + RADIUS, x + RADIUS + bow),
    };
    format!("M{x},{from} C{control},{from} {control},{to} {x},{to}")
}

/// Draws the resolver's path, below the upgrades.
fn draw_way(out: &mut String, graph: &PackageGraph, layout: &Layout<'_>, places: &Places) {
    let lane_of = |name: &str| {
        let is_it = |channels: &Vec<_>| {
            channels
                .iter()
                .any(|channel: &&ChannelGraph| &*channel.name == name)
        };
        layout.lanes.iter().position(is_it)
    };
    for pair in graph.way.windows(2) {
        let [(before, from), (channel, to)] = pair else {
            continue;
        };
        let (Some(lane), Some(from), Some(to)) = (lane_of(channel), layout.row(from), layout.row(to)) else {
            continue;
        };
        // The installed version has no channel. It may be in another one.
        let of_row = layout.rows.get(from).map(|row| &row.nodes);
        let has = |lane: &usize| of_row.is_some_and(|nodes| nodes.contains_key(lane));
        let own = lane_of(before)
            .or(Some(lane))
            .filter(has)
            .or_else(|| of_row.and_then(|nodes| nodes.keys().next().copied()));
        let start = own.unwrap_or(lane);
        let (x, y) = (places.x(lane), places.y(to));
        let path = match start == lane && !layout.is_next(lane, from, to) {
            true => arc(x, places.y(from), y, false),
            false => format!("M{},{} L{x},{y}", places.x(start), places.y(from)),
        };
        let _ = writeln!(out, "<path class=\"way\" d=\"{path}\"/>");
    }
}

/// Draws the circles of a row, and its label with the facts of all lanes. Returns the length of the label.
fn draw_row(out: &mut String, layout: &Layout<'_>, row: &Row<'_>, places: &Places, at: usize) -> usize {
    let y = places.y(at);
    let name = plain(&row.version.name);
    let note = layout.way_notes.get(&row.version.name);
    let channels = layout.lanes.iter().map(Vec::len).sum::<usize>();
    let mut facts: Vec<String> = Vec::new();
    for (lane, node) in &row.nodes {
        let mut details = vec![name.clone()];
        details.extend(node.details(&unpainted));
        details.extend(note.cloned());
        let (x, title) = (places.x(*lane), escaped(&details.join(", ")));
        let marks: String = node.marks().into_iter().flat_map(|mark| [" ", mark]).collect();
        let _ = writeln!(
            out,
            "<g class=\"node{marks}\"><title>{title}</title><circle cx=\"{x}\" cy=\"{y}\" r=\"{RADIUS}\"/></g>"
        );
        for mut fact in node.facts(&unpainted) {
            if fact == "head" {
                let names = headed(layout, *lane, node);
                if names.len() < channels {
                    fact = format!("head of {}", names.join(", "));
                }
            }
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
    }
    facts.extend(note.cloned());
    let mut label = name;
    if !facts.is_empty() {
        label = format!("{label} · {}", facts.join(", "));
    }
    let label = printable::line(&label, MAX_LETTERS);
    let version = printable::line(&row.version.version(), MAX_LETTERS);
    let (x, y, text) = (places.labels, y + 4, escaped(&label));
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\"><tspan class=\"version\">{}</tspan> {text}</text>",
        escaped(&version)
    );
    version.chars().count() + 1 + label.chars().count()
}

/// Returns the channels of a lane that have the version as their head.
fn headed(layout: &Layout<'_>, lane: usize, node: &Node) -> Vec<String> {
    let channels = layout.lanes.get(lane).into_iter().flatten();
    let has_head = |channel: &&&ChannelGraph| {
        let mut nodes = channel.nodes.iter();
        nodes.any(|own| own.is_head && own.name == node.name)
    };
    channels
        .filter(has_head)
        .map(|channel| plain(&channel.name))
        .collect()
}

/// Draws notes and the legend. Returns the height of the drawing.
fn draw_legend(out: &mut String, notes: &[String], top: usize) -> usize {
    for (at, note) in notes.iter().enumerate() {
        let (y, note) = (top + at * LINE, escaped(note));
        let _ = writeln!(out, "<text class=\"note\" x=\"{MARGIN}\" y=\"{y}\">{note}</text>");
    }
    let top = top + notes.len() * LINE;
    for (at, (class, text)) in CIRCLES.iter().enumerate() {
        let y = top + at * LINE;
        let _ = writeln!(
            out,
            "<g class=\"{class}\"><circle cx=\"{}\" cy=\"{y}\" r=\"{RADIUS}\"/></g><text class=\"note\" x=\"{}\" y=\"{}\">{text}</text>",
            MARGIN + 20,
            MARGIN + 48,
            y + 4
        );
    }
    for (at, (class, text)) in LINES.iter().enumerate() {
        let y = top + at * LINE;
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"M{SECOND},{y} h40\"/><text class=\"note\" x=\"{}\" y=\"{}\">{text}</text>",
            SECOND + 48,
            y + 4
        );
    }
    top + CIRCLES.len() * LINE + MARGIN
}

fn unpainted(_: Tone, word: &str) -> String {
    word.to_owned()
}

/// Escapes a catalog's text, so that nothing in it is markup, and removes control characters.
fn escaped(text: &str) -> String {
    plain(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
