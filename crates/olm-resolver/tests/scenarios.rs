//! Every file of `scenarios/` is a namespace with its expected result.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

mod checklist;
mod scenario;

use std::fs;
use std::path::{Path, PathBuf};

use scenario::{Scenario, outcome};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn read(file: &Path) -> Scenario {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    olm_fbc::yaml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// Returns the differences from a scenario's expectation, in either order of its lists.
fn differences(file: &Path) -> Vec<String> {
    let scenario = read(file);
    let name = file.file_stem().unwrap().to_string_lossy();
    let mut wrong = Vec::new();
    for reversed in [false, true] {
        let found = outcome(&scenario.problem(reversed));
        if found != scenario.expect {
            let (expected, found) = (json(&scenario.expect), json(&found));
            wrong.push(format!(
                "{name}, reversed: {reversed}\n  expected {expected}\n  found {found}"
            ));
        }
    }
    wrong
}

fn json(expect: &scenario::Expect) -> String {
    serde_json::to_string(expect).unwrap()
}

#[test]
fn scenarios_come_out_as_written() {
    let mut files: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let wrong: Vec<String> = files.iter().flat_map(|file| differences(file)).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        2 * files.len(),
        wrong.join("\n")
    );
    assert!(files.len() >= 100, "only {} scenarios found", files.len());
}
