//! Lists of `metav1.Condition`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};

/// Longest message of a condition, in bytes.
const LONGEST_MESSAGE: usize = 32_768;
/// End of a message that was cut.
const CUT: &str = "\n\n... [message truncated]";

/// Returns a condition of the object with this metadata: its type, status, reason and message. A message that is too long is cut.
pub fn condition_of(
    metadata: &ObjectMeta,
    [type_, status, reason, message]: [&str; 4],
    now: Timestamp,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: shortened(message),
        last_transition_time: stored_time(now),
        observed_generation: metadata.generation,
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

/// Adds or replaces `condition` in `conditions`. The transition time is kept if the status stays the same. Other conditions and the order
/// of the list do not change.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions
        .iter_mut()
        .find(|existing| existing.type_ == condition.type_)
    {
        Some(existing) => {
            if existing.status == condition.status {
                condition.last_transition_time = existing.last_transition_time.clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

/// Removes the condition of type `type_`, if present.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// Returns `now` as the API stores it: in whole seconds, so that a value read back equals the one written.
pub fn stored_time(now: Timestamp) -> Time {
    Time(whole_seconds(now))
}

/// Returns `now` rounded down to whole seconds.
pub fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, second: i64) -> Condition {
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: "R".into(),
            message: String::new(),
            last_transition_time: stored_time(Timestamp::from_second(second).unwrap()),
            observed_generation: None,
        }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut list = vec![condition("A", "True", 1), condition("B", "True", 1)];
        set_condition(&mut list, condition("A", "True", 2));
        set_condition(&mut list, condition("B", "False", 2));
        assert_eq!(list, vec![condition("A", "True", 1), condition("B", "False", 2)]);
    }
}
