//! No input makes the parsers panic or hang, and what they take survives being written and read.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod fuzzing;

use std::path::Path;

use fuzzing::fuzz;
use olm_fbc::bundle::BundleContent;
use olm_fbc::bundle::check::{check_content, check_format};
use olm_fbc::load::Origin;
use olm_fbc::schema::Blob;
use olm_fbc::validate::Checker;
use olm_fbc::version::{Range, Version};
use olm_fbc::yaml::{self, Documents, Limits};

/// Small limits, so that time goes into many inputs.
const LIMITS: Limits = Limits {
    document_bytes: 1 << 17,
    depth: 64,
    nodes: 20_000,
    alias_nodes: 5_000,
    alias_bytes: 1 << 18,
};

const WORDS: [&str; 34] = [
    "---\n",
    "\n",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "&a ",
    "*a",
    "<<: ",
    "|\n",
    ">-\n",
    "!!binary ",
    "%YAML 1.1\n",
    "\t",
    "schema",
    "olm.package",
    "olm.channel",
    "olm.bundle",
    "olm.deprecations",
    "entries",
    "replaces",
    "skipRange",
    "null",
    "1e999",
    "0x7f",
    "\u{feff}",
    "\u{2028}",
    "~",
    "yes",
];

/// Small catalogs that were used to compare verdicts, and the beginnings of real ones.
fn catalogs() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        b"schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries: [{name: p.v1, skips: [a], skipRange: '<1.0.0'}]\n".to_vec(),
        b"{\"schema\": \"olm.bundle\", \"package\": \"p\", \"name\": \"p.v1\", \"image\": \"q.io/p:1\", \"properties\": [{\"type\": \"olm.package\", \"value\": {\"packageName\": \"p\", \"version\": \"1.0.0\"}}]}".to_vec(),
        b"a: &x {b: [1, 0x1f, 1_000, yes, ~]}\nc: *x\nd: {<<: *x, e: |\n  text\n  }\n".to_vec(),
    ];
    if let Some(path) = olm_testing::shared::shared_path("golden/opm/validate-cases.jsonl") {
        for line in std::fs::read_to_string(path).expect("cases").lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("case");
            let files = case["files"].as_object().expect("files");
            seeds.extend(
                files
                    .values()
                    .filter_map(|text| Some(text.as_str()?.as_bytes().to_vec())),
            );
        }
    }
    seeds.extend(files_of_the_corpus("fbc", 8));
    seeds
}

/// The beginnings of some files of the corpus.
fn files_of_the_corpus(folder: &str, count: usize) -> Vec<Vec<u8>> {
    fn walk(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found)
            } else {
                found.push(path)
            }
        }
    }
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return Vec::new();
    };
    let mut files = Vec::new();
    walk(&corpus.join(folder), &mut files);
    files.sort();
    let step = files.len().div_ceil(count).max(1);
    files
        .iter()
        .step_by(step)
        .filter_map(|path| std::fs::read(path).ok())
        .map(|mut bytes| {
            bytes.truncate(8 << 10);
            bytes
        })
        .collect()
}

#[test]
fn yaml_of_any_kind() {
    let mut seeds = catalogs();
    seeds.extend(files_of_the_corpus("bundles", 40));
    fuzz("yaml", &seeds, &WORDS, |input| {
        for value in Documents::with_limits(input, LIMITS).flatten() {
            let text = yaml::to_string(&value).expect("JSON has a YAML form");
            assert_eq!(yaml::parse(text.as_bytes()).expect("own output"), value, "{text}");
        }
    });
}

