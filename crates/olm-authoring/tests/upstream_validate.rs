//! Harmful catalogs that upstream's `opm validate` accepts.

use std::collections::BTreeMap;
use std::fs;

use olm_authoring::lint::lint;
use olm_authoring::manifest_validator::ShapeValidator;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    case: String,
    files: BTreeMap<String, String>,
    exit: i32,
}

/// Small harmful catalogs that upstream accepts, and the lint finding for each.
const HURTING: [(&str, &str); 8] = [
    ("bad-icon", "icon"),
    ("bad-relatedimages", "empty-related-image"),
    ("constraint-bad", "constraint"),
    ("dangling-replaces", "dangling-replaces"),
    ("deprecation-ok", "deprecated-head"),
    ("empty-property-type", "empty-property"),
    ("icon-no-mediatype", "icon"),
    ("package-required-bad-range", "required-range"),
];

#[test]
fn what_upstream_accepts_and_will_hurt_is_found_by_lint() {
    let Some(path) = olm_testing::shared::shared_path("golden/opm/validate-cases.jsonl") else {
        return;
    };
    let mut found = Vec::new();
    for line in fs::read_to_string(path).expect("cases").lines() {
        let case: Case = serde_json::from_str(line).expect("case");
        let dir = tempfile::tempdir().expect("folder");
        for (name, content) in &case.files {
            fs::write(dir.path().join(name), content).expect("file");
        }
        let report = lint(dir.path(), &ShapeValidator);
        assert_eq!(report.faults.is_empty(), case.exit == 0, "{}", case.case);
        let rules: Vec<String> = report
            .findings
            .iter()
            .map(|finding| finding.rule.name())
            .collect();
        if let Some((name, rule)) = HURTING.iter().find(|(name, _)| *name == case.case) {
            assert!(rules.iter().any(|found| found == rule), "{name}: {rules:?}");
            found.push(*name);
        }
    }
    assert_eq!(found.len(), HURTING.len(), "{found:?}");
}
