//! How long ago something was, for people. Pure.

use jiff::Timestamp;

/// In the largest unit that fits; nothing is in the future.
pub(super) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = seconds(now, then);
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Seconds from one to the other; none if the clock of whoever wrote the one is ahead.
pub(super) fn seconds(now: Timestamp, then: Timestamp) -> i64 {
    now.as_second().saturating_sub(then.as_second()).max(0)
}
