#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod lanes;

use std::sync::Arc;

use olm_fbc::entry::{BundleEntry, Deprecation};
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
        checker.add(&Blob::from_value(blob).expect("blob"), &origin);
    }
    let model = checker.finish().unwrap_or_else(|faults| panic!("{faults}"));
    PackageGraph::of_model("p", &model.packages["p"], None)
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
        .edges(true)
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
fn svg_is_well_formed_and_shows_all_bundles() {
    let mut graph = graph();
    graph.channels[0].nodes[5].name = "p.<v5> & \"more\"".into();
    let text = to_svg(&graph);
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    assert_eq!(text.matches("class=\"node").count(), 6);
    // No entry skips the renamed bundle any more.
    assert_eq!(text.matches("marker-end").count(), 5);
    assert!(text.contains("</tspan> p.v3 · head<"), "{text}");
    assert!(
        text.contains("p.&lt;v5&gt; &amp; &quot;more&quot;")
            && text.contains("class=\"node skipped unreachable\"")
    );
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

fn entry(channel: &str, version: &str, replaces: &str, skips: &[&str], range: &str) -> BundleEntry {
    BundleEntry {
        name: format!("etcd.v{version}").into(),
        package: "etcd".into(),
        channel: channel.into(),
        default_channel: channel == "stable",
        version: go_compat::semver::Version::parse(version).ok(),
        replaces: (!replaces.is_empty()).then(|| replaces.into()),
        skips: skips.iter().map(|skip| Arc::from(*skip)).collect(),
        skip_range: Range::parse(range).ok().map(Arc::new),
        ..BundleEntry::default()
    }
}

fn entries() -> Vec<BundleEntry> {
    let mut old = entry("stable", "1.0.0", "", &[], "");
    old.deprecation = Some(Arc::new(Deprecation {
        bundle: Some("it loses data".into()),
        channel: Some("use beta".into()),
        package: None,
    }));
    vec![
        old,
        entry("stable", "1.0.1", "etcd.v1.0.0", &[], ""),
        entry("stable", "1.1.0", "etcd.v1.0.0", &["etcd.v1.0.1"], ""),
        entry("stable", "1.2.0", "etcd.v1.1.0", &[], ">=1.0.0 <1.2.0"),
        entry("beta", "1.2.0", "", &[], ""),
        entry("beta", "2.0.0", "etcd.v1.2.0", &[], ""),
    ]
}

/// Returns versions that each replace the one before.
fn chain(channel: &str, count: usize, range: &str) -> Vec<BundleEntry> {
    let versions = (0..count).map(|at| {
        let before = at.checked_sub(1).map(|before| format!("etcd.v1.{before}.0"));
        entry(
            channel,
            &format!("1.{at}.0"),
            &before.unwrap_or_default(),
            &[],
            range,
        )
    });
    versions.collect()
}

fn by_db(csv: &str) -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([(csv.to_owned(), vec!["shop/db".to_owned()])])
}

fn graph_of(entries: &[BundleEntry], installed: &str) -> PackageGraph {
    PackageGraph::new("etcd", "olm/cat", entries, &by_db(installed))
}

fn steps(steps: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(channel, name): &(&str, &str)| ((*channel).to_owned(), (*name).to_owned());
    steps.iter().map(owned).collect()
}

fn text_of(graph: &PackageGraph) -> String {
    to_text(graph, &|_, word| word.to_owned()).join("\n")
}

/// Returns the labels of a drawing from top to bottom, without its titles and legend.
fn labels(picture: &str) -> Vec<String> {
    let labels = picture.split("<tspan class=\"version\">").skip(1);
    labels
        .map(|rest| {
            rest.split_once("</text>")
                .expect("label")
                .0
                .replace("</tspan>", "")
        })
        .collect()
}

fn count(picture: &str, class: &str) -> usize {
    // The legend has each class once.
    picture.matches(&format!("<path class=\"{class}\"")).count() - 1
}

