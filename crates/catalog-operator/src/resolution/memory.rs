//! What a round of a namespace leaves for the next.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::gate::GateKey;
use super::plan_object::Terms;

/// What no object holds and the next round has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Warnings that there was reason for, so that each is told once as long as there is.
    pub told: Vec<String>,
    /// Since when in every round a plan could not be made.
    pub failing_since: Option<Timestamp>,
    /// Since when every try to approve a plan that waits for nothing has failed, by plan.
    pub approvals_failing: BTreeMap<String, Timestamp>,
    /// How often the making of a plan was refused, by its gate.
    pub refused: BTreeMap<GateKey, u32>,
    /// ClusterServiceVersions of plans that were discarded, the last ones last: what is made anew with the same ones, and is no better,
    /// stays.
    pub discarded: Vec<Vec<String>>,
    /// What plans were marked with while they waited, by name.
    pub marks: BTreeMap<String, String>,
    /// Plans whose terms were changed on their way in, as a webhook does, by uid: what they were asked for with. They are taken as they
    /// are, as long as they would be asked for so again: others would be changed, too.
    pub rewritten: BTreeMap<String, Terms>,
}
