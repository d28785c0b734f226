//! Every valid catalog is served: it has an index, and the index answers for every entry.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

#[path = "../../olm-fbc/tests/catalog_seeds/mod.rs"]
mod catalog_seeds;
#[path = "../../olm-fbc/tests/fuzzing/mod.rs"]
mod fuzzing;

use std::path::Path;

use catalog_seeds::{WORDS, catalogs, changed_documents};
use fuzzing::{Fuzz, Random};
use olm_fbc::base64;
use olm_fbc::validate::{Model, report};
use olm_registry::cache::{self, upstream};
use olm_registry::proto;
use olm_registry::snapshot;
use prost::Message as _;
use serde_json::{Value, json};

/// Compares a valid catalog with its index. Returns the catalog's model; `None` for a catalog with faults.
fn check(catalog: &Path) -> Option<Model> {
    let model = report(catalog, None).into_result().ok()?;
    let cache_dir = tempfile::tempdir().expect("folder");
    let index = cache::open_or_build(catalog, cache_dir.path())
        .unwrap_or_else(|error| panic!("validates and is not served: {}", go_compat::error_chain(&error)));
    let listed: Vec<proto::Bundle> = (0..index.entry_count())
        .map(|at| {
            let frame = index.listed_bundle(at).expect("listed").to_bytes().expect("read");
            proto::Bundle::decode(frame.as_slice()).expect("message")
        })
        .collect();
    let entries: usize = model
        .packages
        .values()
        .flat_map(|package| package.channels.values())
        .map(|channel| channel.entries.len())
        .sum();
    assert_eq!(listed.len(), entries);
    for bundle in &listed {
        let frame = index
            .bundle(&bundle.package_name, &bundle.channel_name, &bundle.csv_name)
            .expect("asked for by name");
        proto::Bundle::decode(frame.to_bytes().expect("read").as_slice()).expect("message");
    }
    for (name, package) in &model.packages {
        let served = index.package(name).expect("package");
        assert_eq!(served.default_channel_name, package.package.default_channel);
        for channel in served.channels {
            index.head_bundle(name, &channel.name).expect("head");
        }
    }
    snapshot::of_index(&index).expect("read");
    match upstream::write(&index, catalog, cache_dir.path()) {
        Err(error) if !error.is_of_names() => panic!("no cache: {}", go_compat::error_chain(&error)),
        _ => {}
    }
    Some(model)
}

fn check_text(text: &[u8]) -> bool {
    let catalog = tempfile::tempdir().expect("folder");
    std::fs::write(catalog.path().join("catalog.yaml"), text).expect("written");
    check(catalog.path()).is_some_and(|model| !model.packages.is_empty())
}

#[test]
fn valid_catalogs_of_any_kind_are_served() {
    let fuzz = Fuzz {
        name: "law",
        seeds: catalogs(),
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(check_text);
}

/// Returns a value for a property of any type, usual or odd.
fn values(random: &mut Random) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    let csv = "kind: ClusterServiceVersion\nmetadata:\n  name: p.v1\n";
    let mut broken = base64::encode(&object);
    broken.insert(random.below(broken.len()), '\n');
    let data = [
        json!(base64::encode(&object)),
        json!(base64::encode(csv)),
        json!(broken),
        json!(base64::encode("- a\n")),
        json!(base64::encode("{ broken")),
        json!(base64::encode([0xff])),
        json!(""),
        json!(null),
        json!("!"),
        json!(1),
    ];
    let texts = [json!("a"), json!(""), json!(null), json!(4.2), json!({})];
    let mut text = || random.of(&texts).clone();
    let map = json!({
        "packageName": text(), "version": text(), "versionRange": text(), "group": text(), "kind": text(), "label": text(),
        "channelName": text(), "displayName": text(), "Keywords": [text()], "annotations": {"a": text()},
    });
    let mut map = map.as_object().expect("object").clone();
    map.insert("data".to_owned(), random.of(&data).clone());
    // Fewer fields are more often valid.
    map.retain(|_, _| random.below(3) == 0);
    match random.below(6) {
        0 => random
            .of(&[json!("text"), json!(null), json!([1]), json!(1.5), json!(true)])
            .clone(),
        1 => json!({"data": random.of(&data)}),
        2 => json!({}),
        _ => Value::Object(map),
    }
}

