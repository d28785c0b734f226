//! Webhooks and their certificates, from the install of an operator to its removal.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

mod certificates;

use super::{prepared, prepared_for, rests, succeeded};
use crate::{
    csv::serving::certificate::{ca_hash, inspect},
    test_env::{TestEnv, csv, csv_with_webhooks, group, namespace_object, webhook},
};

const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";
const SECRET: &str = "demo-service-cert";

/// The demo with its webhooks, in a group for these namespaces.
#[track_caller]
fn installed_for(targets: &[&str]) -> TestEnv {
    let mut env = prepared_for(targets).with(csv_with_webhooks("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    env
}

/// Changes the webhooks that the demo describes.
fn describe(env: &mut TestEnv, webhooks: &Value) {
    let spec = json!({"spec": {"webhookdefinitions": webhooks}});
    env.edit("ClusterServiceVersion", "ns", "a", spec);
}

/// Returns the only object of a kind.
#[track_caller]
fn only<'a>(env: &'a TestEnv, kind: &str) -> &'a Value {
    let mut found = env.objects.iter().filter(|(key, _)| key.0 == kind);
    let (_, object) = found.next().unwrap_or_else(|| panic!("there is a {kind}"));
    assert_eq!(found.next(), None, "there is one {kind}");
    object
}

