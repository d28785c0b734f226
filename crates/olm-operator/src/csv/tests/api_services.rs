//! APIs that operators serve themselves.

use k8s_openapi::ByteString;
use olm_api::api_key::ApiKey;
use serde_json::{Value, json};

use super::{prepared_for, succeeded};
use crate::test_env::{TestEnv, csv, group, namespace_object};

const NAME: &str = "v1.things.example.com";
const DELEGATOR: &str = "demo-service-system:auth-delegator";
const READER: &str = "demo-service-auth-reader";

/// The demo, serving an API.
fn with_api(name: &str, replaces: &str) -> Value {
    let mut csv = csv(name, replaces);
    csv["spec"]["apiservicedefinitions"] = json!({"owned": [{"name": "things", "group": "things.example.com",
        "version": "v1", "kind": "Thing", "deploymentName": "demo", "containerPort": 5443}]});
    csv
}

fn prepared() -> TestEnv {
    let mut env = prepared_for(&["ns"]).with(namespace_object("kube-system"));
    env.served.insert(ApiKey {
        group: "things.example.com".into(),
        version: "v1".into(),
        kind: "Thing".into(),
    });
    env
}

fn say(env: &mut TestEnv, available: &str) {
    let condition = json!({"type": "Available", "status": available, "reason": "Said"});
    env.edit(
        "APIService",
        "",
        NAME,
        json!({"status": {"conditions": [condition]}}),
    );
    env.settle_for(20);
}

#[track_caller]
fn installed() -> TestEnv {
    let mut env = prepared().with(with_api("a", ""));
    env.settle_for(5);
    say(&mut env, "True");
    succeeded(&env, "a");
    env
}

#[track_caller]
fn api(env: &TestEnv) -> &Value {
    env.get("APIService", "", NAME).expect("the APIService exists")
}

fn owner(env: &TestEnv) -> &str {
    api(env)["metadata"]["labels"]["olm.owner"]
        .as_str()
        .unwrap_or("nobody")
}

#[test]
fn an_owned_api_is_served_and_waited_for() {
    let mut env = prepared().with(with_api("a", ""));
    env.settle_for(10);
    assert_eq!(
        env.status("a"),
        "Installing InstallWaiting: apiServices not installed: v1.things.example.com is not available (it has no status yet)"
    );
    let secret = env
        .get("Secret", "ns", "demo-service-cert")
        .expect("the Secret exists");
    let spec = &api(&env)["spec"];
    assert_eq!(
        spec["service"],
        json!({"name": "demo-service", "namespace": "ns", "port": 5443})
    );
    assert_eq!(
        (&spec["group"], &spec["version"]),
        (&json!("things.example.com"), &json!("v1"))
    );
    assert_eq!(
        (&spec["groupPriorityMinimum"], &spec["versionPriority"]),
        (&json!(2000), &json!(15))
    );
    assert_eq!(spec["caBundle"], secret["data"]["olmCAKey"]);
    assert_eq!(owner(&env), "a");
    let ports = &env.get("Service", "ns", "demo-service").unwrap()["spec"]["ports"];
    assert_eq!(
        *ports,
        json!([{"name": "5443", "port": 5443, "targetPort": 5443, "protocol": "TCP"}])
    );
    let delegator = env
        .get("ClusterRoleBinding", "", DELEGATOR)
        .expect("it may ask who calls");
    assert_eq!(delegator["roleRef"]["name"], "system:auth-delegator");
    assert_eq!(
        delegator["subjects"],
        json!([{"kind": "ServiceAccount", "namespace": "ns", "name": "demo"}])
    );
    let reader = env
        .get("RoleBinding", "kube-system", READER)
        .expect("it may read whose word counts");
    assert_eq!(
        reader["roleRef"]["name"],
        "extension-apiserver-authentication-reader"
    );

    say(&mut env, "True");
    succeeded(&env, "a");
    env.served.clear();
    say(&mut env, "False");
    let status = env.status("a");
    assert!(
        status.contains("v1.things.example.com is not available (Said)"),
        "{status}"
    );
    say(&mut env, "True");
    succeeded(&env, "a");
}

#[test]
fn a_kind_that_is_not_served_is_waited_for() {
    let mut env = prepared();
    env.served.clear();
    env.put(with_api("a", ""));
    env.settle_for(5);
    say(&mut env, "True");
    assert_eq!(
        env.status("a"),
        "Installing InstallWaiting: apiServices not installed: v1.things.example.com does not have kind Thing"
    );
}

