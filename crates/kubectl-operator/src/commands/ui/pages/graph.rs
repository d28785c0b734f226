//! The upgrade graph of a package: drawn, and as a list.

use maud::html;

use super::super::graph::{Graph, svg};
use super::{Frame, Live, page};
use crate::terminal::plain;

pub(in super::super) fn graph(frame: &Frame<'_>, graph: &Graph, package: &str, catalog: &str) -> String {
    let steps: Vec<String> = graph.path.iter().map(|(_, name)| plain(name)).collect();
    let body = html! {
        p { "Of catalog " (plain(catalog)) ", as of the last minute. Versions go from left to right." }
        @if graph.lanes.is_empty() {
            p.message { "This catalog has no such package." }
        } @else {
            @if steps.len() > 1 { p { "OLM goes: " (steps.join(" → ")) } }
            div.wide tabindex="0" role="region" aria-label="Drawing" { (svg(graph, &format!("Upgrade graph of {package}"))) }
            p.legend {
                span.replaces { "replaces" } " " span.skips { "skips" } " " span.range { "skips by range" } " " span.way { "the way OLM goes" }
            }
            @if graph.left_out > 0 { p { (graph.left_out) " older versions or channels are left out" } }
            h2 { "As a list" }
            @for lane in &graph.lanes {
                h3 { (plain(&lane.name)) @if lane.is_default { " (default)" } }
                @if let Some(text) = &lane.deprecated { p.doubts { "deprecated: " (plain(text)) } }
                ul {
                    @for node in &lane.nodes {
                        li {
                            strong { (plain(&node.version)) } " " (plain(&node.name))
                            @for mark in node.marks() { ", " (mark) }
                            @if let Some(replaces) = &node.replaces { ", replaces " (plain(replaces)) }
                            @if !node.skips.is_empty() { ", skips " (plain(&node.skips.join(", "))) }
                            @if let Some(range) = &node.skip_range { ", skips " (plain(range)) }
                        }
                    }
                }
            }
        }
    };
    page(frame, Live::No, &body)
}
