//! What becomes of plans that wait by policy: approved, told what they wait for, or discarded.

use std::collections::{BTreeMap, BTreeSet};

use super::super::waiting::WaitingPlan;
use super::Draft;

/// A plan that is approved.
#[derive(Debug, Clone)]
pub(crate) struct PlanApproval {
    /// Which of the round's actions does it.
    pub action: usize,
    /// Its name.
    pub plan: String,
    /// Subscriptions that refer to it.
    pub subscriptions: Vec<String>,
}

/// A plan that is deleted, so that its Subscriptions have others made.
#[derive(Debug, Clone)]
pub(crate) struct Discard {
    /// Which of the round's actions does it.
    pub action: usize,
    /// Its ClusterServiceVersions.
    pub csv_names: Vec<String>,
    /// Subscriptions that refer to it, with what they are told if it stays.
    pub texts: BTreeMap<String, String>,
}

/// A plan that is marked with failures that came while it waited.
#[derive(Debug, Clone)]
pub(crate) struct Marking {
    /// Which of the round's actions does it.
    pub action: usize,
    /// Its name.
    pub plan: String,
    /// The mark.
    pub mark: String,
}

impl Draft<'_> {
    /// Approves those that nothing keeps any more, and discards those that never will be approved by themselves.
    pub(super) fn settle_waiting(&mut self, plans: Vec<WaitingPlan>) {
        let wanted: Vec<&[String]> = plans
            .iter()
            .filter(|plan| plan.is_wanted())
            .map(WaitingPlan::csv_names)
            .collect();
        let discarded = &mut self.verdict.last.discarded;
        discarded.retain(|names| !wanted.contains(&names.as_slice()));
        let names: BTreeSet<String> = plans.iter().map(WaitingPlan::name).collect();
        self.verdict.last.marks.retain(|name, _| names.contains(name));
        for waiting in plans {
            if waiting.is_open() {
                let approval = PlanApproval {
                    action: self.push(waiting.approval()),
                    plan: waiting.name(),
                    subscriptions: waiting.subscriptions,
                };
                self.verdict.approvals.push(approval);
            } else if waiting.is_useless() && !self.was_discarded(&waiting) {
                self.discard(&waiting);
            } else {
                self.remember_failures(&waiting);
                let again = waiting.requeue(self.now);
                self.wait(waiting.subscriptions.iter(), |name| waiting.text(name), again);
            }
        }
    }

    /// Whether one like it was discarded, and this is what was made instead: another one would be no better.
    fn was_discarded(&self, waiting: &WaitingPlan) -> bool {
        let mut discarded = self.verdict.last.discarded.iter();
        discarded.any(|names| names == waiting.csv_names())
    }

    /// Once for each change: where something else takes the mark off again, writing it goes on for ever.
    fn remember_failures(&mut self, waiting: &WaitingPlan) {
        let (plan, written) = (waiting.name(), &self.verdict.last.marks);
        let Some(mark) = waiting
            .new_mark
            .clone()
            .filter(|mark| written.get(&plan) != Some(mark))
        else {
            return;
        };
        let action = self.push(waiting.marking(&mark));
        self.verdict.markings.push(Marking { action, plan, mark });
    }

    fn discard(&mut self, waiting: &WaitingPlan) {
        let texts = waiting.subscriptions.iter();
        let texts = texts.filter_map(|name| Some((name.clone(), waiting.text(name)?)));
        let texts = texts.collect();
        let discard = Discard {
            action: self.push(waiting.deletion()),
            csv_names: waiting.csv_names().to_vec(),
            texts,
        };
        self.verdict.discards.push(discard);
    }
}
