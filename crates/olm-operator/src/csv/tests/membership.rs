//! Membership in an OperatorGroup: its conditions, the annotations of members, and the group's list of APIs.

use serde_json::{Value, json};

use super::{changed, prepared_for, rests, succeeded};
use crate::test_env::{TestEnv, crd, csv, deployment, group, namespace_object};

const ALL: [&str; 4] = [
    "OwnNamespace",
    "SingleNamespace",
    "MultiNamespace",
    "AllNamespaces",
];

fn supporting(modes: &[&str]) -> Value {
    let entry = |mode: &&str| json!({"type": mode, "supported": modes.contains(mode)});
    changed("a", |spec| {
        spec["installModes"] = ALL.iter().map(entry).collect();
    })
}

/// Asserts that the demo with only this mode is a member of a group with these targets, and not with all
/// other modes.
#[track_caller]
fn needs(mode: &str, targets: &[&str], refusal: &str) {
    let env = || {
        prepared_for(targets)
            .with(namespace_object("one"))
            .with(namespace_object("two"))
    };
    let mut fitting = env().with(supporting(&[mode]));
    fitting.settle_for(5);
    succeeded(&fitting, "a");
    let others: Vec<&str> = ALL.into_iter().filter(|other| *other != mode).collect();
    let expected = format!(
        "Failed UnsupportedOperatorGroup: {mode} InstallModeType not supported, cannot configure to watch {refusal}"
    );
    let mut unfit = env();
    rests(&mut unfit, supporting(&others), &expected);
    assert!(unfit.names("Deployment").is_empty());
}

#[test]
fn og_005_own_namespace_is_needed_for_a_group_of_it() {
    needs("OwnNamespace", &["ns"], "own namespace");
}

#[test]
fn og_006_single_namespace_is_needed_for_a_group_of_another() {
    needs("SingleNamespace", &["one"], "one namespace");
}

#[test]
fn og_007_multi_namespace_is_needed_for_a_group_of_several() {
    needs("MultiNamespace", &["one", "two"], "2 namespaces");
}

#[test]
fn og_008_all_namespaces_is_needed_for_a_global_group() {
    needs("AllNamespaces", &[], "all namespaces");
    let mut env = prepared_for(&[]).with(supporting(&["AllNamespaces"]));
    env.settle_for(5);
    let annotations = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["olm.targetNamespaces"], "");
}

#[test]
fn og_001_all_operators_beside_a_group_watch_what_it_selects() {
    let mut other = csv("b", "");
    other["spec"]["customresourcedefinitions"] = json!({});
    other["spec"]["install"]["spec"] = json!({"deployments": [deployment("other", "other:1")]});
    let mut env = prepared_for(&["ns", "one"])
        .with(namespace_object("one"))
        .with(csv("a", ""))
        .with(other);
    env.settle_for(5);
    let watched = |env: &TestEnv| {
        ["demo", "other"].map(|name| {
            let template = &env.get("Deployment", "ns", name).unwrap()["spec"]["template"];
            template["metadata"]["annotations"]["olm.targetNamespaces"].clone()
        })
    };
    assert_eq!(watched(&env), ["ns,one", "ns,one"]);
    target(&mut env, Value::Null);
    assert_eq!(watched(&env), ["", ""]);
}

fn target(env: &mut TestEnv, namespaces: Value) {
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": namespaces}}),
    );
    env.settle_for(5);
}

