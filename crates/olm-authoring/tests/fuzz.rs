//! No valid catalog and no bundle makes the authors' tools panic.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

#[path = "../../olm-fbc/tests/catalog_seeds/mod.rs"]
mod catalog_seeds;
#[path = "../../olm-fbc/tests/fuzzing/mod.rs"]
mod fuzzing;

use std::path::PathBuf;

use catalog_seeds::{
    LIMITS, WORDS, catalogs, changed_documents, check_rendering, checked, files_of_the_corpus,
};
use fuzzing::Fuzz;
use olm_authoring::bundle::BundleContent;
use olm_authoring::bundle::check::{Optional, check_content, check_format};
use olm_authoring::graph::{PackageGraph, to_svg};
use olm_authoring::manifest_validator::ShapeValidator;
use olm_authoring::mermaid;
use olm_fbc::render::Format;
use olm_fbc::schema::Blob;
use olm_fbc::yaml::{self, Documents};

#[test]
fn valid_catalogs_of_any_kind_are_drawn() {
    let fuzz = Fuzz {
        name: "drawing",
        seeds: catalogs(),
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let (checker, blobs) = checked(input);
        let Ok(model) = checker.finish() else {
            return false;
        };
        for (name, package) in &model.packages {
            let graph = PackageGraph::of_model(name, package, None);
            assert!(to_svg(&graph).ends_with("</svg>\n"));
        }
        mermaid::draw(&blobs, &mermaid::Options::default()).expect("valid catalogs are drawn");
        !model.packages.is_empty()
    });
}

/// Returns whole bundles, with the files as documents one after the other.
fn bundles() -> Vec<Vec<u8>> {
    let csv = "kind: ClusterServiceVersion\nmetadata: {name: p.v1}\nspec: {version: 1.0.0}\n";
    let mut seeds = vec![format!("{csv}---\n{ANNOTATIONS}").into_bytes()];
    for annotations in files_of_the_corpus("bundles", 4000) {
        if annotations
            .file_name()
            .is_none_or(|name| name != "annotations.yaml")
            || seeds.len() > 60
        {
            continue;
        }
        let bundle = annotations.ancestors().nth(2).expect("bundle");
        let mut documents = Vec::new();
        for folder in ["manifests", "metadata"] {
            let entries = std::fs::read_dir(bundle.join(folder)).expect("folder");
            let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("entry").path()).collect();
            files.sort();
            for file in files.iter().filter(|file| file.is_file()) {
                let bytes = std::fs::read(file).expect("file");
                documents.extend(yaml::parse_first(&bytes).map(|(value, _)| value));
            }
        }
        let text: String = documents.iter().map(|value| format!("{value}\n")).collect();
        if text.len() < 30_000 {
            seeds.push(text.into_bytes());
        }
    }
    seeds
}

const ANNOTATIONS: &str = "annotations: {operators.operatorframework.io.bundle.package.v1: p}\n";

#[test]
fn bundles_of_any_kind() {
    let words = [
        "apiVersion: ",
        "kind: ",
        "CustomResourceDefinition",
        "ClusterServiceVersion",
        "spec",
        "versions",
        "owned",
        "- ",
        ": ",
        "{}",
        "[]",
        "\n",
        "null",
        "1",
        "olm.gvk",
        "properties:\n",
        "dependencies:\n",
        "annotations:\n",
    ];
    let fuzz = Fuzz {
        name: "bundle",
        seeds: bundles(),
        words: &words,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let mut files = Vec::new();
        for (index, value) in Documents::with_limits(input, LIMITS).flatten().enumerate() {
            let is_metadata = ["annotations", "dependencies", "properties"]
                .into_iter()
                .any(|key| value.get(key).is_some());
            let folder = if is_metadata { "metadata" } else { "manifests" };
            files.push((format!("{folder}/{index}.yaml"), value.to_string()));
        }
        // Input that is not a document is used as a manifest.
        files.push((
            "manifests/raw".to_owned(),
            String::from_utf8_lossy(input).into_owned(),
        ));
        let mut taken = false;
        for skipped in 0..2 {
            let files = &files[..files.len() - skipped];
            if let Ok(content) = BundleContent::read(files.iter().map(|(path, text)| (path, text)))
                && let Ok(bundle) = content.to_blob("q.io/p:1")
            {
                check_rendering(&Blob::Bundle(bundle), Format::Json);
                taken = true;
            }
            let folder = |wanted: &str| {
                let below = files
                    .iter()
                    .filter_map(|(path, text)| Some((path.strip_prefix(wanted)?.to_owned(), text)));
                below.collect()
            };
            let (manifests, metadata) = (folder("manifests/"), folder("metadata/"));
            let optional = Optional {
                operator_hub: true,
                bundle_objects: true,
                categories: None,
            };
            let _ = check_content(&manifests, &optional, &ShapeValidator);
            let _ = check_format(Some(&manifests), Some(&metadata), &ShapeValidator);
        }
        taken
    });
}
