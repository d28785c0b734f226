//! How much may be looked at, counted in things and not in time, so that the same question has the same answer everywhere.

use std::cell::Cell;
use std::rc::Rc;

/// What one namespace may cost to be resolved. The largest that are known take a hundredth of it.
pub const MAX_WORK: usize = 20_000_000;

/// Bytes of proof that the SAT engines of one resolution may produce together, which is what their work is measured by: each
/// conclusion is written with all that it follows from. None of the questions of our tests takes 20 KiB; hostile ones reach it
/// within seconds.
pub const MAX_PROOF: u64 = 64 << 20;

/// Bytes of proof that count as one thing looked at.
const PROOF_BYTES: u64 = 16;

/// Bytes of an annotation that count as one thing looked at.
const TEXT_BYTES: usize = 32;

/// No more may be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {0} entries, bundles and constraints are in reach, the search was given up")]
pub(crate) struct TooMuch(usize);

/// What has been done of what may be: an entry of a channel looked at, a bundle, a constraint or a bundle that it names, each
/// counts as one.
#[derive(Debug)]
pub struct Work {
    done: Cell<usize>,
    limit: usize,
    /// Bytes of proof that may still be produced.
    proof: Rc<Cell<u64>>,
    proof_limit: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self::within(MAX_WORK)
    }
}

impl Work {
    /// None of it done yet.
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

    /// Counts the reading of a text.
    pub(crate) fn add_text(&self, text: &str) {
        self.add(1 + text.len() / TEXT_BYTES);
    }

    /// What has been done.
    pub fn done(&self) -> usize {
        let proof = (self.proof_limit - self.proof.get()) / PROOF_BYTES;
        self.done
            .get()
            .saturating_add(usize::try_from(proof).unwrap_or(usize::MAX))
    }

    /// Whether no more may be done.
    pub fn is_spent(&self) -> bool {
        self.done() >= self.limit || self.proof.get() == 0
    }

    /// Whether half of what may be done is.
    pub(crate) fn is_half_spent(&self) -> bool {
        self.done() >= self.limit / 2 || self.proof.get() <= self.proof_limit / 2
    }

    /// # Errors
    /// No more may be done.
    pub(crate) fn check(&self) -> Result<(), TooMuch> {
        (self.done() < self.limit)
            .then_some(())
            .ok_or(TooMuch(self.limit))
    }

    /// What the SAT engines of one resolution may produce together.
    pub(crate) fn proof(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.proof)
    }
}
