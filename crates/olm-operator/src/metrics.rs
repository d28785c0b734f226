//! Prometheus metrics of ClusterServiceVersions, with upstream's names (`docs/reference/metrics.md`).
//!
//! Gauges are read from the store at each scrape. So nothing must be kept in sync, and no series outlives its
//! object.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use go_compat::semver::Version;
use kube::ResourceExt;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase};
use olm_runtime::metrics::Metrics;
use olm_runtime::store::{Change, Store};
use olm_runtime::{Timestamp, clock};

const SECONDS_OF_A_DAY: i64 = 24 * 60 * 60;

/// Version reported for a ClusterServiceVersion without one.
const NO_VERSION: &str = "0.0.0";
/// Maximum length of a reported version in bytes; longer or invalid versions are arbitrary text and not
/// reported.
const MAX_VERSION_BYTES: usize = 63;

/// Registers the metrics of `csvs`, a store without copies.
pub(crate) fn register(metrics: &Metrics, csvs: &Store<ClusterServiceVersion>) {
    let all = csvs.clone();
    metrics.gauges(
        "csv_count",
        "Number of CSVs successfully registered",
        [],
        move || vec![([], i64::try_from(all.list().len()).unwrap_or(i64::MAX))],
    );
    let all = csvs.clone();
    metrics.gauges(
        "csv_succeeded",
        "Successful CSV install",
        ["namespace", "name", "version"],
        move || all.list().iter().filter_map(succeeded).collect(),
    );
    let all = csvs.clone();
    metrics.gauges(
        "csv_abnormal",
        "CSV is not installed",
        ["namespace", "name", "version", "phase", "reason"],
        move || all.list().iter().filter_map(abnormal).collect(),
    );
    let all = csvs.clone();
    metrics.gauges(
        "olm_csv_certificate_days_left",
        "Days until the first serving certificate of a CSV expires",
        ["namespace", "name"],
        move || {
            let now = clock::now();
            let csvs = all.list();
            csvs.iter()
                .filter_map(|csv| certificate_days_left(csv, now))
                .collect()
        },
    );
    let upgrades = metrics.counter("csv_upgrade_count", "Monotonic count of CSV upgrades");
    csvs.on_change(move |change| {
        if is_upgrade(change) {
            upgrades.increment();
        }
    });
}

/// Series of a ClusterServiceVersion that was reconciled.
fn succeeded(csv: &Arc<ClusterServiceVersion>) -> Option<([String; 3], i64)> {
    let phase = csv.phase();
    (*phase != Phase::None).then(|| (identity(csv), i64::from(*phase == Phase::Succeeded)))
}

/// Series of a ClusterServiceVersion that was reconciled and has not succeeded.
fn abnormal(csv: &Arc<ClusterServiceVersion>) -> Option<([String; 5], i64)> {
    let phase = csv.phase();
    if matches!(phase, Phase::None | Phase::Succeeded) {
        return None;
    }
    let [namespace, name, version] = identity(csv);
    Some((
        [
            namespace,
            name,
            version,
            phase.to_string(),
            csv.reason().to_owned(),
        ],
        1,
    ))
}

/// Series for one ClusterServiceVersion with certificates. The status contains the time of their renewal,
/// which is a day before the first of them expires.
fn certificate_days_left(csv: &Arc<ClusterServiceVersion>, now: Timestamp) -> Option<([String; 2], i64)> {
    let rotated = csv.status.as_ref()?.certs_rotate_at.as_ref()?.0;
    let left = rotated.as_second().saturating_sub(now.as_second());
    let days = left.div_euclid(SECONDS_OF_A_DAY).saturating_add(1);
    Some(([csv.namespace().unwrap_or_default(), csv.name_any()], days))
}

fn identity(csv: &ClusterServiceVersion) -> [String; 3] {
    let version = csv.spec.version.as_deref();
    let version = version.filter(|text| text.len() <= MAX_VERSION_BYTES && Version::parse(text).is_ok());
    [
        csv.namespace().unwrap_or_default(),
        csv.name_any(),
        version.unwrap_or(NO_VERSION).to_owned(),
    ]
}

/// True when a ClusterServiceVersion starts to be replaced. If its successor already runs, it may reach phase
/// Deleting in the same reconcile. Objects that are in these phases when the process starts were counted
/// before.
fn is_upgrade(change: &Change<ClusterServiceVersion>) -> bool {
    let is_replaced = |csv: &ClusterServiceVersion| matches!(csv.phase(), Phase::Replacing | Phase::Deleting);
    match change {
        Change::Applied { old: Some(old), new } => is_replaced(new) && !is_replaced(old),
        _ => false,
    }
}
