//! No input makes the parsers panic, hang or eat the memory, and what they take obeys laws: written and read again it is the
//! same, versions are in one order, ranges hold what a naive reading of them says.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod fuzzing;
mod naive_range;

use std::path::{Path, PathBuf};

use fuzzing::{Fuzz, Random, tree};
use olm_fbc::bundle::BundleContent;
use olm_fbc::bundle::check::{ByShape, Optional, check_content, check_format};
use olm_fbc::load::Origin;
use olm_fbc::render::{Format, write_blob};
use olm_fbc::schema::Blob;
use olm_fbc::validate::Checker;
use olm_fbc::version::{Range, Release, Version};
use olm_fbc::yaml::{self, Documents, Limits};
use serde_json::Value;

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

/// Small catalogs that were used to compare verdicts, and whole packages of the corpus.
fn catalogs() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        b"schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries: [{name: p.v1, skips: [a], skipRange: '<1.0.0'}]\n---\nschema: olm.bundle\npackage: p\nname: p.v1\nimage: q.io/p:1\nproperties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]\n".to_vec(),
        b"{\"schema\": \"olm.bundle\", \"package\": \"p\", \"name\": \"p.v1\", \"image\": \"q.io/p:1\", \"properties\": [{\"type\": \"olm.package\", \"value\": {\"packageName\": \"p\", \"version\": \"1.0.0\"}}]}".to_vec(),
        b"a: &x {b: [1, 0x1f, 1_000, yes, ~]}\nc: *x\nd: {<<: *x, e: |\n  text\n  }\n".to_vec(),
    ];
    if let Some(path) = olm_testing::shared::shared_path("golden/opm/validate-cases.jsonl") {
        for line in std::fs::read_to_string(path).expect("cases").lines() {
            let case: Value = serde_json::from_str(line).expect("case");
            let files = case["files"].as_object().expect("files");
            // As one stream, for a file alone is seldom a catalog.
            let whole: Vec<&str> = files.values().filter_map(Value::as_str).collect();
            seeds.push(whole.join("\n").into_bytes());
        }
    }
    seeds.extend(small_catalogs_of_the_corpus());
    seeds
}

/// Packages of the corpus with what makes them large left out, so that they still validate.
fn small_catalogs_of_the_corpus() -> Vec<Vec<u8>> {
    let files = files_of_the_corpus("fbc", 12);
    let catalogs = files.iter().map(|path| {
        let bytes = std::fs::read(path).expect("catalog");
        let mut text = String::new();
        for mut blob in yaml::parse_all(&bytes).expect("documents") {
            if let Some(properties) = blob["properties"].as_array_mut() {
                properties.retain(|property| property.to_string().len() < 400);
            }
            blob["description"] = Value::Null;
            blob["icon"] = Value::Null;
            text += &format!("{blob}\n");
        }
        text.into_bytes()
    });
    catalogs.filter(|text| text.len() < 60_000).collect()
}

/// Some files of the corpus.
fn files_of_the_corpus(folder: &str, count: usize) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
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
    files.into_iter().step_by(step).collect()
}

/// The beginnings of files.
fn beginnings(files: Vec<PathBuf>) -> impl Iterator<Item = Vec<u8>> {
    files.into_iter().filter_map(|path| {
        let mut bytes = std::fs::read(path).ok()?;
        bytes.truncate(8 << 10);
        Some(bytes)
    })
}

/// Documents of a seed with a few changes, pieces of another seed among them, as JSON or as YAML.
fn changed_documents(seeds: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let documents = |seed: &Vec<u8>| -> Vec<Value> {
        Documents::with_limits(seed.as_slice(), LIMITS)
            .flatten()
            .collect()
    };
    let mut values = documents(random.of(seeds));
    let others = documents(random.of(seeds));
    if values.is_empty() || others.is_empty() {
        return None;
    }
    for _ in 0..=random.below(4) {
        let at = random.below(values.len());
        match random.below(12) {
            0 if values.len() > 1 => drop(values.remove(at)),
            1 => values.push(random.of(&others).clone()),
            2 => values.push(values[at].clone()),
            _ => tree::change(&mut values[at], &others, random),
        }
    }
    Some(match random.below(2) {
        0 => values
            .iter()
            .map(|value| format!("{value}\n"))
            .collect::<String>()
            .into_bytes(),
        _ => yaml::to_string_all(&values).ok()?.into_bytes(),
    })
}

#[test]
fn yaml_of_any_kind() {
    let mut seeds = catalogs();
    seeds.extend(beginnings(files_of_the_corpus("bundles", 40)));
    let fuzz = Fuzz {
        name: "yaml",
        seeds,
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let mut taken = false;
        for value in Documents::with_limits(input, LIMITS).flatten() {
            taken |= value.is_object() || value.is_array();
            let text = yaml::to_string(&value).expect("JSON has a YAML form");
            assert_eq!(yaml::parse(text.as_bytes()).expect("own output"), value, "{text}");
        }
        taken
    });
}

/// Written in a format and read again a blob is the same, byte for byte when written once more.
fn check_rendering(blob: &Blob, format: Format) {
    let mut text = Vec::new();
    write_blob(blob, format, &mut text).expect("written");
    let value = yaml::parse(&text).expect("own output");
    let again = Blob::from_value(value).expect("own output");
    assert_eq!(&again, blob, "{}", String::from_utf8_lossy(&text));
    let mut second = Vec::new();
    write_blob(&again, format, &mut second).expect("written");
    assert_eq!(second, text);
}

