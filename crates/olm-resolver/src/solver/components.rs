//! Parts of an instance that have nothing to do with each other.

use std::collections::BTreeMap;

use super::{Constraint, Instance, VariableId};

/// Variables connected by constraints, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    variables: Vec<VariableId>,
}

impl Component {
    /// The variables of this part, ascending.
    pub fn variables(&self) -> &[VariableId] {
        &self.variables
    }
}

pub(super) fn split(instance: &Instance) -> Vec<Component> {
    let mut sets = DisjointSets::new(instance.len());
    for index in 0..instance.len() {
        for constraint in instance.constraints(VariableId(index)) {
            match constraint {
                Constraint::Mandatory | Constraint::Prohibited => {}
                Constraint::Dependency(others) | Constraint::AtMost(_, others) => {
                    others.iter().for_each(|other| sets.join(index, other.0));
                }
                Constraint::Conflict(other) => sets.join(index, other.0),
            }
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

/// Union-find whose representative is always the smallest member, which keeps the parts in input order.
struct DisjointSets {
    parent: Vec<usize>,
}

impl DisjointSets {
    fn new(len: usize) -> Self {
        DisjointSets {
            parent: (0..len).collect(),
        }
    }

    fn root(&mut self, mut index: usize) -> usize {
        while self.parent[index] != index {
            self.parent[index] = self.parent[self.parent[index]];
            index = self.parent[index];
        }
        index
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }
}
