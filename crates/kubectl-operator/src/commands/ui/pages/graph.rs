//! Page with the upgrade graph of a package, as a drawing and as a list.

use maud::{Markup, html};

use super::super::graph::{Graph, Node, svg};
use super::{Frame, Live, page, shell};
use crate::terminal::plain;

/// Maximum number of steps shown of the path.
const MAX_STEPS: usize = 50;

/// Legend of version markers, by CSS class.
const STOPS: [(&str, &str); 5] = [
    ("installed", "installed"),
    ("head", "head of its channel"),
    ("skipped", "skipped by a newer one"),
    ("deprecated", "deprecated"),
    ("", "any other"),
];

pub(in super::super) fn graph(
    frame: &Frame<'_>,
    namespace: &str,
    graph: &Graph,
    package: &str,
    catalog: &str,
) -> String {
    let steps = graph.path.iter().take(MAX_STEPS);
    let steps: Vec<String> = steps.map(|(_, name)| plain(name)).collect();
    let more = graph.path.len() - steps.len();
    let names = [package, catalog];
    let command = frame
        .commands
        .offered("graph {} --catalog {}", &names, Some(namespace));
    let body = html! {
        p { "Of catalog " (plain(catalog)) ", as of the last two minutes. Versions go from left to right." }
        @if graph.lanes.is_empty() {
            p.message { "This package is not in the catalog." }
        } @else {
            @if steps.len() > 1 { p { "Path of OLM: " (steps.join(" → ")) @if more > 0 { " and " (more) " more steps" } } }
            div.wide tabindex="0" role="region" aria-label="Drawing" { (svg(graph, &format!("Upgrade graph of {package}"))) }
            (legend())
            @if graph.left_out > 0 { p { (graph.left_out) " older versions or channels are not shown" } }
            (shell("The same in a terminal", command))
            h2 { "As a list" }
            @for lane in &graph.lanes {
                h3 { (plain(&lane.name)) @if lane.is_default { " (default)" } }
                @if let Some(text) = &lane.deprecated { p.doubts { "deprecated: " (plain(text)) } }
                ul { @for node in &lane.nodes { (stop(node)) } }
            }
        }
    };
    page(frame, Live::No, &body)
}

/// Renders the legend with the elements of the drawing, so that both look the same in every colour scheme.
fn legend() -> Markup {
    html! {
        p.legend {
            @for (class, text) in STOPS {
                span.stop { svg.graph width="24" height="24" aria-hidden="true" { g.(class) { circle cx="12" cy="12" r="9" {} } } (text) } " "
            }
        }
        p.legend {
            span.replaces { "replaces" } " " span.skips { "skips" } " " span.range { "skips by range" } " " span.way { "path of OLM" }
        }
    }
}

fn stop(node: &Node) -> Markup {
    let skips: Vec<String> = node.skips.iter().map(|name| plain(name)).collect();
    html! {
        li {
            strong { (plain(&node.version)) } " " (plain(&node.name))
            @for mark in node.marks() { ", " (mark) }
            @if let Some(replaces) = &node.replaces { ", replaces " (plain(replaces)) }
            @if !skips.is_empty() { ", skips " (skips.join(", ")) @if node.more_skips > 0 { " and " (node.more_skips) " more" } }
            @if let Some(range) = &node.skip_range { ", skips " (plain(range.as_str())) }
        }
    }
}
