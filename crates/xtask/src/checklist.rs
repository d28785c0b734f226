//! `cargo xtask checklist`: what the documents promise, and the test that holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::results::{Results, Verdict};
use crate::test::shared_folder;
use crate::workspace;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    /// For example `ARCH-001`.
    id: String,
    statement: String,
    /// The step of the plan that brings it.
    step: String,
}

/// Prints id, test and last result of every item that has a test or belongs to `step`.
///
/// # Errors
/// When the checklist cannot be read, or a test carries an id that is not on it.
pub(crate) fn run(step: Option<u8>) -> anyhow::Result<ExitCode> {
    let path = shared_folder().join("mission/checklist.md");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let items = parse_items(&text);
    let tests = find_tests(&workspace::root())?;
    let results = Results::load()?;
    let known: BTreeSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
    let unknown: Vec<&String> = tests.keys().filter(|id| !known.contains(id.as_str())).collect();

    let mut missing = 0;
    for item in &items {
        let wanted = step.is_some_and(|step| item.step == step.to_string());
        match tests.get(&item.id) {
            Some(names) => {
                for name in names {
                    println!("{:<10} {:<8} {name}", item.id, last_result(&results, name));
                }
            }
            None if wanted => {
                missing += 1;
                println!("{:<10} {:<8} (no test) {}", item.id, "missing", item.statement);
            }
            None => {}
        }
    }
    if !unknown.is_empty() {
        bail!("tests carry ids that are not on the checklist: {unknown:?}");
    }
    Ok(if missing == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn last_result(results: &Results, test: &str) -> &'static str {
    let suffix = format!("::{test}");
    let found = results
        .tests
        .iter()
        .find(|(name, _)| *name == test || name.ends_with(&suffix));
    match found {
        Some((_, Verdict::Passed)) => "passed",
        Some((_, Verdict::Failed)) => "FAILED",
        Some((_, Verdict::Ignored)) => "ignored",
        None => "not run",
    }
}

/// Rows `ID | statement | document | step` of the checklist's tables.
fn parse_items(text: &str) -> Vec<Item> {
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let (id, step) = (cells.first()?, cells.last()?);
        let (letters, digits) = id.split_once('-')?;
        let is_id = cells.len() >= 4
            && letters
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
            && digits.len() == 3
            && digits.chars().all(|c| c.is_ascii_digit());
        is_id.then(|| Item {
            id: (*id).to_owned(),
            statement: cells[1].to_owned(),
            step: (*step).to_owned(),
        })
    });
    rows.collect()
}

/// Test functions whose names begin with an id, by id.
fn find_tests(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut folders = vec![root.join("crates"), root.join("e2e")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source =
                    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                for (id, name) in source.lines().filter_map(test_of_line) {
                    tests.entry(id).or_default().insert(name);
                }
            }
        }
    }
    Ok(tests)
}

/// `fn arch_001_does_this(` gives (`ARCH-001`, `arch_001_does_this`).
fn test_of_line(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let name = line
        .strip_prefix("fn ")
        .or_else(|| line.strip_prefix("async fn "))?
        .split('(')
        .next()?;
    let mut parts = name.splitn(3, '_');
    let (letters, digits, _) = (parts.next()?, parts.next()?, parts.next()?);
    let is_id = digits.len() == 3 && digits.chars().all(|c| c.is_ascii_digit());
    is_id.then(|| (format!("{}-{digits}", letters.to_uppercase()), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_checklist_are_read() {
        let text = "id | statement | document | step\n--- | --- | --- | ---\nARCH-001 | A `x | y` works | 001 | 1\nprose - line\n";
        let items = parse_items(text);
        assert_eq!(items.len(), 1);
        assert_eq!((items[0].id.as_str(), items[0].step.as_str()), ("ARCH-001", "1"));
    }

    #[test]
    fn tests_carry_their_id_in_front() {
        let found = test_of_line("    async fn arch_001_does_this() {");
        assert_eq!(
            found,
            Some(("ARCH-001".to_owned(), "arch_001_does_this".to_owned()))
        );
        assert_eq!(test_of_line("fn plain_test() {"), None);
        assert_eq!(test_of_line("let x = 1;"), None);
    }
}
