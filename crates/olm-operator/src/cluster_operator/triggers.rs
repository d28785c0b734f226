//! Maps changed objects to ClusterOperators to reconcile, with a delay. No I/O.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::{NamespacedName, store::Change};

use super::{olm::properties, settings::ReportSettings};

/// Delay in which changes are collected, because each reconcile reads the operators of the whole cluster.
pub(crate) const GATHER: Duration = Duration::from_secs(1);

/// Returns the ClusterOperators that report on a changed ClusterServiceVersion.
pub(crate) fn by_csv(
    change: &Change<ClusterServiceVersion>,
    settings: &ReportSettings,
) -> Vec<NamespacedName> {
    let is_own = change
        .object()
        .namespace()
        .is_some_and(|namespace| namespace == settings.namespace);
    let concerns_olm = match change {
        Change::Applied { old: Some(old), new } => properties(old) != properties(new),
        Change::Applied { old: None, new: csv } | Change::Deleted { old: csv } => {
            is_own || properties(csv).is_some()
        }
    };
    let is_labelled = |csv: &Arc<ClusterServiceVersion>| settings.is_of_package_server(csv);
    let concerns_package_server = change.versions().any(is_labelled);
    let olm = settings.olm().filter(|_| concerns_olm);
    let package_server = settings.package_server().filter(|_| concerns_package_server);
    olm.into_iter()
        .chain(package_server)
        .map(NamespacedName::cluster)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_env::decode;

    fn csv(namespace: &str, annotations: Value, labels: Value) -> Arc<ClusterServiceVersion> {
        let metadata =
            json!({"namespace": namespace, "name": "a", "annotations": annotations, "labels": labels});
        Arc::new(decode(json!({"metadata": metadata, "spec": {}})))
    }

    #[test]
    fn a_csv_wakes_the_reports_that_tell_of_it() {
        let settings = ReportSettings {
            olm: "olm".into(),
            package_server: "ps".into(),
            namespace: "own".into(),
            release: String::new(),
        };
        let plain = |namespace: &str| csv(namespace, json!({}), json!({}));
        let limited = |max: &str| csv("ns", json!({"operatorframework.io/properties": max}), json!({}));
        let labelled = |namespace: &str| csv(namespace, json!({}), json!({"olm.clusteroperator.name": "ps"}));
        let created = |new| Change::Applied { old: None, new };
        let changed = |old, new| Change::Applied { old: Some(old), new };
        for (change, woken) in [
            (created(plain("ns")), vec![]),
            (created(plain("own")), vec!["olm"]),
            (changed(plain("own"), plain("own")), vec![]),
            (Change::Deleted { old: plain("own") }, vec!["olm"]),
            (created(limited("1")), vec!["olm"]),
            (changed(limited("1"), limited("1")), vec![]),
            (changed(limited("1"), limited("2")), vec!["olm"]),
            (changed(limited("1"), plain("ns")), vec!["olm"]),
            (Change::Deleted { old: limited("1") }, vec!["olm"]),
            (changed(labelled("own"), labelled("own")), vec!["ps"]),
            (changed(labelled("own"), plain("own")), vec!["ps"]),
            (changed(labelled("ns"), labelled("ns")), vec![]),
        ] {
            let keys = by_csv(&change, &settings).into_iter();
            let names: Vec<String> = keys.map(|key| key.name).collect();
            assert_eq!(names, woken, "{change:?}");
        }
    }
}
