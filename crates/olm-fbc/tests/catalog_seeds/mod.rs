//! Seeds for the fuzzing of catalogs and bundles, and changes to documents.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};

use olm_fbc::load::Origin;
use olm_fbc::render::{Format, write_blob};
use olm_fbc::schema::Blob;
use olm_fbc::validate::Checker;
use olm_fbc::yaml::{self, Documents, Limits};
use serde_json::Value;

use crate::fuzzing::{Random, tree};

/// Small limits, so that time goes into many inputs.
pub const LIMITS: Limits = Limits {
    document_bytes: 1 << 17,
    depth: 64,
    nodes: 20_000,
    alias_nodes: 5_000,
    alias_bytes: 1 << 18,
};

pub const WORDS: [&str; 34] = [
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

/// Returns small catalogs that were used to compare verdicts, and whole packages of the corpus.
pub fn catalogs() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        b"schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries: [{name: p.v1, skips: [a], skipRange: '<1.0.0'}]\n---\nschema: olm.bundle\npackage: p\nname: p.v1\nimage: q.io/p:1\nproperties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]\n".to_vec(),
        b"{\"schema\": \"olm.bundle\", \"package\": \"p\", \"name\": \"p.v1\", \"image\": \"q.io/p:1\", \"properties\": [{\"type\": \"olm.package\", \"value\": {\"packageName\": \"p\", \"version\": \"1.0.0\"}}]}".to_vec(),
        b"a: &x {b: [1, 0x1f, 1_000, yes, ~]}\nc: *x\nd: {<<: *x, e: |\n  text\n  }\n".to_vec(),
    ];
    if let Some(path) = olm_testing::shared::shared_path("golden/opm/validate-cases.jsonl") {
        for line in std::fs::read_to_string(path).expect("cases").lines() {
            let case: Value = serde_json::from_str(line).expect("case");
            let files = case["files"].as_object().expect("files");
            // Joined to one stream, because a single file is seldom a catalog.
            let whole: Vec<&str> = files.values().filter_map(Value::as_str).collect();
            seeds.push(whole.join("\n").into_bytes());
        }
    }
    seeds.extend(small_catalogs_of_the_corpus());
    seeds
}

/// Returns packages of the corpus without their large parts, so that they still validate.
pub fn small_catalogs_of_the_corpus() -> Vec<Vec<u8>> {
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

/// Returns the blobs of a catalog's text, and a checker to which they were added.
pub fn checked(input: &[u8]) -> (Checker, Vec<Blob>) {
    let mut checker = Checker::default();
    let mut blobs = Vec::new();
    for (index, value) in Documents::with_limits(input, LIMITS).flatten().enumerate() {
        let Ok(blob) = Blob::from_value(value) else {
            continue;
        };
        let origin = Origin {
            file: "f".into(),
            document: index + 1,
        };
        checker.add(&blob, &origin);
        blobs.push(blob);
    }
    (checker, blobs)
}

/// Returns up to `count` files of the corpus.
pub fn files_of_the_corpus(folder: &str, count: usize) -> Vec<PathBuf> {
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

/// Returns the first bytes of files.
pub fn beginnings(files: Vec<PathBuf>) -> impl Iterator<Item = Vec<u8>> {
    files.into_iter().filter_map(|path| {
        let mut bytes = std::fs::read(path).ok()?;
        bytes.truncate(8 << 10);
        Some(bytes)
    })
}

/// Returns documents of a seed with a few changes, as JSON or as YAML. Some changes insert pieces of another seed.
pub fn changed_documents(seeds: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
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
    tree::change_documents(&mut values, &others, |value, _| value.clone(), random);
    Some(match random.below(2) {
        0 => values
            .iter()
            .map(|value| format!("{value}\n"))
            .collect::<String>()
            .into_bytes(),
        _ => yaml::to_string_all(&values).ok()?.into_bytes(),
    })
}

/// Checks that a blob is the same after writing and reading, byte for byte when written again.
pub fn check_rendering(blob: &Blob, format: Format) {
    let mut text = Vec::new();
    write_blob(blob, format, &mut text).expect("written");
    let value = yaml::parse(&text).expect("own output");
    let again = Blob::from_value(value).expect("own output");
    assert_eq!(&again, blob, "{}", String::from_utf8_lossy(&text));
    let mut second = Vec::new();
    write_blob(&again, format, &mut second).expect("written");
    assert_eq!(second, text);
}
