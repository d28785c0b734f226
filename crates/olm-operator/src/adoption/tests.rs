//! Missing component labels, on the cluster in memory.

use std::{collections::BTreeSet, sync::Arc};

use olm_runtime::plan::{Action, Target};
use serde_json::{Value, json};

use super::{Labelled, Observed, decide::decide};
use crate::{
    stores::CustomResourceDefinition,
    test_env::{TestEnv, api_service, crd, csv, decode, group, subscription},
};

const LABEL: &str = "operators.coreos.com/demo.ns";

/// The demo before anything had a label.
fn unlabelled() -> TestEnv {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &["ns"]));
    let mut crd = crd("demos.example.com");
    crd["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-1": "ns/a"});
    env.put(crd);
    env.put(csv("a", ""));
    env.settle();
    env
}

fn subscribe(env: &mut TestEnv, plan: &str) {
    let mut subscription = subscription("a", json!({}));
    subscription["status"]["installedCSV"] = json!("a");
    subscription["status"]["installPlanRef"] = json!({"namespace": "ns", "name": plan});
    env.put(subscription);
}

fn adopted() -> TestEnv {
    let mut env = unlabelled();
    subscribe(&mut env, "install-a");
    env.settle_for(10);
    env
}

/// Returns `Kind namespace/name` of all objects with a label.
fn bearing(env: &TestEnv, label: &str) -> Vec<String> {
    let all = env.objects.iter();
    all.filter(|(_, object)| !object["metadata"]["labels"][label].is_null())
        .map(|((kind, namespace, _), _)| format!("{kind} {namespace}"))
        .collect()
}

#[test]
fn what_was_there_before_is_adopted_and_labels_that_are_taken_off_come_back() {
    let mut env = adopted();
    let all = bearing(&env, LABEL);
    insta::assert_snapshot!(all.join("\n"), @r"
    ClusterRole 
    ClusterRoleBinding 
    ClusterServiceVersion ns
    CustomResourceDefinition 
    Deployment ns
    InstallPlan ns
    OperatorCondition ns
    Role ns
    RoleBinding ns
    Subscription ns
    ");
    let keys: Vec<_> = env.objects.keys().cloned().collect();
    for (kind, namespace, name) in keys {
        let labelled = env
            .get(&kind, &namespace, &name)
            .is_some_and(|found| !found["metadata"]["labels"][LABEL].is_null());
        if labelled {
            env.edit(
                &kind,
                &namespace,
                &name,
                json!({"metadata": {"labels": {LABEL: null}}}),
            );
        }
    }
    assert_eq!(bearing(&env, LABEL), [""; 0]);
    env.settle_for(10);
    assert_eq!(bearing(&env, LABEL), all);
    for (kind, namespace, name) in env.objects.clone().into_keys() {
        let found = env.get(&kind, &namespace, &name).unwrap();
        if found["metadata"]["labels"][LABEL].is_null() {
            continue;
        }
        env.edit(
            &kind,
            &namespace,
            &name,
            json!({"metadata": {"labels": {LABEL: null}}}),
        );
        env.settle_for(3);
        assert_eq!(bearing(&env, LABEL), all, "{kind} alone");
    }
    assert!(
        !env.log.iter().any(|line| line.contains("Failed")),
        "{:#?}",
        env.log
    );
}

#[test]
fn each_object_costs_one_write_and_at_rest_there_is_none() {
    let mut env = unlabelled();
    env.writes.clear();
    subscribe(&mut env, "install-a");
    env.settle_for(10);
    let adopting = env.writes.iter().filter(|write| !write.contains(" Operator "));
    assert_eq!(adopting.count(), bearing(&env, LABEL).len(), "{:#?}", env.writes);
    env.writes.clear();
    env.settle_for(60);
    env.kill();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
}

fn plan(name: &str, generation: i64, labels: Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"namespace": "ns", "name": name, "labels": labels},
        "spec": {"clusterServiceVersionNames": [], "approval": "Automatic", "approved": true, "generation": generation},
        "status": {"phase": "Complete", "catalogSources": [], "plan": []}})
}

