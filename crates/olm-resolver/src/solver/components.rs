//! Independent parts of an instance.

use std::collections::BTreeMap;

use super::{Instance, VariableId};
use crate::disjoint_sets::DisjointSets;

/// Variables connected by constraints, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    variables: Vec<VariableId>,
}

impl Component {
    /// Returns the variables of this part, ascending.
    pub fn variables(&self) -> &[VariableId] {
        &self.variables
    }
}

pub(super) fn split(instance: &Instance) -> Vec<Component> {
    let mut sets = DisjointSets::new(instance.len());
    for index in 0..instance.len() {
        for constraint in instance.constraints(VariableId(index)) {
            constraint
                .named()
                .iter()
                .for_each(|other| sets.join(index, other.0));
        }
    }
    let mut parts: BTreeMap<usize, Vec<VariableId>> = BTreeMap::new();
    for index in 0..instance.len() {
        parts.entry(sets.root(index)).or_default().push(VariableId(index));
    }
    parts
        .into_values()
        .filter(|variables| variables.iter().any(|&v| instance.is_anchor(v)))
        .map(|variables| Component { variables })
        .collect()
}
