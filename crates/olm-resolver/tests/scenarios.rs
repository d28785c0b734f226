//! Every file of `scenarios/` is a namespace and what must come out of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

mod scenario;

use std::fs;
use std::path::Path;

use scenario::{Scenario, outcome};

#[test]
fn scenarios_come_out_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut wrong = Vec::new();
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(file).unwrap();
        let scenario: Scenario = olm_fbc::yaml::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        for reversed in [false, true] {
            let found = outcome(&scenario.problem(reversed));
            if found != scenario.expect {
                wrong.push(format!(
                    "{name}, reversed: {reversed}\n  expected {:#?}\n  found {found:#?}",
                    scenario.expect
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        2 * files.len(),
        wrong.join("\n")
    );
    assert!(files.len() >= 40, "only {} scenarios found", files.len());
}
