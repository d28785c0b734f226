#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use olm_fbc::load::Origin;
use olm_fbc::validate::{Checker, Model};

use super::*;

/// Schema of the newest databases.
const NEWEST: &str = "
CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT, bundlepath TEXT, skiprange TEXT, version TEXT, replaces TEXT, skips TEXT, substitutesfor TEXT);
CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT);
CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT);
CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, operatorbundle_name TEXT, replaces INTEGER, depth INTEGER);
CREATE TABLE api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL);
CREATE TABLE api_provider (group_name TEXT, version TEXT, kind TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT);
CREATE TABLE api_requirer (group_name TEXT, version TEXT, kind TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT);
CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT);
CREATE TABLE dependencies (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT);
CREATE TABLE properties (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT);
CREATE TABLE deprecated (operatorbundle_name TEXT PRIMARY KEY);
INSERT INTO package VALUES ('p', 'stable');
INSERT INTO channel VALUES ('stable', 'p', 'p.v2');
INSERT INTO channel_entry VALUES (1, 'stable', 'p', 'p.v2', 2, 0), (2, 'stable', 'p', 'p.v1', 3, 1), (3, 'stable', 'p', 'p.v0', NULL, 2), (4, 'stable', 'p', 'p.v2', 5, 0), (5, 'stable', 'p', 'p.v1.5', NULL, 1);
INSERT INTO operatorbundle VALUES ('p.v1', NULL, NULL, 'q.io/p:1', '<1.0.0', '1.0.0', 'p.v0', '', '');
INSERT INTO operatorbundle VALUES ('p.v0', NULL, NULL, 'q.io/p:0', '', '0.1.0', '', '', '');
INSERT INTO operatorbundle VALUES ('p.v2',
  '{\"kind\":\"ClusterServiceVersion\",\"metadata\":{\"name\":\"p.v2\"},\"spec\":{\"icon\":[{\"base64data\":\"iVBO Rw0KGgo=\",\"mediatype\":\"image/png\"}],\"relatedImages\":[{\"name\":\"r\",\"image\":\"q.io/r:1\"}]}}',
  '{\"kind\":\"ClusterServiceVersion\",\"metadata\":{\"name\":\"p.v2\"}}\n{\"kind\":\"Service\",\"metadata\":{\"name\":\"s\"}}\n',
  'q.io/p:2', '', '2.0.0', 'p.v1', 'p.v1.5', '');
INSERT INTO related_image VALUES ('q.io/r:1', 'p.v2'), ('q.io/x:1', 'p.v2');
INSERT INTO properties VALUES ('olm.package', '{\"packageName\":\"p\",\"version\":\"2.0.0\"}', 'p.v2', '2.0.0', 'q.io/p:2');
INSERT INTO properties VALUES ('olm.deprecated', '{}', 'p.v0', '0.1.0', 'q.io/p:0');
INSERT INTO dependencies VALUES ('olm.package', '{\"packageName\":\"q\",\"version\":\">1.0.0\"}', 'p.v2', '2.0.0', 'q.io/p:2');
INSERT INTO dependencies VALUES ('olm.gvk', '{\"group\":\"g\",\"kind\":\"K\",\"version\":\"v1\"}', 'p.v2', '2.0.0', 'q.io/p:2');
INSERT INTO api_provider VALUES ('p.io', 'v1', 'Thing', 'p.v2', '2.0.0', 'q.io/p:2');
";

/// Schema of the first databases: all data is in the CSV.
const OLDEST: &str = "
CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT UNIQUE, bundle TEXT);
CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT);
CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT);
CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, operatorbundle_name TEXT, replaces INTEGER, depth INTEGER);
CREATE TABLE api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL);
CREATE TABLE api_provider (group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER);
INSERT INTO package VALUES ('p', 'stable');
INSERT INTO channel VALUES ('stable', 'p', 'p.v2');
INSERT INTO channel_entry VALUES (1, 'stable', 'p', 'p.v2', 2, 0), (2, 'stable', 'p', 'p.v1', NULL, 1);
INSERT INTO operatorbundle VALUES ('p.v1', '{\"kind\":\"ClusterServiceVersion\",\"spec\":{\"version\":\"1.0.0\"}}', '{\"kind\":\"Service\"}');
INSERT INTO operatorbundle VALUES ('p.v2', '{\"kind\":\"ClusterServiceVersion\",\"metadata\":{\"annotations\":{\"olm.skipRange\":\"<2.0.0\"}},\"spec\":{\"version\":\"2.0.0\",\"replaces\":\"p.v1\",\"skips\":[\"p.v1.1\"]}}', '{\"kind\":\"Service\",\"a\":2}');
INSERT INTO api_provider VALUES ('p.io', 'v1', 'Thing', 1);
";

