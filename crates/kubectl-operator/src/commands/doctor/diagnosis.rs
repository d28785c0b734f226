//! Combines the results of all checks. Pure.

use serde::Serialize;

use super::finding::{Finding, MAX_FINDINGS, Severity};
use super::observed::Unread;
use crate::terminal::{Colours, Mark};
use crate::turns::in_turn;

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Diagnosis {
    /// True if every check ran and found nothing but notes.
    pub healthy: bool,
    /// Findings, the most severe first.
    pub findings: Vec<Finding>,
    /// Checks that found nothing.
    pub fine: Vec<&'static str>,
}

/// Combines the results of checks, each with the statement that is true if it finds nothing.
pub(super) fn assemble<'a>(
    checks: impl IntoIterator<Item = (&'static str, Result<Vec<Finding>, &'a Unread>)>,
) -> Diagnosis {
    let (mut findings, mut fine) = (Vec::new(), Vec::new());
    for (name, checked) in checks {
        let mut found = match checked {
            Ok(found) if found.is_empty() => {
                fine.push(name);
                continue;
            }
            Ok(found) => found,
            Err(cause) => vec![Finding::not_checked(format!("whether {name}"), cause)],
        };
        found.sort();
        found.dedup();
        let more = found.len().saturating_sub(MAX_FINDINGS);
        let worst = found.first().map_or(Severity::NotChecked, |first| first.severity);
        // The limit keeps the most severe findings, taken from each namespace in turn.
        let mut found: Vec<Finding> = found
            .chunk_by(|one, other| one.severity == other.severity)
            .flat_map(|same| in_turn(same.iter().cloned(), |finding| finding.namespace().to_owned()))
            .take(MAX_FINDINGS)
            .collect();
        found.sort();
        if more > 0 {
            found.push(Finding::new(
                worst,
                format!("{more} more"),
                "there are more findings like these",
                "check one namespace at a time: -n NAMESPACE",
            ));
        }
        found.iter_mut().for_each(|finding| finding.check = name);
        findings.extend(found);
    }
    findings.sort_by_key(|finding| finding.severity);
    Diagnosis {
        healthy: findings.iter().all(|finding| finding.severity == Severity::Note),
        findings,
        fine,
    }
}

impl Diagnosis {
    /// Returns the first cause if no check could run.
    pub(super) fn no_answer(&self) -> Option<&str> {
        let unknown = |finding: &Finding| finding.severity == Severity::NotChecked;
        let first = self.findings.first()?;
        (self.fine.is_empty() && self.findings.iter().all(unknown)).then_some(&first.cause)
    }

    /// Returns the remedies that the text contains.
    pub(super) fn remedies(&self) -> String {
        let known = self
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::NotChecked);
        let remedies: Vec<&str> = known.map(|finding| finding.remedy.as_str()).collect();
        remedies.join("\n")
    }

    /// Returns the text: each finding with its remedy, then the counts.
    pub(crate) fn text(&self, is_wide: bool, colours: Colours) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let mark = match finding.severity {
                Severity::Error => Mark::Bad,
                Severity::Warning | Severity::NotChecked => Mark::Waits,
                Severity::Note => Mark::Fine,
            };
            let word = colours.paint(mark, &format!("{:<11}", finding.severity.as_str()));
            text.push_str(&format!("{word}  {}: {}\n", finding.object, finding.cause));
            if finding.severity != Severity::NotChecked {
                text.push_str(&format!("{:<11}  → {}\n", "", finding.remedy));
            }
        }
        for name in self.fine.iter().filter(|_| is_wide) {
            let word = colours.paint(Mark::Fine, &format!("{:<11}", "fine"));
            text.push_str(&format!("{word}  {name}\n"));
        }
        let count = |severity| {
            self.findings
                .iter()
                .filter(|finding| finding.severity == severity)
                .count()
        };
        text.push_str(&format!(
            "errors: {}, warnings: {}, not checked: {}, fine: {}\n",
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::NotChecked),
            self.fine.len()
        ));
        text
    }
}