/// No watch reports when discovery has caught up.
#[test]
fn a_kind_that_is_served_after_the_install_timed_out_is_found() {
    let mut env = prepared();
    let kind = env.served.pop_first().expect("the kind of the API");
    env.put(with_api("a", ""));
    env.settle_for(5);
    say(&mut env, "True");
    env.settle_for(320);
    let failed = "Failed InstallCheckFailed: install timeout";
    assert!(env.status("a").starts_with(failed), "{}", env.status("a"));
    let writes = env.writes.len();
    env.settle_for(600);
    assert_eq!(env.writes.len(), writes, "looking writes nothing");
    env.served.insert(kind);
    env.settle_for(100);
    succeeded(&env, "a");
}

/// 0 is Go's zero value, which the definition accepts for APIs.
#[test]
fn a_port_of_0_is_the_default() {
    let mut env = prepared();
    let mut csv = with_api("a", "");
    csv["spec"]["apiservicedefinitions"]["owned"][0]["containerPort"] = json!(0);
    env.put(csv);
    env.settle_for(5);
    let ports = &env
        .get("Service", "ns", "demo-service")
        .expect("the Service exists")["spec"]["ports"];
    assert_eq!(
        (&ports[0]["port"], &ports[0]["targetPort"]),
        (&json!(443), &json!(443))
    );
    assert_eq!(api(&env)["spec"]["service"]["port"], 443);
}

#[test]
fn an_api_goes_with_its_operator_and_leaves_nothing() {
    let mut env = installed();
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(10);
    assert_eq!(env.status("a"), "gone");
    assert_eq!(env.get("APIService", "", NAME), None);
    assert_eq!(env.get("ClusterRoleBinding", "", DELEGATOR), None);
    assert_eq!(env.get("RoleBinding", "kube-system", READER), None);
    assert!(env.names("Service").is_empty() && env.names("Secret").is_empty());
}

#[test]
fn an_api_that_is_no_longer_described_goes() {
    let mut env = installed();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"apiservicedefinitions": null}}),
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(env.get("APIService", "", NAME), None);
    assert_eq!(env.get("ClusterRoleBinding", "", DELEGATOR), None);
    assert_eq!(env.get("RoleBinding", "kube-system", READER), None);
    assert!(env.names("Secret").is_empty());
    assert_eq!(env.names("ClusterRoleBinding").len(), 1, "its own rights stay");
}

#[test]
fn an_upgrade_takes_the_api_over() {
    let mut env = installed();
    let before = (
        api(&env)["metadata"]["uid"].clone(),
        api(&env)["spec"]["caBundle"].clone(),
    );
    env.put(with_api("b", "a"));
    env.settle_for(30);
    succeeded(&env, "b");
    assert_eq!(env.status("a"), "gone");
    assert_eq!(owner(&env), "b");
    assert_eq!(
        (
            api(&env)["metadata"]["uid"].clone(),
            api(&env)["spec"]["caBundle"].clone()
        ),
        before
    );
    let delegator = env.get("ClusterRoleBinding", "", DELEGATOR).expect("it stays");
    assert_eq!(delegator["metadata"]["labels"]["olm.owner"], "b");
}

#[test]
fn an_api_of_nobody_is_never_taken() {
    for labels in [json!({}), json!({"olm.owner": "x"})] {
        let mut env = prepared();
        env.put(
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": NAME, "labels": labels}, "spec": {"service": {"name": "theirs", "namespace": "two"}}}),
        );
        env.put(with_api("a", ""));
        env.settle_for(10);
        assert_eq!(
            env.status("a"),
            format!(
                "Failed OwnerConflict: unable to adopt APIService: pre-existing APIService {NAME} is not adoptable: it does not belong to a ClusterServiceVersion"
            )
        );
        assert_eq!(api(&env)["spec"]["service"]["name"], "theirs");
        assert_eq!(env.get("Deployment", "ns", "demo"), None);

        env.delete("APIService", "", NAME);
        env.settle_for(5);
        say(&mut env, "True");
        succeeded(&env, "a");
    }
}

#[test]
fn an_api_of_another_operator_is_never_taken_until_that_goes() {
    let mut env = prepared()
        .with(namespace_object("two"))
        .with(group("two", "og", &["two"]));
    let mut other = with_api("x", "");
    other["metadata"]["namespace"] = json!("two");
    env.put(other);
    env.settle_for(5);
    say(&mut env, "True");
    env.put(with_api("a", ""));
    env.settle_for(10);
    assert_eq!(
        env.status("a"),
        format!(
            "Failed OwnerConflict: unable to adopt APIService: pre-existing APIService {NAME} is not adoptable: it belongs to ClusterServiceVersion two/x"
        )
    );
    assert_eq!(api(&env)["spec"]["service"]["namespace"], "two");
    assert_eq!(env.get("Deployment", "ns", "demo"), None);

    env.delete("ClusterServiceVersion", "two", "x");
    env.settle_for(5);
    assert_eq!(owner(&env), "a");
    say(&mut env, "True");
    succeeded(&env, "a");
}

