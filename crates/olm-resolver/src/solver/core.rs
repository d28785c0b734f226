//! Constraints as clauses, and the smallest set of them that cannot hold together.

use std::collections::{BTreeMap, BTreeSet};

use super::cardinality::at_most;
use super::sat::{Answer, Literal, Sat};
use super::{Component, Constraint, ConstraintRef, Instance, SolverError, VariableId};
use crate::work::Work;

/// A SAT engine with one literal per variable of a component.
pub(super) struct Encoding<S> {
    pub(super) sat: S,
    literals: BTreeMap<VariableId, Literal>,
}

impl<S: Sat> Encoding<S> {
    pub(super) fn new(mut sat: S, component: &Component) -> Self {
        let literals = component
            .variables()
            .iter()
            .map(|&v| (v, sat.variable()))
            .collect();
        Encoding { sat, literals }
    }

    /// Returns the literal of a variable of this component.
    pub(super) fn literal(&self, variable: VariableId) -> Literal {
        self.literals[&variable]
    }

    /// Adds one constraint. It does not apply if a literal of `unless` holds.
    pub(super) fn add(&mut self, holder: VariableId, constraint: &Constraint, unless: &[Literal]) {
        let subject = self.literal(holder);
        let clause: Vec<Literal> = match constraint {
            Constraint::Mandatory => vec![subject],
            Constraint::Prohibited => vec![subject.negated()],
            // A variable that meets its own dependency makes the clause a tautology.
            Constraint::Dependency(candidates) if candidates.contains(&holder) => return,
            Constraint::Dependency(candidates) => {
                let distinct: BTreeSet<Literal> = candidates.iter().map(|c| self.literal(*c)).collect();
                std::iter::once(subject.negated()).chain(distinct).collect()
            }
            Constraint::Conflict(other) if *other == holder => vec![subject.negated()],
            Constraint::Conflict(other) => vec![subject.negated(), self.literal(*other).negated()],
            Constraint::AtMost(limit, members) => {
                let members: Vec<Literal> = members.iter().map(|m| self.literal(*m)).collect();
                at_most(&mut self.sat, *limit, &members, unless);
                return;
            }
        };
        let clause: Vec<Literal> = clause.iter().chain(unless).copied().collect();
        self.sat.clause(&clause);
    }
}

/// Returns a minimal unsatisfiable set of a component without a selection. Constraints of lower rank are
/// dropped first, and within a rank the later ones. The set stays larger if making it smaller would exceed
/// the limit on work.
pub(super) fn minimal(
    instance: &Instance,
    component: &Component,
    sat: impl Sat,
    work: &Work,
    rank: impl Fn(ConstraintRef) -> u8,
) -> Result<Vec<ConstraintRef>, SolverError> {
    let mut encoding = Encoding::new(sat, component);
    let mut switches: BTreeMap<Literal, ConstraintRef> = BTreeMap::new();
    let mut core: Vec<(u8, Literal)> = Vec::new();
    for (reference, constraint) in instance.refs(component) {
        let switch = encoding.sat.variable();
        encoding.add(reference.variable, constraint, &[switch.negated()]);
        switches.insert(switch, reference);
        core.push((rank(reference), switch));
    }
    // The most telling constraints come last, so that deletion goes from the front.
    core.sort_by_key(|&(rank, switch)| (rank, std::cmp::Reverse(switch)));

    let mut ranks: Vec<u8> = core.iter().map(|&(rank, _)| rank).collect();
    ranks.dedup();
    // Whole ranks are dropped first, then single constraints.
    for dropped in ranks {
        let rest: Vec<(u8, Literal)> = core
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
    sat: &mut impl Sat,
    constraints: &[(u8, Literal)],
) -> Result<Option<Vec<(u8, Literal)>>, SolverError> {
    let assumptions: Vec<Literal> = constraints.iter().map(|&(_, switch)| switch).collect();
    match sat.solve(&assumptions)? {
        Answer::Satisfiable(_) => Ok(None),
        Answer::Unsatisfiable(failed) => {
            let failed: BTreeSet<Literal> = failed.into_iter().collect();
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
