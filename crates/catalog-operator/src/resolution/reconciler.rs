//! The reconciler of a namespace's Subscriptions: the reads of a reconcile, in their order.
//!
//! 1. Subscriptions, plans, ClusterServiceVersions and visible catalogs, from the stores. A namespace that is being deleted,
//!    or has no Subscriptions, ends here, and its snapshots are released.
//! 2. Settings of the OperatorGroup and constraints of the administrator. If they are invalid, nothing is resolved.
//! 3. The solution of the resolver, cached while its input stays the same (`reconciler/resolve.rs`).
//! 4. The bundles of each component, requested from the unpacker (`unpacking.rs`).
//!
//! `decide.rs` makes plans of the result, and `status.rs` writes the Subscriptions.

mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::Subscription;
use olm_resolver::RuntimeConstraint;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::metrics::Summary;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{EventDraft, Plan};
use olm_runtime::sync::Mutex;
use olm_runtime::{NamespacedName, clock};

use self::resolve::Pending;
use super::decide::{self, Verdict};
use super::group_settings::{self, GroupSettings};
use super::input::ResolutionInput;
use super::memory::Memory;
use super::observed::{Observed, Progress};
use super::outcome::subscription_warning;
use super::resolved::Resolved;
use super::{components, plan_object, status, unpacking};
use crate::bundle_unpack::Unpacker;
use crate::catalog_source::is_terminating;
use crate::snapshots::Snapshots;
use crate::stores::Stores;
use crate::subscription::{NamespaceState, catalog_health};
use crate::upgrade_policy;

/// Reconciles namespaces that have Subscriptions.
pub(crate) struct ResolutionReconciler {
    pub stores: Stores,
    pub snapshots: Snapshots,
    pub unpacker: Unpacker,
    /// Namespace of the catalogs that everyone sees.
    pub global_namespace: String,
    /// Demands of the administrator, or why they cannot be read.
    pub runtime_constraints: Result<Vec<RuntimeConstraint>, String>,
    /// Returns the cluster's version, so that bundles that need a newer one are reported in time.
    pub discovery: Discovery,
    /// Input and result of each namespace's last resolution.
    pub cache: Mutex<BTreeMap<String, (ResolutionInput, Arc<Resolved>)>>,
    /// Of resolutions that were not remembered.
    pub durations: Summary,
}

impl ResolutionReconciler {
    fn live_subscriptions(&self, namespace: &str) -> Vec<Arc<Subscription>> {
        let all = self.stores.subscriptions.list_in(namespace).into_iter();
        all.filter(|subscription| subscription.metadata.deletion_timestamp.is_none())
            .collect()
    }

    fn namespace_state(
        &self,
        namespace: &str,
        subscriptions: &[Arc<Subscription>],
        fail_forward: bool,
    ) -> NamespaceState {
        let plans = self.stores.plans.list_in(namespace).into_iter();
        let csvs = self.stores.csvs.list_in(namespace).into_iter();
        let statuses = subscriptions.iter().filter_map(|found| found.status.as_ref());
        NamespaceState {
            // A plan being deleted is ignored.
            plans: plans
                .filter(|plan| plan.metadata.deletion_timestamp.is_none())
                .map(|plan| (plan.name_any(), plan))
                .collect(),
            csvs: csvs
                .filter(|csv| !csv.is_copied())
                .map(|csv| (csv.name_any(), csv))
                .collect(),
            subscribed: statuses
                .flat_map(|status| status.installed_csv.iter().chain(&status.current_csv))
                .cloned()
                .collect(),
            fail_forward,
        }
    }

    async fn progress(
        &self,
        namespace: &str,
        resolved: &Resolved,
        settings: &GroupSettings,
        pending: Pending,
    ) -> Progress {
        if let Some(error) = &resolved.error {
            return Progress::prevented(error.clone());
        }
        // Only warnings depend on the version, so an unknown version blocks nothing.
        let kubernetes = self.discovery.server_version().await.ok();
        let now = clock::now();
        let mut components = Vec::new();
        for component in components::split(&resolved.solution) {
            let progress = unpacking::progress(
                component,
                &self.unpacker,
                namespace,
                settings,
                kubernetes.as_deref(),
                now,
            );
            components.push(progress.await);
        }
        Progress {
            failures: resolved.failures.clone(),
            components,
            catalogs_pending: pending.any,
            reading: pending.reading,
        }
    }
}

