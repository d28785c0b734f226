//! Verdicts equal those of upstream's `opm validate`, and messages contain at least upstream's text.

use std::fs;
use std::path::Path;

use olm_fbc::validate::{report, validate};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    case: String,
    files: std::collections::BTreeMap<String, String>,
    exit: i32,
    message: String,
}

/// Decoding errors with our own text: case, text.
const OWN_WORDS: [(&str, &str); 5] = [
    (
        "bad-gvk",
        r#"parse properties for bundle "p.v1.0.0": parse property[1] of type "olm.gvk": expected an object, found string"#,
    ),
    (
        "csv-metadata-bad",
        r#"parse properties for bundle "p.v1.0.0": parse property[1] of type "olm.csv.metadata": expected an object, found string"#,
    ),
    (
        "not-json",
        "unexpected end of JSON input (catalog.json, document 1)",
    ),
    (
        "not-yaml",
        "invalid YAML: line 2: unclosed bracket '[' (catalog.yaml, document 1)",
    ),
    (
        "no-schema",
        r#"object '{"name":"x"}' is missing root schema field (catalog.json, document 4)"#,
    ),
];

#[test]
fn small_catalogs_get_the_same_verdict() {
    let Some(path) = olm_testing::shared::shared_path("golden/opm/validate-cases.jsonl") else {
        return;
    };
    let text = fs::read_to_string(path).expect("cases");
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).expect("case");
        let dir = tempfile::tempdir().expect("folder");
        for (name, content) in &case.files {
            fs::write(dir.path().join(name), content).expect("file");
        }
        count += 1;
        let ours = validate(dir.path()).err().map(|faults| faults.to_string());
        match (&ours, case.exit) {
            (None, 0) => {}
            (Some(ours), 1) => {
                let missing = missing_lines(&case.case, &case.message, ours);
                if !missing.is_empty() {
                    wrong.push(format!("{}: lacks {missing:?}:\n{ours}", case.case));
                }
            }
            _ => wrong.push(format!(
                "{}: upstream exits {}, ours says {ours:?}",
                case.case, case.exit
            )),
        }
    }
    assert_eq!(count, 47);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the lines of upstream's message that ours lacks, ignoring tree drawing.
fn missing_lines(case: &str, theirs: &str, ours: &str) -> Vec<String> {
    if let Some((_, own)) = OWN_WORDS.iter().find(|(name, _)| *name == case) {
        return if ours.contains(own) {
            Vec::new()
        } else {
            vec![(*own).to_owned()]
        };
    }
    theirs
        .lines()
        .map(|line| {
            line.trim_start_matches(['│', '├', '└', '─', ' '])
                .trim_end_matches(']')
        })
        .filter(|line| !ours.contains(line))
        .map(str::to_owned)
        .collect()
}

#[test]
fn refused_packages_are_refused_for_upstreams_reason() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let mut count = 0;
    for entry in fs::read_dir(corpus.join("refused")).expect("folder") {
        let path = entry.expect("entry").path();
        if !path.is_dir() {
            continue;
        }
        count += 1;
        let stderr = fs::read_to_string(path.with_file_name(format!(
            "{}.stderr",
            path.file_name().expect("name").to_string_lossy()
        )))
        .expect("upstream's message");
        let message = stderr
            .split_once("msg=\"")
            .expect("log line")
            .1
            .trim_end()
            .trim_end_matches('"');
        let message = message.replace("\\n", "\n").replace("\\\"", "\"");
        let ours = validate(&path).expect_err("must be refused").to_string();
        assert_eq!(
            missing_lines("", &message, &ours),
            Vec::<String>::new(),
            "{}:\n{ours}",
            path.display()
        );
    }
    assert_eq!(count, 21);
}

#[test]
fn the_accepted_corpus_is_accepted() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let report = report(Path::new(&corpus.join("fbc")), None);
    // None of 125 packages of many authors is falsely reported as misspelt.
    assert_eq!(report.misspellings, []);
    let model = report.into_result().unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(model.packages.len(), 125);
    assert_eq!(
        model
            .packages
            .values()
            .map(|package| package.bundles.len())
            .sum::<usize>(),
        693
    );
}