#[test]
fn text_has_channels_newest_version_first_with_reasons() {
    let graph = graph_of(&entries(), "etcd.v1.1.0");
    insta::assert_snapshot!(text_of(&graph), @r"
    package etcd of catalog olm/cat

    channel stable (default), deprecated: use beta
      * 1.2.0  etcd.v1.2.0  head; replaces etcd.v1.1.0; skipRange >=1.0.0 <1.2.0
      @ 1.1.0  etcd.v1.1.0  installed by shop/db; replaces etcd.v1.0.0; skips etcd.v1.0.1
      - 1.0.1  etcd.v1.0.1  skipped by etcd.v1.1.0; replaces etcd.v1.0.0
      | 1.0.0  etcd.v1.0.0  deprecated: it loses data

    channel beta
      * 2.0.0  etcd.v2.0.0  head; replaces etcd.v1.2.0
      | 1.2.0  etcd.v1.2.0
    ");
    assert_eq!(graph.notes(), [""; 0]);
    assert_eq!(
        graph_of(&entries(), "etcd.v0.9.0").notes(),
        ["etcd.v0.9.0 is installed by shop/db, but is in none of these channels"]
    );
}

#[test]
fn the_document_has_all_fields_newest_version_first() {
    let graph = graph_of(&entries(), "etcd.v0.9.0");
    let document = serde_json::to_value(&graph).expect("JSON");
    assert_eq!(
        (&document["package"], &document["catalog"], &document["leftOut"]),
        (&json!("etcd"), &json!("olm/cat"), &json!(0))
    );
    assert_eq!(
        document["elsewhere"],
        json!([{"name": "etcd.v0.9.0", "by": ["shop/db"]}])
    );
    let stable = &document["channels"][0];
    assert_eq!(
        (&stable["name"], &stable["isDefault"], &stable["deprecated"]),
        (&json!("stable"), &json!(true), &json!("use beta"))
    );
    assert_eq!(
        stable["entries"],
        json!([
            {"name": "etcd.v1.2.0", "version": "1.2.0", "isHead": true, "isSkipped": false, "replaces": "etcd.v1.1.0",
                "skipRange": ">=1.0.0 <1.2.0"},
            {"name": "etcd.v1.1.0", "version": "1.1.0", "isHead": false, "isSkipped": false, "replaces": "etcd.v1.0.0",
                "skips": ["etcd.v1.0.1"]},
            {"name": "etcd.v1.0.1", "version": "1.0.1", "isHead": false, "isSkipped": true, "skippedBy": "etcd.v1.1.0",
                "replaces": "etcd.v1.0.0"},
            {"name": "etcd.v1.0.0", "version": "1.0.0", "isHead": false, "isSkipped": false, "deprecated": "it loses data"},
        ])
    );
    let installed = serde_json::to_value(graph_of(&entries(), "etcd.v1.1.0")).expect("JSON");
    assert_eq!(
        installed["channels"][0]["entries"][1]["installedBy"],
        json!(["shop/db"])
    );
}

#[test]
fn a_channel_without_one_head_is_broken() {
    let two = [
        entry("stable", "2.0.0", "", &[], ""),
        entry("stable", "10.0.0", "", &[], ""),
    ];
    let text = text_of(&graph_of(&two, ""));
    assert!(
        text.contains("broken: multiple channel heads found in graph: etcd.v10.0.0, etcd.v2.0.0"),
        "{text}"
    );
    assert!(!text.contains('*'), "{text}");
}

#[test]
fn a_drawing_shows_channels_upgrades_marks_and_the_path() {
    let mut graph = graph_of(&entries(), "etcd.v1.1.0");
    graph.way = steps(&[
        ("", "etcd.v1.1.0"),
        ("stable", "etcd.v1.2.0"),
        ("beta", "etcd.v2.0.0"),
    ]);
    let picture = to_svg(&graph);
    assert_eq!(
        labels(&picture),
        [
            "2.0.0 etcd.v2.0.0 · head of beta, upgrade 2 of 2",
            "1.2.0 etcd.v1.2.0 · head of stable, upgrade 1 of 2",
            "1.1.0 etcd.v1.1.0 · installed by shop/db",
            "1.0.1 etcd.v1.0.1 · skipped by etcd.v1.1.0",
            "1.0.0 etcd.v1.0.0 · deprecated: it loses data",
        ]
    );
    for part in [
        ">channel stable (default) (deprecated)<",
        ">channel beta<",
        "class=\"node installed\"",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    // 1.0.1 and 1.1.0 replace 1.0.0, 1.2.0 replaces 1.1.0, 2.0.0 replaces 1.2.0; one is skipped; the range has two that are not
    // named; the path has two steps.
    let counts = ["edge", "edge skips", "edge range", "way"].map(|class| count(&picture, class));
    assert_eq!(counts, [4, 1, 2, 2]);
}

#[test]
fn an_upgrade_under_way_is_shown_beside_the_installed_version() {
    let mut graph = graph_of(&entries(), "etcd.v1.1.0");
    graph.mark_upgrades(&by_db("etcd.v1.2.0"));
    let text = to_text(&graph, &|_, word| word.to_owned()).join("\n");
    for line in [
        "etcd.v1.2.0  upgrading to it: shop/db; head",
        "etcd.v1.1.0  installed by shop/db",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_file_has_its_style_and_an_element_gets_it_from_the_page() {
    let graph = graph_of(&entries(), "");
    let (file, element) = (to_svg(&graph), to_svg_element(&graph));
    assert_eq!(file.replace(&format!("<style>{STYLE}</style>\n"), ""), element);
    assert!(!element.contains("style"), "{element}");
    let classes = element
        .split("class=\"")
        .skip(1)
        .map(|rest| rest.split_once('"').expect("class").0);
    for class in classes.flat_map(str::split_whitespace) {
        let has_style = STYLE.contains(&format!(".{class} "));
        assert!(has_style || ["node", "graph"].contains(&class), "{class}");
    }
    let (light, dark) = STYLE.split_once("@media").expect("two schemes");
    let colours = |rules: &str| rules.matches(" fill: #").count() + rules.matches("stroke: #").count();
    assert_eq!(colours(dark), colours(light), "{dark}");
}

#[test]
fn channels_with_the_same_upgrades_share_a_lane() {
    let mut both = chain("stable", 3, "");
    both.extend(chain("candidate", 3, ""));
    both.push(entry("candidate", "2.0.0", "etcd.v1.2.0", &[], ""));
    both.extend(chain("1.x", 3, ""));
    let graph = graph_of(&both, "");
    assert_eq!(graph.channels.len(), 3);
    let names: Vec<Vec<&str>> = graph
        .lanes()
        .iter()
        .map(|lane| lane.iter().map(|channel| &*channel.name).collect())
        .collect();
    assert_eq!(names, [vec!["stable", "1.x"], vec!["candidate"]]);
    let picture = to_svg(&graph);
    assert_eq!(picture.matches(">channel ").count(), 3);
    // Both begin as candidate does, so one lane draws all.
    assert_eq!(picture.matches("class=\"node").count(), 4, "{picture}");
    for title in [
        ">channel candidate<",
        ">channel stable (default), up to 1.2.0<",
        ">channel 1.x, up to 1.2.0<",
    ] {
        assert!(picture.contains(title), "{title}: {picture}");
    }
    assert_eq!(
        labels(&picture)[..2],
        [
            "2.0.0 etcd.v2.0.0 · head of candidate",
            "1.2.0 etcd.v1.2.0 · head of stable, 1.x"
        ]
    );
    let text = text_of(&graph);
    assert!(
        text.contains("channel stable (default)\nchannel 1.x\n  * 1.2.0"),
        "{text}"
    );
}

/// The publisher of a catalog chooses the names.
#[test]
fn nothing_of_a_catalog_is_markup_or_moves_a_cursor() {
    let evil = "</text><script href='http://x'>\u{1b}[2J\u{202e}&\"";
    let mut one = entry("stable", "1.0.0", "", &[evil], "");
    (one.name, one.channel, one.package) = (evil.into(), evil.into(), evil.into());
    one.deprecation = Some(Arc::new(Deprecation {
        bundle: Some(evil.into()),
        channel: Some(evil.into()),
        package: Some(evil.into()),
    }));
    let graph = PackageGraph::new(evil, evil, [&one], &by_db(evil));
    let picture = to_svg(&graph);
    assert!(!picture.contains("<script"), "{picture}");
    assert_eq!(
        picture.matches("</text>").count(),
        picture.matches("<text").count()
    );
    for drawing in [&picture, &text_of(&graph)] {
        let moves = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!drawing.chars().any(moves), "{drawing:?}");
    }
    // The SVG loads no other file.
    assert!(
        !picture.contains("href=\"") && !picture.contains("url(http"),
        "{picture}"
    );
}

#[test]
fn a_cut_graph_has_the_newest_versions_and_the_installed_one() {
    let mut graph = graph_of(&chain("stable", 1_000, ">=1.0.0"), "etcd.v1.3.0");
    graph.cut(300, 100);
    let names: Vec<&str> = graph.channels[0].nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(
        (names.len(), names[0]),
        (301, "etcd.v1.3.0"),
        "the installed one stays"
    );
    let picture = to_svg(&graph);
    assert!(picture.len() < 256 << 10, "{}", picture.len());
    assert!(picture.contains("699 older versions or channels are not shown"));
}

#[test]
fn a_cut_graph_is_bounded_in_versions_and_channels() {
    let installed = (0..500).map(|at| (format!("etcd.v1.{at}.0"), vec!["shop/db".to_owned()]));
    let mut graph = PackageGraph::new("etcd", "olm/cat", &chain("stable", 500, ""), &installed.collect());
    graph.cut(40, 40);
    assert_eq!((graph.channels[0].nodes.len(), graph.left_out), (80, 420));
    let channels: Vec<BundleEntry> = (0..500)
        .map(|at| entry(&format!("c{at:03}"), &format!("1.{at}.0"), "", &[], ""))
        .collect();
    let mut graph = graph_of(&channels, "");
    graph.cut(40, 50);
    // Versions are of the channels that remain.
    let versions: usize = graph.channels.iter().map(|channel| channel.nodes.len()).sum();
    assert_eq!((graph.channels.len(), versions, graph.left_out), (40, 40, 460));
}

/// Repeated entries cost a catalog only a few bytes each.
#[test]
fn what_a_catalog_repeats_is_drawn_once_and_counts_once() {
    let mut repeated = entries();
    repeated.extend((0..1_000).map(|_| entry("stable", "1.0.0", "", &[], ">=1.0.0")));
    repeated.push(entry("new", "3.0.0", "", &[], ""));
    let mut once = entries();
    once.push(entry("new", "3.0.0", "", &[], ""));
    let graph = graph_of(&repeated, "etcd.v1.1.0");
    assert_eq!(graph, graph_of(&once, "etcd.v1.1.0"));
    assert_eq!(to_svg(&graph).matches("class=\"node").count(), 7);
}

/// A list that all versions share costs a catalog nothing.
#[test]
fn what_is_long_is_not_copied() {
    let skips: Arc<[Arc<str>]> = (0..10_000).map(|at| Arc::from(format!("none.v{at}"))).collect();
    let long: Vec<BundleEntry> = (0..4)
        .map(|at| BundleEntry {
            skips: Arc::clone(&skips),
            ..entry("stable", &format!("1.{at}.0"), "", &[], "")
        })
        .collect();
    let graph = graph_of(&long, "");
    for node in &graph.channels[0].nodes {
        assert!(Arc::ptr_eq(&node.skips, &skips));
    }
    let text = text_of(&graph);
    assert!(text.contains("none.v9 and 9990 more"), "{text}");
    assert!(text.len() < 16 << 10, "{}", text.len());
}
