//! What the resolver has for the Subscriptions of a namespace, whether their plan is made already or not. Pure.
//!
//! A plan that waits has set what its Subscriptions are to have, so that cannot vouch for it: what they ask for, and what catalogs
//! offer, may be something else by the time it begins.

use std::collections::{BTreeMap, BTreeSet};

use olm_resolver::{Resolution, Subscription};

/// The answer, without what is installed already.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    /// By Subscription. One whose part could not be resolved is not there.
    by_subscription: BTreeMap<String, BTreeSet<String>>,
    /// All ClusterServiceVersions, dependencies among them.
    all: BTreeSet<String>,
}

/// What the resolver has for a Subscription, seen from a ClusterServiceVersion that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This one.
    Same,
    /// Another one.
    Other,
    /// None: it stays at what it has.
    Nothing,
    /// It could not be resolved.
    Unknown,
}

impl Choices {
    /// Of these Subscriptions.
    pub(crate) fn of(subscriptions: &[Subscription], resolution: &Resolution) -> Self {
        let failing = resolution.failures.iter();
        let failing: BTreeSet<&String> = failing.flat_map(|failure| &failure.subscriptions).collect();
        let resolved = subscriptions.iter().map(|subscription| &subscription.name);
        let resolved = resolved.filter(|name| !failing.contains(name));
        let mut choices = Self {
            by_subscription: resolved.map(|name| (name.clone(), BTreeSet::new())).collect(),
            all: BTreeSet::new(),
        };
        for operator in &resolution.solution.operators {
            let csv = operator.entry.name.to_string();
            for subscription in &operator.subscriptions {
                if let Some(chosen) = choices.by_subscription.get_mut(subscription) {
                    chosen.insert(csv.clone());
                }
            }
            choices.all.insert(csv);
        }
        choices
    }

    /// Whether it is this one for a Subscription.
    pub(crate) fn choice(&self, subscription: &str, csv: &str) -> Choice {
        match self.by_subscription.get(subscription) {
            None => Choice::Unknown,
            Some(chosen) if chosen.contains(csv) => Choice::Same,
            Some(chosen) if chosen.is_empty() => Choice::Nothing,
            Some(_) => Choice::Other,
        }
    }

    /// Whether it is installed for anybody.
    pub(crate) fn has(&self, csv: &str) -> bool {
        self.all.contains(csv)
    }
}
