#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use serde_json::json;

use super::*;

fn blobs() -> Vec<Blob> {
    let bundle = |name: &str, version: &str| {
        json!({"schema": "olm.bundle", "name": name, "package": "p", "image": "i",
            "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
    };
    [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "name": "c", "package": "p", "entries": [
            {"name": "p.v1"},
            {"name": "p.v2", "replaces": "p.v1", "skipRange": "<1.5.0"},
            {"name": "p.v3", "replaces": "p.v1", "skips": ["p.v2"]},
            {"name": "p.v4", "replaces": "p.v3", "skips": ["p.v2"]},
        ]}),
        json!({"schema": "olm.channel", "name": "c", "package": "q", "entries": [{"name": "q.v1"}]}),
        bundle("p.v1", "1.0.0"),
        bundle("p.v2", "2.0.0"),
        bundle("p.v3", "3.0.0"),
        bundle("p.v4", "4.0.0"),
        bundle("q.v1", "1.0.0"),
        json!({"schema": "olm.deprecations", "package": "p", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "m"},
            {"reference": {"schema": "olm.channel", "name": "c"}, "message": "m"},
            {"reference": {"schema": "olm.bundle", "name": "p.v2"}, "message": "m"},
            {"reference": {"schema": "olm.bundle", "name": "p.v1"}, "message": "m"},
        ]}),
    ]
    .into_iter()
    .map(|value| Blob::from_value(value).expect("blob"))
    .collect()
}

#[test]
fn deprecated_and_skipped_are_marked() {
    let options = Options {
        v0_semantics: true,
        ..Options::default()
    };
    insta::assert_snapshot!(draw(&blobs(), &options).expect("drawing").text, @r#"
    graph LR
      classDef deprecated fill:#E8960F
      classDef skipped stroke:#FF0000,stroke-width:4px
      classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
      %% package "p"
      subgraph "p"
        %% channel "c"
        subgraph p-c["c"]
          p-c-p.v4["p.v4"]
          p-c-p.v2["p.v2"]-- skip --> p-c-p.v4["p.v4"]
          p-c-p.v3["p.v3"]-- replace --> p-c-p.v4["p.v4"]
          p-c-p.v3["p.v3"]
          p-c-p.v2["p.v2"]-- skip --> p-c-p.v3["p.v3"]
          p-c-p.v1["p.v1"]-- replace --> p-c-p.v3["p.v3"]
          p-c-p.v2["p.v2"]
          p-c-p.v1["p.v1"]-- "skipRange(<1.5.0)" --> p-c-p.v2["p.v2"]
          p-c-p.v1["p.v1"]-- replace --> p-c-p.v2["p.v2"]
          p-c-p.v1["p.v1"]
        end
      end
      %% package "q"
      subgraph "q"
        %% channel "c"
        subgraph q-c["c"]
          q-c-q.v1["q.v1"]
        end
      end
    style p fill:#989695
    style p-c fill:#DCD0FF
    class p-c-p.v1 deprecated
    class p-c-p.v2 deprecatedskipped
    linkStyle 2,4,5 stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;
    "#);
}

#[test]
fn a_minimum_edge_cuts_what_is_below() {
    let options = Options {
        minimum_edge: "p.v2".to_owned(),
        ..Options::default()
    };
    let text = draw(&blobs(), &options).expect("drawing").text;
    assert!(!text.contains("p.v1\"]") && !text.contains("\"q\""), "{text}");
    assert!(text.contains("p-c-p.v2[\"p.v2\"]-- skip --> p-c-p.v3"), "{text}");
    let error = draw(
        &blobs(),
        &Options {
            minimum_edge: "p.v9".to_owned(),
            ..Options::default()
        },
    )
    .expect_err("unknown");
    assert_eq!(error.to_string(), "unknown minimum edge name: \"p.v9\"");
}

#[test]
fn a_package_is_picked_and_a_broken_range_is_reported() {
    let mut blobs = blobs();
    if let Blob::Channel(channel) = &mut blobs[1] {
        channel.entries[1].skip_range = "<".to_owned();
    }
    let options = Options {
        package: "p".to_owned(),
        ..Options::default()
    };
    let drawing = draw(&blobs, &options).expect("drawing");
    assert!(!drawing.text.contains("package \"q\""));
    assert_eq!(drawing.warnings.len(), 1);
    assert!(
        drawing.warnings[0].contains("\"p\"/\"p.v2\""),
        "{:?}",
        drawing.warnings
    );
}

#[test]
fn a_bundle_without_version_is_an_error() {
    let mut blobs = blobs();
    if let Blob::Bundle(bundle) = &mut blobs[3] {
        bundle.properties.clear();
    }
    let error = draw(&blobs, &Options::default())
        .expect_err("no version")
        .to_string();
    assert_eq!(
        error,
        "bundle \"p.v1\" has 0 \"olm.package\" properties, expected exactly 1"
    );
}