fn decoded(value: &Value) -> String {
    let bytes: ByteString = serde_json::from_value(value.clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

/// The CA of the Secret.
#[track_caller]
fn ca(env: &TestEnv) -> String {
    decoded(&env.get("Secret", "ns", SECRET).expect("the Secret exists")["data"]["olmCAKey"])
}

fn bundle(configuration: &Value) -> String {
    decoded(&configuration["webhooks"][0]["clientConfig"]["caBundle"])
}

fn pod_hash(env: &TestEnv) -> Value {
    let deployment = env
        .get("Deployment", "ns", "demo")
        .expect("the Deployment exists");
    deployment["spec"]["template"]["metadata"]["annotations"]["olmcahash"].clone()
}

/// Asserts that Secret, pods and webhooks have the same CA.
#[track_caller]
fn agree(env: &TestEnv) {
    let ca = ca(env);
    let secret = env.get("Secret", "ns", SECRET).unwrap();
    assert_eq!(secret["metadata"]["annotations"]["olmcahash"], ca_hash(&ca));
    assert_eq!(pod_hash(env), ca_hash(&ca));
    assert_eq!(bundle(only(env, VALIDATING)), ca);
    assert_eq!(bundle(only(env, MUTATING)), ca);
    let hosts = [
        "demo-service.ns",
        "demo-service.ns.svc",
        "demo-service.ns.svc.cluster.local",
    ];
    let certificate = decoded(&secret["data"]["tls.crt"]);
    inspect(&ca, &certificate, &hosts.map(str::to_owned), env.now).unwrap();
}

#[test]
fn wh_003_a_described_webhook_gets_all_it_needs_to_be_called() {
    let env = installed_for(&[]);
    let uid = env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["uid"].clone();
    for (kind, name) in [
        ("Service", "demo-service"),
        ("Secret", SECRET),
        ("Role", SECRET),
        ("RoleBinding", SECRET),
    ] {
        let found = env
            .get(kind, "ns", name)
            .unwrap_or_else(|| panic!("{kind} {name} exists"));
        assert_eq!(
            found["metadata"]["labels"],
            json!({"olm.managed": "true"}),
            "{kind}"
        );
        assert_eq!(found["metadata"]["ownerReferences"][0]["uid"], uid, "{kind}");
    }
    let service = &env.get("Service", "ns", "demo-service").unwrap()["spec"];
    assert_eq!(
        service["ports"],
        json!([{"name": "443", "port": 443, "targetPort": 9443, "protocol": "TCP"}])
    );
    assert_eq!(service["selector"], json!({"app": "demo"}));
    let secret = env.get("Secret", "ns", SECRET).unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let rules = &env.get("Role", "ns", SECRET).unwrap()["rules"];
    assert_eq!(
        *rules,
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"]}])
    );
    let binding = env.get("RoleBinding", "ns", SECRET).unwrap();
    assert_eq!(binding["subjects"][0]["name"], "demo");
    agree(&env);

    let found = only(&env, VALIDATING);
    let marks = &found["metadata"]["labels"];
    assert_eq!(marks["olm.webhook-description-generate-name"], "v.example.com");
    assert_eq!(marks["olm.owner"], "a");
    assert_eq!(marks["olm.managed"], "true");
    assert!(marks["olm.webhook-description-hash"].is_string());
    let name = found["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("v.example.com-"), "{name}");
    let called = &found["webhooks"][0];
    assert_eq!(
        called["clientConfig"]["service"],
        json!({"name": "demo-service", "namespace": "ns", "path": "/call", "port": 443})
    );
    assert_eq!(called["name"], "v.example.com");
    assert_eq!(called["failurePolicy"], "Fail");
    assert_eq!(called.get("reinvocationPolicy"), None);
    let pod = &env.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], SECRET);
}

#[test]
fn wh_001_webhooks_come_change_and_go_with_their_operator() {
    let mut env = installed_for(&["ns"]);
    let hash =
        |env: &TestEnv| only(env, VALIDATING)["metadata"]["labels"]["olm.webhook-description-hash"].clone();
    let uid = |env: &TestEnv| only(env, VALIDATING)["metadata"]["uid"].clone();
    let (old_hash, old_uid) = (hash(&env), uid(&env));
    let mut webhooks = csv_with_webhooks("a", "")["spec"]["webhookdefinitions"].clone();
    webhooks[0]["rules"][0]["resources"] = json!(["others"]);
    describe(&mut env, &webhooks);
    env.settle_for(5);
    assert_eq!(
        only(&env, VALIDATING)["webhooks"][0]["rules"][0]["resources"],
        json!(["others"])
    );
    assert!(hash(&env) != old_hash && uid(&env) == old_uid, "changed in place");
    succeeded(&env, "a");

    webhooks[0]["generateName"] = json!("other.example.com");
    describe(&mut env, &webhooks);
    env.settle_for(5);
    assert_eq!(only(&env, VALIDATING)["webhooks"][0]["name"], "other.example.com");
    webhooks[0]["type"] = json!("MutatingAdmissionWebhook");
    describe(&mut env, &webhooks);
    env.settle_for(5);
    assert_eq!((env.names(VALIDATING).len(), env.names(MUTATING).len()), (0, 2));

    describe(&mut env, &Value::Null);
    env.settle_for(5);
    succeeded(&env, "a");
    for kind in [MUTATING, "Service", "Secret"] {
        assert!(env.names(kind).is_empty(), "{kind}: {:?}", env.names(kind));
    }
    assert_eq!(env.get("Role", "ns", SECRET), None);
    assert_eq!(env.get("RoleBinding", "ns", SECRET), None);
    assert_eq!(pod_hash(&env), Value::Null);
}

#[test]
fn wh_001_webhooks_go_before_the_operator_does() {
    let mut env = installed_for(&["ns"]);
    env.writes.clear();
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    assert_eq!(env.status("a"), "gone");
    for kind in [VALIDATING, MUTATING, "Service", "Secret", "Deployment"] {
        assert!(env.names(kind).is_empty(), "{kind}");
    }
    let at = |text: &str| env.writes.iter().position(|write| write.contains(text));
    assert!(
        at(VALIDATING) < at("patch ClusterServiceVersion ns/a"),
        "{:#?}",
        env.writes
    );
    assert!(at(VALIDATING).is_some());
}

#[test]
fn wh_002_webhooks_are_called_for_what_is_in_the_groups_namespaces() {
    let selector = |env: &TestEnv| only(env, VALIDATING)["webhooks"][0]["namespaceSelector"].clone();
    let scope = |env: &TestEnv| only(env, VALIDATING)["webhooks"][0]["rules"][0]["scope"].clone();
    let env = installed_for(&[]);
    assert_eq!((selector(&env), scope(&env)), (json!({}), Value::Null));

    let mut env = installed_for(&["ns"]);
    let uid = env.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["uid"].clone();
    let label = format!("olm.operatorgroup.uid/{}", uid.as_str().unwrap());
    assert_eq!(selector(&env), json!({"matchLabels": {label: ""}}));
    assert_eq!(
        scope(&env),
        "Namespaced",
        "what is in no namespace is not the group's"
    );

    let team = json!({"matchLabels": {"team": "x"}});
    env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one", "labels": {"team": "x"}}}));
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": null, "selector": team}}),
    );
    env.settle_for(5);
    assert_eq!(selector(&env), team);
    assert_eq!(scope(&env), "Namespaced");
}