#[test]
fn og_003_a_member_is_in_the_namespace_of_its_group_and_supports_its_targets() {
    let mut env = TestEnv::new()
        .with(crd("demos.example.com"))
        .with(namespace_object("far"))
        .with(group("far", "og", &["ns"]));
    let unfit = changed("a", |spec| spec["installModes"] = json!([]));
    rests(
        &mut env,
        unfit,
        "Failed NoOperatorGroup: csv in namespace with no operatorgroups: namespace ns has none",
    );
    let annotations = |env: &TestEnv| {
        let csv = env.get("ClusterServiceVersion", "ns", "a").unwrap();
        csv["metadata"]["annotations"].clone()
    };
    assert_eq!(annotations(&env), json!({"capabilities": "Basic Install"}));
    env.put(group("ns", "own", &["ns"]));
    env.settle_for(5);
    assert!(
        env.status("a").starts_with("Failed UnsupportedOperatorGroup"),
        "{}",
        env.status("a")
    );
    let modes = csv("a", "")["spec"]["installModes"].clone();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"installModes": modes}}),
    );
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(annotations(&env)["olm.operatorGroup"], "own");
}

#[test]
fn og_011_targets_that_become_supported_bring_the_csv_back() {
    let mut env = prepared_for(&[]);
    rests(
        &mut env,
        supporting(&["OwnNamespace"]),
        "Failed UnsupportedOperatorGroup: AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces",
    );
    env.log.clear();
    target(&mut env, json!(["ns"]));
    assert_eq!(
        env.log[0],
        "a: Pending (RequirementsUnknown) InstallModes now support target namespaces"
    );
    succeeded(&env, "a");
}

#[test]
fn og_023_a_member_says_in_which_namespace_its_group_is() {
    let mut member = csv("a", "");
    member["metadata"]["namespace"] = json!("two");
    let mut env = TestEnv::new()
        .with(namespace_object("two"))
        .with(group("two", "g", &["ns"]))
        .with(crd("demos.example.com"))
        .with(member);
    env.settle_for(5);
    let found = env.get("ClusterServiceVersion", "two", "a").unwrap();
    assert_eq!(found["status"]["phase"], "Succeeded");
    assert_eq!(
        found["metadata"]["annotations"],
        json!({"capabilities": "Basic Install", "olm.operatorGroup": "g", "olm.operatorNamespace": "two",
            "olm.targetNamespaces": "ns"})
    );
}

/// A ClusterServiceVersion whose Deployment serves this API.
fn serving(name: &str, api: Value) -> Value {
    let mut csv = csv(name, "");
    csv["spec"]["customresourcedefinitions"] = json!({});
    csv["spec"]["install"]["spec"] = json!({"deployments": [deployment(name, "server:1")]});
    csv["spec"]["apiservicedefinitions"] = json!({"owned": [api]});
    csv
}

#[test]
fn og_026_a_group_lists_definitions_and_apis_of_its_members() {
    let thing = json!({"name": "things", "group": "things.example.com", "version": "v1", "kind": "Thing",
        "deploymentName": "b", "containerPort": 5443});
    let mut env = prepared_for(&["ns"])
        .with(namespace_object("kube-system"))
        .with(csv("a", ""))
        .with(serving("b", thing));
    env.settle_for(5);
    let annotations = &env.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"];
    assert_eq!(
        *annotations,
        json!({"olm.providedAPIs": "Demo.v1.example.com,Thing.v1.things.example.com"})
    );
}

#[test]
fn og_027_the_group_of_the_package_server_lists_its_api() {
    let manifests = json!({"name": "packagemanifests", "group": "packages.apps.redhat.com", "version": "v1alpha1",
        "kind": "PackageManifest", "deploymentName": "packageserver", "containerPort": 5443});
    let mut server = serving("packageserver", manifests);
    server["metadata"]["namespace"] = json!("local");
    let mut group = group("local", "olm-operators", &["local"]);
    group["spec"]["selector"] = json!({});
    let mut env = TestEnv::new();
    for namespace in ["local", "kube-system"] {
        env.put(namespace_object(namespace));
    }
    env.put(group);
    env.put(server);
    env.settle_for(5);
    let found = env.get("OperatorGroup", "local", "olm-operators").unwrap();
    assert_eq!(
        found["metadata"]["annotations"]["olm.providedAPIs"],
        "PackageManifest.v1alpha1.packages.apps.redhat.com"
    );
    assert_eq!(found["status"]["namespaces"], json!(["local"]));
}
