//! How long operators take from the request for them to Succeeded.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase, Subscription};
use olm_runtime::metrics::Metrics;
use olm_runtime::store::{Change, Store};
use olm_runtime::sync::Mutex;
use olm_runtime::{Timestamp, clock};

use crate::stores::Stores;

/// Upper bounds in seconds.
const SECONDS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 3600.0];

pub(super) fn register(metrics: &Metrics, stores: &Stores) {
    let durations = metrics.durations(
        "olm_subscription_succeeded_seconds",
        "Seconds until a CSV first succeeded: since creation of the Subscription for an install, of the CSV for an upgrade",
        ["kind"],
        &SECONDS,
    );
    let (csvs, subscriptions) = (stores.csvs.clone(), stores.subscriptions.clone());
    let known = Mutex::<BTreeSet<String>>::default();
    stores.csvs.on_change(move |change| {
        let mut known = known.lock();
        if let Some(csv) = first_success(change, &mut known)
            && let Some((kind, since)) = wished(csv, &csvs, &subscriptions)
        {
            let duration = clock::now().duration_since(since);
            durations.observe([kind], Duration::try_from(duration).unwrap_or_default());
        }
    });
}

/// The ClusterServiceVersion if it succeeds for the first time while we look on. `known` are the uids of those that have
/// succeeded before.
fn first_success<'a>(
    change: &'a Change<ClusterServiceVersion>,
    known: &mut BTreeSet<String>,
) -> Option<&'a ClusterServiceVersion> {
    let uid = change.object().uid()?;
    match change {
        Change::Deleted { .. } => {
            known.remove(&uid);
            None
        }
        Change::Applied { new, .. } if *new.phase() != ClusterServiceVersionPhase::Succeeded => None,
        // Found so: nobody knows since when.
        Change::Applied { old: None, .. } => {
            known.insert(uid);
            None
        }
        Change::Applied { new, .. } => known.insert(uid).then_some(new),
    }
}

/// Since when somebody wants it, and whether as an upgrade; none when no Subscription does.
fn wished(
    csv: &ClusterServiceVersion,
    csvs: &Store<ClusterServiceVersion>,
    subscriptions: &Store<Subscription>,
) -> Option<(&'static str, Timestamp)> {
    let (namespace, name) = (csv.namespace()?, csv.name_any());
    let of_csv = |subscription: &Subscription| {
        let status = subscription.status.as_ref();
        subscription.namespace().as_deref() == Some(&namespace)
            && status.is_some_and(|status| status.current_csv.as_deref() == Some(&name))
    };
    let subscription = subscriptions.list_where(of_csv).into_iter().next()?;
    let replaced = csv.spec.replaces.as_deref();
    let is_upgrade = replaced.is_some_and(|replaced| csvs.get(&namespace, replaced).is_some());
    let (kind, since) = if is_upgrade {
        ("upgrade", csv.creation_timestamp())
    } else {
        ("install", subscription.creation_timestamp())
    };
    since.map(|Time(since)| (kind, since))
}
