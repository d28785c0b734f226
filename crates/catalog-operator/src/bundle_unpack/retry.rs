//! When a failed unpack is tried again. Pure.

use std::time::Duration;

use super::error::UnpackClass;

/// First pause after a registry did not answer; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two attempts of one unpack.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Upstream's time from a failed unpack Job to the next try.
const AFTER_FAILURE: Duration = Duration::from_secs(300);
/// What may be repaired from outside without anybody telling us is looked at more often.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// What follows from a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The unpack goes on after this pause.
    GoOn(Duration),
    /// The unpack has failed; it may be started anew after this time.
    GiveUp(Duration),
}

/// Decides on attempt number `attempt` (from 0) that failed `elapsed` after the unpack began.
///
/// `deadline` of zero means none, as for upstream's Jobs. `interval` is the OperatorGroup's wish for the time to the next unpack.
pub fn next(
    class: UnpackClass,
    attempt: u32,
    elapsed: Duration,
    deadline: Duration,
    interval: Option<Duration>,
) -> Next {
    let pause = FIRST_PAUSE
        .saturating_mul(1 << attempt.min(10))
        .min(LONGEST_PAUSE);
    let in_time = deadline.is_zero() || elapsed + pause < deadline;
    if class.is_passing() && in_time {
        return Next::GoOn(pause);
    }
    let usual = match class {
        UnpackClass::NotFound
        | UnpackClass::Unauthorized
        | UnpackClass::DigestMismatch
        | UnpackClass::Storage => AFTER_REFUSAL,
        _ => AFTER_FAILURE,
    };
    // Zero would mean trying without pause.
    Next::GiveUp(interval.filter(|interval| !interval.is_zero()).unwrap_or(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_rules() {
        let seconds = Duration::from_secs;
        let rows = [
            (UnpackClass::Unreachable, 0, 0, 600, None, Next::GoOn(seconds(1))),
            (UnpackClass::Unreachable, 3, 20, 600, None, Next::GoOn(seconds(8))),
            (
                UnpackClass::Unreachable,
                40,
                20,
                600,
                None,
                Next::GoOn(seconds(60)),
            ),
            (
                UnpackClass::Unreachable,
                9,
                590,
                600,
                None,
                Next::GiveUp(seconds(300)),
            ),
            (
                UnpackClass::Unreachable,
                9,
                9000,
                0,
                None,
                Next::GoOn(seconds(60)),
            ),
            (UnpackClass::NotFound, 0, 0, 600, None, Next::GiveUp(seconds(60))),
            (
                UnpackClass::Unauthorized,
                0,
                0,
                600,
                Some(seconds(1)),
                Next::GiveUp(seconds(1)),
            ),
            (UnpackClass::Storage, 0, 0, 600, None, Next::GiveUp(seconds(60))),
            (
                UnpackClass::InvalidManifest,
                0,
                0,
                600,
                None,
                Next::GiveUp(seconds(300)),
            ),
            (
                UnpackClass::InvalidManifest,
                0,
                0,
                600,
                Some(seconds(0)),
                Next::GiveUp(seconds(300)),
            ),
        ];
        for (class, attempt, elapsed, deadline, interval, expected) in rows {
            assert_eq!(
                next(class, attempt, seconds(elapsed), seconds(deadline), interval),
                expected,
                "{class:?} {attempt} {elapsed}"
            );
        }
    }
}
