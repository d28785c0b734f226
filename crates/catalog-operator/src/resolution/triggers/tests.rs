//! Fields whose changes trigger resolution.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// A change of one field, named by a JSON pointer.
fn edited<K: DeserializeOwned>(before: &Value, pointer: &str, value: Value) -> Change<K> {
    let of = |value: Value| Arc::new(serde_json::from_value(value).unwrap());
    let mut after = before.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    after.pointer_mut(parent).unwrap()[field] = value;
    Change::Applied {
        old: Some(of(before.clone())),
        new: of(after),
    }
}

#[test]
fn each_field_that_is_read_of_a_csv_is_news() {
    let before = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"namespace": "ns", "name": "a", "uid": "one"}, "spec": {},
        "status": {"phase": "Pending", "message": "m"}});
    for (phase, is_news) in [("Installing", true), ("Failed", true), ("Succeeded", false)] {
        let mut before = before.clone();
        before["status"]["phase"] = json!(phase);
        let change = edited::<ClusterServiceVersion>(&before, "/status/message", json!("other"));
        assert_eq!(csv_namespace(&change).is_some(), is_news, "message in {phase}");
    }
    for (pointer, value, is_news) in [
        ("/metadata/uid", json!("two"), true),
        ("/metadata/annotations", json!({"a": "b"}), true),
        ("/spec/replaces", json!("z"), true),
        ("/status/phase", json!("Succeeded"), true),
        ("/status/message", json!("other"), true),
        ("/status/lastUpdateTime", json!("2026-01-01T00:00:00Z"), false),
        ("/metadata/resourceVersion", json!("7"), false),
    ] {
        let change = edited::<ClusterServiceVersion>(&before, pointer, value);
        assert_eq!(csv_namespace(&change).is_some(), is_news, "{pointer}");
    }
}

#[test]
fn each_field_that_is_read_of_a_catalog_is_news() {
    let before = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": "ns", "name": "cat", "uid": "one"}, "spec": {"sourceType": "grpc", "image": "a"},
        "status": {"message": "m", "connectionState": {"lastObservedState": "READY", "lastConnect": "2026-01-01T00:00:00Z"}}});
    let subscriptions: Vec<Arc<Subscription>> = ["ns", "other"]
        .map(|namespace| {
            let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"namespace": namespace, "name": "s"},
                "spec": {"source": "cat", "sourceNamespace": "ns", "name": "demo"}});
            Arc::new(serde_json::from_value(subscription).unwrap())
        })
        .to_vec();
    let woken = |change: &Change<CatalogSource>, global: &str| {
        catalog_namespaces(change, global, &subscriptions).len()
    };
    for (pointer, value, is_news) in [
        ("/metadata/uid", json!("two"), true),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), true),
        ("/spec/priority", json!(3), true),
        ("/status/message", json!("other"), true),
        (
            "/status/connectionState/lastObservedState",
            json!("CONNECTING"),
            true,
        ),
        (
            "/status/connectionState/lastConnect",
            json!("2026-01-02T00:00:00Z"),
            false,
        ),
        (
            "/status/configMapReference",
            json!({"name": "m", "namespace": "ns", "resourceVersion": "7"}),
            false,
        ),
        (
            "/status/latestImageRegistryPoll",
            json!("2026-01-02T00:00:00Z"),
            false,
        ),
    ] {
        let change = edited(&before, pointer, value);
        assert_eq!(woken(&change, "olm"), usize::from(is_news), "{pointer}");
        assert_eq!(woken(&change, "ns"), 2 * usize::from(is_news), "{pointer}");
    }
}
