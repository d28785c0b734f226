//! OperatorConditions in the model cluster.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Observed, decide::decide};
use crate::test_env::{TestEnv, crd, csv, decode, group, permission};

fn env_with(change: impl FnOnce(&mut Value)) -> TestEnv {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &["ns"]));
    env.put(crd("demos.example.com"));
    let mut csv = csv("a", "");
    change(&mut csv["spec"]["install"]["spec"]);
    env.put(csv);
    env.settle_for(5);
    env
}

fn condition(env: &TestEnv) -> Value {
    env.get("OperatorCondition", "ns", "a")
        .expect("the OperatorCondition exists")
        .clone()
}

#[test]
fn oc_002_it_names_accounts_and_deployments_in_order_and_is_controlled_by_its_csv() {
    let env = env_with(|spec| {
        spec["clusterPermissions"] = json!([permission("sa1", "", "x"), permission("sa2", "", "x")]);
        spec["permissions"] = json!([permission("sa3", "", "x"), permission("sa1", "", "y")]);
    });
    let found = condition(&env);
    assert_eq!(found["apiVersion"], "operators.coreos.com/v2");
    assert_eq!(
        found["spec"],
        json!({"serviceAccounts": ["sa1", "sa2", "sa3", "sa1"], "deployments": ["demo"]})
    );
    let uid = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["uid"];
    assert_eq!(
        found["metadata"]["ownerReferences"],
        json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": uid,
            "controller": true, "blockOwnerDeletion": false}])
    );
}

#[test]
fn without_permissions_the_default_account_reports() {
    let env = env_with(|spec| {
        spec["permissions"] = json!([]);
        spec["clusterPermissions"] = json!([]);
    });
    assert_eq!(condition(&env)["spec"]["serviceAccounts"], json!(["default"]));
}

#[test]
fn oc_001_each_account_may_write_exactly_this_object() {
    let env = env_with(|_| {});
    let uid = condition(&env)["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "name": "a", "uid": uid,
        "controller": true, "blockOwnerDeletion": false}]);
    let role = env.get("Role", "ns", "a").unwrap();
    assert_eq!(role["metadata"]["ownerReferences"], owner);
    assert_eq!(
        role["rules"],
        json!([{"verbs": ["get", "update", "patch"], "apiGroups": ["operators.coreos.com"],
            "resources": ["operatorconditions"], "resourceNames": ["a"]}])
    );
    let binding = env.get("RoleBinding", "ns", "a").unwrap();
    assert_eq!(binding["metadata"]["ownerReferences"], owner);
    assert_eq!(binding["roleRef"]["name"], "a");
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "demo"}])
    );
}