#[async_trait]
impl Reconciler for ResolutionReconciler {
    type Key = String;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = Memory;

    const NAME: &'static str = "resolution";

    fn regarding(&self, key: &String) -> Option<ObjectReference> {
        let mut namespace = regarding(&self.stores.namespaces, &NamespacedName::cluster(key))?;
        // An Event needs a namespace: this one.
        namespace.namespace = Some(key.clone());
        Some(namespace)
    }

    async fn observe(&self, namespace: &String) -> Result<Option<Observed>, ObserveError> {
        let subscriptions = self.live_subscriptions(namespace);
        // In a namespace that is being deleted nothing can be created, and garbage collection deletes the rest.
        let terminating = self
            .stores
            .namespaces
            .get("", namespace)
            .is_some_and(|found| is_terminating(&found));
        if subscriptions.is_empty() || terminating {
            self.snapshots.retain(namespace, &BTreeSet::new());
            self.cache.lock().remove(namespace);
        }
        if terminating {
            return Ok(None);
        }
        let settings = group_settings::read(namespace, &self.stores.groups.list_in(namespace));
        let namespace_state = self.namespace_state(
            namespace,
            &subscriptions,
            settings.as_ref().is_ok_and(|settings| settings.fail_forward),
        );
        let plans = self.stores.plans.list_in(namespace);
        let mut observed = Observed {
            namespace: namespace.clone(),
            catalogs: self
                .visible_sources(namespace)
                .iter()
                .map(|source| {
                    let unread = self
                        .snapshots
                        .trouble(&NamespacedName::from_object(source.as_ref()));
                    catalog_health::CatalogFact::of(source).with_unread(unread)
                })
                .collect(),
            last_generation: plan_object::last_generation(&plans, &subscriptions),
            taken_names: plans.iter().map(|plan| plan.name_any()).collect(),
            subscriptions,
            namespace_state,
            ..Observed::default()
        };
        let settled = Arc::clone(observed.settled());
        if observed.subscriptions.is_empty() {
            return Ok(Some(observed));
        }
        let demands = self.runtime_constraints.as_ref().map_err(Clone::clone);
        let settings = match settings.and_then(|settings| demands.map(|_| settings)) {
            Ok(settings) => settings,
            Err(text) => {
                observed.progress = Progress::prevented(text);
                observed.deprecations = self.deprecations(namespace, &settled).await;
                return Ok(Some(observed));
            }
        };
        observed.separate_approval = settings.separate_approval;
        let policies = observed.subscriptions.iter();
        observed.warnings = policies.flat_map(|found| policy_warnings(found)).collect();
        let (input, pending) = self.input(namespace, &settled, &settings);
        let resolve = input.resolve;
        let resolved = self.resolve(namespace, input).await;
        observed.deprecations.clone_from(&resolved.deprecations);
        if resolve {
            observed.choices = Arc::clone(&resolved.choices);
            observed.progress = self.progress(namespace, &resolved, &settings, pending).await;
        }
        Ok(Some(observed))
    }

    fn decide(observed: &Observed, memory: Option<&Memory>, _: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, memory)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate<Memory> {
        status::status(observed, verdict, outcomes, now)
    }
}

/// Returns warning events about the upgrade policy of a Subscription.
fn policy_warnings(subscription: &Subscription) -> Vec<EventDraft> {
    let name = subscription.name_any();
    let warnings = upgrade_policy::problems(subscription).into_iter().map(|text| {
        let text = format!("Subscription {name}: {text}");
        subscription_warning(subscription, reasons::UPGRADE_POLICY_INVALID, &text)
    });
    warnings.collect()
}
