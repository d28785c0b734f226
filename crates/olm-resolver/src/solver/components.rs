//! Independent parts of an instance.

use std::collections::BTreeMap;

use super::{Instance, VariableId};
use crate::disjoint_sets::DisjointSets;

/// Returns the variables that constraints connect, ascending in each part.
pub(super) fn split(instance: &Instance) -> Vec<Vec<VariableId>> {
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
        .collect()
}
