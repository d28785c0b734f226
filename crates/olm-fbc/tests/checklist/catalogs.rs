//! A valid catalog, and the results of changing it.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::Path;

use olm_fbc::load;
use olm_fbc::validate::Model;
use olm_fbc::validate::validate;
use serde_json::{Value, json};

/// Returns a valid catalog of package `p`: channels `stable` (p.v2 replaces p.v1) and `fast` (p.v2).
pub fn base() -> Vec<Value> {
    vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable", "description": "d",
            "icon": {"base64data": "aGVsbG8=", "mediatype": "image/png"}}),
        json!({"schema": "olm.channel", "package": "p", "name": "stable",
            "entries": [{"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v1", "replaces": "p.v0"}]}),
        json!({"schema": "olm.channel", "package": "p", "name": "fast", "entries": [{"name": "p.v2"}]}),
        bundle("p.v1", "1.0.0"),
        bundle("p.v2", "2.0.0"),
    ]
}

pub fn bundle(name: &str, version: &str) -> Value {
    json!({"schema": "olm.bundle", "package": "p", "name": name, "image": format!("quay.io/x/p:{version}"),
        "properties": [
            {"type": "olm.package", "value": {"packageName": "p", "version": version}},
            {"type": "olm.gvk", "value": {"group": "g.io", "version": "v1", "kind": "K"}},
        ],
        "relatedImages": [{"name": "x", "image": "quay.io/x/y:1"}, {"image": "quay.io/x/z:1"}]})
}

pub fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    std::fs::write(path, text).expect("file");
}

pub fn json_text(blobs: &[Value]) -> String {
    blobs.iter().map(|blob| format!("{blob}\n")).collect()
}

pub fn check(blobs: &[Value]) -> Result<Model, String> {
    let dir = tempfile::tempdir().expect("folder");
    write(dir.path(), "catalog.json", &json_text(blobs));
    validate(dir.path()).map_err(|faults| faults.to_string())
}

/// Checks the valid catalog after a change.
pub fn changed(change: impl FnOnce(&mut Vec<Value>)) -> Result<Model, String> {
    let mut blobs = base();
    change(&mut blobs);
    check(&blobs)
}

#[track_caller]
pub fn refused(change: impl FnOnce(&mut Vec<Value>), expected: &str) {
    let error = changed(change).expect_err(expected);
    assert!(error.contains(expected), "expected {expected}\nfound {error}");
}

#[track_caller]
pub fn accepted(change: impl FnOnce(&mut Vec<Value>)) -> Model {
    changed(change).unwrap_or_else(|error| panic!("{error}"))
}

pub fn names(root: &Path) -> Vec<String> {
    load::load(root)
        .expect("catalog")
        .iter()
        .map(|blob| format!("{} {}", blob.schema(), blob.name()))
        .collect()
}
