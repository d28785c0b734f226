//! Conditions in statuses.

use olm_api::condition;
use olm_api::v1alpha1::{Subscription, SubscriptionCondition};

/// Returns the conditions that are true.
pub(super) fn true_conditions(subscription: &Subscription) -> impl Iterator<Item = &SubscriptionCondition> {
    let status = subscription.status.iter();
    let conditions = status.flat_map(|status| status.conditions.iter());
    conditions.filter(|found| found.status == condition::TRUE)
}

/// Returns the message of a condition that is true; its reason or type if it has none.
pub(crate) fn message_or_reason<'a>(subscription: &'a Subscription, type_: &str) -> Option<&'a str> {
    let found = true_conditions(subscription).find(|found| found.type_ == type_)?;
    let text = message(subscription, type_).or(found.reason.as_deref());
    Some(text.unwrap_or(&found.type_))
}

/// Returns the message of a condition that is true; `None` if it is empty.
pub(super) fn message<'a>(subscription: &'a Subscription, type_: &str) -> Option<&'a str> {
    let found = true_conditions(subscription).find(|found| found.type_ == type_)?;
    found.message.as_deref().filter(|message| !message.is_empty())
}
