//! Advice for failures: the gentlest changes that end them, each tried by the resolver.
//!
//! ```text
//! Explanation ──▶ candidates ──▶ trials, the gentlest first ──▶ Advice
//!                 changes of     on a copy of the namespace     at most five alternatives,
//!                 who takes part                                or that none helps
//! ```
//!
//! A change that helps has to affect the contradiction, so only objects that take part in it are changed. Any
//! other change leaves a minimal contradiction as it is.

mod candidates;
mod change;
mod failed_upgrade;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use self::change::destroys_mark;
pub use self::change::{Change, ChangeKind, Harm};
pub(crate) use self::change::{anew_text, channel_text};
pub use self::failed_upgrade::FailedUpgrade;
pub(crate) use self::failed_upgrade::failed_upgrades;
use crate::catalog::CatalogKey;
use crate::explain::Explanation;
use crate::installed::{Readings, adoptable};
use crate::problem::Problem;
use crate::resolve::failing;
use crate::universe::usable;
use crate::work::Work;

/// Maximum number of alternatives listed.
pub const MAX_FIXES: usize = 5;

/// Work on all explanations of a namespace together, in the units of [`Work`]. Each explanation has an equal
/// share of it.
pub const SHARED_WORK: usize = 6_000_000;

/// Work to copy a Subscription or an installed operator, and to look it up.
const COPY: usize = 5;

/// Work of a trial beside the entries it visits.
const OVERHEAD: usize = 50;

/// A change that ends the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The change.
    pub change: Change,
    /// Its effect on running operators.
    pub harm: Harm,
}

/// Advice on one failure. As JSON it has the numbers alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    /// Alternatives, the gentlest first, at most [`MAX_FIXES`].
    #[serde(skip)]
    pub fixes: Vec<Fix>,
    /// How many fixes were found beyond those listed.
    #[serde(rename = "moreFixes")]
    pub more: usize,
    /// True if no change was found although the failure requires a change of objects.
    #[serde(skip)]
    pub is_stuck: bool,
    /// How many possible changes were tried.
    #[serde(rename = "triedChanges")]
    pub tried: usize,
    /// How many were not, as that would have been too much work: what is not listed may help all the same.
    #[serde(rename = "untriedChanges")]
    pub untried: usize,
    /// Upgrades that failed, of which the failure is a consequence. No alternative deletes an operator then.
    #[serde(skip)]
    pub failed_upgrades: Vec<FailedUpgrade>,
}

/// Finds advice for the failures of one namespace.
pub struct Advisor<'p> {
    problem: &'p Problem,
    /// Names of Subscriptions and installed operators that fail at present.
    failing: BTreeSet<String>,
    /// Subscriptions that users cannot change, as they do not exist yet.
    untouchable: BTreeSet<String>,
    /// Work for each explanation.
    share: usize,
    /// Parsed annotations, shared by all trials.
    readings: Readings,
    /// Installed operators without a Subscription, by package.
    adoptable: BTreeMap<String, BTreeSet<String>>,
}

impl<'p> Advisor<'p> {
    /// Returns an advisor. `failures` are all failures of the problem.
    pub fn new(problem: &'p Problem, failures: &[Explanation]) -> Self {
        Self::within(problem, failures, SHARED_WORK)
    }

    fn within(problem: &'p Problem, failures: &[Explanation], shared: usize) -> Self {
        let names = failures
            .iter()
            .flat_map(|f| f.subscriptions.iter().chain(&f.installed));
        Self {
            problem,
            failing: names.cloned().collect(),
            untouchable: BTreeSet::new(),
            share: shared / failures.len().max(1),
            readings: Readings::new(problem),
            adoptable: adoptable(problem),
        }
    }

    /// Excludes Subscriptions from changes, because they only exist once the examined plan is carried out.
    #[must_use]
    pub fn without(mut self, untouchable: &BTreeSet<String>) -> Self {
        self.untouchable.clone_from(untouchable);
        self
    }

    /// Returns the changes that would end one of the failures.
    pub fn advise(&self, explanation: &Explanation) -> Advice {
        let members = self.problem.subscriptions.len() + self.problem.installed.len();
        let copying = members * COPY + OVERHEAD;
        let mut trials = Trials {
            advisor: self,
            concerned: explanation
                .subscriptions
                .iter()
                .chain(&explanation.installed)
                .collect(),
            copying,
            expected: copying + explanation.work,
            tried: 0,
            left: self.share,
            untried: 0,
        };
        let failed_upgrades = failed_upgrades(self.problem, &explanation.subscriptions);
        let lacks_catalog = lacks_catalog(self.problem);
        let may_destroy = failed_upgrades.is_empty() && !lacks_catalog;
        let is_offered = |change: &Change| match change.kind {
            ChangeKind::Unsubscribe => !lacks_catalog,
            _ => may_destroy || change.destroys().is_none(),
        };
        let mut fixes = trials.singles(explanation, is_offered);
        let more = fixes.len().saturating_sub(MAX_FIXES);
        fixes.truncate(MAX_FIXES);
        Advice {
            is_stuck: fixes.is_empty() && explanation.is_unsatisfiable() && may_destroy,
            fixes,
            more,
            tried: trials.tried,
            untried: trials.untried,
            failed_upgrades,
        }
    }
}

