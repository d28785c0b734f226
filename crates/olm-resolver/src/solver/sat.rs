//! The SAT engine.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;

use varisat::{ExtendFormula as _, Lit, ProofFormat, Solver};

use super::SolverError;

/// Result of the engine.
#[derive(Debug)]
pub(super) enum Answer {
    /// Satisfiable: the variables that are true, as positive literals.
    Satisfiable(HashSet<Lit>),
    /// Unsatisfiable: assumptions that cannot hold together (none: the clauses alone are contradictory).
    Unsatisfiable(Vec<Lit>),
}

/// An incremental SAT engine: clauses only grow, assumptions last for one call. It is the `varisat` crate, a
/// CDCL engine without randomness. That has no limit of its own, and stops early in one case only: when its
/// proof cannot be written. So the proof is discarded, and writing fails after
/// [too much](crate::work::MAX_PROOF) of it. The limit counts work instead of time, so that the same question
/// has the same answer everywhere.
pub(super) struct Varisat {
    solver: Solver<'static>,
}

impl Varisat {
    /// Returns an engine that may produce `left` bytes of proof.
    pub(super) fn within(left: Rc<Cell<u64>>) -> Self {
        let mut solver = Solver::new();
        solver.write_proof(Effort { left }, ProofFormat::Varisat);
        Varisat { solver }
    }

    /// Returns a new variable, as its positive literal.
    pub(super) fn variable(&mut self) -> Lit {
        self.solver.new_lit()
    }

    /// Adds a clause: at least one of these literals holds.
    pub(super) fn clause(&mut self, literals: &[Lit]) {
        self.solver.add_clause(literals);
    }

    /// Decides the clauses together with the assumptions.
    ///
    /// # Errors
    /// The engine fails to decide.
    pub(super) fn solve(&mut self, assumptions: &[Lit]) -> Result<Answer, SolverError> {
        self.solver.assume(assumptions);
        let decided = self.solver.solve().map_err(|error| match error {
            varisat::solver::SolverError::ProofIoError { .. } => SolverError(
                "too many combinations of bundles contradict each other, so the search stopped".to_owned(),
            ),
            other => SolverError(other.to_string()),
        });
        Ok(if decided? {
            let model = self.solver.model().unwrap_or_default();
            Answer::Satisfiable(model.into_iter().filter(|lit| lit.is_positive()).collect())
        } else {
            Answer::Unsatisfiable(self.solver.failed_core().unwrap_or_default().to_vec())
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::MAX_PROOF;

    /// More pigeons than holes: the engine would need years, and reports that within its budget.
    #[test]
    fn a_question_that_takes_too_much_work_is_given_up() {
        const PIGEONS: usize = 40;
        let mut sat = Varisat::within(Rc::new(Cell::new(MAX_PROOF)));
        let places: Vec<Vec<Lit>> = (0..PIGEONS)
            .map(|_| (1..PIGEONS).map(|_| sat.variable()).collect())
            .collect();
        for pigeon in &places {
            sat.clause(pigeon);
        }
        for (number, one) in places.iter().enumerate() {
            for other in &places[..number] {
                for (&a, &b) in one.iter().zip(other) {
                    sat.clause(&[!a, !b]);
                }
            }
        }
        let began = std::time::Instant::now();
        let error = sat.solve(&[]).unwrap_err();
        assert!(error.to_string().contains("the search stopped"), "{error}");
        println!("given up after {:?}", began.elapsed());
    }
}
