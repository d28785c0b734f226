//! Upstream's own answers over a real catalog, case by case.
//!
//! `OLM_GOLDEN_CASES` (a file, one JSON case per line) and `OLM_GOLDEN_CATALOG` (a folder with a catalog)
//! choose the comparison. The default is the recorded cases over the corpus catalog of the shared folder.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use olm_fbc::entry::BundleEntry;
use olm_resolver::{Resolution, Snapshot};
use shared::golden::{Answer, Case, inputs, problem, read_cases};

/// Returns the difference from upstream's answer, if there is one.
fn difference(case: &Case, ours: &Resolution) -> Option<String> {
    let messages: Vec<String> = ours
        .failures
        .iter()
        .map(olm_resolver::Explanation::message)
        .collect();
    // Upstream fails the whole namespace with one error; ours may have one for each independent part.
    if let Some(error) = &case.error {
        return (!messages.contains(error)).then(|| format!("upstream: {error}\n    ours: {messages:?}"));
    }
    let answer: Answer = ours
        .solution
        .operators
        .iter()
        .map(|o| {
            (
                o.entry.name.to_string(),
                o.entry.package.to_string(),
                o.entry.channel.to_string(),
            )
        })
        .collect();
    let accepted = [&case.result]
        .into_iter()
        .chain(&case.also_answered)
        .any(|accepted| *accepted == answer);
    (!accepted || !messages.is_empty())
        .then(|| format!("upstream: {:?}\n    ours: {answer:?} {messages:?}", case.result))
}

#[test]
fn answers_are_upstreams() {
    let Some((cases, catalog)) = inputs() else {
        return;
    };
    let cases = read_cases(&cases);
    let entries = shared::read_catalog(&catalog);
    let by_name: BTreeMap<&str, &BundleEntry> = entries.iter().map(|e| (&*e.name, e)).collect();
    let snapshot = Arc::new(Snapshot::new(entries.iter().cloned()));
    let (mut matched, mut spent) = (0, Duration::ZERO);
    for case in &cases {
        let problem = problem(case, &snapshot, &by_name);
        let start = Instant::now();
        let ours = olm_resolver::resolve(&problem).unwrap_or_else(|e| panic!("case {}: {e}", case.id));
        spent += start.elapsed();
        match difference(case, &ours) {
            None => matched += 1,
            Some(difference) => println!("differs {}:\n    {difference}", case.id),
        }
    }
    let mean = spent / u32::try_from(cases.len().max(1)).unwrap();
    println!("matched {matched} of {}; mean time {mean:?}", cases.len());
    assert!(!cases.is_empty(), "no case to compare");
    assert_eq!(matched, cases.len(), "see the differences above");
}

/// A catalog in YAML, with one file per document and some of it ignored, gives the same result.
#[test]
fn catalogs_are_read_in_any_notation() {
    let folder = tempfile::tempdir().unwrap();
    let (json, yaml) = (folder.path().join("json"), folder.path().join("yaml"));
    std::fs::create_dir_all(yaml.join("deep")).unwrap();
    std::fs::create_dir(&json).unwrap();
    let blobs = [
        r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}"#,
        r#"{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1","skips":["x"],"skipRange":"<1.0.0"}]}"#,
        r#"{"schema":"olm.bundle","package":"p","name":"p.v1","image":"i","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}"#,
    ];
    std::fs::write(json.join("catalog.json"), blobs.join("\n")).unwrap();
    for (index, blob) in blobs.iter().enumerate() {
        let value: serde_json::Value = serde_json::from_str(blob).unwrap();
        let text = olm_fbc::yaml::to_string(&value).unwrap();
        std::fs::write(yaml.join(format!("deep/{index}.yaml")), text).unwrap();
    }
    std::fs::write(yaml.join("ignored.yaml"), "schema: olm.package\nname: q\n").unwrap();
    std::fs::write(yaml.join(".indexignore"), "ignored.yaml\n").unwrap();
    let entries = shared::read_catalog(&json);
    assert_eq!(entries.len(), 1);
    assert!(entries[0].default_channel);
    assert_eq!(entries, shared::read_catalog(&yaml));
}
