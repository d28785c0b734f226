//! What would end a failure: the gentlest changes, each tried by the resolver.
//!
//! ```text
//! Explanation ──▶ candidates ──▶ trials, the gentlest first ──▶ Advice
//!                 changes of     on a copy of the region,       at most five alternatives,
//!                 who takes part which is all they can reach    or a pair, or that nothing helps
//! ```
//!
//! A change that helps has to touch the contradiction, so only who takes part in it is changed: what touches no constraint
//! of a minimal contradiction leaves it standing. For pairs the same holds for the first change, and for the second after it.

mod candidates;
mod change;
mod region;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeSet;

pub use self::change::{Change, Harm};
use self::region::Regions;
use crate::explain::Explanation;
use crate::names::{COMPARED_NAMES, Names};
use crate::problem::Problem;
use crate::resolve::{failing, resolve_without_hints};

/// Most alternatives listed.
pub const MAX_FIXES: usize = 5;

/// Resolutions tried for one explanation beyond its share, however large its region, while the namespace has room.
const MIN_TRIALS: usize = 24;

/// Subscriptions and installed operators that are resolved for all explanations of a namespace together, about. Each
/// explanation has an equal share of it.
pub const SHARED_WORK: usize = 120_000;

/// As much again is there for explanations whose share is too small for [`MIN_TRIALS`], for whoever comes first. So a namespace
/// costs no more than both, however many of its Subscriptions fail.
pub const SPARE_WORK: usize = 120_000;

/// Pairs of changes that are thought of for one explanation.
const MAX_PAIRS: usize = 1000;

/// What a trial costs beside its Subscriptions and operators, in as many of these.
const OVERHEAD: usize = 10;

/// One way out: changes that end the failure when all of them are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// One change, or two where no single one helps.
    pub changes: Vec<Change>,
    /// The worst any of them does.
    pub harm: Harm,
}

/// What can be done about one failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Alternatives, the gentlest first, at most [`MAX_FIXES`]. A pair stands here only where no single change helps.
    pub fixes: Vec<Fix>,
    /// Alternatives as gentle as the last one listed that were found to work and are not listed.
    pub more: usize,
    /// Whether nothing was found although a change of objects is what the failure asks for.
    pub is_stuck: bool,
    /// Changes that could not be tried for lack of time. Where there are any, what is not listed may help all the same.
    pub untried: usize,
}

/// Finds advice for the failures of one namespace.
pub struct Advisor<'p> {
    problem: &'p Problem,
    /// Names of Subscriptions and installed operators that fail as things are.
    failing: BTreeSet<String>,
    /// Subscriptions that nobody can change, as they do not exist yet.
    untouchable: BTreeSet<String>,
    regions: Option<Regions>,
    /// Work that each explanation may do.
    share: usize,
    /// What is left of [`SPARE_WORK`].
    spare: Cell<usize>,
    names: Names,
    /// What carrying out the plan that waits does at least.
    approval: Harm,
}

impl<'p> Advisor<'p> {
    /// `failures` are all failures of the problem.
    pub fn new(problem: &'p Problem, failures: &[Explanation]) -> Self {
        let names = failures
            .iter()
            .flat_map(|f| f.subscriptions.iter().chain(&f.installed));
        let compared = Names::new(COMPARED_NAMES);
        Self {
            problem,
            failing: names.cloned().collect(),
            untouchable: BTreeSet::new(),
            regions: if failures.is_empty() {
                None
            } else {
                Regions::new(problem, &compared)
            },
            share: SHARED_WORK / failures.len().max(1),
            spare: Cell::new(SPARE_WORK),
            names: compared,
            approval: match change::upgrades_wait(problem) {
                true => Harm::Running,
                false => Harm::None,
            },
        }
    }

    /// Leaves Subscriptions as they are, because they only come into being with the plan that is looked at.
    #[must_use]
    pub fn without(mut self, untouchable: &BTreeSet<String>) -> Self {
        self.untouchable.clone_from(untouchable);
        self
    }

    fn bounds(&self) -> candidates::Bounds<'_> {
        candidates::Bounds {
            untouchable: &self.untouchable,
            compared: &self.names,
            approval: self.approval,
        }
    }

    /// What would end one of the failures.
    pub fn advise(&self, explanation: &Explanation) -> Advice {
        let members = match &self.regions {
            Some(regions) => regions.size(explanation),
            None => self.problem.subscriptions.len() + self.problem.installed.len(),
        };
        let mut trials = Trials {
            advisor: self,
            concerned: explanation
                .subscriptions
                .iter()
                .chain(&explanation.installed)
                .collect(),
            size: members + OVERHEAD,
            tried: 0,
            share: self.share,
            untried: 0,
        };
        if !trials.has_room() {
            // Even to put a large region together costs as much as a trial.
            return Advice {
                untried: candidates::of(self.problem, explanation, self.bounds()).len(),
                is_stuck: explanation.is_unsatisfiable(),
                ..Advice::default()
            };
        }
        let region = match &self.regions {
            Some(regions) => regions.limit(self.problem, explanation),
            None => self.problem.clone(),
        };
        let found = trials.singles(&region, explanation);
        let mut advice = listed(found);
        if advice.fixes.is_empty() && explanation.is_unsatisfiable() {
            advice.fixes.extend(trials.pair(&region, explanation));
            advice.is_stuck = advice.fixes.is_empty();
        }
        advice.untried = trials.untried;
        advice
    }
}

/// What works as advice: all of the gentlest kinds of harm that there is room for.
fn listed(found: Vec<(Change, Harm)>) -> Advice {
    let more = found.len().saturating_sub(MAX_FIXES);
    let fixes = found.into_iter().take(MAX_FIXES).map(|(change, harm)| Fix {
        changes: vec![change],
        harm,
    });
    Advice {
        fixes: fixes.collect(),
        more,
        ..Advice::default()
    }
}

