//! The only wall clock of the operators.
//!
//! Delays and deadlines use tokio's clock, which a test may pause; times in objects are wall time. Both must agree. Otherwise a test that
//! advances the paused clock by an hour would see conditions that are no older. So wall time is read only here, and it follows tokio's
//! clock.

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

thread_local! {
    static START: Cell<Option<(Timestamp, Instant)>> = const { Cell::new(None) };
}

/// Returns the current time. In a program this is the system's clock. In a test that pauses tokio's clock, it pauses and advances with
/// it.
#[expect(clippy::disallowed_methods, reason = "the one clock")]
pub fn now() -> Timestamp {
    if let Some((start, at)) = START.get() {
        return moved(start, at, Instant::now());
    }
    // Unless a test paused it, tokio's clock is the standard library's. The difference is then no more than the time between the two
    // readings.
    let virtual_now = Instant::now();
    let real_now = Instant::from_std(std::time::Instant::now());
    moved(Timestamp::now(), real_now, virtual_now)
}

/// Makes [`now`] return `start` plus the progress of tokio's clock, on this thread; for tests that must be repeatable. Other threads,
/// also those of `spawn_blocking`, keep the system's clock.
#[doc(hidden)]
pub fn start_at(start: Timestamp) {
    START.set(Some((start, Instant::now())));
}

/// Returns `time` moved by the difference from `from` to `to`, which may be negative.
fn moved(time: Timestamp, from: Instant, to: Instant) -> Timestamp {
    let distance = |late: Instant, early: Instant| {
        SignedDuration::try_from(late.duration_since(early)).unwrap_or(SignedDuration::MAX)
    };
    let moved = if to >= from {
        time.saturating_add(distance(to, from))
    } else {
        time.saturating_sub(distance(from, to))
    };
    moved.unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seconds_since(start: Timestamp) -> f64 {
        now().duration_since(start).as_secs_f64()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what it is compared with")]
    fn without_a_paused_clock_it_is_the_systems() {
        assert!(seconds_since(Timestamp::now()).abs() < 1.0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_advances_with_the_paused_clock() {
        let start = now();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!((seconds_since(start) - 3600.0).abs() < 1.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_test_may_choose_its_beginning() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        start_at(start);
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(now().to_string(), "2026-01-01T00:00:01.5Z");
    }

    #[test]
    fn time_beyond_the_calendar_stays_what_it_was() {
        let base = Instant::now();
        assert_eq!(
            moved(Timestamp::MAX, base, base + Duration::from_secs(5)),
            Timestamp::MAX
        );
        let before = moved(Timestamp::UNIX_EPOCH, base + Duration::from_secs(5), base);
        assert_eq!(before.as_second(), -5);
    }
}
