//! Replacement: from one version to the next, in chains, in any order, and when it must not happen.

use serde_json::{Value, json};

use super::{installed, prepared, succeeded};
use crate::test_env::{TestEnv, csv, csv_key, csv_with_webhooks, deployment};

fn condition_of(env: &mut TestEnv, name: &str, upgradeable: &str) {
    let report = json!({"spec": {"conditions": [{"type": "Upgradeable", "status": upgradeable, "reason": "R",
        "message": "migrating", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    env.edit("OperatorCondition", "ns", name, report);
}

#[test]
fn an_upgrade_walks_the_recorded_states() {
    let mut env = installed();
    env.log.clear();
    env.put(csv("b", "a"));
    env.writes.clear();
    env.settle_for(6);
    insta::assert_snapshot!(env.log.join("\n"), @r"
    a: Replacing (BeingReplaced) being replaced by csv: b
    b: Pending (RequirementsUnknown) requirements not yet checked
    b: InstallReady (AllRequirementsMet) all requirements found, attempting install
    b: Installing (InstallSucceeded) waiting for install components to report healthy
    b: Succeeded (InstallSucceeded) install strategy completed with no errors
    a: Deleting (Replaced) has been replaced by a newer ClusterServiceVersion that has successfully installed.
    ");
    assert_eq!(env.status("a"), "gone");
    assert_eq!(env.names("Deployment"), ["ns/demo"]);
    let owner = &env.get("Deployment", "ns", "demo").unwrap()["metadata"]["labels"]["olm.owner"];
    assert_eq!(owner, "b");
    let left: Vec<String> = env
        .cluster_roles()
        .into_iter()
        .filter(|name| name.starts_with("/a-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let writes = env.writes.len();
    env.settle_for(10);
    assert_eq!(env.writes.len(), writes, "the new one is not touched again");
}

#[test]
fn csv_001_each_version_is_a_csv_of_its_own_whatever_its_name() {
    let version = |name: &str, version: &str, replaces: &str| {
        let mut csv = csv(name, replaces);
        csv["spec"]["version"] = json!(version);
        csv
    };
    let found = |env: &TestEnv| -> Vec<(String, Value)> {
        let names = env.names("ClusterServiceVersion").into_iter();
        names
            .map(|name| name.trim_start_matches("ns/").to_owned())
            .map(|name| {
                let spec = &env.get("ClusterServiceVersion", "ns", &name).unwrap()["spec"];
                (name, spec["version"].clone())
            })
            .collect()
    };
    let (old, new) = ("my-operator.v1.0.1", "my-operator.v1.0.2");
    let mut env = prepared().with(version(old, "1.0.1", ""));
    env.settle_for(5);
    succeeded(&env, old);
    let mut waiting = version(new, "1.0.2", old);
    waiting["spec"]["minKubeVersion"] = json!("99.0.0");
    env.put(waiting);
    env.settle_for(5);
    assert_eq!(
        found(&env),
        [(old.into(), json!("1.0.1")), (new.into(), json!("1.0.2"))]
    );
    let met = json!({"spec": {"minKubeVersion": "1.0.0"}});
    env.edit("ClusterServiceVersion", "ns", new, met);
    env.settle_for(10);
    assert_eq!(found(&env), [(new.into(), json!("1.0.2"))]);
    succeeded(&env, new);

    let mut env = prepared().with(version("without-convention", "7.0.0", ""));
    env.settle_for(5);
    succeeded(&env, "without-convention");
}

#[test]
fn a_deployment_with_another_name_goes_with_the_old_version() {
    let mut env = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["install"]["spec"]["deployments"] = json!([deployment("renamed", "demo:2")]);
    env.put(newer);
    env.settle_for(6);
    assert_eq!(env.names("Deployment"), ["ns/renamed"]);
    succeeded(&env, "b");
}

#[test]
fn chains_are_collected_oldest_first_whatever_the_order_of_arrival() {
    let orders = [
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["b", "a", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["c", "b", "a"],
    ];
    for order in orders {
        let mut env = prepared();
        for name in order {
            let replaces = match name {
                "c" => "b",
                "b" => "a",
                _ => "",
            };
            env.put(csv(name, replaces));
            env.round_of_csv(&csv_key(name));
        }
        env.settle_for(20);
        assert_eq!(
            (env.status("a"), env.status("b")),
            ("gone".into(), "gone".into()),
            "{order:?}: {:#?}",
            env.log
        );
        assert!(
            env.status("c").starts_with("Succeeded"),
            "{order:?}: {}",
            env.status("c")
        );
    }
}

#[test]
fn only_the_oldest_of_a_chain_is_marked_when_the_newest_has_succeeded() {
    let mut env = prepared();
    for (name, replaces, phase) in [
        ("a", "", "Replacing"),
        ("b", "a", "Replacing"),
        ("c", "b", "Succeeded"),
    ] {
        let mut csv = csv(name, replaces);
        csv["status"] = json!({"phase": phase, "reason": "X"});
        csv["metadata"]["finalizers"] = json!(["operators.coreos.com/csv-cleanup"]);
        env.put(csv);
    }
    env.round_of_csv(&csv_key("b"));
    assert!(env.status("b").starts_with("Replacing"), "{}", env.status("b"));
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "b",
        json!({"status": {"phase": "Succeeded"}}),
    );
    env.round_of_csv(&csv_key("a"));
    assert_eq!(
        env.status("a"),
        "Deleting Replaced: has been replaced by a newer ClusterServiceVersion that has successfully installed."
    );
    let marked = env.get("ClusterServiceVersion", "ns", "a").unwrap();
    assert_eq!(
        marked["metadata"].get("deletionTimestamp"),
        None,
        "why comes first"
    );
}

#[test]
fn oc_005_an_operator_that_is_not_upgradeable_holds_its_successor_back() {
    let mut env = installed();
    condition_of(&mut env, "a", "False");
    env.settle();
    env.put(csv("b", "a"));
    env.settle_for(6);
    assert_eq!(
        env.status("b"),
        "Pending OperatorConditionNotUpgradeable: operator is not upgradeable: OperatorCondition a reports Upgradeable=False: migrating (to upgrade anyway, set Upgradeable=True in its spec.overrides)"
    );
    let writes = env.writes.len();
    env.settle_for(30);
    assert_eq!(env.writes.len(), writes, "waiting costs nothing");
    assert_eq!(
        env.status("a"),
        "Replacing BeingReplaced: being replaced by csv: b"
    );
    let deployment = env.get("Deployment", "ns", "demo").expect("the old one runs");
    assert_eq!(deployment["metadata"]["labels"]["olm.owner"], "a");
}

/// The installed operator is still changed, including its pods.
#[test]
fn oc_008_an_operator_that_is_not_upgradeable_is_rolled_out_as_ever() {
    let mut env = installed();
    condition_of(&mut env, "a", "False");
    env.settle();
    let pods = |env: &TestEnv| {
        env.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["spec"]["containers"][0]["image"]
            .clone()
    };
    assert_eq!(pods(&env), "demo:1");
    let fixed = json!([deployment("demo", "demo:2")]);
    let edit = json!({"spec": {"install": {"spec": {"deployments": fixed}}}});
    env.edit("ClusterServiceVersion", "ns", "a", edit);
    env.settle();
    assert_eq!(pods(&env), "demo:2");
    succeeded(&env, "a");
}

#[test]
fn oc_006_a_successor_goes_on_once_the_operator_is_upgradeable() {
    let mut env = installed();
    condition_of(&mut env, "a", "False");
    env.settle();
    env.put(csv("b", "a"));
    env.settle_for(6);
    assert!(
        env.status("b")
            .starts_with("Pending OperatorConditionNotUpgradeable"),
        "{}",
        env.status("b")
    );
    condition_of(&mut env, "a", "True");
    env.settle_for(20);
    succeeded(&env, "b");
    assert_eq!(env.status("a"), "gone");
}

#[test]
fn an_override_lets_the_upgrade_through() {
    let mut env = installed();
    condition_of(&mut env, "a", "False");
    let by_admin = json!({"spec": {"overrides": [{"type": "Upgradeable", "status": "True", "reason": "R", "message": "go"}]}});
    env.edit("OperatorCondition", "ns", "a", by_admin);
    env.put(csv("b", "a"));
    env.settle_for(6);
    succeeded(&env, "b");
}

#[test]
fn a_successor_that_is_deleted_gives_the_operator_back() {
    let mut env = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    env.put(newer);
    env.settle_for(3);
    assert_eq!(
        env.status("a"),
        "Replacing BeingReplaced: being replaced by csv: b"
    );
    env.delete("ClusterServiceVersion", "ns", "b");
    env.log.clear();
    env.settle_for(3);
    assert_eq!(
        env.log[0],
        "a: Pending (NeedsReinstall) marked as replacement, but no replacement CSV found in cluster"
    );
    succeeded(&env, "a");
}

#[test]
fn without_a_group_an_operator_that_is_given_back_writes_nothing() {
    let mut env = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    env.put(newer);
    env.settle_for(3);
    env.delete("OperatorGroup", "ns", "og");
    env.delete("Deployment", "ns", "demo");
    env.settle_for(3);
    assert!(env.status("a").starts_with("Replacing"), "{}", env.status("a"));
    env.delete("ClusterServiceVersion", "ns", "b");
    env.settle_for(3);
    assert_eq!(
        env.status("a"),
        "Failed NoOperatorGroup: csv in namespace with no operatorgroups: namespace ns has none"
    );
    assert!(
        env.get("Deployment", "ns", "demo").is_none(),
        "no group, no install"
    );
}

#[test]
fn losing_the_group_in_the_middle_of_an_upgrade_does_not_break_the_chain() {
    let mut env = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    env.put(newer);
    env.settle_for(3);
    let group = env.get("OperatorGroup", "ns", "og").unwrap().clone();
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(3);
    assert!(env.status("a").starts_with("Replacing"), "{}", env.status("a"));
    env.put(group);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "b",
        json!({"spec": {"minKubeVersion": "1.0.0"}}),
    );
    env.settle_for(10);
    assert_eq!(env.status("a"), "gone");
}

#[test]
fn circles_and_self_references_come_to_rest() {
    let mut env = prepared();
    env.put(csv("a", "b"));
    env.put(csv("b", "a"));
    env.settle_for(30);
    let writes = env.writes.len();
    env.settle_for(30);
    assert_eq!(env.writes.len(), writes);

    let mut env = prepared();
    env.put(csv("a", "a"));
    env.settle_for(5);
    succeeded(&env, "a");
}

#[test]
fn a_failed_operator_can_be_replaced_only_with_fail_forward() {
    for (strategy, expected) in [
        ("Default", "Failed"),
        (
            "TechPreviewUnsafeFailForward",
            "Replacing BeingReplaced: Fail Forward is enabled, allowing Failed csv to be replaced by csv: b",
        ),
    ] {
        let mut env = prepared();
        env.edit(
            "OperatorGroup",
            "ns",
            "og",
            json!({"spec": {"upgradeStrategy": strategy}}),
        );
        let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
        env.sick.insert("demo".into(), stuck);
        env.put(csv("a", ""));
        env.settle_for(5);
        assert!(env.status("a").starts_with("Failed"), "{}", env.status("a"));
        let mut newer = csv("b", "a");
        newer["spec"]["minKubeVersion"] = json!("99.0.0");
        env.put(newer);
        env.settle_for(5);
        assert!(
            env.status("a").starts_with(expected),
            "{strategy}: {}",
            env.status("a")
        );
    }
}

/// The pods of before the restart still serve.
fn stuck_and_available() -> Value {
    json!([{"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}])
}

#[test]
fn a_restart_that_gets_stuck_fails_no_operator_that_stays_available() {
    let mut env = installed();
    env.sick.insert("demo".into(), stuck_and_available());
    env.settle();
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}});
    env.edit("Deployment", "ns", "demo", restart);
    env.log.clear();
    env.settle_for(60);
    let conditions = &env.get("Deployment", "ns", "demo").unwrap()["status"]["conditions"];
    assert_eq!(*conditions, stuck_and_available());
    succeeded(&env, "a");
    assert_eq!(env.log, [""; 0]);
    env.sick.clear();
    env.put(csv("b", "a"));
    env.settle_for(20);
    assert_eq!(env.status("a"), "gone");
    succeeded(&env, "b");
}

/// The successor may fix the cause of the failed rollout.
#[test]
fn an_operator_whose_rollout_failed_while_it_stays_available_makes_way() {
    let mut env = installed();
    env.sick.insert("demo".into(), stuck_and_available());
    env.settle();
    let again = json!({"status": {"phase": "Pending", "reason": "NeedsReinstall"}});
    env.edit("Deployment", "ns", "demo", json!({"spec": {"replicas": 2}}));
    env.edit("ClusterServiceVersion", "ns", "a", again);
    env.settle_for(20);
    let failed = "Failed InstallCheckFailed";
    assert!(env.status("a").starts_with(failed), "{}", env.status("a"));
    let writes = env.writes.len();
    env.settle_for(60);
    assert_eq!(env.writes.len(), writes, "without a successor it stays");
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    env.put(newer);
    env.settle_for(10);
    let replacing = "Replacing BeingReplaced: being replaced by csv: b";
    assert_eq!(env.status("a"), replacing);
}

#[test]
fn a_fail_forward_chain_waits_for_its_last_one() {
    let mut env = prepared();
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"upgradeStrategy": "TechPreviewUnsafeFailForward"}}),
    );
    env.settle();
    for (name, replaces, phase) in [
        ("a", "", "Replacing"),
        ("b", "a", "Replacing"),
        ("c", "b", "Pending"),
    ] {
        let mut csv = csv(name, replaces);
        csv["status"] = json!({"phase": phase, "reason": "X"});
        env.put(csv);
    }
    env.round_of_csv(&csv_key("a"));
    assert!(env.status("a").starts_with("Replacing"), "{}", env.status("a"));
    env.settle_for(20);
    assert_eq!((env.status("a"), env.status("b")), ("gone".into(), "gone".into()));
    succeeded(&env, "c");
}

#[test]
fn a_csv_that_is_ready_says_which_predecessor_it_waits_for() {
    let mut env = prepared();
    let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    env.sick.insert("demo".into(), stuck);
    env.put(csv("a", ""));
    env.settle_for(5);
    env.put(csv("b", "a"));
    env.settle_for(10);
    assert_eq!(
        env.status("b"),
        "Pending AllRequirementsMet: all requirements found, waiting for csv a to be in phase Replacing (it is in Failed)"
    );
}

#[test]
fn mt_004_two_unrelated_owners_of_a_crd_conflict_and_the_running_one_is_undisturbed() {
    let mut env = installed();
    let mut other = csv("x", "");
    other["spec"]["install"]["spec"]["deployments"] = json!([deployment("x", "x:1")]);
    other["spec"]["install"]["spec"]["permissions"] = json!([]);
    other["spec"]["install"]["spec"]["clusterPermissions"] = json!([]);
    env.put(other);
    env.settle_for(5);
    assert_eq!(
        env.status("x"),
        "Failed OwnerConflict: conflicting CRD owner in namespace: demos.example.com is owned by a"
    );
    succeeded(&env, "a");
    let writes = env.writes.len();
    env.settle_for(10);
    assert_eq!(env.writes.len(), writes);
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    succeeded(&env, "x");
}

#[test]
fn an_account_shared_through_an_upgrade_has_both_owners_and_satisfies_both() {
    let mut env = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["nativeAPIs"] = json!([{"group": "x", "version": "v1", "kind": "X"}]);
    env.put(newer);
    env.settle_for(5);
    let owners: Vec<Value> = env.get("ServiceAccount", "ns", "demo").unwrap()["metadata"]["ownerReferences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|owner| owner["name"].clone())
        .collect();
    assert_eq!(owners, ["a", "b"]);
    let rows = &env.get("ClusterServiceVersion", "ns", "b").unwrap()["status"]["requirementStatus"];
    assert_eq!(rows.as_array().unwrap().last().unwrap()["status"], "Present");
}

/// The patch that removes the port does not change the field owners of the Service; the apply after it does.
#[test]
fn a_port_that_the_new_version_lacks_is_removed_without_a_failure() {
    let mut old = csv_with_webhooks("a", "");
    old["spec"]["webhookdefinitions"][1]["containerPort"] = json!(444);
    let mut env = prepared().with(old);
    env.settle_for(5);
    succeeded(&env, "a");
    let ports = |env: &TestEnv| {
        let service = env.get("Service", "ns", "demo-service").unwrap();
        service["spec"]["ports"].as_array().map(Vec::len)
    };
    assert_eq!(ports(&env), Some(2));
    env.log.clear();
    let mut new = csv_with_webhooks("b", "a");
    new["spec"]["webhookdefinitions"].as_array_mut().unwrap().pop();
    env.put(new);
    env.settle_for(20);
    assert_eq!((env.status("a").as_str(), ports(&env)), ("gone", Some(1)));
    succeeded(&env, "b");
    let failed = env.log.iter().any(|line| line.contains("Failed"));
    assert!(!failed, "{:#?}", env.log);
}