#[test]
fn catalogs_of_any_kind() {
    fuzz("catalog", &catalogs(), &WORDS, |input| {
        let mut checker = Checker::default();
        let mut blobs = Vec::new();
        for (index, value) in Documents::with_limits(input, LIMITS).flatten().enumerate() {
            let Ok(blob) = Blob::from_value(value) else {
                continue;
            };
            // Rendering and reading is the identity.
            assert_eq!(Blob::from_value(blob.to_value()).expect("own output"), blob);
            let origin = Origin {
                file: "f".into(),
                document: index + 1,
            };
            checker.add(blob.clone(), &origin);
            blobs.push(blob);
        }
        match checker.finish() {
            Ok(model) => {
                for (name, package) in &model.packages {
                    let graph = olm_fbc::graph::PackageGraph::new(name, package, None);
                    assert!(olm_fbc::graph::to_svg(&graph).ends_with("</svg>\n"));
                    for channel in package.channels.values() {
                        olm_fbc::channel::Graph::new(&channel.entries)
                            .head()
                            .expect("one head");
                    }
                }
                olm_fbc::mermaid::draw(&blobs, &olm_fbc::mermaid::Options::default())
                    .expect("valid catalogs are drawn");
            }
            Err(faults) => assert!(!faults.to_string().is_empty()),
        }
    });
}

#[test]
fn versions_and_ranges_of_any_kind() {
    let seeds: Vec<Vec<u8>> = [
        "1.2.3",
        "1.2.3-alpha.1+build.5",
        ">=1.0.0 <2.0.0 || !1.5.x",
        "1.x",
        "v1.2",
        "=1.0.0",
        ">1.0.0 || <0.1.0-rc.1",
        "18446744073709551615.0.0",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let words = [
        "1",
        ".",
        "-",
        "+",
        "x",
        "X",
        "*",
        ">",
        "<",
        "=",
        "!",
        "||",
        " ",
        "0",
        "v",
        "alpha",
        "99999999999999999999",
    ];
    let probes =
        ["0.0.0", "1.0.0", "1.5.0-rc.1", "2.0.0+b"].map(|text| Version::parse(text).expect("version"));
    fuzz("version", &seeds, &words, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return;
        };
        if let Ok(version) = Version::parse(text) {
            assert_eq!(version.to_string(), text, "strict versions have one form");
            assert_eq!(Version::parse_tolerant(text).as_ref(), Ok(&version));
        }
        let _ = Version::parse_tolerant(text);
        let _ = olm_fbc::version::Release::parse(text);
        if let Ok(range) = Range::parse(text) {
            for probe in &probes {
                let _ = range.contains(probe);
            }
        }
        let _ = olm_fbc::image_ref::check(text);
    });
}

#[test]
fn bundles_of_any_kind() {
    let mut seeds = files_of_the_corpus("bundles", 60);
    seeds.push(b"kind: ClusterServiceVersion\nmetadata: {name: p.v1}\nspec: {version: 1.0.0}\n".to_vec());
    let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: p}\n";
    let csv = "kind: ClusterServiceVersion\nmetadata: {name: p.v1}\nspec: {version: 1.0.0}\n";
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
    fuzz("bundle", &seeds, &words, |input| {
        // The input as each of the files of a bundle.
        for position in 0..3 {
            let part = |index: usize, default: &'static str| {
                if index == position {
                    input
                } else {
                    default.as_bytes()
                }
            };
            let files = [
                ("manifests/csv.yaml", part(0, csv)),
                ("manifests/other.yaml", part(1, "kind: Service\n")),
                ("metadata/annotations.yaml", annotations.as_bytes()),
                ("metadata/more.yaml", part(2, "a: b\n")),
            ];
            if let Ok(content) = BundleContent::read(files)
                && let Ok(bundle) = content.to_blob("q.io/p:1")
            {
                let value = Blob::Bundle(bundle).to_value();
                assert_eq!(
                    Blob::from_value(value.clone()).expect("own output").to_value(),
                    value
                );
            }
            let map = files
                .into_iter()
                .map(|(name, bytes)| (name.to_owned(), bytes))
                .collect();
            let _ = check_content(&map);
            let _ = check_format(Some(&map), Some(&map));
        }
    });
}
