//! Tests of the bundle store.

use super::*;

fn bundle(csv: Value) -> UnpackedBundle {
    UnpackedBundle {
        image: "r/b@sha256:00".to_owned(),
        csv,
        objects: vec![
            BundleFile {
                name: "a.yaml".to_owned(),
                object: json!({"kind": "A", "text": "ü \u{0} \n\"", "list": [1, -2, 0.1, 1e300, null, true]}),
            },
            BundleFile {
                name: "b.yaml".to_owned(),
                object: json!({"kind": "B", "large": u64::MAX, "small": i64::MIN}),
            },
        ],
        left_out: vec!["file `c` is skipped".to_owned()],
    }
}

/// A bundle of an image of this name, whose file has about `size` bytes.
fn sized(name: &str, size: usize) -> UnpackedBundle {
    UnpackedBundle {
        image: name.to_owned(),
        csv: json!("x".repeat(size)),
        ..UnpackedBundle::default()
    }
}

fn store(dir: &Path, max_bytes: u64) -> BundleStore {
    BundleStore {
        max_bytes,
        ..BundleStore::new(Some(dir.to_owned()))
    }
}

/// Makes a file or folder this much older.
fn age(path: &Path, seconds: u64) {
    let file = File::open(path).unwrap();
    let used = file.metadata().unwrap().modified().unwrap();
    file.set_modified(used - Duration::from_secs(seconds)).unwrap();
}

#[test]
fn what_is_stored_comes_back_as_it_was() {
    let store = BundleStore::new(None);
    let bundle = bundle(json!({"metadata": {"name": "a.v1"}}));
    let stored = store.put("ns", &bundle, true).unwrap();
    assert_eq!(stored.read().as_ref(), Some(&bundle));
    assert_eq!(store.image("ns", &bundle.image).read().as_ref(), Some(&bundle));
    let folder = store.dir.clone();
    drop(store);
    assert!(!folder.exists(), "it was not configured");
}

/// What a Job or a catalog has supplied is not what a registry has.
#[test]
fn only_pulled_content_is_found_by_the_name_of_its_image() {
    let store = BundleStore::new(None);
    let bundle = bundle(json!({}));
    let stored = store.put("ns", &bundle, false).unwrap();
    assert_eq!(stored.read().as_ref(), Some(&bundle));
    assert_eq!(store.image("ns", &bundle.image).read(), None);
}

#[test]
fn one_namespaces_content_is_not_anothers_whatever_it_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir.path().join("store"), 1 << 20);
    let one = bundle(json!({}));
    store.put("a", &one, true).unwrap();
    for other in ["b", "", "../a", "/"] {
        assert_eq!(store.image(other, &one.image).read(), None, "{other}");
        store.put(other, &one, true).unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(&store.dir).unwrap().count(), 5);
}

#[test]
fn any_damage_is_noticed_and_the_file_removed() {
    let store = BundleStore::new(None);
    let stored = store.put("ns", &bundle(json!({})), true).unwrap();
    let good = std::fs::read(&stored.path).unwrap();
    let is_noticed = |bytes: &[u8]| {
        std::fs::write(&stored.path, bytes).unwrap();
        stored.read().is_none() && !stored.path.exists() && !stored.touch()
    };
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(is_noticed(&bad), "byte {at}");
        assert!(is_noticed(&good[..at]), "length {at}");
    }
}

/// A bundle that could be stored but not parsed again would be unpacked forever.
#[test]
fn a_bundle_is_refused_exactly_when_it_could_not_be_read_again() {
    let nested = |levels: usize| {
        (0..levels).fold(json!("x"), |inner, level| {
            if level % 2 == 0 {
                json!([inner])
            } else {
                json!({ "a": inner })
            }
        })
    };
    let store = BundleStore::new(None);
    for levels in LEVELS - 2..LEVELS + 3 {
        let value = nested(levels);
        let readable = serde_json::from_str::<Value>(&value.to_string()).is_ok();
        let stored = store.put("ns", &bundle(value), true);
        assert_eq!(stored.is_ok(), readable, "{levels} levels");
        if let Ok(stored) = stored {
            assert!(stored.read().is_some());
        }
    }
    let error = store.put("ns", &bundle(nested(128)), true).unwrap_err();
    insta::assert_snapshot!(error.cause, @"image `r/b@sha256:00`: `ClusterServiceVersion` is nested deeper than 127 levels");
}

