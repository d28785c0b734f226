//! The condition list of a Subscription: all types are abnormal when true, and the list keeps its order.

use jiff::Timestamp;
use olm_api::condition;
use olm_api::v1alpha1::SubscriptionCondition;
use olm_runtime::condition::stored_time;

/// Adds a condition, or replaces the one of its type. The transition time only changes with the status.
///
/// Upstream omits that time in the conditions of resolution; here every condition has it.
pub(crate) fn set(
    conditions: &mut Vec<SubscriptionCondition>,
    mut next: SubscriptionCondition,
    now: Timestamp,
) {
    next.last_transition_time = Some(stored_time(now));
    match conditions.iter_mut().find(|known| known.type_ == next.type_) {
        Some(known) if known.says_same(&next) => {}
        Some(known) => {
            if known.status == next.status && known.last_transition_time.is_some() {
                next.last_transition_time.clone_from(&known.last_transition_time);
            }
            *known = next;
        }
        None => conditions.push(next),
    }
}

/// Sets these conditions, and removes all others of these types.
pub(crate) fn replace(
    conditions: &mut Vec<SubscriptionCondition>,
    types: &[&str],
    wanted: Vec<SubscriptionCondition>,
    now: Timestamp,
) {
    conditions.retain(|known| {
        !types.contains(&known.type_.as_str()) || wanted.iter().any(|one| one.type_ == known.type_)
    });
    for condition in wanted {
        set(conditions, condition, now);
    }
}

/// Creates a true condition. Empty reason and message are omitted.
pub(crate) fn condition_true(type_: &str, reason: &str, message: &str) -> SubscriptionCondition {
    build(type_, condition::TRUE, reason, message)
}

/// Creates a false condition.
pub(crate) fn condition_false(type_: &str, reason: &str, message: &str) -> SubscriptionCondition {
    build(type_, condition::FALSE, reason, message)
}

fn build(type_: &str, status: &str, reason: &str, message: &str) -> SubscriptionCondition {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    SubscriptionCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: filled(reason),
        message: filled(message),
        ..SubscriptionCondition::default()
    }
}
