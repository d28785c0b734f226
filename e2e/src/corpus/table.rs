//! The result of a run as a table.

use std::fmt;
use std::time::Duration;

/// One Subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Name of the package.
    pub package: String,
    /// Namespaces that its OperatorGroup selects.
    pub mode: String,
    /// Approval of its InstallPlans.
    pub approval: String,
    /// Number of upgrade edges walked.
    pub edges: usize,
    /// Expected result.
    pub expected: String,
    /// Last observed state.
    pub seen: String,
    /// Time until the expected result.
    pub took: Option<Duration>,
    /// Difference from the expectation.
    pub fault: Option<String>,
}

/// Maximum width of the last column; faults are printed in full below the table.
const WIDEST: usize = 110;

/// Prints rows under a heading, then the faults.
#[derive(Debug)]
pub struct Table<'a>(pub &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = [
            "package", "mode", "approval", "edges", "seconds", "expected", "seen",
        ]
        .map(str::to_owned);
        let lines: Vec<[String; 7]> = std::iter::once(heading).chain(self.0.iter().map(cells)).collect();
        let mut widths = [0; 7];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for line in &lines {
            let padded = line
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        for row in self.0 {
            if let Some(fault) = &row.fault {
                writeln!(f, "{}: {fault}", row.package)?;
            }
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 7] {
    let took = row.took.map_or("-".to_owned(), |took| took.as_secs().to_string());
    let seen: String = row.seen.chars().take(WIDEST).collect();
    let mark = if row.fault.is_some() { "WRONG " } else { "" };
    [
        row.package.clone(),
        row.mode.clone(),
        row.approval.clone(),
        row.edges.to_string(),
        took,
        row.expected.clone(),
        format!("{mark}{seen}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_and_faults_come_last() {
        let row = |package: &str, fault: Option<&str>| Row {
            package: package.to_owned(),
            mode: "OwnNamespace".to_owned(),
            approval: "Manual".to_owned(),
            edges: 2,
            expected: "Succeeded/InstallSucceeded".to_owned(),
            seen: "Succeeded".to_owned(),
            took: fault.is_none().then_some(Duration::from_millis(2500)),
            fault: fault.map(str::to_owned),
        };
        let text = Table(&[row("a", None), row("longer", Some("no"))]).to_string();
        assert_eq!(
            text,
            "package  mode          approval  edges  seconds  expected                    seen\n\
             a        OwnNamespace  Manual    2      2        Succeeded/InstallSucceeded  Succeeded\n\
             longer   OwnNamespace  Manual    2      -        Succeeded/InstallSucceeded  WRONG Succeeded\n\
             longer: no\n"
        );
    }
}
