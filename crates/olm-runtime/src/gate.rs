//! The gate before every write: an operator that may not write (any more) shuts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Lets writes through or holds them back; a clone is another handle to the same gate. Open to begin with.
///
/// # Expected flow
/// [`Executor`](crate::apply::Executor) and [`Recorder`](crate::event::Recorder) ask [`WriteGate::pass`] right before each
/// request that changes something. A write that is held back is never sent: for a plan it is a failure of class
/// [`Retry`](crate::outcome::FailureClass::Retry), so the round is repeated with backoff; an Event is dropped.
///
/// # Guarantees
/// Once [`WriteGate::shut`] has returned, no write begins. One that was sent before is not called back: its answer comes,
/// or its deadline passes ([`REQUEST_DEADLINE`](crate::client::REQUEST_DEADLINE)), and until then the server may carry it
/// out. Whoever hands the right to write to somebody else has to wait that long.
#[derive(Debug, Clone, Default)]
pub struct WriteGate {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_shut: AtomicBool,
    held_back: AtomicU64,
}

impl WriteGate {
    /// Holds back all writes from now on.
    pub fn shut(&self) {
        self.shared.is_shut.store(true, Ordering::SeqCst);
    }

    /// Lets writes through again.
    pub fn open(&self) {
        self.shared.is_shut.store(false, Ordering::SeqCst);
    }

    /// True when writes are let through.
    pub fn is_open(&self) -> bool {
        !self.shared.is_shut.load(Ordering::SeqCst)
    }

    /// Writes that were held back since the process began.
    pub fn held_back(&self) -> u64 {
        self.shared.held_back.load(Ordering::Relaxed)
    }

    /// True when a write may be sent now; one that may not is counted.
    pub(crate) fn pass(&self) -> bool {
        let is_open = self.is_open();
        if !is_open {
            self.shared.held_back.fetch_add(1, Ordering::Relaxed);
        }
        is_open
    }
}
