//! Output compared with that of upstream's `opm` for packages of the corpus.

mod support;

use std::path::{Path, PathBuf};

use olm_testing::shared;
use support::{Ran, opm, text};

const PACKAGES: [&str; 4] = [
    "3scale-community-operator",
    "argocd-operator",
    "keycloak-operator",
    "prometheus",
];

fn golden(name: &str) -> Option<String> {
    let path = shared::shared_path(&format!("golden/opm/{name}.txt"))?;
    Some(std::fs::read_to_string(path).expect("golden file"))
}

fn corpus() -> Option<PathBuf> {
    shared::corpus_dir()
}

/// Runs the command on the package's catalog and compares.
fn compare(arguments: &[&str], prefix: &str) {
    let Some(corpus) = corpus() else { return };
    for package in PACKAGES {
        let Some(expected) = golden(&format!("{prefix}-{package}")) else {
            return;
        };
        let catalog = corpus.join("fbc").join(package);
        let mut arguments = arguments.to_vec();
        arguments.push(text(&catalog));
        let found = opm(&arguments).ok();
        assert_eq!(found, expected, "{arguments:?}");
    }
}

#[test]
fn lists_are_upstreams() {
    compare(&["alpha", "list", "packages"], "list-packages");
    compare(&["alpha", "list", "channels"], "list-channels");
    compare(&["alpha", "list", "bundles"], "list-bundles");
}

#[test]
fn graphs_are_upstreams() {
    compare(&["alpha", "render-graph"], "render-graph");
}

/// All 125 packages generated from their bundle directories and `package.json` equal the corpus catalog, blob for blob.
#[test]
fn a_catalog_made_of_bundle_directories_is_the_corpus_catalog() {
    let Some(corpus) = corpus() else { return };
    // `OLM_CORPUS` may name another corpus of the same layout: `bundles/<package>/{package.json,<bundle>/}` and
    // `fbc/<package>/catalog.json`.
    let corpus = std::env::var_os("OLM_CORPUS").map_or(corpus, PathBuf::from);
    let mut bundles = 0;
    let mut unequal = Vec::new();
    let mut packages: Vec<_> = std::fs::read_dir(corpus.join("fbc"))
        .expect("catalog")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    packages.sort();
    let template = "quay.io/community-operators/{{.Package}}:{{.Name}}";
    let chunks: Vec<&[std::ffi::OsString]> = packages.chunks(packages.len().div_ceil(2)).collect();
    let compare_package = |package: &std::ffi::OsString| {
        let directory = corpus.join("bundles").join(package);
        let found = opm(&[
            "generate",
            "catalog",
            text(&directory),
            "--image-ref-template",
            template,
        ])
        .ok();
        let found = blobs(found.as_bytes());
        let expected = std::fs::read(corpus.join("fbc").join(package).join("catalog.json")).expect("catalog");
        let mut expected = blobs(&expected);
        expected.iter_mut().for_each(add_own_image);
        (found, expected)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = chunks
            .iter()
            .map(|chunk| {
                scope.spawn(|| {
                    let (mut bundles, mut unequal) = (0, Vec::new());
                    for package in *chunk {
                        let (found, expected) = compare_package(package);
                        bundles += expected
                            .iter()
                            .filter(|blob| blob["schema"] == "olm.bundle")
                            .count();
                        if found != expected {
                            unequal.push(package.clone());
                        }
                    }
                    (bundles, unequal)
                })
            })
            .collect();
        for worker in workers {
            let (count, found) = worker.join().expect("worker");
            bundles += count;
            unequal.extend(found);
        }
    });
    assert!(unequal.is_empty(), "unlike upstream's: {unequal:?}");
    if std::env::var_os("OLM_CORPUS").is_none() {
        assert_eq!((packages.len(), bundles), (125, 693));
    }
}

/// Adds a bundle's image to its related images. Upstream does this if it knows the image, but the corpus was rendered without
/// images and got them afterwards.
fn add_own_image(blob: &mut serde_json::Value) {
    let own = serde_json::json!({"name": "", "image": blob["image"]});
    if let Some(images) = blob
        .get_mut("relatedImages")
        .and_then(serde_json::Value::as_array_mut)
    {
        assert!(!images.contains(&own), "the corpus has it already");
        images.push(own);
        images.sort_by_cached_key(ToString::to_string);
    }
}

/// Returns blobs in output order. Lists with a random order in upstream are sorted: entries of a channel come from a hash map,
/// several names of one related image from an unstable sort.
fn blobs(bytes: &[u8]) -> Vec<serde_json::Value> {
    let mut blobs: Vec<serde_json::Value> = serde_json::Deserializer::from_slice(bytes)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("JSON documents");
    for blob in &mut blobs {
        for list in ["relatedImages", "entries"] {
            if let Some(list) = blob.get_mut(list).and_then(serde_json::Value::as_array_mut) {
                list.sort_by_cached_key(ToString::to_string);
            }
        }
    }
    blobs.sort_by_cached_key(|blob| {
        let key = |name: &str| blob[name].as_str().unwrap_or_default().to_owned();
        (key("schema"), key("name"))
    });
    blobs
}

#[test]
fn migrate_writes_a_directory_a_package() {
    let Some(corpus) = corpus() else { return };
    let dir = tempfile::tempdir().expect("folder");
    let output = dir.path().join("out");
    let catalog = corpus.join("fbc/prometheus");
    let migrate = |level: &str| -> Ran {
        opm(&[
            "migrate",
            text(&catalog),
            text(&output),
            "-o",
            "yaml",
            "--migrate-level",
            level,
        ])
    };
    assert_eq!(migrate("all").ok(), "");
    let file = output.join("prometheus/catalog.yaml");
    let written = std::fs::read_to_string(&file).expect("catalog");
    assert!(written.contains("olm.csv.metadata") && !written.contains("olm.bundle.object"));
    assert_eq!(opm(&["validate", text(&output)]).ok(), "");
    assert_eq!(
        opm(&["alpha", "list", "packages", text(&output)]).ok(),
        golden("list-packages-prometheus").expect("golden"),
        "the display name is found in the metadata, too"
    );
    let error = migrate("all").fails();
    assert!(error.contains("must be empty"), "{error}");
    // A second migration changes nothing.
    let again = dir.path().join("again");
    opm(&[
        "migrate",
        text(&output),
        text(&again),
        "-o",
        "yaml",
        "--migrate-level",
        "all",
    ])
    .ok();
    assert_eq!(
        std::fs::read_to_string(again.join("prometheus/catalog.yaml")).expect("catalog"),
        written
    );
    let rendered = opm(&["render", text(&catalog), "--migrate", "-o", "yaml"]).ok();
    assert_eq!(rendered, written, "render migrates alike");
    let error = opm(&["render", text(&catalog), "--migrate", "--migrate-level", "all"]).fails();
    assert!(error.contains("cannot be used with"), "{error}");
    let error = opm(&["render", text(&catalog), "--migrate-level", "some"]).fails();
    assert!(error.contains("unknown migration level \"some\""), "{error}");
    let bundle = Path::new(&corpus).join("bundles/prometheus/prometheusoperator.0.14.0");
    let error = opm(&["migrate", text(&bundle), text(&dir.path().join("none"))]).fails();
    assert!(error.contains("not allowed"), "{error}");
}
