//! Edits of serving objects that would make an apply alone be refused forever.

use serde_json::{Value, json};

use super::{prepared, succeeded};
use crate::test_env::{TestEnv, csv_with_webhooks};

const VALIDATING: &str = "ValidatingWebhookConfiguration";

#[track_caller]
fn installed() -> TestEnv {
    let mut env = prepared().with(csv_with_webhooks("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    env
}

fn ports(env: &TestEnv) -> Value {
    env.get("Service", "ns", "demo-service")
        .expect("the Service exists")["spec"]["ports"]
        .clone()
}

/// With its name, the edited port would conflict with ours; without it, both would remain.
#[test]
fn a_port_whose_number_was_edited_comes_back() {
    for name in ["443", "other"] {
        let mut env = installed();
        let before = ports(&env);
        let mut edited = before.clone();
        edited[0]["port"] = json!(9999);
        edited[0]["name"] = json!(name);
        env.edit(
            "Service",
            "ns",
            "demo-service",
            json!({"spec": {"ports": edited}}),
        );
        env.log.clear();
        env.settle_for(20);
        assert_eq!(ports(&env), before, "{name}");
        succeeded(&env, "a");
        let failed = env.log.iter().any(|line| line.contains("Failed"));
        assert!(!failed, "{name}: {:#?}", env.log);
        let writes = env.writes.len();
        env.settle_for(60);
        assert_eq!(env.writes.len(), writes, "it is at rest");
    }
}

#[test]
fn a_webhook_that_was_renamed_or_led_to_a_url_comes_back() {
    let edits: [fn(&mut Value); 2] = [
        |webhook| webhook["name"] = json!("other.example.com"),
        |webhook| webhook["clientConfig"] = json!({"url": "https://example.com/"}),
    ];
    for edit in edits {
        let mut env = installed();
        let name = env.names(VALIDATING)[0].trim_start_matches('/').to_owned();
        let webhooks = |env: &TestEnv| env.get(VALIDATING, "", &name).unwrap()["webhooks"].clone();
        let before = webhooks(&env);
        let mut edited = before.clone();
        edit(&mut edited[0]);
        env.edit(VALIDATING, "", &name, json!({"webhooks": edited}));
        env.log.clear();
        env.settle_for(20);
        assert_eq!(webhooks(&env), before);
        succeeded(&env, "a");
        let failed = env.log.iter().any(|line| line.contains("Failed"));
        assert!(!failed, "{edited}: {:#?}", env.log);
    }
}

/// The admissions enforcer of AKS adds to the selectors of all webhooks, on each write of one.
#[test]
fn what_a_platform_adds_stays_and_nothing_flaps() {
    let mut env = installed();
    let name = env.names(VALIDATING)[0].trim_start_matches('/').to_owned();
    let added = json!({"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]});
    let mut webhooks = env.get(VALIDATING, "", &name).unwrap()["webhooks"].clone();
    let selector = &mut webhooks[0]["namespaceSelector"];
    let mut expressions = selector["matchExpressions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    expressions.push(added);
    selector["matchExpressions"] = expressions.into();
    env.edit_as(
        "admissionsenforcer",
        VALIDATING,
        "",
        &name,
        json!({"webhooks": webhooks}),
    );
    let mut with_port = ports(&env);
    with_port
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "mesh", "port": 15021, "protocol": "TCP"}));
    env.edit_as(
        "mesh",
        "Service",
        "ns",
        "demo-service",
        json!({"spec": {"ports": with_port}}),
    );
    env.writes.clear();
    env.log.clear();
    env.settle_for(600);
    env.kill();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
    assert_eq!(env.log, [""; 0]);
    assert_eq!(env.get(VALIDATING, "", &name).unwrap()["webhooks"], webhooks);
    succeeded(&env, "a");
}

#[test]
fn a_port_that_the_new_version_changes_is_changed_without_a_failure() {
    let mut env = installed();
    // Left by upstream: its manager owns the port, too.
    let of_upstream = json!({"spec": {"ports": ports(&env)}});
    env.edit_as("olm.install", "Service", "ns", "demo-service", of_upstream);
    let mut newer = csv_with_webhooks("b", "a");
    for webhook in newer["spec"]["webhookdefinitions"].as_array_mut().unwrap() {
        webhook["containerPort"] = json!(8443);
    }
    env.put(newer);
    env.log.clear();
    env.settle_for(20);
    succeeded(&env, "b");
    let ports = ports(&env);
    assert_eq!(
        (&ports[0]["port"], ports.as_array().map(Vec::len)),
        (&json!(8443), Some(1))
    );
    let failed = env.log.iter().any(|line| line.contains("Failed"));
    assert!(!failed, "{:#?}", env.log);
}

/// An object that no ClusterServiceVersion owned is used, and still belongs to its creator, as in upstream.
#[test]
fn what_stood_before_the_operator_is_used_and_outlives_it() {
    const NAME: &str = "demo-service-cert";
    let rbac = "rbac.authorization.k8s.io/v1";
    let metadata = json!({"namespace": "ns", "name": NAME, "labels": {"mine": "yes"}});
    let mut env = prepared();
    env.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": {"mine": "eA=="}}));
    env.put(json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": []}));
    env.put(
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}}),
    );
    env.put(csv_with_webhooks("a", ""));
    env.settle_for(10);
    succeeded(&env, "a");
    let kinds = ["Secret", "Role", "RoleBinding"];
    for kind in kinds {
        let found = env.get(kind, "ns", NAME).expect("it stays");
        let owners = found["metadata"]["ownerReferences"].as_array();
        assert!(owners.is_none_or(Vec::is_empty), "{kind}: {found}");
        assert_eq!(found["metadata"]["labels"]["olm.managed"], "true", "{kind}");
    }
    assert!(env.get("Secret", "ns", NAME).unwrap()["data"]["tls.crt"].is_string());
    let writes = env.writes.len();
    env.settle_for(60);
    assert_eq!(env.writes.len(), writes, "it is at rest");
    env.put(csv_with_webhooks("b", "a"));
    env.settle_for(20);
    assert_eq!(env.status("a"), "gone");
    succeeded(&env, "b");
    env.delete("ClusterServiceVersion", "ns", "b");
    env.settle_for(20);
    assert_eq!(env.status("b"), "gone");
    for kind in kinds {
        assert!(env.get(kind, "ns", NAME).is_some(), "{kind}");
    }
    assert_eq!(env.get("Service", "ns", "demo-service"), None);
}
