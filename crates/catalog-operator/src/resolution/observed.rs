//! Everything one reconcile of a namespace's resolution reads, as values.
//!
//! Observations include requests: to the resolver (a pure function of stores and catalogs, answered from memory while its input is
//! unchanged) and to the unpacker (which answers at once and triggers the namespace when its answer changes). Their results are
//! plain values, so that deciding stays cheap, pure and easy to test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::{BundleLookup, InstallPlan, Step, Subscription, SubscriptionStatus};
use olm_fbc::entry::Deprecation;
use olm_resolver::SubscriptionUpdate;
use olm_runtime::plan::EventDraft;

use super::choices::Choices;
use crate::subscription::catalog_health::CatalogFact;
use crate::subscription::{NamespaceState, settle};

/// Facts about one namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    /// The namespace.
    pub namespace: String,
    /// Its Subscriptions, by name. Those being deleted are left out.
    pub subscriptions: Vec<Arc<Subscription>>,
    /// Its InstallPlans and ClusterServiceVersions.
    pub namespace_state: NamespaceState,
    /// Catalogs its Subscriptions can see.
    pub catalogs: Vec<CatalogFact>,
    /// Deprecations by Subscription, for those whose catalog declares some.
    pub deprecations: BTreeMap<String, Deprecation>,
    /// Progress of the resolution.
    pub progress: Progress,
    /// `Manual` Subscriptions make only their own plans wait.
    pub separate_approval: bool,
    /// Faults of the annotations that were read, whether reported already or not.
    pub warnings: Vec<EventDraft>,
    /// The highest generation of the InstallPlans made for these Subscriptions, of those that are being deleted, too.
    pub last_generation: i64,
    /// Names of all its InstallPlans, of those that are being deleted, too.
    pub taken_names: BTreeSet<String>,
    /// What the resolver has chosen; empty if nothing was resolved.
    pub choices: Arc<Choices>,
    /// The Subscriptions with their current references, computed on first use.
    pub settled: OnceLock<Arc<[SettledSubscription]>>,
}

/// A Subscription with its references as they are now.
pub(crate) type SettledSubscription = (Arc<Subscription>, SubscriptionStatus);

/// How far the resolution of a namespace is. The default is that every Subscription has a plan that is on its way, and that waits for
/// no policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Parts that cannot be resolved.
    pub failures: Vec<Failure>,
    /// Parts that can be installed once their bundles are there.
    pub components: Vec<ComponentProgress>,
    /// A catalog has not come up or been read yet, so that failures may not last.
    pub catalogs_pending: bool,
    /// A catalog is being read: remaining time for which missing content is not reported.
    pub reading: Option<Duration>,
}

/// A component of the namespace that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Subscriptions concerned; all if none is named.
    pub subscriptions: Vec<String>,
    /// Reason of the condition.
    pub reason: &'static str,
    /// Text of the condition.
    pub message: String,
}

impl Failure {
    /// Whether it concerns the Subscription of this name.
    pub(crate) fn concerns(&self, subscription: &str) -> bool {
        self.subscriptions.is_empty() || self.subscriptions.iter().any(|name| name == subscription)
    }
}

/// A component that can be resolved, and where its bundles are.
#[derive(Debug, Clone)]
pub(crate) struct ComponentProgress {
    /// All Subscriptions that the component is about.
    pub subscriptions: Vec<String>,
    /// Those that move on.
    pub updates: Vec<SubscriptionUpdate>,
    /// Where the bundles are.
    pub bundles: Bundles,
}

/// The steps that install the bundles of a component.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReadyBundles {
    /// Names of the ClusterServiceVersions.
    pub csv_names: Vec<String>,
    /// Subscriptions to create for dependencies.
    pub subscription_steps: Vec<Step>,
    /// Steps of the bundles, in order.
    pub steps: Vec<Step>,
    /// The bundle images.
    pub lookups: Vec<BundleLookup>,
    /// What this cluster will not take of them.
    pub obstacles: Vec<String>,
    /// Files and documents that were left out, one line for each bundle that has some.
    pub left_out: Vec<String>,
}

/// Where the bundles of a component are.
#[derive(Debug, Clone)]
pub(crate) enum Bundles {
    /// Unpacked.
    Ready(ReadyBundles),
    /// On their way.
    Unpacking {
        /// Error of the attempts so far; empty if there is none.
        message: String,
        /// Remaining time for which this is not reported.
        debounce: Option<Duration>,
    },
    /// Unavailable.
    Failed {
        /// Reason of the condition.
        reason: &'static str,
        /// Text of the condition.
        message: String,
        /// Time until the first of them is to be requested again.
        retry: Option<Duration>,
    },
}

impl Progress {
    /// The namespace as a whole cannot be resolved.
    pub(crate) fn prevented(message: String) -> Self {
        let failure = Failure {
            subscriptions: Vec::new(),
            reason: reasons::ERROR_PREVENTED_RESOLUTION,
            message,
        };
        Self {
            failures: vec![failure],
            ..Self::default()
        }
    }

    /// Returns the time until a bundle that failed is to be requested again.
    pub(crate) fn retry(&self) -> Option<Duration> {
        let components = self.components.iter();
        let retries = components.filter_map(|component| match component.bundles {
            Bundles::Failed { retry, .. } => retry,
            Bundles::Ready(_) | Bundles::Unpacking { .. } => None,
        });
        retries.min()
    }

    /// Returns how much longer to wait for bundles and catalogs that will probably be available in a moment.
    ///
    /// Until then nothing that depends on them is planned or reported: Subscriptions that were created together share one plan.
    pub(crate) fn gathering(&self) -> Option<Duration> {
        let components = self.components.iter();
        let unpacking = components.filter_map(|component| match component.bundles {
            Bundles::Unpacking { debounce, .. } => debounce,
            Bundles::Ready(_) | Bundles::Failed { .. } => None,
        });
        unpacking.chain(self.reading).min()
    }
}

impl Observed {
    /// The Subscription of this name.
    pub(crate) fn subscription(&self, name: &str) -> Option<&Arc<Subscription>> {
        self.subscriptions
            .iter()
            .find(|subscription| subscription.metadata.name.as_deref() == Some(name))
    }

    /// The Subscriptions with their references as they are now, worked out once.
    pub(crate) fn settled(&self) -> &Arc<[SettledSubscription]> {
        self.settled.get_or_init(|| {
            let subscriptions = self.subscriptions.iter();
            subscriptions
                .map(|object| (Arc::clone(object), settle(object, &self.namespace_state)))
                .collect()
        })
    }

    /// Plans by name.
    pub(crate) fn plans(&self) -> impl Iterator<Item = &Arc<InstallPlan>> {
        self.namespace_state.plans.values()
    }
}
