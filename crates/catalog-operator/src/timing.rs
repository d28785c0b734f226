//! Times until the next look, and for how long fetching something is no news.

use std::time::Duration;

use jiff::Timestamp;

/// Work that ends within this time is not mentioned in any status: mostly it ends in a moment, and every mention is a write.
pub(crate) const STATUS_DEBOUNCE: Duration = Duration::from_secs(2);

/// How much longer work that has taken `elapsed` is not mentioned; none when it is to be.
pub(crate) fn debounce_left(elapsed: Duration) -> Option<Duration> {
    left(STATUS_DEBOUNCE, elapsed)
}

/// The time since then; zero when that is yet to come, as by a clock that was set.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// What is left of `limit` after `elapsed`; none when it is over.
pub(crate) fn left(limit: Duration, elapsed: Duration) -> Option<Duration> {
    limit.checked_sub(elapsed).filter(|left| !left.is_zero())
}
