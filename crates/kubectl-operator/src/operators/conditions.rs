//! Conditions as the statuses have them.

use olm_api::condition;
use olm_api::v1alpha1::{Subscription, SubscriptionCondition};

/// Those that are true.
pub(super) fn true_conditions(subscription: &Subscription) -> impl Iterator<Item = &SubscriptionCondition> {
    let status = subscription.status.iter();
    let conditions = status.flat_map(|status| status.conditions.iter());
    conditions.filter(|found| found.status == condition::TRUE)
}
