//! What the last test run said of each test.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::workspace;

/// The outcome of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// It was not run.
    Ignored,
}

/// Results by test name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Test name (with its modules) to outcome.
    pub tests: BTreeMap<String, Verdict>,
    /// The summary lines cargo printed, in order.
    pub summaries: Vec<String>,
}

impl Results {
    /// Takes in a line of `cargo test`'s output.
    pub(crate) fn read_line(&mut self, line: &str) {
        if line.starts_with("test result:") {
            self.summaries.push(line.to_owned());
        } else if let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        {
            let verdict = match outcome.split([',', ' ']).next() {
                Some("ok") => Verdict::Passed,
                Some("ignored") => Verdict::Ignored,
                _ => Verdict::Failed,
            };
            self.tests
                .insert(name.trim_end_matches(" - should panic").to_owned(), verdict);
        }
    }

    /// The file results are kept in between runs.
    pub(crate) fn path() -> PathBuf {
        workspace::root().join("target/test-results.json")
    }

    /// The last run's results; empty when there was none.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let path = Self::path();
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))
            }
            Err(_) => Ok(Self::default()),
        }
    }

    /// Keeps the results for `cargo xtask checklist`; tests that did not run this time keep their last one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        let mut all = Self::load().unwrap_or_default();
        all.tests.extend(self.tests.clone());
        all.summaries.clone_from(&self.summaries);
        let path = Self::path();
        fs::write(&path, serde_json::to_vec_pretty(&all)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_lines_are_understood() {
        let mut results = Results::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test c ... FAILED",
            "test d ... ignored, needs a printer",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ] {
            results.read_line(line);
        }
        assert_eq!(results.tests["a::b"], Verdict::Passed);
        assert_eq!(results.tests["c"], Verdict::Failed);
        assert_eq!(results.tests["d"], Verdict::Ignored);
        assert_eq!(results.summaries.len(), 1);
    }
}
