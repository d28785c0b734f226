//! The four deprecation conditions (`docs/reference/resolution.md`).

use jiff::Timestamp;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::SubscriptionStatus;
use olm_fbc::entry::Deprecation;
use olm_fbc::schema::schemas;

use super::conditions::{self, condition_true};

/// Sets and removes the conditions; `names` are package, channel and installed ClusterServiceVersion.
pub(crate) fn put(status: &mut SubscriptionStatus, fact: &Deprecation, names: [&str; 3], now: Timestamp) {
    let levels = [
        (reasons::PACKAGE_DEPRECATED, schemas::PACKAGE, &fact.package),
        (reasons::CHANNEL_DEPRECATED, schemas::CHANNEL, &fact.channel),
        (reasons::BUNDLE_DEPRECATED, schemas::BUNDLE, &fact.bundle),
    ];
    let texts = levels.into_iter().zip(names);
    let texts = texts.filter_map(|((type_, level, text), name)| {
        let text = text.as_ref()?;
        Some((type_, format!("{level}/{name}: {text}")))
    });
    let (mut types, mut messages): (Vec<&str>, Vec<String>) = texts.unzip();
    if !messages.is_empty() {
        types.push(reasons::DEPRECATED);
        messages.push(messages.join("; "));
    }
    let wanted = types.iter().zip(&messages);
    let wanted = wanted.map(|(type_, message)| condition_true(type_, "", message));
    let all = levels.map(|(type_, ..)| type_);
    let all = [all.as_slice(), &[reasons::DEPRECATED]].concat();
    conditions::replace(&mut status.conditions, &all, wanted.collect(), now);
}
