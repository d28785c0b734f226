//! What a round of a namespace leaves for the next.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::approver::Approver;
use super::plan_object::Terms;

/// What no object holds and the next round has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Warnings that there was reason for, so that each is told once as long as there is.
    pub told: Vec<String>,
    /// Since when in every round a plan could not be made.
    pub failing_since: Option<Timestamp>,
    /// How often the making of a plan was refused, by its approver.
    pub refused: BTreeMap<Approver, u32>,
    /// Plans whose terms were changed on their way in, as a webhook does, by uid: what they were asked for with. They are taken as they
    /// are, as long as they would be asked for so again: others would be changed, too.
    pub rewritten: BTreeMap<String, Terms>,
}
