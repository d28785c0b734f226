//! The gate before every write: an operator that may not write (any more) shuts it, or it shuts by itself when its time is over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lets writes through or holds them back; a clone is another handle to the same gate. Open to begin with.
///
/// # Expected flow
/// [`Executor`](crate::apply::Executor) and [`Recorder`](crate::event::Recorder) write with a client each of whose requests asks
/// the gate right before it is sent (`client/gated.rs`), and again where its body goes to the connection. A write that is
/// held back is never sent: for a plan it is a failure of class
/// [`Retry`](crate::outcome::FailureClass::Retry), so the round is repeated with backoff; an Event is dropped.
///
/// # Guarantees
/// Once [`WriteGate::shut`] has returned, no write begins. One that was sent before is not called back: its answer comes,
/// or its deadline passes ([`REQUEST_DEADLINE`](crate::client::REQUEST_DEADLINE)), and until then the server may carry it
/// out. Whoever hands the right to write to somebody else waits for [`WriteGate::is_settled`], or that long.
///
/// Opened for a [`WriteWindow`], it looks at the clock at each write: it shuts without anybody having to run, so a process that was stopped
/// and wakes finds it shut. The deadline of a write then ends with the window, for the server as well.
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
    /// Writes that were sent and have no answer yet.
    under_way: usize,
    /// Until when the server may carry out writes whose answers nobody waits for any more.
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
            // The clock is read here, at each write, so nobody has to run for the window to end.
            Self::For(window) => Instant::now() < window.send_before,
        }
    }
}

/// For how long writes are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteWindow {
    /// From then on none is sent.
    pub send_before: Instant,
    /// By then one that was sent is over, answered or not; not before `send_before`.
    pub over_by: Instant,
}

#[cfg(test)]
impl WriteWindow {
    /// From now on, in seconds.
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

    /// Lets writes through again.
    pub fn open(&self) {
        self.lock().opening = Opening::Open;
    }

    /// Lets writes through until the end of `window`, in place of what was said before.
    pub fn open_for(&self, window: WriteWindow) {
        self.lock().opening = Opening::For(window);
    }

    /// True when writes are let through at this moment.
    pub fn is_open(&self) -> bool {
        self.lock().opening.is_open()
    }

    /// Writes that were held back since the process began.
    pub fn held_back(&self) -> u64 {
        self.shared.held_back.load(Ordering::Relaxed)
    }

    /// True when each write that was sent is over: it was answered, or the server no longer carries it out.
    pub fn is_settled(&self) -> bool {
        let state = self.lock();
        state.under_way == 0 && state.unsettled_until.is_none_or(|until| until <= Instant::now())
    }

    /// True when a write may be sent now; one that may not is counted.
    pub(crate) fn admits(&self) -> bool {
        let is_open = self.is_open();
        if !is_open {
            self.count_held_back();
        }
        is_open
    }

    /// Leave to send one write, which may take `longest`; none when it is held back, which is counted.
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
        // Every critical section leaves the state consistent, so a panic elsewhere cannot spoil it.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to send one write, from its sending to its answer. Dropped before, the write is unsettled until its deadline.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: WriteGate,
    over_by: Instant,
    has_window: bool,
    is_answered: bool,
}

impl Permit {
    /// The write's deadline.
    pub fn over_by(&self) -> Instant {
        self.over_by
    }

    /// How long the server may take for the write, where that matters to others.
    pub fn time_of_server(&self) -> Option<Duration> {
        self.has_window
            .then(|| self.over_by.saturating_duration_since(Instant::now()))
    }

    /// The server has said what became of it: the write is carried out or refused.
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

    /// Nothing has to run for it: the clock alone is looked at.
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

    /// Whoever hands on the right to write has to know.
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
