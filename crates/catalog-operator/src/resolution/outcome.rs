//! Composes the messages about resolution for each Subscription, and its events. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::Subscription;
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::NamespacedName;
use olm_runtime::key::reference;
use olm_runtime::plan::{EventDraft, Requeue};

use super::observed::{Bundles, ComponentProgress, Observed};
use crate::subscription::ResolutionOutcome;

/// Returns the result of the resolution for each Subscription.
pub(crate) fn outcomes_by_subscription(observed: &Observed) -> BTreeMap<String, ResolutionOutcome> {
    let progress = &observed.progress;
    let names = observed.subscriptions.iter().map(|found| found.name_any());
    let mut outcomes_by_subscription: BTreeMap<String, ResolutionOutcome> =
        names.map(|name| (name, ResolutionOutcome::Resolved)).collect();
    for failure in &progress.failures {
        let outcome = if progress.catalogs_pending {
            ResolutionOutcome::Unknown
        } else {
            ResolutionOutcome::ResolutionFailed {
                reason: failure.reason,
                message: failure.message.clone(),
            }
        };
        let concerned = outcomes_by_subscription
            .iter_mut()
            .filter(|(name, _)| failure.concerns(name));
        concerned.for_each(|(_, known)| *known = outcome.clone());
    }
    for component in &progress.components {
        let outcome = match &component.bundles {
            Bundles::Ready(_) => ResolutionOutcome::Resolved,
            Bundles::Unpacking {
                debounce: Some(_), ..
            } => ResolutionOutcome::Unknown,
            Bundles::Unpacking {
                message,
                debounce: None,
            } => ResolutionOutcome::Unpacking {
                message: message.clone(),
            },
            Bundles::Failed { reason, message, .. } => ResolutionOutcome::UnpackFailed {
                reason,
                message: message.clone(),
            },
        };
        outcomes_by_subscription.extend(
            component
                .subscriptions
                .iter()
                .map(|name| (name.clone(), outcome.clone())),
        );
    }
    outcomes_by_subscription
}

/// Returns the time when work that was not reported so far must be reported, or when a bundle is to be requested again.
pub(crate) fn debounce_requeue(observed: &Observed) -> Requeue {
    let after = |delay: Option<Duration>, reason| {
        delay.map_or(Requeue::AwaitChange, |delay| Requeue::after(delay, reason))
    };
    let debounced = after(observed.progress.gathering(), "bundle or catalog being fetched");
    debounced.sooner(after(observed.progress.retry(), "retry of a failed bundle"))
}

/// Subscriptions about which more will be known in a moment: writing them now would be a wasted write.
pub(crate) fn debounced_subscriptions(observed: &Observed) -> BTreeSet<String> {
    let progress = &observed.progress;
    if progress.gathering().is_none() {
        return BTreeSet::new();
    }
    let fetched = |component: &&ComponentProgress| !matches!(component.bundles, Bundles::Failed { .. });
    let fetched = progress.components.iter().filter(fetched);
    let mut debounced: BTreeSet<String> = fetched
        .flat_map(|component| component.subscriptions.iter().cloned())
        .collect();
    for failure in progress.failures.iter().filter(|_| progress.reading.is_some()) {
        let names = observed.subscriptions.iter().map(|found| found.name_any());
        debounced.extend(names.filter(|name| failure.concerns(name)));
    }
    debounced
}

/// One warning for the namespace when a failure is new to any of its Subscriptions.
pub(crate) fn resolution_event(
    observed: &Observed,
    outcomes_by_subscription: &BTreeMap<String, ResolutionOutcome>,
) -> Option<EventDraft> {
    let mut news: Vec<&str> = Vec::new();
    for subscription in &observed.subscriptions {
        let outcome = outcomes_by_subscription.get(&subscription.name_any());
        if let Some(ResolutionOutcome::ResolutionFailed { message, .. }) = outcome
            && !is_reported(subscription, reasons::RESOLUTION_FAILED, message)
            && !news.contains(&message.as_str())
        {
            news.push(message);
        }
    }
    (!news.is_empty()).then(|| {
        let key = NamespacedName::new(&*observed.namespace, &*observed.namespace);
        let regarding = reference::<Namespace>(&key, None);
        EventDraft::warning(regarding, reasons::RESOLUTION_FAILED, event_text(&news))
    })
}

/// The messages within the size of an event: every first line before the reasons of any.
fn event_text(messages: &[&str]) -> String {
    let texts = messages
        .iter()
        .map(|message| message.split_once('\n').unwrap_or((message, "")));
    let (lines, reasons): (Vec<&str>, Vec<&str>) = texts.unzip();
    let lines = cut(&lines.join("; "), EVENT_LIMIT * 2 / 3);
    let reasons: Vec<&str> = reasons.into_iter().filter(|text| !text.is_empty()).collect();
    let text = if reasons.is_empty() {
        lines
    } else {
        format!("{lines}\n{}", reasons.join("\n"))
    };
    cut(&text, EVENT_LIMIT)
}

/// A warning about a Subscription whose bundles cannot be had, once for each text.
pub(crate) fn unpack_event(subscription: &Subscription, outcome: &ResolutionOutcome) -> Option<EventDraft> {
    let ResolutionOutcome::UnpackFailed { message, .. } = outcome else {
        return None;
    };
    (!is_reported(subscription, reasons::BUNDLE_UNPACK_FAILED, message))
        .then(|| subscription_warning(subscription, reasons::BUNDLE_UNPACK_FAILED, message))
}

/// A warning about a Subscription.
pub(crate) fn subscription_warning(subscription: &Subscription, reason: &str, message: &str) -> EventDraft {
    EventDraft::warning(subscription.object_ref(&()), reason, message)
}

/// True if the Subscription's status contains this already.
fn is_reported(subscription: &Subscription, type_: &str, message: &str) -> bool {
    let conditions = subscription.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.type_ == type_ && condition.message.as_deref() == Some(message))
}
