//! Real bundles and catalogs, compared with the results of upstream's tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use olm_authoring::bundle::BundleContent;
use olm_authoring::config_map;
use olm_fbc::schema::{Blob, Channel};
use olm_fbc::yaml;
use serde_json::{Value, json};

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

/// Sorts related images. Upstream sorts them by image with an unstable sort, so the order of several names for one image is
/// random.
fn sort_related_images(blob: &mut Value) {
    if let Value::Array(images) = &mut blob["relatedImages"] {
        assert!(images.is_sorted_by_key(|image| image["image"].to_string()));
        images.sort_by_key(|image| (image["image"].to_string(), image["name"].to_string()));
    }
}

/// Returns the first difference of two values, with its path; base64 manifests are decoded.
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
                olm_fbc::base64::decode(text)
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

/// Every package of the corpus as a ConfigMap: its channels have the entries and edges of upstream's catalog.
#[test]
fn cat_009_config_maps_of_real_packages_give_upstreams_channels() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let (mut equal, mut longer, mut versions) = (0, 0, 0);
    let mut left_out = Vec::new();
    for folder in subfolders(&corpus.join("fbc")) {
        let package = name(&folder);
        let expected = expected_channels(&folder);
        let texts = texts_of(&corpus.join("bundles").join(&package), &package, &expected);
        let converted = match config_map::convert(|key| Some(texts[key].as_bytes())) {
            Ok(converted) => converted,
            Err(error) => {
                left_out.push(format!("{package}: {error}"));
                continue;
            }
        };
        let mut found: BTreeMap<String, Edges> = BTreeMap::new();
        for (blob, _) in converted.blobs {
            match blob {
                Blob::Channel(channel) => drop(found.insert(channel.name.clone(), edges(&channel))),
                Blob::Bundle(_) => versions += 1,
                _ => {}
            }
        }
        if found == expected {
            equal += 1;
        } else {
            // A channel of a catalog may end where another begins; one of a ConfigMap goes back to the first version.
            for (channel, expected) in &expected {
                let found = &found[channel];
                assert!(
                    expected.iter().all(|(name, edge)| found.get(name) == Some(edge)),
                    "{package}"
                );
            }
            longer += 1;
        }
    }
    // Versions of a definition that the newest one no longer has: a ConfigMap can contain only one of them.
    let is_of_crd = |text: &String| text.contains("couldn't find owned CRD in crd list");
    assert!(left_out.iter().all(is_of_crd), "{left_out:#?}");
    assert_eq!((equal, longer, left_out.len(), versions), (111, 5, 9, 617));
}

/// By entry: the name it replaces, the names it skips, and its range.
type Edges = BTreeMap<String, (String, Vec<String>, String)>;

fn edges(channel: &Channel) -> Edges {
    let entries = channel.entries.iter().map(|entry| {
        let mut skips = entry.skips.clone();
        skips.sort_unstable();
        (
            entry.name.clone(),
            (entry.replaces.clone(), skips, entry.skip_range.clone()),
        )
    });
    entries.collect()
}

fn expected_channels(folder: &Path) -> BTreeMap<String, Edges> {
    let catalog = fs::read(folder.join("catalog.json")).expect("catalog");
    let blobs = yaml::parse_all(&catalog).expect("documents").into_iter();
    let channels = blobs.filter_map(|blob| match Blob::from_value(blob).expect("blob") {
        Blob::Channel(channel) => Some((channel.name.clone(), edges(&channel))),
        _ => None,
    });
    channels.collect()
}

/// Returns the bundles of a package as the texts of a ConfigMap.
fn texts_of(
    folder: &Path,
    package: &str,
    channels: &BTreeMap<String, Edges>,
) -> BTreeMap<&'static str, String> {
    let (mut csvs, mut crds, mut known) = (Vec::new(), Vec::new(), Vec::new());
    // The newest definition serves all versions, because a name and version can occur only once.
    for bundle in subfolders(folder).iter().rev() {
        let content = BundleContent::read(bundle_files(bundle)).expect("bundle");
        for object in content.manifests.into_iter().map(|manifest| manifest.object) {
            let name = object["metadata"]["name"].clone();
            if object["kind"] == "ClusterServiceVersion" {
                csvs.push(object);
            } else if object["kind"] == "CustomResourceDefinition" && !known.contains(&name) {
                known.push(name);
                crds.push(object);
            }
        }
    }
    let heads = channels.iter().map(|(channel, edges)| {
        let led_to = |name: &String| {
            edges
                .values()
                .any(|(replaces, skips, _)| replaces == name || skips.contains(name))
        };
        let head = edges.keys().find(|name| !led_to(name)).expect("head");
        json!({"name": channel, "currentCSV": head})
    });
    let packages = json!([{
        "packageName": package, "channels": heads.collect::<Vec<_>>(), "defaultChannel": channels.keys().next(),
    }]);
    BTreeMap::from([
        ("customResourceDefinitions", yaml::to_string(&crds).expect("text")),
        ("clusterServiceVersions", yaml::to_string(&csvs).expect("text")),
        ("packages", yaml::to_string(&packages).expect("text")),
    ])
}
