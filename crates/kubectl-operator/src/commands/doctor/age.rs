//! Ages of objects as text. Pure.

use jiff::Timestamp;

/// Returns the age in the largest unit that fits; zero for a time in the future.
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = seconds(now, then);
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns the seconds between two times; zero if `then` is later, which a wrong clock can cause.
pub(super) fn seconds(now: Timestamp, then: Timestamp) -> i64 {
    now.as_second().saturating_sub(then.as_second()).max(0)
}
