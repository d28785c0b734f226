//! The write gate: it is checked before every write. An operator that may not write shuts it, or it shuts when its term ends.

use std::sync::Arc;

use tokio::time::Instant;

use crate::sync::Mutex;

/// Admits writes or holds them back. Clones share the same gate. It is open at first.
///
/// [`Executor`](crate::apply::Executor) and [`Recorder`](crate::event::Recorder) ask it right before they send. A write that is held back
/// is never sent. In a plan it is a failure of class [`Retry`](crate::outcome::FailureClass::Retry), so the reconcile is retried with
/// backoff. An Event is dropped.
///
/// Opened for a term, the gate reads the clock at each write. It shuts without any task, so a suspended process that resumes after its
/// term finds it shut.
#[derive(Debug, Clone, Default)]
pub struct WriteGate {
    /// End of the term; `None` for one without end.
    end: Arc<Mutex<Option<Instant>>>,
}

impl WriteGate {
    /// Holds back all writes from now on.
    pub fn shut(&self) {
        self.open_until(Instant::now());
    }

    /// Admits writes until `end`, which replaces the previous state.
    pub fn open_until(&self, end: Instant) {
        *self.end.lock() = Some(end);
    }

    /// True if writes are admitted at this moment.
    pub fn is_open(&self) -> bool {
        self.end.lock().is_none_or(|end| Instant::now() < end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The term ends by the clock, without any task.
    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_the_clock_alone() {
        let (gate, second) = (WriteGate::default(), Duration::from_secs(1));
        assert!(gate.is_open());
        gate.open_until(Instant::now() + 10 * second);
        tokio::time::advance(9 * second).await;
        assert!(gate.is_open());
        tokio::time::advance(second).await;
        assert!(!gate.is_open());
        gate.open_until(Instant::now() + second);
        assert!(gate.is_open());
        gate.shut();
        assert!(!gate.is_open());
        gate.open_until(Instant::now() + second);
        assert!(gate.is_open());
    }
}
