//! Page with the upgrade graph of a package, as a drawing and as a list.

use maud::{Markup, PreEscaped, html};
use olm_authoring::graph::{ChannelGraph, Node, PackageGraph, to_svg_element};

use super::{Frame, Live, page, shell};
use crate::terminal::plain;

pub(in super::super) fn graph(
    frame: &Frame<'_>,
    namespace: &str,
    graph: &PackageGraph,
    package: &str,
    catalog: &str,
) -> String {
    let steps: Vec<String> = graph.way.iter().map(|(_, name)| plain(name)).collect();
    let names = [package, catalog];
    let command = frame
        .commands
        .offered("graph {} --catalog {}", &names, Some(namespace));
    let lanes = graph.lanes();
    let notes = graph.way_notes();
    let body = html! {
        p { "Of catalog " (plain(catalog)) ", as of the last two minutes. Newer versions are above older ones." }
        @if graph.channels.is_empty() {
            p.message { "This package is not in the catalog." }
        } @else {
            @if let Some(text) = &graph.deprecated { p.doubts { "deprecated: " (plain(text)) } }
            @if steps.len() > 1 { p { "Upgrade path: " (steps.join(" → ")) } }
            (jumps(&lanes))
            div.drawing tabindex="0" role="region" aria-label="Drawing; the list below has the same versions and reasons" { (PreEscaped(to_svg_element(graph))) }
            (shell("The same in a terminal", command))
            h2 { "As a list" }
            @for note in graph.notes() { p { (note) } }
            @for (lane, channels) in lanes.iter().enumerate() {
                @for channel in channels {
                    h3 { (plain(&channel.name)) @if channel.is_default { " (default)" } }
                    @if let Some(text) = &channel.deprecated { p.doubts { "deprecated: " (plain(text)) } }
                }
                @if let Some(channel) = channels.first() {
                    @if let Some(text) = &channel.broken { p.doubts { "broken: " (plain(text)) } }
                    ul { @for (at, node) in newest_first(channel) { (version(node, &id(lane, at), notes.get(&node.name))) } }
                }
            }
        }
    };
    page(frame, Live::No, &body)
}

/// Renders links to the installed versions and the heads in the list.
fn jumps(lanes: &[Vec<&ChannelGraph>]) -> Markup {
    html! {
        p { @for (lane, channels) in lanes.iter().enumerate() {
            @for (at, node) in channels.first().copied().into_iter().flat_map(newest_first) {
                @if node.is_head || !node.installed_by.is_empty() {
                    a href=(format!("#{}", id(lane, at))) {
                        (plain(&node.name)) ", "
                        @if node.is_head { "head" } @else { "installed" }
                        " in " (channels.iter().map(|channel| plain(&channel.name)).collect::<Vec<_>>().join(", "))
                    }
                    " "
                }
            }
        } }
    }
}

fn newest_first(channel: &ChannelGraph) -> impl Iterator<Item = (usize, &Node)> {
    channel.nodes.iter().enumerate().rev()
}

fn id(lane: usize, at: usize) -> String {
    format!("version-{lane}-{at}")
}

/// Renders a version. `note` says how it belongs to the upgrade path.
fn version(node: &Node, id: &str, note: Option<&String>) -> Markup {
    html! {
        li id=(id) {
            strong { (node.version()) } " " (plain(&node.name))
            @for detail in node.details(&|_, word| word.to_owned()) { ", " (detail) }
            @if let Some(note) = note { ", " (note) }
        }
    }
}