/// Returns a valid catalog, except for properties, custom schemas and other parts that may be anything.
fn odd_catalog(_: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    const TYPES: [&str; 13] = [
        "olm.label",
        "olm.label.required",
        "olm.gvk",
        "olm.gvk.required",
        "olm.package.required",
        "olm.bundle.object",
        "olm.bundle.object",
        "olm.csv.metadata",
        "olm.constraint",
        "olm.deprecated",
        "olm.channel",
        "other",
        "Olm.Package",
    ];
    const SCHEMAS: [&str; 6] = ["custom", "a/b", "../../x", ".", "olm.Bundle", "\u{e9}"];
    const ICONS: [&str; 3] = ["aWNvbg==", "aWNv\nbg==\n", ""];
    let mut documents = Vec::new();
    let bundles = 1 + random.below(3);
    let entries: Vec<Value> = (0..bundles)
        .map(|number| match number {
            0 => json!({"name": "p.v0", "skips": ["gone"]}),
            _ => json!({"name": format!("p.v{number}"), "replaces": format!("p.v{}", number - 1)}),
        })
        .collect();
    documents.push(json!({"schema": "olm.channel", "package": "p", "name": random.of(&["c", "4.2", "a/b"]), "entries": entries}));
    documents.push(json!({
        "schema": "olm.package", "name": "p", "defaultChannel": documents[0]["name"], "icon": {"base64data": random.of(&ICONS)},
    }));
    for number in 0..bundles {
        let mut properties = vec![json!({
            "type": "olm.package", "value": {"packageName": "p", "version": format!("1.{number}.0")},
        })];
        for _ in 0..random.below(3) {
            properties.push(json!({"type": random.of(&TYPES), "value": values(random)}));
        }
        documents.push(json!({
            "schema": "olm.bundle", "package": "p", "name": format!("p.v{number}"), "image": "q.io/p:1", "properties": properties,
        }));
    }
    for _ in 0..random.below(2) {
        let package = random.of(&["", "p", "x/y"]);
        documents.push(json!({"schema": random.of(&SCHEMAS), "package": package, "more": values(random)}));
    }
    Some(
        documents
            .iter()
            .map(|one| format!("{one}\n"))
            .collect::<String>()
            .into_bytes(),
    )
}

#[test]
fn odd_parts_of_valid_catalogs_are_served() {
    let fuzz = Fuzz {
        name: "odd-parts",
        seeds: catalogs(),
        words: &WORDS,
        structured: Some(odd_catalog),
    };
    fuzz.run(check_text);
}

/// Parts that are valid but useless are served, and `validate` warns of them.
#[test]
fn what_is_of_no_use_is_served_with_a_warning() {
    let catalog = tempfile::tempdir().expect("folder");
    let text = json!({"kind": "ConfigMap"}).to_string();
    let broken = format!("{}\n", base64::encode(text)).replacen('e', "e\r\n", 1);
    let documents = [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "p.v1"}]}),
        json!({"schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "q.io/p:1", "properties": [
            {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
            {"type": "olm.label", "value": "text"},
            {"type": "olm.label.required", "value": {"label": 1}},
            {"type": "olm.bundle.object", "value": {"data": broken}},
            {"type": "olm.bundle.object", "value": {"data": base64::encode("- a\n")}},
            {"type": "olm.csv.metadata", "value": {}},
            {"type": "olm.csv.metadata", "value": {}},
        ]}),
        json!({"schema": "a/b"}),
    ];
    let text: String = documents.iter().map(|one| format!("{one}\n")).collect();
    std::fs::write(catalog.path().join("c.json"), text).expect("written");
    check(catalog.path()).expect("valid");
    let report = report(catalog.path(), None);
    let warnings: Vec<String> = report
        .warnings
        .iter()
        .map(|(text, origin)| format!("{text} ({origin})"))
        .collect();
    assert_eq!(
        warnings,
        [
            "package \"p\" bundle \"p.v1\": property[1]: value of property type \"olm.label\": expected an object, found string, so \
             nothing can match it (c.json, document 3)",
            "package \"p\" bundle \"p.v1\": property[2]: value of property type \"olm.label.required\": field label: expected a string, \
             found number, so nothing can match it (c.json, document 3)",
            "package \"p\" bundle \"p.v1\": property[4] of type \"olm.bundle.object\" is not an object but array, so the bundle \
             cannot be installed (c.json, document 3)",
            "package \"p\" bundle \"p.v1\": it has 2 properties of type \"olm.csv.metadata\", of which only the first is used \
             (c.json, document 3)",
            "invalid schema \"a/b\": must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$: it is not served, because no client can request it \
             (c.json, document 4)",
        ]
    );
}

/// Catalogs of the corpus are served (`recorded.rs` serves all valid ones as one). A catalog that upstream
/// rejects need not be valid, but if it is, it is served.
#[test]
fn the_corpus_is_served() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    for (folder, step) in [("fbc", 8), ("refused", 1)] {
        let entries = std::fs::read_dir(corpus.join(folder)).expect("folder");
        let mut folders: Vec<_> = entries.map(|entry| entry.expect("entry").path()).collect();
        folders.sort();
        for catalog in folders.iter().filter(|path| path.is_dir()).step_by(step) {
            let is_valid = check(catalog).is_some();
            assert!(is_valid || folder == "refused", "{}", catalog.display());
        }
    }
}