#[test]
fn catalogs_of_any_kind() {
    let fuzz = Fuzz {
        name: "catalog",
        seeds: catalogs(),
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let mut checker = Checker::default();
        let mut blobs = Vec::new();
        for (index, value) in Documents::with_limits(input, LIMITS).flatten().enumerate() {
            let Ok(blob) = Blob::from_value(value) else {
                continue;
            };
            check_rendering(&blob, Format::Json);
            check_rendering(&blob, Format::Yaml);
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
                !model.packages.is_empty()
            }
            Err(faults) => {
                assert!(!faults.to_string().is_empty());
                false
            }
        }
    });
}

/// A range, or a version, as an author might write it.
fn written_range(_: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let version = |random: &mut Random| {
        let number =
            |random: &mut Random| *random.of(&["0", "1", "2", "9", "10", "11", "18446744073709551615"]);
        let mut text = format!("{}.{}", number(random), number(random));
        match random.below(5) {
            0 => {
                return text
                    .replace(".18446744073709551615", ".1")
                    .split('.')
                    .next()
                    .map(|major| format!("{major}.x"))
                    .unwrap_or_default();
            }
            1 => return text + ".x",
            _ => text += &format!(".{}", number(random)),
        }
        if random.below(3) == 0 {
            text += *random.of(&[
                "-0",
                "-1",
                "-alpha",
                "-alpha.1",
                "-alpha.beta",
                "-beta.11",
                "-rc.1.2",
                "-a-b",
            ]);
        }
        if random.below(5) == 0 {
            text += *random.of(&["+1", "+build.5", "+a-b"]);
        }
        text
    };
    let mut alternatives = Vec::new();
    for _ in 0..=random.below(3) {
        let mut comparisons = Vec::new();
        for _ in 0..=random.below(3) {
            let operator = *random.of(&["", "=", "==", "!", "!=", ">", ">=", "<", "<="]);
            comparisons.push(format!("{operator}{}", version(random)));
        }
        alternatives.push(comparisons.join(" "));
    }
    Some(alternatives.join(" || ").into_bytes())
}

#[test]
fn versions_and_ranges_of_any_kind() {
    let seeds = [
        "1.2.3",
        "1.2.3-alpha.1+build.5",
        ">=1.0.0 <2.0.0 || !1.5.x",
        "1.x",
        "v1.2",
        "=1.0.0",
        ">1.0.0 || <0.1.0-rc.1",
        "18446744073709551615.0.0",
    ];
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
        "\u{0663}",
    ];
    let probes: Vec<Version> = [
        "0.0.0",
        "0.9.9",
        "1.0.0-0",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.5.0-rc.1",
        "1.9.2",
        "2.0.0+b",
        "2.1.0",
        "9.10.11",
        "10.0.0",
        "11.1.9",
    ]
    .map(|text| Version::parse(text).expect("version"))
    .to_vec();
    let fuzz = Fuzz {
        name: "version",
        seeds: seeds.map(|text| text.as_bytes().to_vec()).to_vec(),
        words: &words,
        structured: Some(written_range),
    };
    fuzz.run(|input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        if let Ok(version) = Version::parse(text) {
            assert_eq!(version.to_string(), text, "strict versions have one form");
            assert_eq!(Version::parse_tolerant(text).as_ref(), Ok(&version));
            check_order(&version, &probes);
        }
        if let Ok(version) = Version::parse_tolerant(text) {
            assert_eq!(Version::parse(&version.to_string()).as_ref(), Ok(&version));
        }
        if let Ok(release) = Release::parse(text) {
            assert_eq!(release.to_string(), text);
        }
        let range = Range::parse(text);
        if let Some(expected) = naive_range::read(text) {
            let range = range.as_ref().unwrap_or_else(|error| panic!("{text:?}: {error}"));
            for probe in &probes {
                assert_eq!(
                    range.contains(probe),
                    naive_range::holds(&expected, &probe.to_string()),
                    "{text:?} {probe}"
                );
            }
        }
        if let Ok(range) = &range {
            assert_eq!(range.to_string(), text);
            for probe in &probes {
                let _ = range.contains(probe);
            }
        }
        let _ = olm_fbc::image_ref::check(text);
        range.is_ok()
    });
}

/// The order is total, and the same as one read naively.
fn check_order(version: &Version, probes: &[Version]) {
    for (index, one) in probes.iter().enumerate() {
        let order = version.cmp(one);
        assert_eq!(one.cmp(version), order.reverse(), "{version} {one}");
        assert_eq!(
            naive_range::compare(&version.to_string(), &one.to_string()),
            order,
            "{version} {one}"
        );
        for other in &probes[index..] {
            if order.is_le() && one <= other {
                assert!(version <= other, "{version} <= {one} <= {other}");
            }
        }
    }
}

/// Whole bundles, the files one after the other as documents.
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
        // What is no document at all stands where a manifest would.
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
            let _ = check_content(&manifests, &optional, &ByShape);
            let _ = check_format(Some(&manifests), Some(&metadata), &ByShape);
        }
        taken
    });
}
