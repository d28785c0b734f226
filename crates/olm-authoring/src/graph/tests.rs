#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use olm_fbc::load::Origin;
use olm_fbc::schema::Blob;
use olm_fbc::validate::Checker;
use serde_json::json;

use super::*;

fn graph() -> PackageGraph {
    let bundle = |name: &str, version: &str| {
        json!({"schema": "olm.bundle", "name": name, "package": "p", "image": "q.io/p:1",
            "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
    };
    let blobs = [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "name": "c", "package": "p", "entries": [
            {"name": "p.v1", "replaces": "p.v0"},
            {"name": "p.v2", "replaces": "p.v1"},
            {"name": "p.v3", "replaces": "p.v1", "skips": ["p.v2"], "skipRange": "<2.5.0"},
            {"name": "p.v4", "skips": ["p.v5"]},
            {"name": "p.v5", "skips": ["p.v4"]},
        ]}),
        bundle("p.v1", "1.0.0"),
        bundle("p.v2", "2.0.0"),
        bundle("p.v3", "3.0.0"),
        bundle("p.v4", "4.0.0"),
        bundle("p.v5", "5.0.0"),
        json!({"schema": "olm.deprecations", "package": "p", "entries": [
            {"reference": {"schema": "olm.channel", "name": "c"}, "message": "m"},
            {"reference": {"schema": "olm.bundle", "name": "p.v1"}, "message": "m"}]}),
    ];
    let mut checker = Checker::default();
    let origin = Origin {
        file: "f".into(),
        document: 1,
    };
    for blob in blobs {
        checker.add(Blob::from_value(blob).expect("blob"), &origin);
    }
    let model = checker.finish().unwrap_or_else(|faults| panic!("{faults}"));
    PackageGraph::new("p", &model.packages["p"], None)
}

#[test]
fn nodes_are_marked_and_edges_found() {
    let graph = graph();
    let channel = &graph.channels[0];
    let marks: Vec<String> = channel
        .nodes
        .iter()
        .map(|node| format!("{} {}", node.name, node.marks().join("+")))
        .collect();
    assert_eq!(
        marks,
        [
            "p.v0 absent",
            "p.v1 deprecated",
            "p.v2 skipped",
            "p.v3 head",
            "p.v4 skipped+unreachable",
            "p.v5 skipped+unreachable",
        ]
    );
    let edges: Vec<(usize, usize, EdgeKind)> = channel
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to, edge.kind))
        .collect();
    assert_eq!(
        edges,
        [
            (0, 1, EdgeKind::Replaces),
            (1, 2, EdgeKind::Replaces),
            (1, 3, EdgeKind::Replaces),
            (2, 3, EdgeKind::Skips),
            (4, 5, EdgeKind::Skips),
            (5, 4, EdgeKind::Skips),
        ],
        "what a range holds and another edge says already is not drawn twice"
    );
}

#[test]
fn dot_is_as_recorded() {
    insta::assert_snapshot!(to_dot(&graph()), @r##"
    digraph "p" {
      rankdir=LR;
      node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif"];
      subgraph cluster_0 {
        label="c (default) (deprecated)";
        "c/p.v0" [label="p.v0\nabsent", style="rounded,dashed", color=gray, fontcolor=gray];
        "c/p.v1" [label="p.v1\ndeprecated", fillcolor="#fde293", color="#b06000"];
        "c/p.v2" [label="p.v2\nskipped"];
        "c/p.v3" [label="p.v3\nhead", fillcolor="#ceead6"];
        "c/p.v4" [label="p.v4\nskipped, unreachable", fillcolor="#f4c7c3", color="#b31412", penwidth=2];
        "c/p.v5" [label="p.v5\nskipped, unreachable", fillcolor="#f4c7c3", color="#b31412", penwidth=2];
        "c/p.v0" -> "c/p.v1";
        "c/p.v1" -> "c/p.v2";
        "c/p.v1" -> "c/p.v3";
        "c/p.v2" -> "c/p.v3" [style=dashed, label=skips];
        "c/p.v4" -> "c/p.v5" [style=dashed, label=skips];
        "c/p.v5" -> "c/p.v4" [style=dashed, label=skips];
      }
    }
    "##);
}

#[test]
fn mermaid_has_a_class_a_mark() {
    let text = to_mermaid(&graph());
    for line in [
        "    subgraph c0[\"c (deprecated)\"]",
        "      c0n2 -. skips .-> c0n3",
        "  class c0n0 absent",
        "  class c0n1 deprecated",
        "  class c0n3 head",
        "  class c0n5 unreachable",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is missing in\n{text}"
        );
    }
}

#[test]
fn svg_is_well_formed_and_shows_all_bundles() {
    let mut graph = graph();
    graph.channels[0].nodes[5].name = "p.<v5> & \"more\"".to_owned();
    let text = to_svg(&graph);
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    assert_eq!(text.matches("<rect x=").count(), 6);
    assert_eq!(text.matches("marker-end").count(), 6);
    assert!(text.contains(">3.0.0 · head<"), "{text}");
    assert!(text.contains("p.&lt;v5&gt; &amp; &quot;more&quot;") && text.contains("fill=\"#f4c7c3\""));
    // Every opened tag is closed.
    let mut open = Vec::new();
    for tag in text
        .split('<')
        .skip(1)
        .map(|rest| rest.split_once('>').expect("tag").0)
    {
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("name"));
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
