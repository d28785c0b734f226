//! Operators and their component lists, on the cluster in memory.

use serde_json::{Value, json};

use crate::test_env::{TestEnv, crd, csv, group, namespace_object, service_account, subscription};

const LABEL: &str = "operators.coreos.com/demo.ns";

fn operator(name: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": name}})
}

/// A ServiceAccount of `ns` with OLM's label and these labels.
fn account(name: &str, labels: &[&str]) -> Value {
    let mut account = service_account(name);
    account["metadata"]["labels"] = json!({"olm.managed": "true"});
    for label in labels {
        account["metadata"]["labels"][label] = json!("");
    }
    account
}

/// Sets the label of `demo.ns`; `null` removes it.
fn set_label(env: &mut TestEnv, kind: &str, namespace: &str, name: &str, value: Value) {
    env.edit(
        kind,
        namespace,
        name,
        json!({"metadata": {"labels": {LABEL: value}}}),
    );
}

fn uid(env: &TestEnv) -> Value {
    env.get("Operator", "", "demo.ns").unwrap()["metadata"]["uid"].clone()
}

fn status_of(env: &TestEnv) -> Value {
    env.get("Operator", "", "demo.ns").unwrap()["status"].clone()
}

/// The demo as catalog-operator creates it: with the label from the start.
fn installed() -> TestEnv {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &["ns"]));
    let mut crd = crd("demos.example.com");
    crd["metadata"]["labels"] = json!({LABEL: ""});
    crd["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-1": "ns/a"});
    env.put(crd);
    let mut csv = csv("a", "");
    csv["metadata"]["labels"] = json!({LABEL: ""});
    env.put(csv);
    let mut subscription = subscription("a", json!({}));
    subscription["metadata"]["labels"] = json!({LABEL: ""});
    subscription["status"]["installedCSV"] = json!("a");
    subscription["status"]["installPlanRef"] = json!({"namespace": "ns", "name": "install-a"});
    env.put(subscription);
    set_label(&mut env, "InstallPlan", "ns", "install-a", json!(""));
    env.settle_for(10);
    env
}

/// Returns `Kind namespace/name` of all refs of an Operator, in order.
fn refs(env: &TestEnv, name: &str) -> Vec<String> {
    let found = env.get("Operator", "", name).unwrap();
    let refs = found["status"]["components"]["refs"].as_array();
    let text = |found: &Value, field: &str| found[field].as_str().unwrap_or_default().to_owned();
    refs.into_iter()
        .flatten()
        .map(|found| {
            format!(
                "{} {}/{}",
                text(found, "kind"),
                text(found, "namespace"),
                text(found, "name")
            )
        })
        .collect()
}

fn writes_to_operators(env: &TestEnv) -> Vec<&String> {
    env.writes
        .iter()
        .filter(|write| write.contains(" Operator "))
        .collect()
}

