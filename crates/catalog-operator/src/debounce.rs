//! How long fetching something is no news: mostly it is there in a moment, and every mention is a write.

use std::time::Duration;

/// Work that ends within this time is not mentioned in any status.
pub(crate) const STATUS_DEBOUNCE: Duration = Duration::from_secs(2);

/// How much longer work that has taken `elapsed` is not mentioned; none when it is to be.
pub(crate) fn debounce_left(elapsed: Duration) -> Option<Duration> {
    STATUS_DEBOUNCE
        .checked_sub(elapsed)
        .filter(|left| !left.is_zero())
}