#[test]
fn changes_are_reverted() {
    let mut env = installed();
    let uid = api(&env)["metadata"]["uid"].clone();
    let bundle = serde_json::to_value(ByteString("x".into())).unwrap();
    let spec = json!({"spec": {"caBundle": bundle, "service": {"name": "x"}, "groupPriorityMinimum": 3000}});
    let right = api(&env)["spec"].clone();
    env.edit("APIService", "", NAME, spec);
    env.settle_for(10);
    succeeded(&env, "a");
    for field in ["caBundle", "service"] {
        assert_eq!(api(&env)["spec"][field], right[field], "{field}");
    }
    assert_eq!(
        api(&env)["spec"]["groupPriorityMinimum"],
        3000,
        "that is the administrator's"
    );
    env.delete("APIService", "", NAME);
    env.settle_for(5);
    assert_ne!(api(&env)["metadata"]["uid"], uid);
    say(&mut env, "True");
    succeeded(&env, "a");
}

#[test]
fn an_api_whose_operator_does_not_exist_goes_and_others_stay() {
    let service = |name: &str, labels: Value| json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name, "labels": labels}});
    let owned = |csv: &str| json!({"olm.owner": csv, "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"});
    let mut env = prepared().with(csv("a", ""));
    env.put(service("v1.gone", owned("none")));
    env.put(service("v1.some", json!({"olm.owner": "none"})));
    env.put(service("v1.nobody", json!({})));
    env.settle_for(5);
    assert_eq!(env.names("APIService"), ["/v1.nobody", "/v1.some"]);
}

#[test]
fn the_same_deployment_in_two_namespaces_has_its_own_bindings() {
    let mut env = installed()
        .with(namespace_object("two"))
        .with(group("two", "og", &["two"]));
    let mut second = with_api("a", "");
    second["metadata"]["namespace"] = json!("two");
    second["spec"]["customresourcedefinitions"] = json!({});
    second["spec"]["apiservicedefinitions"]["owned"][0]["group"] = json!("others.example.com");
    env.put(second);
    env.settle_for(10);
    let subject = |env: &TestEnv, kind: &str, namespace: &str, name: &str| {
        let found = env
            .get(kind, namespace, name)
            .unwrap_or_else(|| panic!("{kind} {name} exists"));
        found["subjects"][0]["namespace"].clone()
    };
    assert_eq!(subject(&env, "ClusterRoleBinding", "", DELEGATOR), "ns");
    assert_eq!(
        subject(&env, "ClusterRoleBinding", "", &format!("two:{DELEGATOR}")),
        "two"
    );
    assert_eq!(subject(&env, "RoleBinding", "kube-system", READER), "ns");
    assert_eq!(
        subject(&env, "RoleBinding", "kube-system", &format!("two:{READER}")),
        "two"
    );
    succeeded(&env, "a");
}

#[test]
fn bindings_of_strangers_are_left_alone() {
    let subject = json!([{"kind": "ServiceAccount", "name": "theirs", "namespace": "far"}]);
    let binding = |kind: &str, metadata: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}, "subjects": subject})
    };
    let mut env = prepared()
        .with(binding("ClusterRoleBinding", json!({"name": DELEGATOR})))
        .with(binding(
            "RoleBinding",
            json!({"name": READER, "namespace": "kube-system"}),
        ));
    env.put(with_api("a", ""));
    env.settle_for(5);
    say(&mut env, "True");
    succeeded(&env, "a");
    for (kind, namespace, name) in [
        ("ClusterRoleBinding", "", DELEGATOR),
        ("RoleBinding", "kube-system", READER),
    ] {
        let theirs = env.get(kind, namespace, name).expect("it is there");
        assert_eq!(theirs["subjects"], subject);
        assert_eq!(theirs["metadata"]["labels"], Value::Null);
        let own = env
            .get(kind, namespace, &format!("ns:{name}"))
            .expect("there is another");
        assert_eq!(own["subjects"][0]["namespace"], "ns");
    }
}

#[test]
fn an_api_whose_operator_went_without_its_finalizer_goes() {
    let mut env = installed();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"finalizers": null}}),
    );
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    assert_eq!(env.status("a"), "gone");
    assert_eq!(env.get("APIService", "", NAME), None);
}
