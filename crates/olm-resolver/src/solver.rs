//! The constraint solver: boolean variables with constraints and ordered preferences, one selection or a
//! core.
//!
//! The vocabulary is upstream's (`mandatory`, `prohibited`, `dependency`, `conflict`, `at most`), and so is
//! the meaning of preference. The selection is the first consistent one in a breadth first walk. The walk
//! starts at the mandatory variables in their order. For each dependency it takes the first candidate that
//! can still be part of a consistent whole. Preference beats size; nothing is selected that no mandatory
//! variable leads to.
//!
//! ```text
//!   Instance ──components──▶ component ──solve──▶ Selection            (first pass: counting, no SAT)
//!                                          │                           (second pass: SAT oracle)
//!                                          └────▶ minimal core of constraints when nothing fits
//! ```
//!
//! The answer depends on the order of variables and candidates only, never on the SAT engine.

mod cardinality;
mod components;
mod core;
mod sat;
mod search;
#[cfg(test)]
mod tests;

use self::sat::Varisat;
pub use self::search::{Selection, Step};
use crate::work::Work;

/// Index of a variable within its [`Instance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableId(pub usize);

/// A variable's condition on a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// The variable is selected.
    Mandatory,
    /// The variable is not selected.
    Prohibited,
    /// If the variable is selected, so is at least one candidate; earlier candidates are preferred.
    Dependency(Vec<VariableId>),
    /// The variable and the other one are not both selected.
    Conflict(VariableId),
    /// At most one of these variables is selected, whether or not the holder is. A variable listed twice
    /// counts twice.
    AtMostOne(Vec<VariableId>),
}

impl Constraint {
    /// Returns the variables it names.
    pub(crate) fn named(&self) -> &[VariableId] {
        match self {
            Constraint::Mandatory | Constraint::Prohibited => &[],
            Constraint::Conflict(other) => std::slice::from_ref(other),
            Constraint::Dependency(named) | Constraint::AtMostOne(named) => named,
        }
    }

    /// Returns one, plus one for each variable it names.
    pub(crate) fn size(&self) -> usize {
        1 + self.named().len()
    }
}

/// Identifies one constraint: the `constraint`-th of its variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstraintRef {
    /// The variable that carries the constraint.
    pub variable: VariableId,
    /// Its index in the variable's list.
    pub constraint: usize,
}

/// Variables and their constraints. The order of variables is the order in which mandatory ones are served.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    variables: Vec<Vec<Constraint>>,
}

impl Instance {
    /// Adds a variable without constraints.
    pub fn add_variable(&mut self) -> VariableId {
        self.variables.push(Vec::new());
        VariableId(self.variables.len() - 1)
    }

    /// Appends a constraint to a variable of this instance.
    pub fn constrain(&mut self, variable: VariableId, constraint: Constraint) {
        self.variables[variable.0].push(constraint);
    }

    /// Returns the number of variables.
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Returns whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Returns the constraints of one variable, in the order they were added.
    pub fn constraints(&self, variable: VariableId) -> &[Constraint] {
        &self.variables[variable.0]
    }

    /// Splits the instance into parts that share no constraint, in the order of their first variables.
    ///
    /// Parts without a mandatory variable are left out: nothing can be selected in them.
    pub fn components(&self) -> Vec<Vec<VariableId>> {
        components::split(self)
    }

    /// Returns the number of these variables, plus the sizes of their constraints.
    pub(crate) fn size(&self, variables: &[VariableId]) -> usize {
        let of = |variable: &VariableId| {
            1 + self
                .constraints(*variable)
                .iter()
                .map(Constraint::size)
                .sum::<usize>()
        };
        variables.iter().map(of).sum()
    }

    fn is_anchor(&self, variable: VariableId) -> bool {
        self.constraints(variable).contains(&Constraint::Mandatory)
    }

    fn refs<'a>(
        &'a self,
        component: &'a [VariableId],
    ) -> impl Iterator<Item = (ConstraintRef, &'a Constraint)> {
        component.iter().flat_map(|&variable| {
            self.constraints(variable)
                .iter()
                .enumerate()
                .map(move |(constraint, c)| (ConstraintRef { variable, constraint }, c))
        })
    }
}

/// Outcome for one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A selection meets all constraints. Includes its choices.
    Selected(Selection),
    /// No selection meets all constraints. The given constraints exclude each other, and none of them can be
    /// dropped. If the limit on work was reached, there may be more than needed.
    Unsatisfiable(Vec<ConstraintRef>),
}

/// There are too many constraints, or the SAT engine gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("solve constraints: {0}")]
pub struct SolverError(pub(crate) String);

/// Solves one component of an instance.
///
/// `rank` orders constraints for explanations. If there are several minimal cores, constraints of a lower
/// rank are dropped first, so that the most telling ones remain.
///
/// # Errors
/// The SAT engine fails, or exceeds its limit on work.
pub fn solve(
    instance: &Instance,
    component: &[VariableId],
    work: &Work,
    rank: impl Fn(ConstraintRef) -> u8,
) -> Result<Outcome, SolverError> {
    match select(instance, component, work)? {
        Some(selection) => Ok(Outcome::Selected(selection)),
        None => core::minimal(instance, component, Varisat::within(work.proof()), work, rank)
            .map(Outcome::Unsatisfiable),
    }
}

/// Returns the selection alone, without a core if there is none.
///
/// # Errors
/// See [`solve`].
pub fn select(
    instance: &Instance,
    component: &[VariableId],
    work: &Work,
) -> Result<Option<Selection>, SolverError> {
    match search::without_backtracking(instance, component) {
        Some(selection) => Ok(Some(selection)),
        None => search::with_oracle(instance, component, Varisat::within(work.proof())),
    }
}