#[test]
fn an_older_plan_is_no_component_any_more_and_a_later_one_stays() {
    let mut env = unlabelled();
    env.put(plan("older", 2, json!({LABEL: "", "mine": "1"})));
    env.put(plan(
        "of-another",
        2,
        json!({"operators.coreos.com/other.ns": ""}),
    ));
    env.put(plan("current", 3, json!({})));
    env.put(plan("later", 4, json!({LABEL: ""})));
    subscribe(&mut env, "current");
    env.settle_for(10);
    let labels = |name: &str| env.get("InstallPlan", "ns", name).unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels("older"), json!({"mine": "1"}));
    assert_eq!(labels("of-another"), json!({"operators.coreos.com/other.ns": ""}));
    assert_eq!(labels("current"), json!({LABEL: ""}));
    assert_eq!(labels("later"), json!({LABEL: ""}));
}

#[test]
fn without_a_package_or_with_one_that_no_label_can_name_nothing_is_labelled() {
    for package in ["", "a/b"] {
        let mut env = unlabelled();
        let mut subscription = subscription("a", json!({}));
        subscription["spec"]["name"] = json!(package);
        subscription["status"]["installedCSV"] = json!("a");
        env.writes.clear();
        env.put(subscription);
        env.settle_for(10);
        assert_eq!(env.writes, [""; 0], "{package}");
    }
}

