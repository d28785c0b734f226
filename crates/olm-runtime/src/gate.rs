//! The write gate: it is checked before every write. An operator that may no longer write shuts it, or it shuts when its window ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Admits writes or holds them back. Clones share the same gate. It is open at first.
///
/// # Expected flow
/// [`Executor`](crate::apply::Executor) and [`Recorder`](crate::event::Recorder) write with a client whose requests check the gate right
/// before they are sent (`client/gated.rs`). They check again when the body goes to the connection. A write that is held back is never
/// sent. In a plan it is a failure of class [`Retry`](crate::outcome::FailureClass::Retry), so the reconcile is retried with backoff. An
/// Event is dropped.
///
/// # Guarantees
/// Once [`WriteGate::shut`] has returned, no write starts. An earlier write cannot be recalled. Until its answer arrives or its deadline
/// passes ([`REQUEST_DEADLINE`](crate::client::REQUEST_DEADLINE)), the server may execute it. A process that releases the right to write
/// waits for [`WriteGate::is_settled`], or for that deadline.
///
/// Opened for a [`WriteWindow`], the gate checks the clock at each write. It shuts without any task, so a suspended process that resumes
/// finds it shut. The deadline of a write is then at most the end of the window, for the server as well.
#[derive(Debug, Clone, Default)]
pub struct WriteGate {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    held_back: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    opening: Opening,
    /// Number of writes that were sent and have no answer yet.
    under_way: usize,
    /// Time until which the server may execute abandoned writes.
    unsettled_until: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Opening {
    #[default]
    Open,
    Shut,
    For(WriteWindow),
}

impl Opening {
    fn is_open(self) -> bool {
        match self {
            Self::Open => true,
            Self::Shut => false,
            // The clock is read at each write, so the window ends without any task.
            Self::For(window) => Instant::now() < window.send_before,
        }
    }
}

/// Time limits of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteWindow {
    /// No write is sent from this time on.
    pub send_before: Instant,
    /// Deadline of sent writes, answered or not; not before `send_before`.
    pub over_by: Instant,
}

#[cfg(test)]
impl WriteWindow {
    /// Creates a window that starts now; both times are in seconds.
    pub(crate) fn of_seconds(send_before: u64, over_by: u64) -> Self {
        let now = Instant::now();
        Self {
            send_before: now + Duration::from_secs(send_before),
            over_by: now + Duration::from_secs(over_by),
        }
    }
}

impl WriteGate {
    /// Holds back all writes from now on.
    pub fn shut(&self) {
        self.lock().opening = Opening::Shut;
    }

    /// Admits writes again.
    pub fn open(&self) {
        self.lock().opening = Opening::Open;
    }

    /// Admits writes until the end of `window`, which replaces the previous state.
    pub fn open_for(&self, window: WriteWindow) {
        self.lock().opening = Opening::For(window);
    }

    /// True if writes are admitted at this moment.
    pub fn is_open(&self) -> bool {
        self.lock().opening.is_open()
    }

    /// Number of writes held back since the process started.
    pub fn held_back(&self) -> u64 {
        self.shared.held_back.load(Ordering::Relaxed)
    }

    /// True if every sent write is finished: it was answered, or the server can no longer execute it.
    pub fn is_settled(&self) -> bool {
        let state = self.lock();
        state.under_way == 0 && state.unsettled_until.is_none_or(|until| until <= Instant::now())
    }

    /// True if a write may be sent now; a refused one is counted.
    pub(crate) fn admits(&self) -> bool {
        let is_open = self.is_open();
        if !is_open {
            self.count_held_back();
        }
        is_open
    }

    /// Returns a permit for one write that may take `longest`. `None` if it is held back, which is counted.
    pub(crate) fn pass(&self, longest: Duration) -> Option<Permit> {
        let mut state = self.lock();
        if !state.opening.is_open() {
            drop(state);
            self.count_held_back();
            return None;
        }
        state.under_way += 1;
        let end = match state.opening {
            Opening::For(window) => Some(window.over_by),
            Opening::Open | Opening::Shut => None,
        };
        drop(state);
        let longest = Instant::now() + longest;
        Some(Permit {
            gate: self.clone(),
            over_by: end.map_or(longest, |end| end.min(longest)),
            has_window: end.is_some(),
            is_answered: false,
        })
    }

    fn count_held_back(&self) {
        self.shared.held_back.fetch_add(1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves the state consistent, so a panic elsewhere cannot corrupt it.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit for one write, held from its sending to its answer. If it is dropped before the answer, the write is unsettled until its
/// deadline.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: WriteGate,
    over_by: Instant,
    has_window: bool,
    is_answered: bool,
}

impl Permit {
    /// Returns the deadline of the write.
    pub fn over_by(&self) -> Instant {
        self.over_by
    }

    /// Returns the time that the server may take for the write; `None` without a write window.
    pub fn time_of_server(&self) -> Option<Duration> {
        self.has_window
            .then(|| self.over_by.saturating_duration_since(Instant::now()))
    }

    /// Records that the server answered: the write was executed or refused.
    pub fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.under_way = state.under_way.saturating_sub(1);
        if !self.is_answered {
            state.unsettled_until = state.unsettled_until.max(Some(self.over_by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    async fn pass_time(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    /// The window ends by the clock, without any task.
    #[tokio::test(start_paused = true)]
    async fn a_window_ends_by_the_clock_alone() {
        let gate = WriteGate::default();
        gate.open_for(WriteWindow::of_seconds(10, 12));
        pass_time(9).await;
        assert!(gate.is_open());
        gate.pass(LONGEST).unwrap().answered();
        pass_time(1).await;
        assert!(!gate.is_open());
        assert!(gate.pass(LONGEST).is_none());
        assert_eq!(gate.held_back(), 1);
        gate.open_for(WriteWindow::of_seconds(10, 12));
        assert!(gate.pass(LONGEST).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_of_a_write_ends_with_the_window() {
        let gate = WriteGate::default();
        let unlimited = gate.pass(LONGEST).unwrap();
        assert_eq!(unlimited.over_by(), Instant::now() + LONGEST);
        assert_eq!(unlimited.time_of_server(), None);
        gate.open_for(WriteWindow::of_seconds(10, 12));
        pass_time(5).await;
        let permit = gate.pass(LONGEST).unwrap();
        assert_eq!(permit.time_of_server(), Some(Duration::from_secs(7)));
        assert_eq!(permit.over_by(), Instant::now() + Duration::from_secs(7));
        let short = gate.pass(Duration::from_secs(2)).unwrap();
        assert_eq!(short.over_by(), Instant::now() + Duration::from_secs(2));
    }

    /// A process that releases the right to write needs to know about abandoned writes.
    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_waits_for_is_unsettled_until_its_deadline() {
        let gate = WriteGate::default();
        let (answered, given_up) = (gate.pass(LONGEST).unwrap(), gate.pass(LONGEST).unwrap());
        gate.shut();
        answered.answered();
        assert!(!gate.is_settled());
        pass_time(1).await;
        drop(given_up);
        assert!(!gate.is_settled());
        pass_time(28).await;
        assert!(!gate.is_settled());
        pass_time(1).await;
        assert!(gate.is_settled());
    }
}
