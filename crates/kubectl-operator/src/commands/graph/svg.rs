//! Upgrade graph as a self-contained SVG: one lane per channel, versions from left to right, upgrades as arcs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use go_compat::semver::Range;

use super::lanes::{Lane, PackageLanes, Stop};
use crate::terminal::plain;

/// Maximum number of versions; older ones are omitted.
const MAX_COLUMNS: usize = 300;
/// Maximum number of channels.
const MAX_LANES: usize = 100;
/// Maximum number of arcs per channel.
const MAX_ARCS: usize = 2000;
/// Maximum number of letters of a name; its title is complete.
const MAX_LETTERS: usize = 22;

const COLUMN: usize = 190;
const BOX_WIDTH: usize = 160;
const BOX_HEIGHT: usize = 40;
const LANE: usize = 190;
const MARGIN: usize = 24;
const TOP: usize = 70;
/// Offset of the boxes in a lane, below its name and above the arcs for `replaces`.
const ROW: usize = 80;
const LEGEND: &str = "solid: replaces · dashed: skips · dotted: skipRange · blue: installed · green: head · yellow: deprecated · gray: skipped";

/// Columns by name, so that a version has the same column in all lanes.
type Columns<'a> = BTreeMap<&'a str, usize>;

/// Returns the SVG.
pub(super) fn svg(lanes: &PackageLanes) -> String {
    let (columns, older) = columns(lanes);
    let shown = lanes.channels.get(..MAX_LANES).unwrap_or(&lanes.channels);
    let mut body = String::new();
    for (at, lane) in shown.iter().enumerate() {
        draw_lane(&mut body, lane, &columns, TOP + at * LANE);
    }
    let mut notes = vec![LEGEND.to_owned()];
    if older > 0 {
        notes.push(format!("{older} older versions are not shown"));
    }
    if lanes.channels.len() > shown.len() {
        notes.push(format!(
            "{} channels are not shown",
            lanes.channels.len() - shown.len()
        ));
    }
    notes.extend(lanes.notes());
    let width = (MARGIN * 2 + columns.len() * COLUMN).max(900);
    let bottom = TOP + shown.len() * LANE;
    let height = bottom + MARGIN + notes.len() * 16;
    for (at, note) in notes.iter().enumerate() {
        let _ = writeln!(
            body,
            "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"10\" fill=\"#5f6368\">{}</text>",
            bottom + at * 16,
            escaped(note)
        );
    }
    let title = escaped(&format!(
        "{} of catalog {}{}",
        lanes.package,
        lanes.catalog,
        if lanes.deprecated.is_some() {
            " (deprecated)"
        } else {
            ""
        }
    ));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <title>{title}</title>\n\
         <defs><marker id=\"to\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"{MARGIN}\" font-size=\"16\" font-weight=\"bold\">{title}</text>\n{body}</svg>\n"
    )
}

/// Returns the columns of the newest versions, oldest first, and the number of older ones.
fn columns(lanes: &PackageLanes) -> (Columns<'_>, usize) {
    let stops = lanes.channels.iter().flat_map(|lane| &lane.entries);
    let all: BTreeSet<_> = stops.map(|stop| (&stop.semver, stop.name.as_str())).collect();
    let older = all.len().saturating_sub(MAX_COLUMNS);
    let newest = all.into_iter().skip(older).map(|(_, name)| name);
    (newest.enumerate().map(|(at, name)| (name, at)).collect(), older)
}

fn draw_lane(out: &mut String, lane: &Lane, columns: &Columns<'_>, top: usize) {
    let mut name = format!("channel {}", lane.name);
    for (is_so, mark) in [
        (lane.is_default, " (default)"),
        (lane.deprecated.is_some(), " (deprecated)"),
        (lane.broken.is_some(), " (broken)"),
    ] {
        if is_so {
            name.push_str(mark);
        }
    }
    let _ = writeln!(
        out,
        "<rect x=\"0\" y=\"{top}\" width=\"100%\" height=\"{}\" fill=\"#f8f9fa\"/>",
        LANE - 10
    );
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"13\">{}</text>",
        top + 16,
        escaped(&name)
    );
    let row = top + ROW;
    let drawn: Vec<(&Stop, usize)> = lane
        .entries
        .iter()
        .filter_map(|stop| Some((stop, *columns.get(stop.name.as_str())?)))
        .collect();
    let places: Columns<'_> = drawn.iter().map(|(stop, at)| (stop.name.as_str(), *at)).collect();
    let mut left = MAX_ARCS;
    for (stop, to) in &drawn {
        draw_arcs(out, stop, *to, &drawn, &places, row, &mut left);
    }
    for (stop, at) in &drawn {
        draw_stop(out, stop, MARGIN + at * COLUMN, row);
    }
}

