//! Real bundles and catalogs against what upstream's tools made of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use olm_authoring::bundle::BundleContent;
use olm_fbc::schema::Blob;
use olm_fbc::yaml;
use serde_json::Value;

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .expect("corpus folder")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

fn name(path: &Path) -> String {
    path.file_name().expect("name").to_string_lossy().into_owned()
}

fn bundle_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for part in ["manifests", "metadata"] {
        for entry in fs::read_dir(folder.join(part)).expect("bundle folder") {
            let path = entry.expect("entry").path();
            files.push((format!("{part}/{}", name(&path)), fs::read(&path).expect("file")));
        }
    }
    files
}

/// The 693 bundles of the corpus catalog, rendered by upstream's opm from the same folders.
#[test]
fn rendered_bundles_equal_upstreams() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let mut compared = 0;
    let mut unequal = Vec::new();
    for package in subfolders(&corpus.join("fbc")) {
        let catalog = fs::read(package.join("catalog.json")).expect("catalog");
        let expected: BTreeMap<String, serde_json::Value> = yaml::parse_all(&catalog)
            .expect("documents")
            .into_iter()
            .filter(|blob| blob["schema"] == "olm.bundle")
            .map(|blob| (blob["name"].as_str().expect("name").to_owned(), blob))
            .collect();
        for (name, mut expected) in expected {
            sort_related_images(&mut expected);
            let folder = corpus
                .join("bundles")
                .join(package.file_name().expect("name"))
                .join(&name);
            let bundle = BundleContent::read(bundle_files(&folder))
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let mut blob = bundle
                .to_blob("")
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            blob.image = format!("quay.io/community-operators/{}:{}", blob.package, blob.name);
            let mut ours = serde_json::to_value(&blob).expect("value");
            sort_related_images(&mut ours);
            if ours != expected {
                unequal.push(format!("{name}: {}", first_difference("", &ours, &expected)));
            }
            assert_eq!(
                Blob::from_value(expected.clone()).expect("blob").to_value(),
                expected
            );
            compared += 1;
        }
    }
    assert!(
        unequal.is_empty(),
        "{} differ:\n{}",
        unequal.len(),
        unequal.join("\n")
    );
    assert_eq!(compared, 693);
}

/// Upstream sorts related images by image with an unstable sort; the order of several names for one image is an accident.
fn sort_related_images(blob: &mut Value) {
    if let Value::Array(images) = &mut blob["relatedImages"] {
        assert!(images.is_sorted_by_key(|image| image["image"].to_string()));
        images.sort_by_key(|image| (image["image"].to_string(), image["name"].to_string()));
    }
}

/// Where two values differ, and how; base64 manifests are looked into.
fn first_difference(path: &str, ours: &Value, theirs: &Value) -> String {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(x), Some(y)) if x != y => return first_difference(&path, x, y),
                    (Some(_), Some(_)) => {}
                    (x, _) => {
                        return format!("{path} only in {}", if x.is_some() { "ours" } else { "theirs" });
                    }
                }
            }
            String::new()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find(|(_, (x, y))| x != y)
            .map(|(index, (x, y))| first_difference(&format!("{path}[{index}]"), x, y))
            .unwrap_or_default(),
        (Value::String(a), Value::String(b)) => {
            let decode = |text: &str| {
                base64::engine::general_purpose::STANDARD
                    .decode(text)
                    .ok()
                    .and_then(|bytes| String::from_utf8(bytes).ok())
                    .unwrap_or_else(|| text.to_owned())
            };
            let (a, b) = (decode(a), decode(b));
            let at = a
                .bytes()
                .zip(b.bytes())
                .position(|(x, y)| x != y)
                .unwrap_or(a.len().min(b.len()));
            let window = |text: &str| {
                text.chars()
                    .skip(at.saturating_sub(60))
                    .take(120)
                    .collect::<String>()
            };
            format!(
                "{path} at byte {at}: {:?} instead of {:?}",
                window(&a),
                window(&b)
            )
        }
        _ => format!("{path}: {ours} instead of {theirs}")
            .chars()
            .take(400)
            .collect(),
    }
}