#[test]
fn a_bundle_too_large_to_be_stored_is_refused() {
    let large = bundle(json!("\u{1}".repeat(BUNDLE_BYTES / 6 + 1)));
    let error = BundleStore::new(None).put("ns", &large, true).unwrap_err();
    assert_eq!(error.class, UnpackClass::TooLarge);
}

#[test]
fn a_folder_that_takes_nothing_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = store(&file, 1 << 20).put("ns", &bundle(json!({})), true);
    let error = error.unwrap_err();
    assert_eq!(error.class, UnpackClass::NoRoom);
    assert!(error.cause.contains("cannot store the bundle in "), "{error}");
}

#[test]
fn what_was_not_used_for_long_is_removed_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), 3 * BLOCK);
    let put = |namespace: &str, name: &str| store.put(namespace, &sized(name, 1_000), true).unwrap();
    let (used, unused) = (put("small", "used"), put("small", "unused"));
    let unfinished = dir.path().join(format!("{UNFINISHED}a1b2c3.{EXTENSION}"));
    std::fs::write(&unfinished, "half").unwrap();
    age(&unfinished, 3 * ABANDONED.as_secs());
    age(&unused.path, 2 * ABANDONED.as_secs());
    age(&used.path, 2 * ABANDONED.as_secs());
    assert!(used.touch());
    let large = [put("large", "1"), put("large", "2")];
    assert!(!unused.touch() && used.touch());
    assert!(large.iter().all(StoredBundle::touch));
    assert!(!unfinished.exists(), "of a killed process");
}

/// The folder may contain other files, as `/tmp` does.
#[test]
fn nothing_of_others_in_the_folder_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let others = ["notes.txt", "work/result", "work/a.olm-bundle", ".new-draft"];
    for other in others {
        let path = dir.path().join(other);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x".repeat(500)).unwrap();
    }
    let store = store(dir.path(), BLOCK);
    for number in 0..4 {
        store.put("a", &sized(&number.to_string(), 1_000), true).unwrap();
    }
    assert_eq!(store.files().unwrap().len(), 1);
    for other in others {
        assert!(dir.path().join(other).exists(), "{other}");
    }
}

/// Otherwise its subscribers would unpack it without end.
#[test]
fn a_new_bundle_is_not_removed_by_its_own_put() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), 3 * BLOCK);
    let put = |namespace: &str, name: &str, size: usize| {
        let stored = store.put(namespace, &sized(name, size), true).unwrap();
        assert!(stored.touch(), "{namespace} {name}");
        stored
    };
    let small = [put("small", "1", 1_000), put("small", "2", 1_000)];
    // Its namespace has the most, but no other file.
    let large = put("large", "1", 9_000);
    assert!(small.iter().all(|stored| !stored.touch()));
    put("large", "2", 20_000);
    assert!(!large.touch(), "larger than the store");
    assert_eq!(store.files().unwrap().len(), 1);
}

/// Another process with the same folder may be writing it.
#[test]
fn a_file_that_is_being_written_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), BLOCK);
    let unfinished = dir.path().join(format!("{UNFINISHED}a1b2c3.{EXTENSION}"));
    std::fs::write(&unfinished, "x".repeat(9_000)).unwrap();
    let stored = store.put("a", &sized("1", 1_000), true).unwrap();
    assert!(unfinished.exists() && stored.touch());
    assert_eq!(store.files().unwrap().len(), 1);
}

#[test]
fn one_file_is_written_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), 1 << 20);
    std::thread::scope(|scope| {
        let other = store.writing.lock();
        let put = scope.spawn(|| store.put("a", &sized("1", 1_000), true).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        drop(other);
        assert!(put.join().unwrap().touch());
    });
}
