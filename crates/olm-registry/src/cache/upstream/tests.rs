use std::fs::{self, Permissions};
use std::os::unix::fs::symlink;

use super::*;
use crate::cache;

/// Sets the modes below `path` that a container build leaves, ours and upstream's both.
fn fix_modes(path: &Path) {
    for entry in fs::read_dir(path).expect("folder") {
        let path = entry.expect("entry").path();
        if path.is_symlink() {
            continue;
        }
        let mode = if path.is_dir() {
            fix_modes(&path);
            0o755
        } else {
            0o644
        };
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("mode");
    }
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("mode");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("folder") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copy");
        }
    }
}

/// Copies the catalog of odd cases to a folder of its own.
fn odd_catalog(dir: &Path) -> PathBuf {
    let catalog = dir.join("catalog");
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd/catalog"),
        &catalog,
    );
    fix_modes(&catalog);
    catalog
}

fn written(catalog: &Path, cache_dir: &Path) -> String {
    let index = cache::open_or_build(catalog, cache_dir).expect("index");
    write(&index, catalog, cache_dir).expect("written");
    fs::read_to_string(cache_dir.join(DIGEST)).expect("digest")
}

/// Digests that upstream's opm computes for these catalogs, over the files it writes itself.
#[test]
fn the_digest_is_the_one_that_upstream_computes() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = odd_catalog(dir.path());
    assert_eq!(written(&catalog, &dir.path().join("cache")), "ec743caa9b3c7cad");
}

/// Writes a catalog of one custom schema among ignored files, which exercise the headers of the archive.
fn awkward_catalog(dir: &Path) -> PathBuf {
    let catalog = dir.join("catalog");
    let folder = |path: &str| fs::create_dir_all(catalog.join(path)).expect("folder");
    let file = |path: &str, bytes: &[u8]| fs::write(catalog.join(path), bytes).expect("file");
    folder("ignored/empty");
    file(".indexignore", b"ignored\n");
    file("catalog.yaml", b"schema: custom\nname: x\n");
    for size in [0, 1, 511, 512, 513, 1025] {
        file(&format!("ignored/size-{size}"), &vec![b'x'; size]);
    }
    // Names of 100 and 101 characters, a prefix of up to 155 and beyond, and a name that cannot be split.
    file(&format!("ignored/{}", "n".repeat(92)), b"a");
    file(&format!("ignored/{}", "n".repeat(93)), b"a");
    file(&format!("ignored/{}", "m".repeat(100)), b"a");
    file(&format!("ignored/{}", "m".repeat(101)), b"a");
    let deep = format!("ignored/{}/{}", "d".repeat(70), "e".repeat(76));
    folder(&deep);
    file(&format!("{deep}/{}", "f".repeat(100)), b"b");
    folder(&format!("{deep}-"));
    file(&format!("{deep}-/{}", "f".repeat(90)), b"c");
    file("ignored/\u{e9}t\u{e9}", b"d");
    folder("ignored/\u{fc}ber");
    file("ignored/\u{fc}ber/file", b"e");
    symlink("catalog.yaml", catalog.join("ignored/link")).expect("link");
    fix_modes(&catalog);
    let mode = |path: &str, mode| {
        fs::set_permissions(catalog.join(path), Permissions::from_mode(mode)).expect("mode");
    };
    mode("ignored/size-1", 0o600);
    mode("ignored/size-512", 0o755);
    mode("ignored/empty", 0o2775);
    catalog
}

#[test]
fn headers_of_any_name_and_size_are_those_of_upstream() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = awkward_catalog(dir.path());
    assert_eq!(written(&catalog, &dir.path().join("cache")), "3d1cc944f8bae7b0");
}

