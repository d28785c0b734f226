use std::fs;

use super::*;

pub(crate) const CATALOG: &str = r#"
schema: olm.package
name: p
defaultChannel: c
---
schema: olm.channel
package: p
name: c
entries: [{name: p.v1}]
---
schema: olm.bundle
package: p
name: p.v1
image: quay.io/x/p:1
properties:
- {type: olm.package, value: {packageName: p, version: 1.0.0}}
- {type: olm.csv.metadata, value: {displayName: P}}
"#;

fn built() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("folder");
    fs::create_dir(dir.path().join("catalog")).expect("folder");
    fs::write(dir.path().join("catalog/c.yaml"), CATALOG).expect("catalog");
    let path = dir.path().join("index");
    build(&dir.path().join("catalog"), &path).expect("index");
    (dir, path)
}

#[test]
fn an_index_opens_and_knows_its_catalog() {
    let (dir, path) = built();
    let index = Index::open(&path).expect("index");
    assert_eq!(index.directory().entries.len(), 1);
    let digest = catalog_digest(&dir.path().join("catalog")).expect("digest");
    assert_eq!(index.digest(), digest);
    fs::write(dir.path().join("catalog/d.yaml"), "schema: custom\n").expect("file");
    assert_ne!(
        catalog_digest(&dir.path().join("catalog")).expect("digest"),
        digest
    );
}

#[test]
fn building_twice_gives_the_same_bytes() {
    let (dir, path) = built();
    let again = dir.path().join("again");
    build(&dir.path().join("catalog"), &again).expect("index");
    assert_eq!(fs::read(path).expect("first"), fs::read(again).expect("second"));
}

#[test]
fn what_is_no_index_is_refused() {
    let (_dir, path) = built();
    let good = fs::read(&path).expect("bytes");
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("write");
        Index::open(&path)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(open(b"short").ends_with("is not a catalog index"));
    assert!(open(&[b'x'; 200]).ends_with("is not a catalog index"));
    let mut other = good.clone();
    other[8] = 9;
    assert!(open(&other).ends_with(&format!("has format 9, expected {VERSION}")));
    assert!(open(&good[..good.len() - 1]).ends_with("its length does not match its header"));
    let mut altered = good.clone();
    *altered.last_mut().expect("byte") ^= 1;
    assert!(open(&altered).ends_with("its directory does not match its checksum"));
    assert_eq!(open(&good), "");
    let index = Index::open(&path).expect("index");
    index.verify().expect("whole");
    let messages = HEADER_BYTES as usize..index.body_end as usize;
    for at in messages.step_by(7) {
        let mut altered = good.clone();
        altered[at] ^= 4;
        fs::write(&path, &altered).expect("write");
        let error = Index::open(&path)
            .expect("its directory is whole")
            .verify()
            .expect_err("altered");
        assert!(
            error
                .to_string()
                .ends_with("its messages do not match their checksum"),
            "{error}"
        );
    }
    fs::remove_file(&path).expect("remove");
    assert!(matches!(Index::open(&path), Err(IndexError::Read { .. })));
}

#[test]
fn an_invalid_catalog_leaves_no_file() {
    let dir = tempfile::tempdir().expect("folder");
    fs::create_dir(dir.path().join("catalog")).expect("folder");
    let broken = CATALOG.replace("entries: [{name: p.v1}]", "entries: []");
    fs::write(dir.path().join("catalog/c.yaml"), broken).expect("catalog");
    let path = dir.path().join("index");
    let error = build(&dir.path().join("catalog"), &path).expect_err("invalid");
    assert!(matches!(error, BuildError::Invalid(_)), "{error}");
    assert!(error.to_string().contains("not found in any channel entries"));
    assert_eq!(fs::read_dir(dir.path()).expect("folder").count(), 1);
}

/// No client can request such a schema, but the packages beside it are still useful.
#[test]
fn a_custom_schema_without_a_plain_name_is_left_out() {
    let dir = tempfile::tempdir().expect("folder");
    fs::write(dir.path().join("c.yaml"), CATALOG).expect("catalog");
    fs::write(dir.path().join("d.yaml"), "schema: a/b\n---\nschema: plain\n").expect("catalog");
    let target = tempfile::tempdir().expect("folder");
    let path = target.path().join("index");
    build(dir.path(), &path).expect("built");
    let index = Index::open(&path).expect("index");
    let schemas: Vec<_> = index
        .directory()
        .schemas
        .iter()
        .map(|one| one.schema.as_str())
        .collect();
    assert_eq!(schemas, ["plain"]);
    assert_eq!(index.entry_count(), 1);
}
