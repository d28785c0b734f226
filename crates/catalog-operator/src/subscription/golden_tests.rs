//! Statuses that upstream left in a real cluster, composed again from the other recorded objects.

use std::path::Path;

use olm_api::v1alpha1::CatalogSource;
use serde_json::Value;

use super::catalog_health::CatalogFact;
use super::*;
use crate::resolution::plan_object::WantedPlan;

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read(path).unwrap_or_else(|error| unreachable!("{}: {error}", path.display()));
    let (value, _) = olm_fbc::yaml::parse_first(&text).unwrap();
    match value.get("items").and_then(Value::as_array) {
        Some(items) => items.clone(),
        None => vec![value],
    }
}

fn typed<K: serde::de::DeserializeOwned>(path: &Path) -> Vec<K> {
    read(path)
        .into_iter()
        .map(|value| serde_json::from_value(value).unwrap())
        .collect()
}

/// Removes what a comparison ignores: times, versions and order of conditions. Deliberate differences are
/// `BundleUnpacking` of an old plan, and `Ready`.
fn comparable(status: &SubscriptionStatus) -> Value {
    let mut value = serde_json::to_value(status).unwrap();
    let mut conditions: Vec<Value> = value["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| {
        condition["type"] != reasons::BUNDLE_UNPACKING && condition["type"] != reasons::READY
    });
    for condition in &mut conditions {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
    }
    conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
    value["conditions"] = conditions.into();
    value["installPlanRef"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    value.as_object_mut().unwrap().remove("lastUpdated");
    for entry in value["catalogHealth"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("lastUpdated");
        entry["catalogSourceRef"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
    }
    value
}

/// Returns the catalogs in the status, because not every golden record has the objects.
fn catalogs_of(status: &SubscriptionStatus) -> Vec<CatalogFact> {
    let fact = |entry: &olm_api::v1alpha1::SubscriptionCatalogHealth| CatalogFact {
        reference: entry.catalog_source_ref.clone(),
        unhealthy_reason: (!entry.healthy).then(|| "ill".to_owned()),
    };
    status.catalog_health.iter().map(fact).collect()
}

#[test]
fn statuses_of_the_golden_cluster_are_composed_from_what_surrounds_them() {
    let Some(golden) = olm_testing::shared::shared_path("golden") else {
        return;
    };
    let rows = [
        (
            "01-requires-approval",
            "subscriptions.yaml",
            "installplans.yaml",
            None,
        ),
        (
            "02-succeeded",
            "subscriptions.yaml",
            "installplans.yaml",
            Some("clusterserviceversions.yaml"),
        ),
        (
            "05-all-namespaces",
            "subscriptions.yaml",
            "installplans.yaml",
            Some("clusterserviceversions.yaml"),
        ),
        (
            "06-dependency",
            "subscriptions.yaml",
            "installplans.yaml",
            Some("clusterserviceversions.yaml"),
        ),
        (
            "07-upgrade",
            "end-subscriptions.yaml",
            "end-installplans.yaml",
            Some("end-clusterserviceversions.yaml"),
        ),
    ];
    let mut compared = 0;
    for (folder, subscriptions, plans, csvs) in rows {
        let path = |file: &str| golden.join(folder).join(file);
        let csvs: Vec<ClusterServiceVersion> = csvs.map(|file| typed(&path(file))).unwrap_or_default();
        let namespace_state = NamespaceState {
            plans: typed::<InstallPlan>(&path(plans))
                .into_iter()
                .map(|plan| (plan.name_any(), Arc::new(plan)))
                .collect(),
            csvs: csvs
                .into_iter()
                .map(|csv| (csv.name_any(), Arc::new(csv)))
                .collect(),
            ..NamespaceState::default()
        };
        for mut object in typed::<Subscription>(&path(subscriptions)) {
            let Some(expected) = object.status.take() else {
                continue;
            };
            let plan = namespace_state
                .plans
                .get(install_plan::referenced(&expected).unwrap())
                .unwrap();
            let assignment = Assignment {
                plan: Arc::clone(plan),
                csv: expected.current_csv.clone().unwrap(),
            };
            let generated = object.annotations().contains_key(labels::GENERATED_BY);
            let facts = Facts {
                catalogs: &catalogs_of(&expected),
                outcome: &ResolutionOutcome::Resolved,
                deprecation: None,
                assignment: Some(&assignment).filter(|_| !generated),
            };
            let status = compose(&object, &namespace_state, &facts, Timestamp::UNIX_EPOCH);
            let mut expected = expected;
            if plan.phase() == InstallPlanPhase::Complete {
                // The Subscriptions were recorded a moment before the plans.
                let pending = reasons::INSTALL_PLAN_PENDING;
                expected.conditions.retain(|condition| condition.type_ != pending);
            }
            for condition in &mut expected.conditions {
                // Upstream reports this until the next reconcile, and then the lasting reason.
                if condition.reason.as_deref() == Some("CatalogSourcesAdded") {
                    condition.reason = Some("AllCatalogSourcesHealthy".to_owned());
                }
            }
            assert_eq!(
                comparable(&status),
                comparable(&expected),
                "{folder} {}",
                object.name_any()
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 6);
}

#[test]
fn catalogs_of_the_golden_cluster_are_healthy() {
    let Some(golden) = olm_testing::shared::shared_path("golden") else {
        return;
    };
    for source in typed::<CatalogSource>(&golden.join("02-succeeded/catalogsources.yaml")) {
        assert_eq!(CatalogFact::of(&source).unhealthy_reason, None);
        assert!(!catalog_health::is_starting(&source));
    }
}

/// Metadata and spec of the plan, and its status apart from the steps.
#[test]
fn the_plan_of_the_golden_cluster_is_made_alike() {
    let Some(golden) = olm_testing::shared::shared_path("golden") else {
        return;
    };
    let folder = golden.join("01-requires-approval");
    let expected = typed::<InstallPlan>(&folder.join("installplans.yaml")).remove(0);
    let owners: Vec<Arc<Subscription>> = typed(&folder.join("subscriptions.yaml"))
        .into_iter()
        .map(Arc::new)
        .collect();
    let status = expected.status.clone().unwrap();
    let wanted = WantedPlan {
        csv_names: vec!["demo.v1.0.0".to_owned()],
        manual: true,
        steps: status.plan.clone().into_inner(),
        lookups: status.bundle_lookups.clone().into_inner(),
        obstacles: Vec::new(),
    };
    let made = wanted.object("golden", 1, &owners);
    assert_eq!(made.spec, expected.spec);
    assert_eq!(made.metadata.owner_references, expected.metadata.owner_references);
    assert_eq!(made.metadata.generate_name, expected.metadata.generate_name);
    assert_eq!(made.metadata.labels, expected.metadata.labels);
    assert_eq!(wanted.status(false), status);
}
