//! Graphs as mermaid text, with marks that upstream's `render-graph` does not have.

use std::fmt::Write as _;

use super::{EdgeKind, PackageGraph};

/// Returns the graph as mermaid text: one subgraph per channel, one class per mark.
pub fn to_mermaid(graph: &PackageGraph) -> String {
    let mut text = "graph LR
  classDef head fill:#ceead6
  classDef deprecated fill:#fde293,stroke:#b06000
  classDef skipped stroke-dasharray:5
  classDef unreachable fill:#f4c7c3,stroke:#b31412,stroke-width:3px
  classDef absent fill:none,stroke:#9aa0a6,stroke-dasharray:3
"
    .to_owned();
    let _ = writeln!(text, "  subgraph {:?}", graph.package);
    for (number, channel) in graph.channels.iter().enumerate() {
        let mut title = channel.name.to_string();
        if channel.deprecated.is_some() {
            title += " (deprecated)";
        }
        let _ = writeln!(text, "    subgraph c{number}[{}]", quoted(&title));
        for (index, node) in channel.nodes.iter().enumerate() {
            let _ = writeln!(text, "      c{number}n{index}[{}]", quoted(&node.name));
        }
        for edge in channel.edges(true) {
            let arrow = match edge.kind {
                EdgeKind::Replaces => "-- replaces -->",
                EdgeKind::Skips => "-. skips .->",
                EdgeKind::SkipRange => "-. skipRange .->",
            };
            let _ = writeln!(
                text,
                "      c{number}n{} {arrow} c{number}n{}",
                edge.from, edge.to
            );
        }
        text.push_str("    end\n");
    }
    text.push_str("  end\n");
    for (number, channel) in graph.channels.iter().enumerate() {
        for (index, node) in channel.nodes.iter().enumerate() {
            // A node has one class: the most severe.
            if let Some(mark) = ["unreachable", "deprecated", "absent", "skipped", "head"]
                .into_iter()
                .find(|mark| node.marks().contains(mark))
            {
                let _ = writeln!(text, "  class c{number}n{index} {mark}");
            }
        }
    }
    text
}

/// Quotes a text for mermaid, which has no backslash escapes: quotes become entities.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "#quot;").replace('\n', " "))
}