#[test]
fn any_damage_is_repaired() {
    let pem = |text: &str| serde_json::to_value(ByteString(text.into())).unwrap();
    type Damage = fn(&mut TestEnv, Value);
    let damages: [(&str, bool, Damage); 10] = [
        ("Secret deleted", true, |env, _| {
            env.delete("Secret", "ns", SECRET);
        }),
        ("CA corrupt", true, |env, pem| {
            env.edit("Secret", "ns", SECRET, json!({"data": {"olmCAKey": pem}}));
        }),
        ("certificate corrupt", true, |env, pem| {
            env.edit("Secret", "ns", SECRET, json!({"data": {"tls.crt": pem}}));
        }),
        ("key changed", true, |env, pem| {
            env.edit("Secret", "ns", SECRET, json!({"data": {"tls.key": pem}}));
        }),
        ("key gone", true, |env, _| {
            env.edit("Secret", "ns", SECRET, json!({"data": {"tls.key": null}}));
        }),
        ("hash wrong", true, |env, _| {
            env.edit(
                "Secret",
                "ns",
                SECRET,
                json!({"metadata": {"annotations": {"olmcahash": "x"}}}),
            );
        }),
        ("Service changed", false, |env, _| {
            env.edit(
                "Service",
                "ns",
                "demo-service",
                json!({"spec": {"selector": {"app": "x"}}}),
            );
        }),
        ("Service deleted", false, |env, _| {
            env.delete("Service", "ns", "demo-service");
        }),
        ("Role widened", false, |env, _| {
            env.edit(
                "Role",
                "ns",
                SECRET,
                json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
            );
        }),
        ("configuration deleted", false, |env, _| {
            let name = only(env, VALIDATING)["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned();
            env.delete(VALIDATING, "", &name);
        }),
    ];
    for (what, is_new, damage) in damages {
        let mut env = installed_for(&["ns"]);
        let before = ca(&env);
        let service = env.get("Service", "ns", "demo-service").unwrap()["spec"].clone();
        let role = env.get("Role", "ns", SECRET).unwrap()["rules"].clone();
        damage(&mut env, pem("nonsense"));
        env.settle_for(20);
        succeeded(&env, "a");
        let key = &env.get("Secret", "ns", SECRET).unwrap()["data"]["tls.key"];
        assert!(key.is_string() && *key != pem("nonsense"), "{what}");
        assert_eq!(ca(&env) != before, is_new, "{what}");
        assert_eq!(
            env.get("Service", "ns", "demo-service").unwrap()["spec"],
            service,
            "{what}"
        );
        assert_eq!(env.get("Role", "ns", SECRET).unwrap()["rules"], role, "{what}");
        agree(&env);
    }
}

#[test]
fn entries_that_others_added_stay() {
    let mut env = installed_for(&["ns"]);
    let service = env.get("Service", "ns", "demo-service").unwrap()["spec"].clone();
    let webhooks = only(&env, VALIDATING)["webhooks"].clone();
    let mut ports = service["ports"].clone();
    let more = json!({"name": "more", "port": 99, "targetPort": 99, "protocol": "TCP"});
    ports.as_array_mut().unwrap().push(more);
    env.edit(
        "Service",
        "ns",
        "demo-service",
        json!({"spec": {"ports": ports.clone()}}),
    );
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(
        env.get("Service", "ns", "demo-service").unwrap()["spec"]["ports"],
        ports
    );

    let mut more = webhooks.clone();
    let mut other = webhooks[0].clone();
    other["name"] = json!("other.example.com");
    more.as_array_mut().unwrap().push(other);
    let name = only(&env, VALIDATING)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    env.edit(VALIDATING, "", &name, json!({"webhooks": more.clone()}));
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(only(&env, VALIDATING)["webhooks"], more);
}

/// Members lose the rights of their OperatorGroup with it.
#[test]
fn webhooks_and_apis_do_not_outlive_their_group() {
    let mut env = installed_for(&[]);
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(5);
    assert!(
        env.status("a").starts_with("Failed NoOperatorGroup"),
        "{}",
        env.status("a")
    );
    only(&env, VALIDATING);
    env.settle_for(10 * 60 + 5);
    for kind in [VALIDATING, MUTATING] {
        assert!(env.names(kind).is_empty(), "{kind}");
    }
    assert!(!env.names("Deployment").is_empty());
    env.put(group("ns", "og", &[]));
    env.settle_for(30);
    succeeded(&env, "a");
    agree(&env);
}

#[test]
fn webhooks_whose_operator_went_without_its_finalizer_go() {
    let mut env = installed_for(&[]);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"finalizers": null}}),
    );
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    for kind in [VALIDATING, MUTATING] {
        assert!(env.names(kind).is_empty(), "{kind}");
    }
}

