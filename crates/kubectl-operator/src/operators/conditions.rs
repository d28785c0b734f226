//! Conditions in statuses.

use olm_api::condition::{self, subscription as types};
use olm_api::v1alpha1::{Subscription, SubscriptionCondition};

/// Returns the conditions that are true.
pub(super) fn true_conditions(subscription: &Subscription) -> impl Iterator<Item = &SubscriptionCondition> {
    let status = subscription.status.iter();
    let conditions = status.flat_map(|status| status.conditions.iter());
    conditions.filter(|found| found.status == condition::TRUE)
}

/// Returns the message of a condition that is true; if it has none, a text for its type, else its reason or type.
pub(crate) fn message_or_reason<'a>(subscription: &'a Subscription, type_: &str) -> Option<&'a str> {
    let found = true_conditions(subscription).find(|found| found.type_ == type_)?;
    let text = message(subscription, type_).or_else(|| default_text(type_));
    Some(text.or(found.reason.as_deref()).unwrap_or(&found.type_))
}

/// Returns the text for a condition that OLM writes without a message, as upstream does.
fn default_text(type_: &str) -> Option<&'static str> {
    match type_ {
        types::INSTALL_PLAN_MISSING => {
            Some("the InstallPlan that status.installPlanRef names does not exist")
        }
        types::BUNDLE_UNPACKING => Some("waiting for OLM to unpack the bundle"),
        _ => None,
    }
}

/// Returns the message of a condition that is true; `None` if it is empty.
pub(super) fn message<'a>(subscription: &'a Subscription, type_: &str) -> Option<&'a str> {
    let found = true_conditions(subscription).find(|found| found.type_ == type_)?;
    found.message.as_deref().filter(|message| !message.is_empty())
}

/// Returns the problem of the catalog that a Subscription names. The condition about catalogs has upstream's text; `Ready` repeats it
/// and appends the cause.
pub(super) fn catalog_problem(subscription: &Subscription) -> Option<&str> {
    let text = message_or_reason(subscription, types::CATALOG_SOURCES_UNHEALTHY)?;
    let status = subscription.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter());
    let ready = conditions.find(|found| found.type_ == types::READY);
    let with_cause = ready.and_then(|ready| ready.message.as_deref());
    Some(with_cause.filter(|found| found.starts_with(text)).unwrap_or(text))
}