/// The bundles of the layout, read as upstream reads them, equal those of our answers.
#[test]
fn what_is_written_reads_as_what_is_answered() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = odd_catalog(dir.path());
    let cache_dir = dir.path().join("cache");
    written(&catalog, &cache_dir);
    let index = cache::open_checked(&catalog, &cache_dir).expect("index");
    let read = |name: &str| -> serde_json::Value {
        let text = fs::read(cache_dir.join(FOLDER).join(name)).expect(name);
        serde_json::from_slice(&text).expect("JSON")
    };
    let packages = read("packages.json");
    let mut entries = 0;
    for (package, record) in packages.as_object().expect("object") {
        let answered = index.package(package).expect("package");
        assert_eq!(record["defaultChannel"], answered.default_channel_name);
        assert_eq!(
            record["Channels"].as_object().map(serde_json::Map::len),
            Some(answered.channels.len())
        );
        for channel in &answered.channels {
            let kept = &record["Channels"][&channel.name];
            assert_eq!(kept["Head"], channel.csv_name);
            let deprecation = channel
                .deprecation
                .as_ref()
                .map(|deprecation| deprecation.message.as_str());
            assert_eq!(kept["deprecation"]["message"].as_str(), deprecation);
            for (name, entry) in kept["Bundles"].as_object().expect("object") {
                entries += 1;
                let bytes = index
                    .bundle(package, &channel.name, name)
                    .expect("bundle")
                    .to_bytes()
                    .expect("read");
                let bundle =
                    <crate::proto::Bundle as prost::Message>::decode(bytes.as_slice()).expect("message");
                let file = read(&format!("{package}_{}_{name}.json", channel.name));
                let text = |field: &str| file[field].as_str().unwrap_or_default().to_owned();
                assert_eq!(text("csvJson"), bundle.csv_json);
                assert_eq!(text("bundlePath"), bundle.bundle_path);
                assert_eq!(text("version"), bundle.version);
                assert_eq!(text("skipRange"), bundle.skip_range);
                let pairs = |field: &str| -> Vec<(String, String)> {
                    let list = file[field].as_array().cloned().unwrap_or_default();
                    let pair = |pair: serde_json::Value| {
                        let text = |field: &str| pair[field].as_str().unwrap_or_default().to_owned();
                        (text("type"), text("value"))
                    };
                    list.into_iter().map(pair).collect()
                };
                let answered = bundle
                    .properties
                    .into_iter()
                    .map(|property| (property.r#type, property.value));
                assert!(pairs("properties").into_iter().eq(answered));
                let answered = bundle
                    .dependencies
                    .into_iter()
                    .map(|dependency| (dependency.r#type, dependency.value));
                assert!(pairs("dependencies").into_iter().eq(answered));
                assert_eq!(file["object"].as_array().map_or(0, Vec::len), bundle.object.len());
                assert_eq!(file["replaces"].as_str().unwrap_or_default(), entry["replaces"]);
            }
        }
    }
    assert_eq!(entries, index.entry_count());
    let notes = fs::read_dir(cache_dir.join("cache/metas/custom.note/alpha")).expect("folder");
    assert_eq!(
        notes.count(),
        index.custom_blobs("custom.note", "alpha").expect("blobs").len()
    );
}

#[test]
fn files_have_the_modes_of_upstream_and_nothing_else_is_left() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = odd_catalog(dir.path());
    let cache_dir = dir.path().join("cache");
    written(&catalog, &cache_dir);
    fn check(path: &Path) {
        let mode = fs::metadata(path).expect("file").permissions().mode() & 0o7777;
        if path.is_dir() {
            assert_eq!(mode, 0o750, "{}", path.display());
            for entry in fs::read_dir(path).expect("folder") {
                check(&entry.expect("entry").path());
            }
        } else {
            assert_eq!(mode, 0o640, "{}", path.display());
        }
    }
    check(&cache_dir.join(FOLDER));
    check(&cache_dir.join(DIGEST));
    let mut names: Vec<_> = fs::read_dir(&cache_dir)
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, [FOLDER, DIGEST, cache::INDEX_FILE]);
}

#[test]
fn matching_objects_stay_and_others_are_written_again() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = odd_catalog(dir.path());
    let cache_dir = dir.path().join("cache");
    let first = written(&catalog, &cache_dir);
    let packages = cache_dir.join("cache/packages.json");
    let changed = |path: &Path| fs::metadata(path).expect("file").modified().expect("time");
    let before = changed(&packages);
    assert_eq!(written(&catalog, &cache_dir), first);
    assert_eq!(changed(&packages), before, "not written again");

    fs::write(&packages, "{}").expect("damage");
    assert_eq!(written(&catalog, &cache_dir), first, "repaired");
    fs::write(cache_dir.join("cache/more.json"), "{}").expect("damage");
    assert_eq!(written(&catalog, &cache_dir), first, "cleaned");
    fs::remove_file(cache_dir.join(DIGEST)).expect("damage");
    assert_eq!(written(&catalog, &cache_dir), first, "completed");
    // Upstream prefers its database, which would be of an earlier catalog.
    fs::create_dir_all(cache_dir.join("pogreb.v1/db")).expect("folder");
    assert_eq!(written(&catalog, &cache_dir), first);
    assert!(!cache_dir.join(DATABASE).exists());

    fs::write(catalog.join("more.yaml"), "schema: custom\n").expect("file");
    assert_ne!(written(&catalog, &cache_dir), first, "another catalog");
}

#[test]
fn a_broken_attempt_leaves_what_was_there() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = odd_catalog(dir.path());
    let cache_dir = dir.path().join("cache");
    let first = written(&catalog, &cache_dir);
    let index = cache::open_checked(&catalog, &cache_dir).expect("index");
    fs::remove_dir_all(&catalog).expect("removed");
    assert!(
        write(&index, &catalog, &cache_dir).is_err(),
        "no catalog to make a digest of"
    );
    assert_eq!(fs::read_to_string(cache_dir.join(DIGEST)).expect("digest"), first);
    assert!(cache_dir.join("cache/packages.json").exists());
    assert_eq!(
        fs::read_dir(&cache_dir).expect("folder").count(),
        3,
        "nothing half done"
    );
}

#[test]
fn names_that_are_no_file_names_are_reported() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = dir.path().join("catalog");
    fs::create_dir(&catalog).expect("folder");
    for channel in ["with/slash".to_owned(), "x".repeat(255)] {
        let text = format!(
            r#"{{"schema": "olm.package", "name": "p", "defaultChannel": "{channel}"}}
            {{"schema": "olm.channel", "package": "p", "name": "{channel}", "entries": [{{"name": "p.v1"}}]}}
            {{"schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "quay.io/p/p:1",
              "properties": [{{"type": "olm.package", "value": {{"packageName": "p", "version": "1.0.0"}}}}]}}"#
        );
        fs::write(catalog.join("c.json"), text).expect("catalog");
        let cache_dir = dir.path().join("cache");
        let index = cache::open_or_build(&catalog, &cache_dir).expect("index");
        let error = write(&index, &catalog, &cache_dir).expect_err("no file name");
        assert!(error.is_of_names(), "{error}");
        assert_eq!(
            fs::read_dir(&cache_dir).expect("folder").count(),
            1,
            "the index only"
        );
    }
}
