//! The resolver's choices for the Subscriptions of a namespace. Pure.
//!
//! A plan that waits by policy is deleted if it contains something else.

use std::collections::BTreeSet;

use olm_resolver::{Resolution, Subscription};

/// The choices, without what is installed already.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    /// Subscriptions that could be resolved.
    resolved: BTreeSet<String>,
    /// All ClusterServiceVersions, dependencies among them.
    csvs: BTreeSet<String>,
}

impl Choices {
    /// Returns the choices of a resolution of these Subscriptions.
    pub(crate) fn of(subscriptions: &[Subscription], resolution: &Resolution) -> Self {
        let failing = resolution.failures.iter();
        let failing: BTreeSet<&String> = failing.flat_map(|failure| &failure.subscriptions).collect();
        let names = subscriptions.iter().map(|subscription| &subscription.name);
        let operators = resolution.solution.operators.iter();
        Self {
            resolved: names.filter(|name| !failing.contains(name)).cloned().collect(),
            csvs: operators
                .map(|operator| operator.entry.name.to_string())
                .collect(),
        }
    }

    /// Returns true if the Subscription could be resolved.
    pub(crate) fn is_resolved(&self, subscription: &str) -> bool {
        self.resolved.contains(subscription)
    }

    /// Returns true if the ClusterServiceVersion is to be installed.
    pub(crate) fn has(&self, csv: &str) -> bool {
        self.csvs.contains(csv)
    }
}
