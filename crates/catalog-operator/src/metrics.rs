//! Metrics of catalogs, Subscriptions and InstallPlans, under upstream's names where it has one
//! (`docs/reference/metrics.md`).
//!
//! Gauges are read from the stores when they are asked for, so that nothing has to be kept in step, and no series outlives its
//! object.

mod syncs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use olm_api::condition;
use olm_api::v1alpha1::{CatalogSource, InstallPlan, InstallPlanPhase, Subscription};
use olm_runtime::change::Object;
use olm_runtime::metrics::{Counters, Durations, Metrics, Summary};
use olm_runtime::store::Store;
use olm_runtime::{NamespacedName, Timestamp, clock};

use self::syncs::Syncs;
use crate::snapshots::Snapshots;
use crate::stores::Stores;

/// Upper bounds of the durations of unpacks, in seconds.
const UNPACK_SECONDS: [f64; 8] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 600.0];

/// What is counted while it happens. The default counts nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// Resolutions of namespaces, by outcome.
    pub resolution_seconds: Summary,
    /// Unpacks that are over, by outcome.
    unpack_seconds: Durations<1>,
    /// Failed attempts to fetch a bundle, by reason.
    unpack_failures: Counters<1>,
}

impl Figures {
    /// Figures that are reported with the others of `metrics`.
    pub(crate) fn register(metrics: &Metrics) -> Self {
        Self {
            resolution_seconds: metrics.summary(
                "olm_resolution_duration_seconds",
                "The duration of a dependency resolution attempt",
                "outcome",
            ),
            unpack_seconds: metrics.durations(
                "olm_bundle_unpack_duration_seconds",
                "The duration of bundle unpacks, without time in the queue",
                ["outcome"],
                &UNPACK_SECONDS,
            ),
            unpack_failures: metrics.counters(
                "olm_bundle_unpack_failures_total",
                "Failed attempts to fetch a bundle, by reason",
                ["reason"],
            ),
        }
    }

    /// An unpack is over after `duration`.
    pub(crate) fn unpacked(&self, duration: std::time::Duration, done: bool) {
        let outcome = if done { SUCCEEDED } else { FAILED };
        self.unpack_seconds.observe([outcome], duration);
    }

    /// An attempt to fetch a bundle failed, for this reason.
    pub(crate) fn unpack_failed(&self, reason: &str) {
        self.unpack_failures.increment([reason]);
    }
}

/// Values of the label `outcome`.
pub(crate) const SUCCEEDED: &str = "succeeded";
/// See [`SUCCEEDED`].
pub(crate) const FAILED: &str = "failed";

/// Adds what is read from the stores. Call it before the watches start, so that nothing is missed.
pub(crate) fn register(metrics: &Metrics, stores: &Stores, snapshots: &Snapshots) {
    count(
        metrics,
        "catalog_source_count",
        "Number of catalog sources",
        &stores.sources,
    );
    count(
        metrics,
        "subscription_count",
        "Number of subscriptions",
        &stores.subscriptions,
    );
    count(
        metrics,
        "install_plan_count",
        "Number of install plans",
        &stores.plans,
    );
    metrics.counter_of_events(
        "installplan_warnings_total",
        "Resources of InstallPlans that were applied with warnings",
        condition::install_plan::APPLIED_WITH_WARNINGS,
    );
    register_sources(metrics, &stores.sources, snapshots);
    let all = stores.plans.clone();
    metrics.gauges(
        "olm_installplan_waiting_seconds",
        "Seconds since the creation of an InstallPlan that waits for approval",
        ["namespace", "name"],
        move || {
            let now = clock::now();
            let plans = all.list();
            plans.iter().filter_map(|plan| waiting(plan, now)).collect()
        },
    );
    let all = stores.subscriptions.clone();
    metrics.gauges(
        "olm_subscriptions_unresolved",
        "Subscriptions that cannot be resolved, by reason",
        ["reason"],
        move || unresolved(&all.list()),
    );
    let syncs = Syncs::of(&stores.subscriptions);
    metrics.read_counters(
        "subscription_sync_total",
        "Monotonic count of subscription syncs",
        syncs::LABELS,
        move || syncs.read(),
    );
}

fn register_sources(metrics: &Metrics, sources: &Store<CatalogSource>, snapshots: &Snapshots) {
    let all = sources.clone();
    metrics.gauges(
        "catalogsource_ready",
        "State of a CatalogSource: 1 if it is READY, else 0",
        ["namespace", "name"],
        move || all.list().iter().map(ready).collect(),
    );
    let (all, read) = (sources.clone(), snapshots.clone());
    metrics.read_counters(
        "catalog_source_snapshots_total",
        "Number of reads of a catalog's content",
        ["namespace", "name"],
        move || series(read.counts(|source| all.get_key(source).is_some())),
    );
    let of = snapshots.clone();
    metrics.gauges(
        "olm_catalogsource_content_bytes",
        "Memory of the content of a catalog in use in bytes",
        ["namespace", "name"],
        move || series(of.bytes()),
    );
    let of = snapshots.clone();
    metrics.gauges(
        "olm_catalogsource_content_refused",
        "1 for a catalog in use whose content exceeds the memory limit",
        ["namespace", "name"],
        move || series(of.refused()),
    );
}

/// A series for each catalog.
fn series<T: TryInto<i64>>(values: Vec<(NamespacedName, T)>) -> Vec<([String; 2], i64)> {
    let values = values.into_iter();
    values
        .map(|(source, value)| (labels_of(source), value.try_into().unwrap_or(i64::MAX)))
        .collect()
}

fn count<K: Object + Send + Sync + 'static>(metrics: &Metrics, name: &str, help: &str, store: &Store<K>) {
    let all = store.clone();
    metrics.gauges(name, help, [], move || {
        vec![([], i64::try_from(all.list().len()).unwrap_or(i64::MAX))]
    });
}

fn labels_of(key: NamespacedName) -> [String; 2] {
    [key.namespace, key.name]
}

/// Whether the server of a catalog answers.
fn ready(source: &Arc<CatalogSource>) -> ([String; 2], i64) {
    let state = source
        .status
        .as_ref()
        .and_then(|status| status.connection_state.as_ref());
    let ready = state.is_some_and(|state| state.last_observed_state == condition::catalog_source::READY);
    (
        labels_of(NamespacedName::from_object(source.as_ref())),
        i64::from(ready),
    )
}

/// Time that a plan has waited for approval.
fn waiting(plan: &Arc<InstallPlan>, now: Timestamp) -> Option<([String; 2], i64)> {
    if plan.phase() != InstallPlanPhase::RequiresApproval || plan.spec.approved {
        return None;
    }
    let Time(made) = plan.creation_timestamp()?;
    let seconds = now.as_second().saturating_sub(made.as_second()).max(0);
    Some((labels_of(NamespacedName::from_object(plan.as_ref())), seconds))
}

fn unresolved(subscriptions: &[Arc<Subscription>]) -> Vec<([String; 1], i64)> {
    let mut counts = BTreeMap::<&str, i64>::new();
    let conditions = subscriptions
        .iter()
        .flat_map(|subscription| &subscription.status)
        .flat_map(|status| status.conditions.iter());
    for condition in conditions {
        if condition.type_ == condition::subscription::RESOLUTION_FAILED
            && condition.status == condition::TRUE
        {
            let reason = condition.reason.as_deref().unwrap_or_default();
            *counts.entry(reason).or_default() += 1;
        }
    }
    let counts = counts.into_iter();
    counts
        .map(|(reason, count)| ([reason.to_owned()], count))
        .collect()
}