fn draw_arcs(
    out: &mut String,
    stop: &Stop,
    to: usize,
    drawn: &[(&Stop, usize)],
    places: &Columns<'_>,
    row: usize,
    left: &mut usize,
) {
    let mut arc = |from: usize, dash: &str, is_above: bool| {
        if *left == 0 || from == to {
            return;
        }
        *left -= 1;
        let _ = writeln!(
            out,
            "<path d=\"{}\" fill=\"none\" stroke=\"#3c4043\"{dash} marker-end=\"url(#to)\"/>",
            path(from, to, row, is_above)
        );
    };
    if let Some(from) = places.get(stop.replaces.as_str()) {
        arc(*from, "", true);
    }
    for from in stop.skips.iter().filter_map(|skip| places.get(skip.as_str())) {
        arc(*from, " stroke-dasharray=\"6 3\"", false);
    }
    if stop.skip_range.is_empty() {
        return;
    }
    let Ok(range) = Range::parse(&stop.skip_range) else {
        return;
    };
    let in_range = drawn.iter().filter(|(other, _)| {
        let is_named = other.name == stop.replaces || stop.skips.contains(&other.name);
        !is_named
            && other
                .semver
                .as_ref()
                .is_some_and(|version| range.contains(version))
    });
    for (_, from) in in_range {
        arc(*from, " stroke-dasharray=\"1 4\"", false);
    }
}

fn path(from: usize, to: usize, row: usize, is_above: bool) -> String {
    let edge = |at: usize, offset: usize| MARGIN + at * COLUMN + offset;
    if is_above && to == from + 1 {
        let y = row + BOX_HEIGHT / 2;
        return format!("M{},{y} L{},{y}", edge(from, BOX_WIDTH), edge(to, 0));
    }
    let rise = (from.abs_diff(to) * 12).clamp(12, 44) * 4 / 3;
    let (start, end) = (edge(from, BOX_WIDTH / 2), edge(to, BOX_WIDTH / 2));
    let (y, control) = match is_above {
        true => (row, row.saturating_sub(rise)),
        false => (row + BOX_HEIGHT, row + BOX_HEIGHT + rise),
    };
    format!("M{start},{y} C{start},{control} {end},{control} {end},{y}")
}

fn draw_stop(out: &mut String, stop: &Stop, x: usize, row: usize) {
    let (fill, stroke) = match stop {
        stop if !stop.installed_by.is_empty() => ("#c9dcfb", "#174ea6"),
        stop if stop.is_head => ("#ceead6", "#0d652d"),
        stop if stop.deprecated.is_some() => ("#fde293", "#b06000"),
        stop if stop.is_skipped => ("#f1f3f4", "#9aa0a6"),
        _ => ("white", "#3c4043"),
    };
    let marks = [
        (!stop.installed_by.is_empty(), "installed"),
        (stop.is_head, "head"),
        (stop.is_skipped, "skipped"),
        (stop.deprecated.is_some(), "deprecated"),
    ];
    let marks: Vec<&str> = marks
        .into_iter()
        .filter_map(|(is_so, mark)| is_so.then_some(mark))
        .collect();
    let second = format!("{} {}", short(&stop.version), marks.join(", "));
    let mut title = stop.name.clone();
    if let Some(why) = &stop.deprecated {
        title = format!("{title}, deprecated: {why}");
    }
    if !stop.skip_range.is_empty() {
        title = format!("{title}, skipRange {}", stop.skip_range);
    }
    let middle = x + BOX_WIDTH / 2;
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x}\" y=\"{row}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\"/>\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-size=\"9\" fill=\"#5f6368\">{}</text></g>",
        escaped(&title),
        row + 17,
        escaped(&short(&stop.name)),
        row + 31,
        escaped(second.trim())
    );
}

fn short(text: &str) -> String {
    match text.chars().count() {
        ..=MAX_LETTERS => text.to_owned(),
        _ => text.chars().take(MAX_LETTERS - 1).chain(['…']).collect(),
    }
}

/// Escapes a catalog text and removes control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in plain(text).chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
