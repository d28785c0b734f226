//! Catalogs that count for a namespace, and their deletion.

use serde_json::{Value, json};

use super::{first, subscription};
use crate::test_env::{TestEnv, bundle};

fn catalog(namespace: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": namespace, "name": "cat"},
        "spec": {"sourceType": "grpc", "image": "reg/cat:1"}})
}

fn subscribed(package: &str, namespace: &str) -> Value {
    let mut object = subscription("Automatic");
    object["metadata"]["name"] = json!(package);
    object["spec"]["name"] = json!(package);
    object["spec"]["sourceNamespace"] = json!(namespace);
    object
}

fn unhealthy(env: &TestEnv, subscription: &str) -> String {
    let object = env.get("Subscription", subscription).unwrap();
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == "CatalogSourcesUnhealthy");
    let found = found.unwrap();
    format!(
        "{}: {}",
        found["status"].as_str().unwrap(),
        found["message"].as_str().unwrap()
    )
}

#[test]
fn cat_002_cat_003_a_global_catalog_is_for_all_namespaces_and_another_for_its_own() {
    for (namespace, is_offered) in [("olm", true), ("ns", true), ("other", false)] {
        let mut env = TestEnv::new();
        env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
        env.outside.serve(first());
        env.put(catalog(namespace));
        env.put(subscribed("demo", namespace));
        env.rest();
        let installed = env.get("ClusterServiceVersion", "demo.v1").is_some();
        assert_eq!(installed, is_offered, "{namespace}");
        let expected = if is_offered {
            "False: all available catalogsources are healthy"
        } else {
            "True: dependency resolution requires at least one catalogsource"
        };
        assert_eq!(unhealthy(&env, "demo"), expected, "{namespace}");
    }
}

/// The Manual Subscription of another namespace makes nothing wait there, neither an install nor an upgrade.
#[test]
fn mt_008_a_namespace_with_a_global_group_is_free_of_the_approval_of_others() {
    let mut env = TestEnv::new();
    env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shared"}}));
    env.put(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": "shared", "name": "all"}, "spec": {},
        "status": {"namespaces": [""], "lastUpdated": null}}),
    );
    env.outside.serve([bundle("demo.v1"), bundle("other.v1")]);
    env.put(catalog("olm"));
    let mut manual = subscribed("demo", "olm");
    manual["spec"]["installPlanApproval"] = json!("Manual");
    env.put(manual);
    let mut automatic = subscribed("other", "olm");
    automatic["metadata"]["namespace"] = json!("shared");
    env.put(automatic);
    env.settle_for(30);
    let installed = |env: &TestEnv| {
        let csvs = env.all("ClusterServiceVersion");
        let key = |csv: &Value| {
            let text = |field: &str| csv["metadata"][field].as_str().unwrap().to_owned();
            format!("{}/{}", text("namespace"), text("name"))
        };
        csvs.iter().map(key).collect::<Vec<_>>()
    };
    assert_eq!(installed(&env), ["shared/other.v1"]);
    let waits = |env: &TestEnv| {
        let plans = env.all("InstallPlan");
        let waiting = plans.iter().filter(|plan| plan["spec"]["approved"] == false);
        let namespaces = waiting.map(|plan| plan["metadata"]["namespace"].as_str().unwrap().to_owned());
        namespaces.collect::<Vec<_>>()
    };
    assert_eq!(waits(&env), ["ns"]);
    let succeeded = json!({"status": {"phase": "Succeeded"}});
    env.stage.edit_all("ClusterServiceVersion", &succeeded);
    env.outside.serve([
        bundle("demo.v1"),
        bundle("other.v1"),
        bundle("other.v2").replaces("other.v1"),
    ]);
    env.settle_for(30);
    assert_eq!(installed(&env), ["shared/other.v1", "shared/other.v2"]);
    assert_eq!(waits(&env), ["ns"]);
}

/// The pod continues to serve, and its content stays; the status reports the error.
#[test]
fn a_typo_in_the_spec_of_a_running_catalog_takes_nothing_away() {
    let mut env = TestEnv::new();
    env.outside.serve([bundle("demo.v1"), bundle("other.v1")]);
    env.put(catalog("ns"));
    env.put(subscribed("demo", "ns"));
    env.rest();
    let mut wrong = env.get("CatalogSource", "cat").unwrap();
    wrong["spec"]["sourceType"] = json!("nope");
    env.put(wrong);
    env.put(subscribed("other", "ns"));
    env.rest();
    let catalog = env.get("CatalogSource", "cat").unwrap();
    assert_eq!(catalog["status"]["reason"], "SpecInvalidError");
    assert_eq!(catalog["status"]["connectionState"]["lastObservedState"], "READY");
    assert!(env.get("ClusterServiceVersion", "other.v1").is_some());
    assert_eq!(env.all("Pod").len(), 1);
}

#[test]
fn cat_026_a_deleted_catalog_is_absent_and_what_it_brought_stays() {
    let mut env = TestEnv::new();
    env.outside.serve([bundle("demo.v1"), bundle("other.v1")]);
    env.put(catalog("ns"));
    env.put(subscribed("demo", "ns"));
    env.rest();
    env.delete("CatalogSource", "cat");
    env.put(subscribed("other", "ns"));
    env.rest();
    assert!(env.get("ClusterServiceVersion", "other.v1").is_none());
    assert!(env.get("ClusterServiceVersion", "demo.v1").is_some());
    let demo = env.get("Subscription", "demo").unwrap();
    assert_eq!(demo["status"]["installedCSV"], "demo.v1");
    assert!(
        unhealthy(&env, "demo").starts_with("True: "),
        "{}",
        unhealthy(&env, "demo")
    );
    for kind in ["Pod", "Service", "NetworkPolicy"] {
        assert!(env.all(kind).is_empty(), "{kind}");
    }
    // Created again under its name it counts again.
    env.put(catalog("ns"));
    env.rest();
    assert!(env.get("ClusterServiceVersion", "other.v1").is_some());
}

/// A pod whose label a user removes is no longer part of the Service; it is not left behind.
#[test]
fn a_pod_that_lost_its_label_goes() {
    let mut env = TestEnv::new();
    env.outside.serve(first());
    env.put(catalog("ns"));
    env.rest();
    let before = env.only("Pod")["metadata"]["name"].as_str().unwrap().to_owned();
    env.edit(
        "Pod",
        &before,
        &json!({"metadata": {"labels": {"olm.catalogSource": ""}}}),
    );
    env.rest();
    let pod = env.only("Pod");
    assert_ne!(pod["metadata"]["name"], json!(before));
    assert_eq!(pod["metadata"]["labels"]["olm.catalogSource"], "cat");
    let status = env.only("CatalogSource")["status"].clone();
    assert_eq!(status["connectionState"]["lastObservedState"], "READY");
}