#[test]
fn the_same_webhooks_in_two_namespaces_do_not_meet() {
    let mut env = installed_for(&["ns"])
        .with(namespace_object("two"))
        .with(group("two", "og", &["two"]));
    let mut second = csv_with_webhooks("a", "");
    second["metadata"]["namespace"] = json!("two");
    second["spec"]["customresourcedefinitions"] = json!({});
    env.put(second);
    env.settle_for(10);
    let services = |env: &TestEnv| -> Vec<String> {
        let all = env.objects.iter().filter(|(key, _)| key.0 == VALIDATING);
        all.map(|(_, found)| {
            found["webhooks"][0]["clientConfig"]["service"]["namespace"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
    };
    let mut both = services(&env);
    both.sort();
    assert_eq!(both, ["ns", "two"]);
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    assert_eq!(services(&env), ["two"]);
}

#[test]
fn a_description_that_is_not_installed_is_reported_and_fixed_in_place() {
    let mut env = prepared();
    let mut csv = csv_with_webhooks("a", "");
    csv["spec"]["webhookdefinitions"][0]["rules"][0]["apiGroups"] = json!(["*"]);
    rests(
        &mut env,
        csv,
        "Failed InvalidWebhookDescription: webhook rules cannot include all groups",
    );
    let refused = |env: &TestEnv| -> Vec<Value> {
        let csv = env.get("ClusterServiceVersion", "ns", "a").unwrap();
        let rows = csv["status"]["requirementStatus"].as_array().unwrap().iter();
        let of_webhooks = rows.filter(|row| row["kind"] == "ValidatingWebhookConfiguration");
        of_webhooks
            .map(|row| json!([row["name"], row["status"], row["message"]]))
            .collect()
    };
    let row = json!([
        "v.example.com",
        "NotPresent",
        "webhook rules cannot include all groups"
    ]);
    assert_eq!(refused(&env), [row]);
    assert!(env.names("Deployment").is_empty() && env.names("Secret").is_empty());
    let fine = csv_with_webhooks("a", "")["spec"]["webhookdefinitions"].clone();
    describe(&mut env, &fine);
    env.settle_for(5);
    succeeded(&env, "a");
    assert!(refused(&env).is_empty());
    agree(&env);
}

#[test]
fn what_serves_has_to_be_there_and_one_port_leads_to_one_place() {
    let webhook = |deployment: &str, name: &str, port: i32| {
        let mut webhook = webhook(name, "ValidatingAdmissionWebhook");
        webhook["deploymentName"] = json!(deployment);
        webhook["targetPort"] = json!(port);
        webhook
    };
    let long = "d".repeat(56);
    let cases = [
        (
            json!([webhook("none", "v", 1)]),
            "strategyDetailsDeployment is missing deployment none for WebhookDescription v".to_owned(),
        ),
        (
            json!([webhook("demo", "v", 1), webhook("demo", "w", 2)]),
            "webhook v and webhook w: port 443 of Service demo-service cannot have two target ports"
                .to_owned(),
        ),
        (
            json!([webhook(&long, "v", 1)]),
            format!(
                "webhook v: the name {long}-service of its deployment's Service is longer than 63 characters"
            ),
        ),
    ];
    for (webhooks, expected) in cases {
        let mut csv = csv("a", "");
        csv["spec"]["webhookdefinitions"] = webhooks;
        let entry = crate::test_env::deployment(&long, "demo:1");
        csv["spec"]["install"]["spec"]["deployments"]
            .as_array_mut()
            .unwrap()
            .push(entry);
        rests(
            &mut prepared(),
            csv,
            &format!("Failed InvalidWebhookDescription: {expected}"),
        );
    }
}

#[test]
fn a_secret_and_a_service_that_stood_before_are_taken_and_marked() {
    let mut env = prepared();
    env.put(json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"namespace": "ns", "name": SECRET},
        "data": {"tls.crt": "", "tls.key": ""}}));
    env.put(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "ns", "name": "demo-service"},
        "spec": {"selector": {"app": "x"}}}),
    );
    env.put(csv_with_webhooks("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    agree(&env);
    assert_eq!(
        env.get("Secret", "ns", SECRET).unwrap()["metadata"]["labels"]["olm.managed"],
        "true"
    );
    assert_eq!(
        env.get("Service", "ns", "demo-service").unwrap()["spec"]["selector"],
        json!({"app": "demo"})
    );
}

#[test]
fn ogx_007_an_operator_that_must_not_run_is_not_called_either() {
    let mut env = installed_for(&[]).with(namespace_object("other"));
    let mut rival = group("other", "og", &[]);
    rival["metadata"]["annotations"] = json!({"olm.providedAPIs": "Demo.v1.example.com"});
    rival["status"] = json!({"namespaces": [""], "lastUpdated": null});
    rival["spec"]["staticProvidedAPIs"] = json!(true);
    env.put(rival);
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"metadata": {"annotations": {"olm.providedAPIs": null}}}),
    );
    env.settle_for(5);
    assert!(
        env.status("a")
            .starts_with("Failed InterOperatorGroupOwnerConflict"),
        "{}",
        env.status("a")
    );
    for kind in ["Deployment", VALIDATING, MUTATING] {
        assert!(env.names(kind).is_empty(), "{kind}");
    }
}
