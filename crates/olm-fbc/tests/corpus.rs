//! Real bundles and catalogs against what upstream's tools made of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use olm_fbc::bundle::BundleContent;
use olm_fbc::schema::Blob;
use olm_fbc::yaml;

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
    for package in subfolders(&corpus.join("fbc")) {
        let catalog = fs::read(package.join("catalog.json")).expect("catalog");
        let expected: BTreeMap<String, serde_json::Value> = yaml::parse_all(&catalog)
            .expect("documents")
            .into_iter()
            .filter(|blob| blob["schema"] == "olm.bundle")
            .map(|blob| (blob["name"].as_str().expect("name").to_owned(), blob))
            .collect();
        for (name, expected) in expected {
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
            assert_eq!(serde_json::to_value(&blob).expect("value"), expected, "{name}");
            assert_eq!(Blob::from_value(expected), Ok(Blob::Bundle(blob)), "{name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 693);
}
