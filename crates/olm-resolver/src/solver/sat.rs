//! The little we need of a SAT engine, and `varisat` as that engine.

use varisat::{ExtendFormula, Lit, Solver, Var};

use super::SolverError;

/// A boolean variable of the formula, or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Literal {
    variable: usize,
    positive: bool,
}

impl Literal {
    /// The literal that holds when this one does not.
    pub fn negated(self) -> Self {
        Literal {
            positive: !self.positive,
            ..self
        }
    }
}

/// What a SAT engine says.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Satisfiable: the value of every variable, by index.
    Satisfiable(Model),
    /// Unsatisfiable: assumptions that cannot hold together (none: the clauses alone are contradictory).
    Unsatisfiable(Vec<Literal>),
}

/// A satisfying assignment.
#[derive(Clone, Debug)]
pub struct Model(Vec<bool>);

impl Model {
    /// Whether the literal holds in this assignment.
    pub fn holds(&self, literal: Literal) -> bool {
        self.0
            .get(literal.variable)
            .is_some_and(|&value| value == literal.positive)
    }
}

/// An incremental SAT engine: clauses only grow, assumptions last for one call.
pub trait Sat {
    /// A fresh variable, as its positive literal.
    fn variable(&mut self) -> Literal;
    /// At least one of these literals holds.
    fn clause(&mut self, literals: &[Literal]);
    /// Decides the clauses together with the assumptions.
    ///
    /// # Errors
    /// When the engine fails to decide.
    fn solve(&mut self, assumptions: &[Literal]) -> Result<Answer, SolverError>;
}

/// [`Sat`] by the `varisat` crate, a CDCL engine without time limits or randomness.
#[derive(Default)]
pub struct Varisat {
    solver: Solver<'static>,
    variables: usize,
}

impl Sat for Varisat {
    fn variable(&mut self) -> Literal {
        let variable = self.solver.new_var().index();
        self.variables = self.variables.max(variable + 1);
        Literal {
            variable,
            positive: true,
        }
    }

    fn clause(&mut self, literals: &[Literal]) {
        let literals: Vec<Lit> = literals.iter().copied().map(to_varisat).collect();
        self.solver.add_clause(&literals);
    }

    fn solve(&mut self, assumptions: &[Literal]) -> Result<Answer, SolverError> {
        let assumptions: Vec<Lit> = assumptions.iter().copied().map(to_varisat).collect();
        self.solver.assume(&assumptions);
        if self.solver.solve().map_err(|e| SolverError(e.to_string()))? {
            let mut values = vec![false; self.variables];
            for lit in self.solver.model().unwrap_or_default() {
                if let Some(value) = values.get_mut(lit.index()) {
                    *value = lit.is_positive();
                }
            }
            return Ok(Answer::Satisfiable(Model(values)));
        }
        let core = self.solver.failed_core().unwrap_or_default();
        Ok(Answer::Unsatisfiable(
            core.iter().copied().map(from_varisat).collect(),
        ))
    }
}

fn to_varisat(literal: Literal) -> Lit {
    Lit::from_var(Var::from_index(literal.variable), literal.positive)
}

fn from_varisat(lit: Lit) -> Literal {
    Literal {
        variable: lit.index(),
        positive: lit.is_positive(),
    }
}
