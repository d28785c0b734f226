//! Times of retries of a failed unpack. No I/O.

use std::time::Duration;

use olm_runtime::driver::backoff;

use super::error::UnpackClass;

/// First pause after a missing response of a registry; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two attempts of one unpack.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Upstream's time between a failed unpack Job and the next try.
const AFTER_FAILURE: Duration = Duration::from_secs(300);
/// Time that a registry may be unresponsive, over at least two attempts, before a node has to pull.
const SILENCE: Duration = Duration::from_secs(10);
/// Shorter interval for failures that can be fixed without a change that is watched.
pub(crate) const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// Returns the pause after attempt number `attempt` (from 0) failed `elapsed` after the start of the unpack; `None` when the
/// unpack has failed, and each subscriber determines its retry time, see [`pause`].
///
/// A `deadline` of zero means none, as for upstream's Jobs.
pub(crate) fn next(
    class: UnpackClass,
    attempt: u32,
    elapsed: Duration,
    deadline: Duration,
) -> Option<Duration> {
    let pause = backoff(FIRST_PAUSE, LONGEST_PAUSE, attempt);
    let in_time = deadline.is_zero() || elapsed + pause < deadline;
    (class.is_passing() && in_time).then_some(pause)
}

/// True when a node should pull after attempt number `attempt` (from 0) failed `elapsed` after the start of
/// the unpack.
pub(crate) fn is_for_nodes(class: UnpackClass, attempt: u32, elapsed: Duration) -> bool {
    class.is_for_nodes() || (class == UnpackClass::Unreachable && attempt > 0 && elapsed >= SILENCE)
}

/// Returns the time between a failure and the next unpack. `interval` is the OperatorGroup's setting.
pub(crate) fn pause(class: UnpackClass, interval: Option<Duration>) -> Duration {
    let usual = if class.is_content() || class.is_passing() {
        AFTER_FAILURE
    } else {
        AFTER_REFUSAL
    };
    // Zero would mean retries without a pause.
    interval.filter(|interval| !interval.is_zero()).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpack_goes_on_until_its_deadline_if_nobody_answers() {
        let seconds = Duration::from_secs;
        let rows = [
            (UnpackClass::Unreachable, 0, 0, 600, Some(seconds(1))),
            (UnpackClass::Unreachable, 3, 20, 600, Some(seconds(8))),
            (UnpackClass::Unreachable, 40, 20, 600, Some(seconds(60))),
            (UnpackClass::Unreachable, 9, 590, 600, None),
            (UnpackClass::Unreachable, 9, 9000, 0, Some(seconds(60))),
            (UnpackClass::NotFound, 0, 0, 600, None),
            (UnpackClass::InvalidManifest, 0, 0, 0, None),
        ];
        for (class, attempt, elapsed, deadline, expected) in rows {
            assert_eq!(
                next(class, attempt, seconds(elapsed), seconds(deadline)),
                expected,
                "{class:?} {attempt} {elapsed}"
            );
        }
    }

    /// Nodes may have a mirror of a registry that is unresponsive for this pod; a restarting registry gets
    /// some time.
    #[test]
    fn a_registry_that_stays_silent_is_left_to_a_node() {
        let seconds = Duration::from_secs;
        for (class, attempt, elapsed, expected) in [
            (UnpackClass::Unreachable, 0, 30, false),
            (UnpackClass::Unreachable, 1, 3, false),
            (UnpackClass::Unreachable, 1, 21, true),
            (UnpackClass::Unreachable, 4, 15, true),
            (UnpackClass::NotFound, 0, 0, true),
            (UnpackClass::DigestMismatch, 0, 0, true),
            (UnpackClass::Storage, 0, 0, true),
            (UnpackClass::NoRoom, 9, 99, false),
            (UnpackClass::InvalidManifest, 9, 99, false),
        ] {
            assert_eq!(
                is_for_nodes(class, attempt, seconds(elapsed)),
                expected,
                "{class:?} {attempt} {elapsed}"
            );
        }
    }

    #[test]
    fn a_failure_lasts_as_long_as_its_class_or_the_operator_group_says() {
        let rows = [
            (UnpackClass::Unreachable, None, 300),
            (UnpackClass::NotFound, None, 60),
            (UnpackClass::Unauthorized, Some(1), 1),
            (UnpackClass::Storage, None, 60),
            (UnpackClass::DeadlineExceeded, None, 60),
            (UnpackClass::InvalidManifest, None, 300),
            (UnpackClass::InvalidManifest, Some(0), 300),
            (UnpackClass::InvalidManifest, Some(86_400), 86_400),
        ];
        for (class, interval, expected) in rows {
            let interval = interval.map(Duration::from_secs);
            assert_eq!(
                pause(class, interval),
                Duration::from_secs(expected),
                "{class:?} {interval:?}"
            );
        }
    }
}