/// A user who can create a ClusterServiceVersion in a namespace has no influence on objects outside of it.
#[test]
fn what_is_claimed_is_not_adopted() {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &["ns"]));
    let mut other = crd("demos.example.com");
    other["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-1": "far/a"});
    env.put(other);
    env.put(api_service("v1.other.example.com", "True"));
    let mut csv = csv("a", "");
    csv["metadata"]["labels"] = json!({LABEL: ""});
    csv["spec"]["apiservicedefinitions"] = json!({});
    env.put(csv);
    // One of its owners has the name of the ClusterServiceVersion, but not its uid.
    let living = env.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["uid"].clone();
    env.put(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "ns", "name": "foreign",
        "labels": {"olm.managed": "true"}, "ownerReferences": [
            {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": "of-another"},
            {"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "name": "og", "uid": living}]}}));
    env.settle_for(10);
    let bearing = bearing(&env, LABEL);
    assert!(
        !bearing
            .iter()
            .any(|found| found.starts_with("CustomResourceDefinition")),
        "{bearing:?}"
    );
    let foreign = env.get("Service", "ns", "foreign").unwrap();
    assert_eq!(foreign["metadata"]["labels"][LABEL], Value::Null);
}

#[test]
fn a_refused_label_holds_no_other_up() {
    let mut env = unlabelled();
    env.refused
        .insert("Deployment".into(), olm_runtime::outcome::FailureClass::Forbidden);
    subscribe(&mut env, "install-a");
    env.settle_for(10);
    let found = bearing(&env, LABEL);
    assert_eq!(found.len(), 9, "{found:?}");
    env.refused.clear();
    env.settle_for(61);
    assert_eq!(bearing(&env, LABEL).len(), 10);
}

/// Returns the component labels of an object.
fn labels_of(env: &TestEnv, kind: &str, namespace: &str, name: &str) -> Vec<String> {
    let found = env.get(kind, namespace, name).unwrap();
    let labels = found["metadata"]["labels"].as_object().into_iter().flatten();
    labels
        .map(|(key, _)| key.clone())
        .filter(|key| key.starts_with("operators.coreos.com/"))
        .collect()
}

const CRD: (&str, &str, &str) = ("CustomResourceDefinition", "", "demos.example.com");

/// A user who can edit a Subscription can name one package per second; the definition outlives all of them.
#[test]
fn a_subscription_that_names_one_package_after_the_other_leaves_no_label_and_no_operator_behind() {
    let mut env = adopted();
    for at in 0..100 {
        let package = format!("z{}", 999 - at);
        env.edit("Subscription", "ns", "sub", json!({"spec": {"name": package}}));
        env.settle_for(3);
    }
    env.settle_for(11 * 60);
    let last = "operators.coreos.com/z900.ns";
    let bearing = bearing(&env, last);
    assert!(bearing.len() > 8, "{bearing:?}");
    for (kind, namespace, name) in env.objects.clone().into_keys() {
        let labels = labels_of(&env, &kind, &namespace, &name);
        if kind != "InstallPlan" && !labels.is_empty() {
            assert_eq!(labels, [last], "{kind} {name}");
        }
    }
    assert_eq!(labels_of(&env, CRD.0, CRD.1, CRD.2), [last]);
    assert_eq!(env.names("Operator"), ["/z900.ns"]);

    env.delete("Subscription", "ns", "sub");
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(11 * 60);
    assert_eq!(env.names("Operator"), [""; 0]);
}

/// The same by a user who labels a ClusterServiceVersion that no Subscription installed.
#[test]
fn what_outlives_its_owner_bears_of_its_labels_those_of_its_namespace_and_none_from_before() {
    let mut env = unlabelled();
    for package in ["x1", "x2", "x3"] {
        let own = format!("operators.coreos.com/{package}.ns");
        let far = format!("operators.coreos.com/{package}.far");
        let mut labels = env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["labels"].clone();
        let before: Vec<String> = labels_of(&env, "ClusterServiceVersion", "ns", "a");
        before.iter().for_each(|label| labels[label] = Value::Null);
        labels[&own] = json!("");
        labels[&far] = json!("");
        env.edit(
            "ClusterServiceVersion",
            "ns",
            "a",
            json!({"metadata": {"labels": labels}}),
        );
        env.settle_for(10);
        assert_eq!(labels_of(&env, CRD.0, CRD.1, CRD.2), [own.as_str()]);
        // Other labels of an object in the namespace are kept.
        let all = labels_of(&env, "OperatorCondition", "ns", "a");
        assert!(all.contains(&own) && all.contains(&far), "{all:?}");
    }
    env.edit(
        "CustomResourceDefinition",
        "",
        "demos.example.com",
        json!({"metadata": {"labels": {"operators.coreos.com/admins.other": ""}}}),
    );
    env.settle_for(10);
    assert_eq!(
        labels_of(&env, CRD.0, CRD.1, CRD.2),
        ["operators.coreos.com/admins.other", "operators.coreos.com/x3.ns"]
    );
}

/// `shared` is a truncated label name that may belong to either namespace.
#[test]
fn a_label_that_may_be_another_namespaces_stays() {
    let shared = format!("operators.coreos.com/{}.n", "p".repeat(58));
    let mut csv = csv("a", "");
    csv["metadata"]["labels"] = json!({LABEL: ""});
    let definition = Labelled {
        target: Target::cluster::<CustomResourceDefinition>("demos.example.com"),
        uid: None,
        labels: BTreeSet::from([LABEL.to_owned(), shared.clone()]),
        others: BTreeSet::from(["nt".to_owned()]),
    };
    let mut observed = Observed {
        namespace: "ns".to_owned(),
        csvs: vec![Arc::new(decode(csv))],
        owned: vec![("a".to_owned(), definition)],
        ..Observed::default()
    };
    assert_eq!(decide(&observed).actions.len(), 0);
    observed.owned[0].1.others.clear();
    let actions = decide(&observed).actions;
    assert!(matches!(actions.as_slice(), [Action::Patch { patch, .. }]
        if *patch == json!({"metadata": {"labels": {shared: null}}})));
}

#[test]
fn all_of_very_many_objects_are_labelled_in_the_end() {
    let mut env = adopted();
    let uid = env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["uid"].clone();
    for index in 0..150 {
        env.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": format!("c{index}"),
            "labels": {"olm.managed": "true"}, "ownerReferences": [
                {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": uid}]}}));
    }
    env.settle_for(60);
    let labelled = bearing(&env, LABEL);
    let maps = labelled.iter().filter(|found| found.starts_with("ConfigMap"));
    assert_eq!(maps.count(), 150);
}
