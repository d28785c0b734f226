//! The interface to a SAT engine, and `varisat` as that engine.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use varisat::{ExtendFormula, Lit, ProofFormat, Solver, Var};

use super::SolverError;

/// A boolean variable of the formula, or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Literal {
    variable: usize,
    positive: bool,
}

impl Literal {
    /// Returns the opposite literal.
    pub fn negated(self) -> Self {
        Literal {
            positive: !self.positive,
            ..self
        }
    }
}

/// Result of a SAT engine.
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
    /// Returns whether the literal holds in this assignment.
    pub fn holds(&self, literal: Literal) -> bool {
        self.0
            .get(literal.variable)
            .is_some_and(|&value| value == literal.positive)
    }
}

/// An incremental SAT engine: clauses only grow, assumptions last for one call.
pub trait Sat {
    /// Returns a new variable, as its positive literal.
    fn variable(&mut self) -> Literal;
    /// Adds a clause: at least one of these literals holds.
    fn clause(&mut self, literals: &[Literal]);
    /// Decides the clauses together with the assumptions.
    ///
    /// # Errors
    /// The engine fails to decide.
    fn solve(&mut self, assumptions: &[Literal]) -> Result<Answer, SolverError>;
}

/// [`Sat`] by the `varisat` crate, a CDCL engine without randomness. It has no limit of its own, and stops
/// early in one case only: when its proof cannot be written. So the proof is discarded, and writing fails
/// after [too much](crate::work::MAX_PROOF) of it. The limit counts work instead of time, so that the same
/// question has the same answer everywhere.
pub struct Varisat {
    solver: Solver<'static>,
    variables: usize,
}

impl Varisat {
    /// Returns an engine that may produce `left` bytes of proof.
    pub fn within(left: Rc<Cell<u64>>) -> Self {
        let mut solver = Solver::new();
        solver.write_proof(Effort { left }, ProofFormat::Varisat);
        Varisat { solver, variables: 0 }
    }
}

/// A writer that accepts a limited number of bytes of a proof.
struct Effort {
    left: Rc<Cell<u64>>,
}

impl io::Write for Effort {
    fn write(&mut self, proof: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(proof.len()).unwrap_or(u64::MAX);
        let left = self.left.get().checked_sub(length);
        self.left.set(left.unwrap_or(0));
        left.map(|_| proof.len())
            .ok_or_else(|| io::ErrorKind::QuotaExceeded.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
        let decided = self.solver.solve().map_err(|error| match error {
            varisat::solver::SolverError::ProofIoError { .. } => SolverError(
                "too many combinations of bundles contradict each other, so the search stopped".to_owned(),
            ),
            other => SolverError(other.to_string()),
        });
        if decided? {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::MAX_PROOF;

    /// More pigeons than holes: the engine would need years, and reports that within its budget.
    #[test]
    fn a_question_that_takes_too_much_work_is_given_up() {
        const PIGEONS: usize = 40;
        let mut sat = Varisat::within(Rc::new(Cell::new(MAX_PROOF)));
        let places: Vec<Vec<Literal>> = (0..PIGEONS)
            .map(|_| (1..PIGEONS).map(|_| sat.variable()).collect())
            .collect();
        for pigeon in &places {
            sat.clause(pigeon);
        }
        for (number, one) in places.iter().enumerate() {
            for other in &places[..number] {
                for (a, b) in one.iter().zip(other) {
                    sat.clause(&[a.negated(), b.negated()]);
                }
            }
        }
        let began = std::time::Instant::now();
        let error = sat.solve(&[]).unwrap_err();
        assert!(error.to_string().contains("given up"), "{error}");
        println!("given up after {:?}", began.elapsed());
    }
}