#[test]
fn deleted_and_changed_objects_are_restored_and_overrides_stay() {
    let mut env = env_with(|_| {});
    let admin = json!([{"type": "Upgradeable", "status": "True", "reason": "R", "message": "go"}]);
    env.edit(
        "OperatorCondition",
        "ns",
        "a",
        json!({"spec": {"overrides": admin, "deployments": ["bent"]}}),
    );
    env.edit("Role", "ns", "a", json!({"rules": []}));
    env.delete("RoleBinding", "ns", "a");
    env.settle();
    let found = condition(&env);
    assert_eq!(found["spec"]["deployments"], json!(["demo"]));
    assert_eq!(found["spec"]["overrides"], admin);
    assert_eq!(
        env.get("Role", "ns", "a").unwrap()["rules"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert!(env.get("RoleBinding", "ns", "a").is_some());
    env.delete("OperatorCondition", "ns", "a");
    env.settle();
    assert_eq!(condition(&env)["spec"]["deployments"], json!(["demo"]));
    assert!(
        env.get("Role", "ns", "a").is_some(),
        "its rights come back with it"
    );
}

#[test]
fn a_binding_to_something_else_is_replaced() {
    let mut env = env_with(|_| {});
    let elsewhere = json!({"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}});
    env.edit("RoleBinding", "ns", "a", elsewhere);
    env.settle();
    let binding = env.get("RoleBinding", "ns", "a").unwrap();
    assert_eq!(
        binding["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"})
    );
}

#[test]
fn oc_001_what_the_operator_reports_is_mirrored_with_its_generation_and_once() {
    let mut env = env_with(|_| {});
    let report = |status: &str| {
        json!({"spec": {"conditions": [{"type": "Upgradeable", "status": status, "reason": "R",
        "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    };
    env.edit("OperatorCondition", "ns", "a", report("False"));
    env.settle();
    let found = condition(&env);
    let mirrored = &found["status"]["conditions"][0];
    assert_eq!(mirrored["status"], "False");
    assert_eq!(mirrored["observedGeneration"], found["metadata"]["generation"]);
    let writes = env.writes.len();
    env.settle_for(3);
    assert_eq!(env.writes.len(), writes);
    env.edit("OperatorCondition", "ns", "a", report("True"));
    env.settle();
    assert_eq!(condition(&env)["status"]["conditions"][0]["status"], "True");
}

#[test]
fn oc_003_a_reported_condition_is_mirrored_with_all_its_fields() {
    let mut env = env_with(|_| {});
    let migrating = json!({"type": "Upgradeable", "status": "False", "reason": "migration",
        "message": "The Operator is performing a migration.", "lastTransitionTime": "2020-08-24T23:15:55Z"});
    env.edit(
        "OperatorCondition",
        "ns",
        "a",
        json!({"spec": {"conditions": [migrating]}}),
    );
    env.settle();
    let found = condition(&env);
    assert_eq!(found["spec"]["conditions"], json!([migrating]));
    let mut mirrored = migrating.clone();
    mirrored["observedGeneration"] = found["metadata"]["generation"].clone();
    assert!(mirrored["observedGeneration"].is_number());
    assert_eq!(found["status"]["conditions"], json!([mirrored]));
}

/// An existing Role or RoleBinding of others with the name is neither overwritten nor bound, and the operator
/// runs.
#[test]
fn another_users_object_of_that_name_stays_until_it_is_deleted() {
    let subjects = json!([{"kind": "User", "name": "somebody", "apiGroup": "rbac.authorization.k8s.io"}]);
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"});
    for (kind, field, value) in [("Role", "rules", &rules), ("RoleBinding", "subjects", &subjects)] {
        let mut env = TestEnv::new();
        let mut foreign = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"namespace": "ns", "name": "a"}});
        foreign[field] = value.clone();
        if kind == "RoleBinding" {
            foreign["roleRef"] = role_ref.clone();
        }
        env.put(foreign);
        env.put(group("ns", "og", &["ns"]));
        env.put(crd("demos.example.com"));
        env.put(csv("a", ""));
        env.settle_for(30);
        assert_eq!(env.get(kind, "ns", "a").unwrap()[field], *value, "{kind}");
        let bound = env.get("RoleBinding", "ns", "a");
        assert!(kind == "RoleBinding" || bound.is_none(), "{bound:?}");
        assert!(env.status("a").starts_with("Succeeded"), "{}", env.status("a"));

        env.delete(kind, "ns", "a");
        env.settle_for(61);
        let rules = &env.get("Role", "ns", "a").unwrap()["rules"];
        assert_eq!(rules[0]["resources"], json!(["operatorconditions"]));
        assert!(env.get("RoleBinding", "ns", "a").is_some());
    }
}

#[test]
fn a_copy_has_none() {
    let mut env = TestEnv::new();
    let mut copy = csv("a", "");
    copy["metadata"]["labels"] = json!({"olm.copiedFrom": "elsewhere"});
    copy["status"] = json!({"phase": "Succeeded", "reason": "Copied"});
    env.put(copy);
    env.settle_for(3);
    assert!(env.names("OperatorCondition").is_empty());
}

/// Returns the observation of the demo in its final state.
fn at_rest() -> Observed {
    let env = env_with(|_| {});
    let found = |kind: &str| env.get(kind, "ns", "a").unwrap().clone();
    Observed {
        namespace: "ns".into(),
        name: "a".into(),
        namespace_terminating: false,
        csv: Some(Arc::new(decode(found("ClusterServiceVersion")))),
        condition: Some(Arc::new(decode(found("OperatorCondition")))),
        role: Some(Arc::new(decode(found("Role")))),
        binding: Some(Arc::new(decode(found("RoleBinding")))),
    }
}

fn writes(observed: &Observed) -> Vec<String> {
    decide(observed).actions.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_is_made_in_a_namespace_on_its_way_out_nor_for_a_csv_that_goes() {
    let mut observed = at_rest();
    assert_eq!(writes(&observed), [""; 0]);
    observed.condition = None;
    assert_eq!(writes(&observed).len(), 1);
    observed.namespace_terminating = true;
    assert_eq!(writes(&observed), [""; 0]);
    observed.namespace_terminating = false;
    let mut csv = (**observed.csv.as_ref().unwrap()).clone();
    csv.metadata.deletion_timestamp = csv.metadata.creation_timestamp.clone();
    observed.csv = Some(Arc::new(csv));
    assert_eq!(writes(&observed), [""; 0]);
}

#[test]
fn accounts_are_corrected_and_their_rights_follow_in_another_reconcile() {
    let mut observed = at_rest();
    let mut condition = (**observed.condition.as_ref().unwrap()).clone();
    condition.spec.service_accounts = vec!["other".to_owned()].into();
    observed.condition = Some(Arc::new(condition));
    observed.role = None;
    let written = writes(&observed);
    assert_eq!(written.len(), 1, "{written:?}");
    assert!(
        written[0].starts_with("apply OperatorCondition ns/a"),
        "{written:?}"
    );
}

#[test]
fn who_may_report_is_put_right() {
    let mut observed = at_rest();
    let mut binding = (**observed.binding.as_ref().unwrap()).clone();
    binding.subjects.as_mut().unwrap()[0].name = "other".into();
    observed.binding = Some(Arc::new(binding));
    let written = writes(&observed);
    assert_eq!(written.len(), 1, "{written:?}");
    assert!(written[0].contains("RoleBinding ns/a"), "{written:?}");
}
