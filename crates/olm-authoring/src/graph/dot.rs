//! Graphs in the language of Graphviz.

use std::fmt::Write as _;

use super::{EdgeKind, Node, PackageGraph};

/// Returns the graph for `dot`: one cluster per channel.
pub fn to_dot(graph: &PackageGraph) -> String {
    let mut text = format!(
        "digraph {} {{\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"];\n",
        quoted(&graph.package)
    );
    for (index, channel) in graph.channels.iter().enumerate() {
        let _ = writeln!(
            text,
            "  subgraph cluster_{index} {{\n    label={};",
            quoted(&channel.title())
        );
        let id = |node: &Node| quoted(&format!("{}/{}", channel.name, node.name));
        for node in &channel.nodes {
            let _ = writeln!(
                text,
                "    {} [label={}{}];",
                id(node),
                quoted(&label_of(node)),
                style(node)
            );
        }
        for edge in channel.edges(true) {
            let style = match edge.kind {
                EdgeKind::Replaces => "",
                EdgeKind::Skips => " [style=dashed, label=skips]",
                EdgeKind::SkipRange => " [style=dotted, label=skipRange]",
            };
            let (from, to) = (id(&channel.nodes[edge.from]), id(&channel.nodes[edge.to]));
            let _ = writeln!(text, "    {from} -> {to}{style};");
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

fn label_of(node: &Node) -> String {
    let marks = node.marks();
    if marks.is_empty() {
        node.name.to_string()
    } else {
        format!("{}\n{}", node.name, marks.join(", "))
    }
}

fn style(node: &Node) -> &'static str {
    if node.is_unreachable {
        ", fillcolor=\"#f4c7c3\", color=\"#b31412\", penwidth=2"
    } else if node.deprecated.is_some() {
        ", fillcolor=\"#fde293\", color=\"#b06000\""
    } else if node.is_absent {
        ", style=\"rounded,dashed\", color=gray, fontcolor=gray"
    } else if node.is_head {
        ", fillcolor=\"#ceead6\""
    } else {
        ""
    }
}

fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}
