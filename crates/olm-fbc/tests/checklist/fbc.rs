//! Files, folders and their joint content.

use std::path::Path;

use olm_fbc::load;
use olm_fbc::validate::validate;
use olm_fbc::yaml;
use serde_json::{Value, json};

use super::catalogs::{accepted, base, check, json_text, names, refused, write};

#[test]
fn fbc_001_plain_json_or_yaml_edited_by_hand_is_checked() {
    for (file, text) in [
        ("c.json", json_text(&base())),
        ("c.yaml", yaml::to_string_all(&base()).expect("YAML")),
    ] {
        let dir = tempfile::tempdir().expect("folder");
        write(dir.path(), file, &text);
        validate(dir.path()).unwrap_or_else(|faults| panic!("{faults}"));
        let edited = text.replace("p.v1", "p.v9");
        write(dir.path(), file, &edited);
        validate(dir.path()).unwrap_or_else(|faults| panic!("a consistent edit is fine: {faults}"));
        let edited = text
            .replacen("\"p.v0\"", "\"p.v2\"", 1)
            .replacen("replaces: p.v0", "replaces: p.v2", 1);
        write(dir.path(), file, &edited);
        assert!(
            validate(dir.path()).is_err(),
            "an edit that breaks the graph is told"
        );
    }
}

#[test]
fn fbc_002_any_layout_below_the_root_is_loaded() {
    let dir = tempfile::tempdir().expect("folder");
    for (index, blob) in base().iter().enumerate() {
        let file = ["a", "b/c", "b/d/e/f.txt", "b/d/g.json", "h/i.yaml"][index];
        write(dir.path(), file, &blob.to_string());
    }
    let model = validate(dir.path()).expect("valid");
    assert_eq!(model.packages["p"].bundles.len(), 2);
}

#[test]
fn fbc_003_every_file_is_tried_and_any_error_fails() {
    let dir = tempfile::tempdir().expect("folder");
    write(dir.path(), "c.json", &json_text(&base()));
    validate(dir.path()).expect("valid");
    write(dir.path(), "deep/README.md", "# Title\n");
    let error = validate(dir.path()).expect_err("no blob").to_string();
    assert!(error.contains("deep/README.md"), "{error}");
    assert!(load::load(dir.path()).is_err());
}

#[test]
fn fbc_004_indexignore_has_the_rules_of_gitignore() {
    let dir = tempfile::tempdir().expect("folder");
    write(dir.path(), "c.json", &json_text(&base()));
    for file in [
        "a.md",
        "x/b.md",
        "x/keep.md",
        "y/note",
        "z/skip/this",
        "x/only/here.txt",
        "only/here.txt",
    ] {
        write(dir.path(), file, "{\"schema\": \"custom\"}");
    }
    write(
        dir.path(),
        ".indexignore",
        "# comment\n\n*.md\n!keep.md\n/y/note\nskip/\n",
    );
    write(dir.path(), "x/.indexignore", "only/*.txt\n");
    let files: Vec<String> = load::files(dir.path())
        .expect("files")
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(files, ["c.json", "only/here.txt", "x/keep.md"]);
}

#[test]
fn fbc_005_the_example_indexignore_loads_json_and_yaml_outside_of_objects() {
    let dir = tempfile::tempdir().expect("folder");
    write(
        dir.path(),
        ".indexignore",
        "# Ignore everything except non-object .json and .yaml files\n**/*\n!*.json\n!*.yaml\n**/objects/*.json\n**/objects/*.yaml\n",
    );
    for file in [
        "index.yaml",
        "p/index.json",
        "p/README.md",
        "p/objects/a.json",
        "p/objects/a.yaml",
        "objects/b.yaml",
        "Makefile",
    ] {
        write(dir.path(), file, "{\"schema\": \"custom\"}");
    }
    let files: Vec<String> = load::files(dir.path())
        .expect("files")
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(files, ["index.yaml", "p/index.json"]);
}

#[test]
fn fbc_006_json_and_yaml_may_be_mixed() {
    let dir = tempfile::tempdir().expect("folder");
    let blobs = base();
    write(dir.path(), "a.json", &json_text(&blobs[..2]));
    write(
        dir.path(),
        "b.yaml",
        &yaml::to_string_all(&blobs[2..]).expect("YAML"),
    );
    let model = validate(dir.path()).expect("valid");
    assert_eq!(model, check(&blobs).expect("valid"));
}

