//! What the status reports of both controllers have in common.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use olm_runtime::Timestamp;
use olm_runtime::condition::stored_time;
use olm_runtime::plan::Requeue;

/// Longest message of a condition, in bytes.
const LONGEST_MESSAGE: usize = 32_768;
/// End of a message that was cut.
const CUT: &str = "\n\n... [message truncated]";

/// Returns a condition of the object with this metadata. A message that is too long is cut.
pub(crate) fn condition(
    [type_, status, reason, message]: [&str; 4],
    of: &ObjectMeta,
    now: Timestamp,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: shortened(message),
        last_transition_time: stored_time(now),
        observed_generation: of.generation,
    }
}

/// Returns the requeue after some seconds; none without a number, or if it is not positive.
pub(crate) fn after_seconds(seconds: Option<i64>, reason: &'static str) -> Requeue {
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    match seconds.filter(|seconds| *seconds > 0) {
        Some(seconds) => Requeue::After {
            delay: Duration::from_secs(seconds),
            reason,
        },
        None => Requeue::AwaitChange,
    }
}

/// Cuts a message to the size of a condition.
fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE.saturating_sub(CUT.len()));
    format!("{}{CUT}", message.get(..end).unwrap_or_default())
}
