//! The four deprecation conditions (`docs/reference/resolution.md`).

use jiff::Timestamp;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::SubscriptionStatus;
use olm_fbc::entry::Deprecation;
use olm_fbc::schema::schemas;

use super::conditions::{self, condition_true};

/// Sets and removes the conditions; `names` are package, channel and installed ClusterServiceVersion.
pub(crate) fn put(status: &mut SubscriptionStatus, fact: &Deprecation, names: [&str; 3], now: Timestamp) {
    let types = [
        reasons::PACKAGE_DEPRECATED,
        reasons::CHANNEL_DEPRECATED,
        reasons::BUNDLE_DEPRECATED,
    ];
    let levels = [schemas::PACKAGE, schemas::CHANNEL, schemas::BUNDLE];
    let texts = [&fact.package, &fact.channel, &fact.bundle];
    let mut messages = Vec::new();
    for (((type_, level), name), text) in types.into_iter().zip(levels).zip(names).zip(texts) {
        match text {
            Some(text) => {
                let message = format!("{level}/{name}: {text}");
                conditions::set(&mut status.conditions, condition_true(type_, "", &message), now);
                messages.push(message);
            }
            None => conditions::remove(&mut status.conditions, type_),
        }
    }
    if messages.is_empty() {
        conditions::remove(&mut status.conditions, reasons::DEPRECATED);
    } else {
        conditions::set(
            &mut status.conditions,
            condition_true(reasons::DEPRECATED, "", &messages.join("; ")),
            now,
        );
    }
}