/// The kinds, their order and their conditions are those that upstream's Operator has for the same operator.
#[test]
fn all_parts_of_an_install_are_listed_with_their_conditions_in_two_writes() {
    let env = installed();
    assert_eq!(
        writes_to_operators(&env),
        ["create Operator demo.ns", "patch Operator demo.ns status"]
    );
    let status = &status_of(&env)["components"];
    assert_eq!(
        status["labelSelector"],
        json!({"matchExpressions": [{"key": LABEL, "operator": "Exists"}]})
    );
    let mut kinds = Vec::new();
    for found in status["refs"].as_array().unwrap() {
        let conditions = found["conditions"].as_array().into_iter().flatten();
        let types: Vec<&str> = conditions.map(|found| found["type"].as_str().unwrap()).collect();
        let text = |field: &str| found[field].as_str().unwrap_or("-").to_owned();
        kinds.push(format!(
            "{} {} {} {}",
            text("apiVersion"),
            text("kind"),
            text("namespace"),
            types.join(",")
        ));
    }
    insta::assert_snapshot!(kinds.join("\n"), @r"
    rbac.authorization.k8s.io/v1 ClusterRole - 
    rbac.authorization.k8s.io/v1 ClusterRoleBinding - 
    operators.coreos.com/v1alpha1 ClusterServiceVersion ns Succeeded
    apiextensions.k8s.io/v1 CustomResourceDefinition - Established,NamesAccepted
    apps/v1 Deployment ns Available
    operators.coreos.com/v1alpha1 InstallPlan ns Installed
    operators.coreos.com/v2 OperatorCondition ns 
    rbac.authorization.k8s.io/v1 Role ns 
    rbac.authorization.k8s.io/v1 RoleBinding ns 
    v1 ServiceAccount ns 
    operators.coreos.com/v1alpha1 Subscription ns 
    ");
    let csv = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
    let told = status["refs"][2]["conditions"][0].clone();
    for field in ["reason", "message", "lastUpdateTime", "lastTransitionTime"] {
        assert_eq!(told[field], csv[field], "{field}");
    }
    assert_eq!(told["status"], "True");
}

#[test]
fn what_olm_makes_bears_the_label_from_the_beginning() {
    let env = installed();
    let later = env.writes.iter().filter(|write| write.contains(LABEL));
    assert_eq!(later.count(), 0, "{:#?}", env.writes);
    assert_eq!(refs(&env, "demo.ns").len(), 11);
}

#[test]
fn without_components_there_is_only_the_selector_and_refs_follow_the_labels() {
    let mut env = TestEnv::new().with(operator("demo.ns"));
    env.settle_for(5);
    assert_eq!(
        status_of(&env),
        json!({"components": {"labelSelector": {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}}})
    );
    env.put(account("b", &[LABEL]));
    env.put(account("a", &[LABEL, "operators.example.com/other"]));
    set_label(&mut env, "Namespace", "", "ns", json!("x"));
    env.settle_for(5);
    assert_eq!(
        refs(&env, "demo.ns"),
        ["Namespace /ns", "ServiceAccount ns/a", "ServiceAccount ns/b"]
    );
    set_label(&mut env, "ServiceAccount", "ns", "b", Value::Null);
    env.delete("ServiceAccount", "ns", "a");
    env.settle_for(5);
    assert_eq!(refs(&env, "demo.ns"), ["Namespace /ns"]);
    set_label(&mut env, "Namespace", "", "ns", Value::Null);
    env.settle_for(5);
    assert_eq!(status_of(&env)["components"]["refs"], Value::Null);
    assert_eq!(env.names("Operator"), ["/demo.ns"]);
}

/// Each alone: nothing else triggers its Operator.
#[test]
fn every_kind_is_listed_when_it_comes_and_when_it_goes() {
    const KINDS: [(&str, &str, &str); 16] = [
        ("apiregistration.k8s.io/v1", "APIService", ""),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", ""),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ""),
        ("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns"),
        ("v1", "ConfigMap", "ns"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", ""),
        ("apps/v1", "Deployment", "ns"),
        ("operators.coreos.com/v1alpha1", "InstallPlan", "ns"),
        ("v1", "Namespace", ""),
        ("operators.coreos.com/v2", "OperatorCondition", "ns"),
        ("rbac.authorization.k8s.io/v1", "Role", "ns"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "ns"),
        ("v1", "Secret", "ns"),
        ("v1", "Service", "ns"),
        ("v1", "ServiceAccount", "ns"),
        ("operators.coreos.com/v1alpha1", "Subscription", "ns"),
    ];
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let mut env = TestEnv::new();
    env.by_hand = true;
    for (api_version, kind, namespace) in KINDS {
        let name = kind.to_lowercase();
        let label = format!("operators.coreos.com/{name}");
        // Not all of these kinds require an Operator.
        env.put(operator(&name));
        let mut object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "labels": {"olm.managed": "true", label: ""}}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        match kind {
            "ClusterServiceVersion" => object["spec"] = csv("a", "")["spec"].clone(),
            "CustomResourceDefinition" => object["spec"] = json!({"versions": []}),
            "Deployment" => object["spec"] = json!({"selector": {}, "template": {}}),
            "InstallPlan" => {
                object["spec"] = json!({"clusterServiceVersionNames": [], "approval": "", "approved": true});
            }
            "OperatorCondition" => object["spec"] = json!({}),
            "RoleBinding" | "ClusterRoleBinding" => object["roleRef"] = role_ref.clone(),
            "Subscription" => object["spec"] = json!({"source": "cat", "sourceNamespace": "ns", "name": ""}),
            _ => {}
        }
        env.put(object);
    }
    env.settle_for(10);
    for (_, kind, namespace) in KINDS {
        let name = kind.to_lowercase();
        let listed = refs(&env, &name);
        assert!(
            listed.contains(&format!("{kind} {namespace}/{name}")),
            "{listed:?}"
        );
        if kind != "Namespace" {
            env.edit(kind, namespace, &name, json!({"metadata": {"finalizers": null}}));
            env.delete(kind, namespace, &name);
            env.settle_for(31);
            assert_eq!(refs(&env, &name), [""; 0], "{kind}");
        }
    }
}

#[test]
fn a_deleted_operator_comes_back_while_what_made_it_is_there_and_a_definition_keeps_none() {
    let mut env = installed();
    let (before, listed) = (uid(&env), refs(&env, "demo.ns"));
    env.delete("Operator", "", "demo.ns");
    env.settle_for(5);
    assert_ne!(uid(&env), before);
    assert_eq!(refs(&env, "demo.ns"), listed);

    delete_install(&mut env);
    env.settle_for(10);
    assert_eq!(
        refs(&env, "demo.ns"),
        ["CustomResourceDefinition /demos.example.com"]
    );
    // The definition keeps the label, but does not keep the Operator.
    env.settle_for(15 * 60);
    assert_eq!(env.names("Operator"), [""; 0]);
}

fn delete_install(env: &mut TestEnv) {
    env.delete("Subscription", "ns", "sub");
    env.delete("ClusterServiceVersion", "ns", "a");
    env.delete("InstallPlan", "ns", "install-a");
}

/// Uninstalls as users do.
fn uninstall(env: &mut TestEnv) {
    delete_install(env);
    env.delete("CustomResourceDefinition", "", "demos.example.com");
}

#[test]
fn an_operator_that_olm_made_goes_ten_minutes_after_its_last_component() {
    let mut env = installed();
    let mark = &env.get("Operator", "", "demo.ns").unwrap()["metadata"]["labels"];
    assert_eq!(*mark, json!({"olm.managed": "true"}));
    uninstall(&mut env);
    env.settle_for(5);
    assert_eq!(refs(&env, "demo.ns"), [""; 0]);
    env.writes.clear();
    env.settle_for(9 * 60);
    assert_eq!(env.names("Operator"), ["/demo.ns"]);
    env.settle_for(60);
    assert_eq!(env.names("Operator"), [""; 0]);
    env.settle_for(20 * 60);
    env.kill();
    env.settle_for(20 * 60);
    assert_eq!(env.writes, ["delete Operator demo.ns"]);
}

#[test]
fn an_operator_whose_end_was_not_seen_goes_after_a_restart_and_a_users_stays() {
    let mut env = installed();
    env.put(operator("mine.ns"));
    uninstall(&mut env);
    env.settle_for(9 * 60);
    env.kill();
    env.settle_for(9 * 60);
    assert_eq!(env.names("Operator"), ["/demo.ns", "/mine.ns"]);
    env.settle_for(2 * 60);
    assert_eq!(env.names("Operator"), ["/mine.ns"]);
}

#[test]
fn an_operator_that_is_installed_again_in_time_stays() {
    let mut env = installed();
    let before = uid(&env);
    uninstall(&mut env);
    env.settle_for(9 * 60);
    env.put(subscription("a", json!({})));
    env.settle_for(9 * 60);
    env.delete("Subscription", "ns", "sub");
    env.settle_for(9 * 60);
    assert_eq!(uid(&env), before);
}

/// A label neither creates an Operator that is not installed nor keeps it.
#[test]
fn what_a_tenant_may_label_neither_makes_an_operator_nor_keeps_it() {
    let mut env = installed();
    let many: Vec<String> = (0..1000)
        .map(|at| format!("operators.coreos.com/x{at}.ns"))
        .collect();
    let mut all: Vec<&str> = many.iter().map(String::as_str).collect();
    all.push(LABEL);
    env.put(account("tenant", &all));
    set_label(&mut env, "Namespace", "", "ns", json!(""));
    env.settle_for(60);
    assert_eq!(env.names("Operator"), ["/demo.ns"]);
    assert!(refs(&env, "demo.ns").contains(&"ServiceAccount ns/tenant".to_owned()));
    uninstall(&mut env);
    env.settle_for(15 * 60);
    assert_eq!(env.names("Operator"), [""; 0]);
}

#[test]
fn a_namespace_has_no_more_operators_than_subscriptions_and_csvs() {
    let mut env = TestEnv::new();
    env.by_hand = true;
    let many = |of: &str| -> Value {
        let labels = (10..60).map(|at| (format!("operators.coreos.com/{of}{at}.ns"), json!("")));
        let far = (10..60).map(|at| (format!("operators.coreos.com/a{at}.far"), json!("")));
        Value::Object(labels.chain(far).collect())
    };
    let mut csv = csv("a", "");
    csv["metadata"]["labels"] = many("c");
    csv["metadata"]["labels"]["operators.coreos.com/a00.far"] = json!("");
    env.put(csv);
    let mut subscription = subscription("a", json!({}));
    subscription["metadata"]["labels"] = many("s");
    env.put(subscription);
    env.settle_for(60);
    assert_eq!(env.names("Operator"), ["/c10.ns", "/demo.ns"]);
}

#[test]
fn packages_that_no_object_can_be_called_by_make_no_operator() {
    let mut env = TestEnv::new();
    for (at, package) in ["Demo", "demo_x", "demo."].iter().enumerate() {
        let mut subscription = subscription("a", json!({}));
        subscription["metadata"]["name"] = json!(format!("sub-{at}"));
        subscription["spec"]["name"] = json!(package);
        env.put(subscription);
    }
    env.settle_for(60);
    assert_eq!(bearing(&env), 3);
    assert_eq!(env.names("Operator"), [""; 0]);
}

/// Returns the number of Subscriptions with a component label.
fn bearing(env: &TestEnv) -> usize {
    let all = env.objects.iter().filter(|(key, _)| key.0 == "Subscription");
    let text = all.map(|(_, object)| object["metadata"]["labels"].to_string());
    text.filter(|labels| labels.contains("operators.coreos.com/"))
        .count()
}

#[test]
fn copies_are_no_components() {
    let mut env = TestEnv::new();
    for namespace in ["one", "two"] {
        env.put(namespace_object(namespace));
    }
    env.put(group("ns", "og", &[]));
    env.put(crd("demos.example.com"));
    let mut csv = csv("a", "");
    csv["metadata"]["labels"] = json!({LABEL: ""});
    env.put(csv);
    env.settle_for(10);
    assert_eq!(env.names("ClusterServiceVersion"), ["ns/a", "one/a", "two/a"]);
    set_label(&mut env, "ClusterServiceVersion", "one", "a", json!(""));
    env.settle_for(10);
    let mut csvs = refs(&env, "demo.ns");
    csvs.retain(|found| found.contains("ClusterServiceVersion"));
    assert_eq!(csvs, ["ClusterServiceVersion ns/a"]);
    let copy = env.get("ClusterServiceVersion", "one", "a").unwrap();
    assert_eq!(
        copy["metadata"]["labels"][LABEL],
        Value::Null,
        "it comes off again"
    );
}

#[test]
fn changes_that_come_together_are_one_write_and_at_rest_there_is_none() {
    let mut env = installed();
    env.writes.clear();
    env.settle_for(60);
    env.kill();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
    for index in 0..20 {
        env.put(account(&format!("a{index}"), &[LABEL]));
    }
    env.settle_for(5);
    assert_eq!(env.writes, ["patch Operator demo.ns status"]);
}

/// Changes of the status by others are reverted, and unknown fields are ignored.
#[test]
fn a_status_of_another_author_is_corrected() {
    let mut env = installed();
    let before = status_of(&env);
    let other = json!({"labelSelector": {"matchLabels": {"a": "b"}}, "refs": [{"kind": "X"}]});
    env.edit(
        "Operator",
        "",
        "demo.ns",
        json!({"status": {"components": other}}),
    );
    env.settle_for(5);
    assert_eq!(status_of(&env), before);
    env.writes.clear();
    let unknown = json!({"status": {"components": {"unknown": 1}}});
    env.edit("Operator", "", "demo.ns", unknown);
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
}

/// The delay is not half a minute, in any namespace.
#[test]
fn what_is_labelled_in_other_namespaces_is_listed_a_second_later() {
    let mut env = installed().with(namespace_object("far"));
    let mut stranger = account("stranger", &[]);
    stranger["metadata"]["namespace"] = json!("far");
    env.put(stranger);
    env.settle_for(60);
    for value in [json!(""), Value::Null] {
        env.writes.clear();
        let is_set = value.is_string();
        set_label(&mut env, "ServiceAccount", "far", "stranger", value);
        env.settle_for(2);
        let is_listed = refs(&env, "demo.ns").contains(&"ServiceAccount far/stranger".to_owned());
        assert_eq!(is_listed, is_set);
        assert_eq!(env.writes, ["patch Operator demo.ns status"]);
    }
}

/// From upstream's test of Operators: the second of two components is added while the first is awaited.
#[test]
fn each_component_of_an_operator_that_a_user_made_is_listed_as_it_comes() {
    let mut env = TestEnv::new().with(operator("o"));
    env.settle_for(5);
    let label = "operators.coreos.com/o";
    env.writes.clear();
    for (count, name) in ["a", "b", "c"].into_iter().enumerate() {
        env.put(account(name, &[label]));
        env.settle();
        assert_eq!(refs(&env, "o").len(), count + 1);
    }
    assert_eq!(env.writes, ["patch Operator o status"; 3]);
}

#[test]
fn an_operator_is_there_before_its_components_are_gathered() {
    let mut env = TestEnv::new();
    env.settle_for(5);
    let mut subscription = subscription("a", json!({}));
    subscription["metadata"]["labels"] = json!({LABEL: ""});
    env.put(subscription);
    env.settle();
    assert!(env.get("Operator", "", "demo.ns").is_some());
    // Components that come meanwhile are in its first status.
    env.put(account("far", &[LABEL]));
    env.writes.clear();
    env.settle_for(5);
    assert_eq!(env.writes, ["patch Operator demo.ns status"]);
    assert_eq!(refs(&env, "demo.ns").len(), 2);
}

#[test]
fn a_deleted_operator_object_is_created_again_while_a_component_has_its_label() {
    let mut env = TestEnv::new()
        .with(operator("o"))
        .with(account("a", &["operators.coreos.com/o"]));
    env.settle_for(5);
    env.delete("Operator", "", "o");
    env.settle_for(2);
    assert_eq!(refs(&env, "o"), ["ServiceAccount ns/a"]);
    env.delete("ServiceAccount", "ns", "a");
    env.settle_for(2);
    env.delete("Operator", "", "o");
    env.settle_for(60);
    assert!(env.get("Operator", "", "o").is_none());
    // Labels alone require no Operator.
    env.put(account("b", &["operators.coreos.com/o"]));
    env.settle_for(60);
    assert!(env.get("Operator", "", "o").is_none());
}
