//! The same operator several times in a cluster, each in a namespace with its own OperatorGroup.

use serde_json::{Value, json};

use super::prepared;
use crate::test_env::{TestEnv, csv, group, namespace_object};

/// Namespaces `ns` and `two`, each with its OperatorGroup, and the demo's CustomResourceDefinition.
fn teams() -> TestEnv {
    prepared()
        .with(namespace_object("two"))
        .with(group("two", "og", &["two"]))
}

/// The demo of a namespace, in a version.
fn of(namespace: &str, name: &str, version: &str) -> Value {
    let mut csv = csv(name, "");
    csv["metadata"]["namespace"] = json!(namespace);
    csv["spec"]["version"] = json!(version);
    csv
}

/// `namespace/name phase` of each.
fn phases(env: &TestEnv) -> Vec<String> {
    let names = env.names("ClusterServiceVersion").into_iter();
    names
        .map(|key| {
            let (namespace, name) = key.split_once('/').unwrap();
            let csv = env.get("ClusterServiceVersion", namespace, name).unwrap();
            format!("{key} {}", csv["status"]["phase"].as_str().unwrap_or("-"))
        })
        .collect()
}

/// Asserts that both are installed, and that each can be deleted without the other or the definition.
#[track_caller]
fn assert_apart(first: &Value, second: &Value) {
    let key = |csv: &Value| {
        let text = |field: &str| csv["metadata"][field].as_str().unwrap().to_owned();
        (text("namespace"), text("name"))
    };
    let running = |csv: &Value| format!("{}/{} Succeeded", key(csv).0, key(csv).1);
    for (goes, stays) in [(first, second), (second, first)] {
        let mut env = teams().with(first.clone()).with(second.clone());
        env.settle_for(10);
        assert_eq!(phases(&env), [running(first), running(second)]);
        assert_eq!(env.names("Deployment"), ["ns/demo", "two/demo"]);
        let (namespace, name) = key(goes);
        env.delete("ClusterServiceVersion", &namespace, &name);
        env.settle_for(60);
        assert_eq!(phases(&env), [running(stays)]);
        assert_eq!(env.names("Deployment"), [format!("{}/demo", key(stays).0)]);
        assert_eq!(env.names("CustomResourceDefinition"), ["/demos.example.com"]);
        // A later reconcile comes to the same result.
        env.kill();
        env.settle_for(60);
        assert_eq!(phases(&env), [running(stays)]);
    }
}

#[test]
fn mt_001_an_operator_is_installed_in_two_namespaces_and_goes_from_each_alone() {
    assert_apart(&of("ns", "a", "1.0.0"), &of("two", "a", "1.0.0"));
}

#[test]
fn mt_001_mt_002_two_versions_with_one_definition_are_installed_side_by_side() {
    assert_apart(&of("ns", "a", "1.0.0"), &of("two", "b", "2.0.0"));
}

/// The definition was installed independently.
#[test]
fn mt_001_mt_003_two_versions_that_need_a_definition_of_others_are_installed_side_by_side() {
    let needing = |namespace: &str, name: &str, version: &str| {
        let mut csv = of(namespace, name, version);
        csv["spec"]["customresourcedefinitions"] =
            json!({"required": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]});
        csv
    };
    assert_apart(&needing("ns", "a", "1.0.0"), &needing("two", "b", "2.0.0"));
}

/// With only one definition, a version whose API is not in it waits, and affects no other tenant.
#[test]
fn mt_004_a_version_with_an_api_that_the_definition_lacks_is_not_installed_beside_another() {
    let mut newer = of("two", "b", "2.0.0");
    newer["spec"]["customresourcedefinitions"]["owned"][0]["version"] = json!("v2");
    let mut env = teams().with(of("ns", "a", "1.0.0")).with(newer);
    env.settle_for(10);
    assert_eq!(phases(&env), ["ns/a Succeeded", "two/b Pending"]);
    assert_eq!(env.names("Deployment"), ["ns/demo"]);
}