/// Returns package `name` with one bundle.
fn package(name: &str) -> Vec<Value> {
    let text = json_text(&base())
        .replace("\"p\"", &format!("{name:?}"))
        .replace("\"p.v", &format!("\"{name}.v"));
    serde_json::Deserializer::from_str(&text)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("JSON")
}

fn example_layout(root: &Path) {
    write(
        root,
        "packageA/index.yaml",
        &yaml::to_string_all(&package("a")).expect("YAML"),
    );
    write(root, "packageB/.indexignore", "objects\n");
    write(
        root,
        "packageB/index.yaml",
        &yaml::to_string_all(&package("b")).expect("YAML"),
    );
    write(
        root,
        "packageB/objects/packageB.v0.1.0.clusterserviceversion.yaml",
        "kind: ClusterServiceVersion\n",
    );
    write(root, "packageC/index.json", &json_text(&package("c")));
    let deprecations = json!({"schema": "olm.deprecations", "package": "c",
        "entries": [{"reference": {"schema": "olm.bundle", "name": "c.v1"}, "message": "old"}]});
    write(
        root,
        "packageC/deprecations.yaml",
        &yaml::to_string(&deprecations).expect("YAML"),
    );
}

#[test]
fn fbc_007_the_example_layout_is_one_catalog() {
    let dir = tempfile::tempdir().expect("folder");
    example_layout(dir.path());
    let model = validate(dir.path()).expect("valid");
    assert_eq!(model.packages.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(model.packages["c"].deprecations.bundles["c.v1"], "old");
}

#[test]
fn fbc_008_each_package_directory_is_a_catalog_of_its_own() {
    let dir = tempfile::tempdir().expect("folder");
    example_layout(dir.path());
    for (folder, name) in [("packageA", "a"), ("packageB", "b"), ("packageC", "c")] {
        let model = validate(&dir.path().join(folder)).expect("valid");
        assert_eq!(model.packages.keys().collect::<Vec<_>>(), [name]);
    }
}

#[test]
fn fbc_009_catalogs_are_combined_and_cut_by_copying() {
    let dir = tempfile::tempdir().expect("folder");
    for name in ["a", "b", "c"] {
        write(
            dir.path(),
            &format!("catalogC/{name}/index.json"),
            &json_text(&package(name)),
        );
    }
    let combined = dir.path().join("catalogC");
    assert_eq!(validate(&combined).expect("valid").packages.len(), 3);
    std::fs::remove_dir_all(combined.join("b")).expect("removed");
    assert_eq!(
        validate(&combined)
            .expect("valid")
            .packages
            .keys()
            .collect::<Vec<_>>(),
        ["a", "c"]
    );
}

#[test]
fn fbc_010_duplicate_packages_and_bundles_are_errors() {
    refused(|blobs| blobs.push(blobs[0].clone()), "duplicate package \"p\"");
    refused(
        |blobs| blobs.push(blobs[3].clone()),
        "package \"p\" has duplicate bundle \"p.v1\"",
    );
}

#[test]
fn fbc_012_editing_files_changes_default_channel_edges_and_channels() {
    let model = accepted(|blobs| {
        blobs[0]["defaultChannel"] = json!("fast");
        blobs[1]["entries"][1]["replaces"] = json!("p.v0.9");
        blobs[2]["entries"] = json!([{"name": "p.v2", "skips": ["p.v1"]}, {"name": "p.v1"}]);
    });
    let package = &model.packages["p"];
    assert_eq!(package.package.default_channel, "fast");
    assert_eq!(package.channels["stable"].entries[1].replaces, "p.v0.9");
    assert_eq!(
        package.channels["fast"].entries.len(),
        2,
        "p.v1 was promoted to fast"
    );
}

#[test]
fn fbc_013_tools_may_add_properties() {
    let model = accepted(|blobs| {
        for blob in &mut blobs[3..] {
            let properties = blob["properties"].as_array_mut().expect("list");
            properties.push(json!({"type": "example.io/tested", "value": {"on": ["k8s"]}}));
        }
    });
    assert_eq!(model.packages["p"].bundles.len(), 2);
}

#[test]
fn names_below_a_root_are_read_in_order() {
    let dir = tempfile::tempdir().expect("folder");
    write(
        dir.path(),
        "b.json",
        "{\"schema\": \"z\", \"name\": \"2\"}{\"schema\": \"z\", \"name\": \"3\"}",
    );
    write(dir.path(), "a.json", "{\"schema\": \"z\", \"name\": \"1\"}");
    assert_eq!(names(dir.path()), ["z 1", "z 2", "z 3"]);
}