struct Trials<'a, 'p> {
    advisor: &'a Advisor<'p>,
    /// Names that must not fail any more.
    concerned: BTreeSet<&'a String>,
    /// What one trial costs.
    size: usize,
    tried: usize,
    /// What is left of the explanation's own share.
    share: usize,
    /// Changes that were not tried.
    untried: usize,
}

impl Trials<'_, '_> {
    /// Single changes that help, the gentlest first. Once there are enough, nothing that harms more is tried.
    fn singles(&mut self, region: &Problem, explanation: &Explanation) -> Vec<(Change, Harm)> {
        let mut found: Vec<(Change, Harm)> = Vec::new();
        for (change, harm) in candidates::of(region, explanation, self.advisor.bounds()) {
            let is_enough = found.len() >= MAX_FIXES && found.last().is_some_and(|(_, last)| *last < harm);
            if is_enough {
                break;
            }
            if self.helps(&change.applied(region)) {
                found.push((change, harm));
            }
        }
        found
    }

    /// The gentlest pair that helps.
    fn pair(&mut self, region: &Problem, explanation: &Explanation) -> Option<Fix> {
        let mut firsts: Vec<Change> = Vec::new();
        let mut pairs: Vec<(Harm, Harm, usize, usize, Change)> = Vec::new();
        for (first, first_harm) in candidates::of(region, explanation, self.advisor.bounds()) {
            if !self.may_try() {
                continue;
            }
            let changed = first.applied(region);
            // What the first change leaves unresolved names those who can still be changed.
            let Some(rest) = self.rest(&changed) else { continue };
            let seconds = candidates::of(&changed, &rest, self.advisor.bounds());
            for (place, (second, second_harm)) in seconds.into_iter().enumerate() {
                let (worst, least) = (first_harm.max(second_harm), first_harm.min(second_harm));
                pairs.push((worst, least, place, firsts.len(), second));
            }
            firsts.push(first);
            if pairs.len() > 2 * MAX_PAIRS {
                self.keep_gentlest(&mut pairs);
            }
        }
        self.keep_gentlest(&mut pairs);
        let helping = pairs
            .into_iter()
            .find(|(_, _, _, first, second)| self.helps(&second.applied(&firsts[*first].applied(region))));
        let (harm, _, _, first, second) = helping?;
        let first = firsts.swap_remove(first);
        Some(Fix {
            changes: vec![first, second],
            harm,
        })
    }

    /// The pairs that may be tried, in the order in which they are.
    fn keep_gentlest(&mut self, pairs: &mut Vec<(Harm, Harm, usize, usize, Change)>) {
        pairs.sort_by_key(|&(worst, least, place, first, _)| (worst, least, place, first));
        self.untried += pairs.len().saturating_sub(MAX_PAIRS);
        pairs.truncate(MAX_PAIRS);
    }

    /// The first failure that is left for those concerned.
    fn rest(&self, changed: &Problem) -> Option<Explanation> {
        let resolution = resolve_without_hints(changed).ok()?;
        let mut failures = resolution.failures.into_iter();
        failures.find(|failure| {
            let mut names = failure.subscriptions.iter().chain(&failure.installed);
            names.any(|name| self.concerned.contains(name))
        })
    }

    fn helps(&mut self, changed: &Problem) -> bool {
        if !self.may_try() {
            return false;
        }
        failing(changed).is_ok_and(|still| {
            still
                .iter()
                .all(|name| !self.concerned.contains(name) && self.advisor.failing.contains(name))
        })
    }

    fn has_room(&self) -> bool {
        self.share >= self.size || (self.tried < MIN_TRIALS && self.advisor.spare.get() >= self.size)
    }

    /// Pays for a trial: from the own share, and then from what all have to spare.
    fn may_try(&mut self) -> bool {
        if !self.has_room() {
            self.untried += 1;
            return false;
        }
        self.tried += 1;
        match self.share.checked_sub(self.size) {
            Some(rest) => self.share = rest,
            None => self.advisor.spare.set(self.advisor.spare.get() - self.size),
        }
        true
    }
}

impl Advice {
    /// The advice as lines for people. `namespace` is that of the objects.
    pub fn lines(&self, namespace: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let is_pair = self.fixes.first().is_some_and(|fix| fix.changes.len() > 1);
        if is_pair {
            lines.push("no single change helps; these two together do".to_owned());
        }
        lines.extend(
            self.fixes
                .iter()
                .map(|fix| format!("to resolve: {}", fix.text(namespace))),
        );
        if self.more > 0 {
            lines.push(format!("… {} more changes of this kind would do", self.more));
        }
        match (self.is_stuck, self.untried) {
            (true, 0) => lines.push("no single change helps, and no two together".to_owned()),
            (true, untried) => {
                lines.push(format!(
                    "no change was found that helps; {untried} of the possible ones were not tried"
                ));
            }
            (false, 0) => {}
            (false, untried) => lines.push(format!("{untried} more possible changes were not tried")),
        }
        lines
    }
}

impl Fix {
    /// What to do in one line, with what it destroys.
    pub fn text(&self, namespace: &str) -> String {
        let changes: Vec<String> = self.changes.iter().map(|change| change.text(namespace)).collect();
        let destroyed: Vec<&str> = self.changes.iter().filter_map(Change::destroys).collect();
        let mark = if destroyed.is_empty() {
            String::new()
        } else {
            format!(" [destroys what runs: {}]", destroyed.join(", "))
        };
        format!("{}{mark}", changes.join("; and "))
    }
}
