//! Constraints as clauses, and the smallest set of them that cannot hold together.

use std::collections::{BTreeMap, BTreeSet};

use varisat::Lit;

use super::cardinality::at_most_one;
use super::sat::{Answer, Varisat};
use super::{Constraint, ConstraintRef, Instance, SolverError, VariableId};
use crate::work::Work;

/// A SAT engine with one literal per variable of a component.
pub(super) struct Encoding {
    pub(super) sat: Varisat,
    literals: BTreeMap<VariableId, Lit>,
}

impl Encoding {
    pub(super) fn new(mut sat: Varisat, component: &[VariableId]) -> Self {
        let literals = component.iter().map(|&v| (v, sat.variable())).collect();
        Encoding { sat, literals }
    }

    /// Returns the literal of a variable of this component.
    pub(super) fn literal(&self, variable: VariableId) -> Lit {
        self.literals[&variable]
    }

    /// Adds one constraint. It does not apply if a literal of `unless` holds.
    pub(super) fn add(&mut self, holder: VariableId, constraint: &Constraint, unless: &[Lit]) {
        let subject = self.literal(holder);
        let clause: Vec<Lit> = match constraint {
            Constraint::Mandatory => vec![subject],
            Constraint::Prohibited => vec![!subject],
            // A variable that meets its own dependency makes the clause a tautology.
            Constraint::Dependency(candidates) if candidates.contains(&holder) => return,
            Constraint::Dependency(candidates) => {
                let distinct: BTreeSet<Lit> = candidates.iter().map(|c| self.literal(*c)).collect();
                std::iter::once(!subject).chain(distinct).collect()
            }
            Constraint::Conflict(other) if *other == holder => vec![!subject],
            Constraint::Conflict(other) => vec![!subject, !self.literal(*other)],
            Constraint::AtMostOne(members) => {
                let members: Vec<Lit> = members.iter().map(|m| self.literal(*m)).collect();
                at_most_one(&mut self.sat, &members, unless);
                return;
            }
        };
        let clause: Vec<Lit> = clause.iter().chain(unless).copied().collect();
        self.sat.clause(&clause);
    }
}

/// Returns a minimal unsatisfiable set of a component without a selection. Constraints of lower rank are
/// dropped first, and within a rank the later ones. The set stays larger if making it smaller would exceed
/// the limit on work.
pub(super) fn minimal(
    instance: &Instance,
    component: &[VariableId],
    sat: Varisat,
    work: &Work,
    rank: impl Fn(ConstraintRef) -> u8,
) -> Result<Vec<ConstraintRef>, SolverError> {
    let mut encoding = Encoding::new(sat, component);
    let mut switches: BTreeMap<Lit, ConstraintRef> = BTreeMap::new();
    let mut core: Vec<(u8, Lit)> = Vec::new();
    for (reference, constraint) in instance.refs(component) {
        let switch = encoding.sat.variable();
        encoding.add(reference.variable, constraint, &[!switch]);
        switches.insert(switch, reference);
        core.push((rank(reference), switch));
    }
    // The most telling constraints come last, so that deletion goes from the front.
    core.sort_by_key(|&(rank, switch)| (rank, std::cmp::Reverse(switch)));

    let mut ranks: Vec<u8> = core.iter().map(|&(rank, _)| rank).collect();
    ranks.dedup();
    // Whole ranks are dropped first, then single constraints.
    for dropped in ranks {
        let rest: Vec<(u8, Lit)> = core
            .iter()
            .copied()
            .filter(|&(rank, _)| rank != dropped)
            .collect();
        if let Some(smaller) = unsatisfiable_part(&mut encoding.sat, &rest)? {
            core = smaller;
        }
    }
    let mut index = 0;
    // The other half of the limit is for the rest of the namespace.
    while index < core.len() && !work.is_half_spent() {
        work.add(core.len());
        let mut rest = core.clone();
        rest.remove(index);
        match unsatisfiable_part(&mut encoding.sat, &rest)? {
            // Constraints before `index` are needed even without everything after it, so they stay in front.
            Some(smaller) => core = smaller,
            None => index += 1,
        }
    }
    let mut found: Vec<ConstraintRef> = core
        .iter()
        .filter_map(|(_, switch)| switches.get(switch).copied())
        .collect();
    found.sort();
    Ok(found)
}

/// Returns the part of `constraints` that the engine needed for a contradiction, in their order. `None` if
/// all can hold.
fn unsatisfiable_part(
    sat: &mut Varisat,
    constraints: &[(u8, Lit)],
) -> Result<Option<Vec<(u8, Lit)>>, SolverError> {
    let assumptions: Vec<Lit> = constraints.iter().map(|&(_, switch)| switch).collect();
    match sat.solve(&assumptions)? {
        Answer::Satisfiable(_) => Ok(None),
        Answer::Unsatisfiable(failed) => {
            let failed: BTreeSet<Lit> = failed.into_iter().collect();
            Ok(Some(
                constraints
                    .iter()
                    .copied()
                    .filter(|(_, switch)| failed.contains(switch))
                    .collect(),
            ))
        }
    }
}
