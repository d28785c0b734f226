//! Counters of the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the rounds of a process came to since its start. A clone is another handle to the same counters.
#[derive(Debug, Clone, Default)]
pub struct DriverStats {
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    rounds: AtomicU64,
    failed: AtomicU64,
    panicked: AtomicU64,
    paused: AtomicU64,
}

impl DriverStats {
    /// Rounds that ended, in whatever way.
    pub fn rounds(&self) -> u64 {
        self.counters.rounds.load(Ordering::Relaxed)
    }

    /// Rounds that could not observe, whose write failed, or that panicked.
    pub fn failed(&self) -> u64 {
        self.counters.failed.load(Ordering::Relaxed)
    }

    /// Rounds that panicked.
    pub fn panicked(&self) -> u64 {
        self.counters.panicked.load(Ordering::Relaxed)
    }

    /// Rounds after which the key had to pause, since it keeps writing unasked.
    pub fn paused(&self) -> u64 {
        self.counters.paused.load(Ordering::Relaxed)
    }

    pub(super) fn count_round(&self, failed: bool) {
        self.counters.rounds.fetch_add(1, Ordering::Relaxed);
        if failed {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_panic(&self) {
        self.counters.panicked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_pause(&self) {
        self.counters.paused.fetch_add(1, Ordering::Relaxed);
    }
}
