//! Durations of the parts of a test run.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::progress;

/// Shorter rows are summed up.
const SHORT: Duration = Duration::from_secs(1);

/// The part of a run that a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Compilation.
    Compile,
    /// Preparation of a cluster.
    SetUp,
    /// Tests.
    Run,
}

#[derive(Debug, Clone)]
struct Row {
    part: Part,
    name: String,
    took: Duration,
    passed: bool,
}

/// Collects rows during the run, from several threads.
#[derive(Debug)]
pub(super) struct Timing {
    started: Instant,
    rows: Mutex<Vec<Row>>,
}

impl Timing {
    /// Starts the clock of the run.
    pub(super) fn start() -> Self {
        Self {
            started: Instant::now(),
            rows: Mutex::default(),
        }
    }

    /// Runs `work` and records its duration, whether it succeeds or not.
    ///
    /// # Errors
    /// The errors of `work`.
    pub(super) fn measure<T>(
        &self,
        part: Part,
        name: &str,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        let outcome = work();
        self.add(part, name, began.elapsed(), outcome.is_ok());
        outcome
    }

    /// Records the duration of `name`.
    pub(super) fn add(&self, part: Part, name: &str, took: Duration, passed: bool) {
        let row = Row {
            part,
            name: name.to_owned(),
            took,
            passed,
        };
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }
}

/// Prints a table, longest first within each part. Rows may have run concurrently, so their sum may exceed the total.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone();
        rows.sort_by(|one, other| (one.part, other.took).cmp(&(other.part, one.took)));
        writeln!(f, "where the time went (some of it side by side):")?;
        for row in rows.iter().filter(|row| !row.is_short()) {
            let part = match row.part {
                Part::Compile => "compile",
                Part::SetUp => "set up",
                Part::Run => "run",
            };
            let verdict = if row.passed { "" } else { "  FAILED" };
            writeln!(
                f,
                "  {part:<8} {:<44} {:>12}{verdict}",
                row.name,
                progress::seconds(row.took)
            )?;
        }
        let short: Vec<&Row> = rows.iter().filter(|row| row.is_short()).collect();
        if !short.is_empty() {
            let sum = short.iter().map(|row| row.took).sum();
            let name = format!("{} others, shorter than a second each", short.len());
            writeln!(f, "  {:<8} {name:<44} {:>12}", "", progress::seconds(sum))?;
        }
        let whole = progress::seconds(self.started.elapsed());
        write!(f, "  {:<8} {:<44} {whole:>12}", "", "from beginning to end")
    }
}

impl Row {
    /// A failure is always listed.
    fn is_short(&self) -> bool {
        self.took < SHORT && self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiling_comes_first_and_short_rows_are_counted_together() {
        let timing = Timing::start();
        let seconds = Duration::from_secs;
        timing.add(Part::Run, "olm-fbc lib", seconds(3), true);
        timing.add(Part::Run, "olm-oci fuzz", Duration::from_millis(10), false);
        timing.add(Part::Run, "opm cli", Duration::from_millis(400), true);
        timing.add(Part::Run, "opm plan", Duration::from_millis(400), true);
        timing.add(Part::Compile, "tests", seconds(70), true);
        let text = timing.to_string();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|word| !word.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(rows[1], ["compile", "tests", "1 min 10 s"]);
        assert_eq!(rows[2], ["run", "olm-fbc lib", "3.0 s"]);
        assert_eq!(rows[3], ["run", "olm-oci fuzz", "0.0 s", "FAILED"]);
        assert_eq!(rows[4], ["2 others, shorter than a second each", "0.8 s"]);
        assert_eq!(rows[5], ["from beginning to end", "0.0 s"]);
    }
}