/// Returns whether a catalog that a Subscription names does not exist for this namespace or cannot be read. Its content may be all
/// that is missing, so nothing that runs is given up meanwhile.
fn lacks_catalog(problem: &Problem) -> bool {
    let usable = usable(problem);
    let is_readable = |key: &CatalogKey| {
        let mut own = usable.iter().filter(|catalog| catalog.key == *key);
        own.any(|catalog| catalog.content.is_ok())
    };
    problem.subscriptions.iter().any(|s| !is_readable(&s.catalog))
}

struct Trials<'a, 'p> {
    advisor: &'a Advisor<'p>,
    /// Names that must no longer fail.
    concerned: BTreeSet<&'a String>,
    /// Work to copy the namespace.
    copying: usize,
    /// Approximate work of one trial.
    expected: usize,
    /// Number of changes that were tried.
    tried: usize,
    /// Rest of the explanation's share of the work.
    left: usize,
    /// Number of changes that were not tried.
    untried: usize,
}

impl Trials<'_, '_> {
    /// Returns single changes that help, the gentlest first, of those that may be offered. Once there are enough, more harmful ones
    /// are not tried.
    fn singles(&mut self, explanation: &Explanation, is_offered: impl Fn(&Change) -> bool) -> Vec<Fix> {
        let advisor = self.advisor;
        let mut found: Vec<Fix> = Vec::new();
        let candidates = candidates::of(
            advisor.problem,
            explanation,
            &advisor.untouchable,
            &advisor.adoptable,
        );
        let candidates = candidates.into_iter();
        for fix in candidates.filter(|fix| is_offered(&fix.change)) {
            let is_enough = found.len() >= MAX_FIXES && found.last().is_some_and(|last| last.harm < fix.harm);
            if is_enough {
                break;
            }
            if self.helps(&fix.change) {
                found.push(fix);
            }
        }
        found
    }

    /// Tries a change, within the rest of the work. The adoption of a version that failed helps without a solution: the Subscription
    /// then has a failed upgrade, with a way back.
    fn helps(&mut self, change: &Change) -> bool {
        if change.kind == ChangeKind::Adopt && change.csv.is_some() {
            self.tried += 1;
            return true;
        }
        if self.left < self.expected {
            self.untried += 1;
            return false;
        }
        let work = Work::within(self.left);
        work.add(self.copying);
        let changed = change.applied(self.advisor.problem);
        let answer = failing(&changed, &self.advisor.readings, &work);
        self.left = self.left.saturating_sub(work.done());
        if answer.is_err() && work.is_spent() {
            self.untried += 1;
            return false;
        }
        self.tried += 1;
        answer.is_ok_and(|still| {
            still
                .iter()
                .all(|name| !self.concerned.contains(name) && self.advisor.failing.contains(name))
        })
    }
}

impl Advice {
    /// Returns the advice as lines for people. `namespace` is that of the objects.
    pub fn lines(&self, namespace: &str) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(
            self.fixes
                .iter()
                .map(|fix| format!("to resolve: {}", fix.text(namespace))),
        );
        if self.more > 0 {
            lines.push(format!("… {} more changes of this kind would do", self.more));
        }
        match (self.is_stuck, self.untried) {
            (true, 0) => lines.push("no single change helps".to_owned()),
            (true, untried) => {
                let (tried, all) = (self.tried, self.tried + untried);
                lines.push(format!(
                    "found no change that helps; tried {tried} of {all} possible changes before the work limit"
                ));
            }
            (false, 0) => {}
            (false, untried) => {
                let (tried, all) = (self.tried, self.tried + untried);
                lines.push(format!(
                    "tried {tried} of {all} possible changes before the work limit"
                ));
            }
        }
        lines
    }
}

impl Fix {
    /// Returns the instruction in one line, with a mark if it destroys something.
    pub fn text(&self, namespace: &str) -> String {
        let mark = self.change.destroys().map(destroys_mark);
        format!("{}{}", self.change.text(namespace), mark.unwrap_or_default())
    }
}