fn database(sql: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("index.db");
    Connection::open(&path)
        .expect("database")
        .execute_batch(sql)
        .expect("tables");
    (dir, path)
}

fn checked(blobs: &[Blob]) -> Model {
    let mut checker = Checker::default();
    for blob in blobs {
        let origin = Origin {
            file: "db".into(),
            document: 1,
        };
        checker.add(blob, &origin);
    }
    checker.finish().unwrap_or_else(|faults| panic!("{faults}"))
}

fn bundle(blobs: &[Blob], name: &str) -> Value {
    let found = blobs
        .iter()
        .find(|blob| blob.name() == name && matches!(blob, Blob::Bundle(_)));
    found.expect("bundle").to_value()
}

#[test]
fn fbc_011_catalogs_of_the_sqlite_format_are_read_as_files() {
    let (_dir, path) = database(NEWEST);
    let blobs = read(&path).expect("blobs");
    let model = checked(&blobs);
    let package = &model.packages["p"];
    assert_eq!(package.package.default_channel, "stable");
    assert_eq!(
        package.package.icon.as_ref().expect("icon").base64data,
        "iVBORw0KGgo="
    );
    let entries = &package.channels["stable"].entries;
    let edges: Vec<_> = entries
        .iter()
        .map(|entry| {
            format!(
                "{} > {} ! {} ~ {}",
                entry.name,
                entry.replaces,
                entry.skips.join(","),
                entry.skip_range
            )
        })
        .collect();
    assert_eq!(
        edges,
        ["p.v1 > p.v0 !  ~ <1.0.0", "p.v2 > p.v1 ! p.v1.5 ~ "],
        "p.v0 is deprecated and left out"
    );
    let newest = bundle(&blobs, "p.v2");
    let kinds: Vec<&str> = newest["properties"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(|property| property["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "olm.gvk",
            "olm.gvk.required",
            "olm.package",
            "olm.package.required",
            "olm.bundle.object",
            "olm.bundle.object"
        ]
    );
    assert_eq!(
        newest["properties"][3]["value"],
        json!({"packageName": "q", "versionRange": ">1.0.0"})
    );
    assert_eq!(newest["image"], "q.io/p:2");
    assert_eq!(
        newest["relatedImages"],
        json!([{"name": "r", "image": "q.io/r:1"}, {"name": "", "image": "q.io/x:1"}, {"name": "", "image": "q.io/p:2"}])
    );
}

#[test]
fn the_oldest_databases_are_read_too() {
    let (_dir, path) = database(OLDEST);
    let blobs = read(&path).expect("blobs");
    let model = checked(&blobs);
    let entry = &model.packages["p"].channels["stable"].entries[1];
    assert_eq!(
        (entry.replaces.as_str(), entry.skip_range.as_str()),
        ("p.v1", "<2.0.0")
    );
    assert_eq!(entry.skips, ["p.v1.1"]);
    assert_eq!(
        bundle(&blobs, "p.v2")["properties"][0],
        json!({"type": "olm.gvk", "value": {"group": "p.io", "kind": "Thing", "version": "v1"}})
    );
}

#[test]
fn other_databases_and_broken_ones_are_reported() {
    let (_dir, path) = database("CREATE TABLE package (name TEXT)");
    let error = format!("{:#}", read(&path).expect_err("no catalog"));
    assert!(
        error.contains("index.db") && error.contains("it has no table channel"),
        "{error}"
    );
    std::fs::write(&path, [MAGIC, &[0; 200]].concat()).expect("file");
    assert!(read(&path).is_err());
    let (_dir, path) = database(&NEWEST.replace("'{}', 'p.v0'", "'{', 'p.v0'"));
    let error = format!("{:#}", read(&path).expect_err("broken value"));
    assert!(
        error.contains("bundle \"p.v0\": properties of type \"olm.deprecated\""),
        "{error}"
    );
}
