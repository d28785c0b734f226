//! Limits on work, counted in entries and not in time, so that the same question has the same answer
//! everywhere.

use std::cell::Cell;
use std::rc::Rc;

use crate::solver::SolverError;

/// Maximum work to resolve one namespace. The largest known ones take a hundredth of it.
pub const MAX_WORK: usize = 20_000_000;

/// Maximum bytes of proof that the SAT engines of one resolution may produce together, as a measure of their
/// work. Each conclusion is written with all its premises. None of the questions in our tests takes 20 KiB;
/// hostile ones reach it within seconds.
pub const MAX_PROOF: u64 = 64 << 20;

/// Bytes of proof that count as one entry.
const PROOF_BYTES: u64 = 16;

/// Bytes of an annotation that count as one entry.
const TEXT_BYTES: usize = 32;

/// Counter of work with a limit. A visited entry of a channel, a bundle, a constraint, and a bundle that it
/// names each count as one.
#[derive(Debug)]
pub struct Work {
    done: Cell<usize>,
    limit: usize,
    /// Remaining bytes of proof.
    proof: Rc<Cell<u64>>,
    proof_limit: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self::within(MAX_WORK)
    }
}

impl Work {
    /// Returns a counter at zero.
    pub fn within(limit: usize) -> Self {
        let proof_limit = u64::try_from(limit)
            .unwrap_or(u64::MAX)
            .saturating_mul(PROOF_BYTES)
            .min(MAX_PROOF);
        Self {
            done: Cell::new(0),
            limit,
            proof: Rc::new(Cell::new(proof_limit)),
            proof_limit,
        }
    }

    pub(crate) fn add(&self, things: usize) {
        self.done.set(self.done.get().saturating_add(things));
    }

    /// Counts the parsing of a text.
    pub(crate) fn add_text(&self, text: &str) {
        self.add(1 + text.len() / TEXT_BYTES);
    }

    /// Returns the work done.
    pub fn done(&self) -> usize {
        let proof = (self.proof_limit - self.proof.get()) / PROOF_BYTES;
        self.done
            .get()
            .saturating_add(usize::try_from(proof).unwrap_or(usize::MAX))
    }

    /// Returns whether the limit is reached.
    pub fn is_spent(&self) -> bool {
        self.done() >= self.limit || self.proof.get() == 0
    }

    /// Returns whether half of the limit is reached.
    pub(crate) fn is_half_spent(&self) -> bool {
        self.done() >= self.limit / 2 || self.proof.get() <= self.proof_limit / 2
    }

    /// Checks the limit.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub(crate) fn check(&self) -> Result<(), SolverError> {
        if self.done() < self.limit {
            return Ok(());
        }
        Err(SolverError(format!(
            "more than {} entries, bundles and constraints are reachable, so the search stopped",
            self.limit
        )))
    }

    /// Returns the remaining bytes of proof, shared by the SAT engines of one resolution.
    pub(crate) fn proof(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.proof)
    }
}
