//! Replacement: from one version to the next, in chains, in any order, and when it must not happen.

use serde_json::{Value, json};

use super::{installed, prepared, succeeded};
use crate::world::{World, csv, csv_key, deployment};

fn condition_of(world: &mut World, name: &str, upgradeable: &str) {
    let report = json!({"spec": {"conditions": [{"type": "Upgradeable", "status": upgradeable, "reason": "R",
        "message": "migrating", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    world.edit("OperatorCondition", "ns", name, report);
}

#[test]
fn an_upgrade_walks_the_recorded_states() {
    let mut world = installed();
    world.log.clear();
    world.put(csv("b", "a"));
    world.writes.clear();
    world.settle_for(6);
    insta::assert_snapshot!(world.log.join("\n"), @r"
    a: Replacing (BeingReplaced) being replaced by csv: b
    b: Pending (RequirementsUnknown) requirements not yet checked
    b: InstallReady (AllRequirementsMet) all requirements found, attempting install
    b: Installing (InstallSucceeded) waiting for install components to report healthy
    b: Succeeded (InstallSucceeded) install strategy completed with no errors
    a: Deleting (Replaced) has been replaced by a newer ClusterServiceVersion that has successfully installed.
    ");
    assert_eq!(world.status("a"), "gone");
    assert_eq!(world.names("Deployment"), ["ns/demo"]);
    let owner = &world.get("Deployment", "ns", "demo").unwrap()["metadata"]["labels"]["olm.owner"];
    assert_eq!(owner, "b");
    let left: Vec<String> = world
        .names("ClusterRole")
        .into_iter()
        .filter(|name| name.starts_with("/a-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let writes = world.writes.len();
    world.settle_for(10);
    assert_eq!(world.writes.len(), writes, "the new one is not touched again");
}

#[test]
fn a_deployment_with_another_name_goes_with_the_old_version() {
    let mut world = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["install"]["spec"]["deployments"] = json!([deployment("renamed", "demo:2")]);
    world.put(newer);
    world.settle_for(6);
    assert_eq!(world.names("Deployment"), ["ns/renamed"]);
    succeeded(&world, "b");
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
        let mut world = prepared();
        for name in order {
            let replaces = match name {
                "c" => "b",
                "b" => "a",
                _ => "",
            };
            world.put(csv(name, replaces));
            world.round_of_csv(&csv_key(name));
        }
        world.settle_for(20);
        assert_eq!(
            (world.status("a"), world.status("b")),
            ("gone".into(), "gone".into()),
            "{order:?}: {:#?}",
            world.log
        );
        assert!(
            world.status("c").starts_with("Succeeded"),
            "{order:?}: {}",
            world.status("c")
        );
    }
}

#[test]
fn only_the_oldest_of_a_chain_is_marked_when_the_newest_has_succeeded() {
    let mut world = prepared();
    for (name, replaces, phase) in [
        ("a", "", "Replacing"),
        ("b", "a", "Replacing"),
        ("c", "b", "Succeeded"),
    ] {
        let mut csv = csv(name, replaces);
        csv["status"] = json!({"phase": phase, "reason": "X"});
        world.put(csv);
    }
    world.round_of_csv(&csv_key("b"));
    assert!(
        world.status("b").starts_with("Replacing"),
        "{}",
        world.status("b")
    );
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "b",
        json!({"status": {"phase": "Succeeded"}}),
    );
    world.round_of_csv(&csv_key("a"));
    assert_eq!(
        world.status("a"),
        "Deleting Replaced: has been replaced by a newer ClusterServiceVersion that has successfully installed."
    );
}

#[test]
fn an_operator_that_is_not_upgradeable_holds_its_successor_back() {
    let mut world = installed();
    condition_of(&mut world, "a", "False");
    world.settle();
    world.put(csv("b", "a"));
    world.settle_for(6);
    assert_eq!(
        world.status("b"),
        "Pending OperatorConditionNotUpgradeable: operator is not upgradeable: the operator is not upgradeable: migrating"
    );
    let writes = world.writes.len();
    world.settle_for(30);
    assert_eq!(world.writes.len(), writes, "waiting costs nothing");
    condition_of(&mut world, "a", "True");
    world.settle_for(20);
    succeeded(&world, "b");
    assert_eq!(world.status("a"), "gone");
}

#[test]
fn an_override_lets_the_upgrade_through() {
    let mut world = installed();
    condition_of(&mut world, "a", "False");
    let by_admin = json!({"spec": {"overrides": [{"type": "Upgradeable", "status": "True", "reason": "R", "message": "go"}]}});
    world.edit("OperatorCondition", "ns", "a", by_admin);
    world.put(csv("b", "a"));
    world.settle_for(6);
    succeeded(&world, "b");
}

#[test]
fn a_successor_that_is_deleted_gives_the_operator_back() {
    let mut world = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    world.put(newer);
    world.settle_for(3);
    assert_eq!(
        world.status("a"),
        "Replacing BeingReplaced: being replaced by csv: b"
    );
    world.delete("ClusterServiceVersion", "ns", "b");
    world.log.clear();
    world.settle_for(3);
    assert_eq!(
        world.log[0],
        "a: Pending (NeedsReinstall) marked as replacement, but no replacement CSV found in cluster"
    );
    succeeded(&world, "a");
}

#[test]
fn without_a_group_an_operator_that_is_given_back_writes_nothing() {
    let mut world = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    world.put(newer);
    world.settle_for(3);
    world.delete("OperatorGroup", "ns", "og");
    world.delete("Deployment", "ns", "demo");
    world.settle_for(3);
    assert!(
        world.status("a").starts_with("Replacing"),
        "{}",
        world.status("a")
    );
    world.delete("ClusterServiceVersion", "ns", "b");
    world.settle_for(3);
    assert_eq!(
        world.status("a"),
        "Failed NoOperatorGroup: csv in namespace with no operatorgroups"
    );
    assert!(
        world.get("Deployment", "ns", "demo").is_none(),
        "no group, no install"
    );
}

#[test]
fn losing_the_group_in_the_middle_of_an_upgrade_does_not_break_the_chain() {
    let mut world = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    world.put(newer);
    world.settle_for(3);
    let group = world.get("OperatorGroup", "ns", "og").unwrap().clone();
    world.delete("OperatorGroup", "ns", "og");
    world.settle_for(3);
    assert!(
        world.status("a").starts_with("Replacing"),
        "{}",
        world.status("a")
    );
    world.put(group);
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "b",
        json!({"spec": {"minKubeVersion": "1.0.0"}}),
    );
    world.settle_for(10);
    assert_eq!(world.status("a"), "gone");
}

#[test]
fn circles_and_self_references_come_to_rest() {
    let mut world = prepared();
    world.put(csv("a", "b"));
    world.put(csv("b", "a"));
    world.settle_for(30);
    let writes = world.writes.len();
    world.settle_for(30);
    assert_eq!(world.writes.len(), writes);

    let mut world = prepared();
    world.put(csv("a", "a"));
    world.settle_for(5);
    succeeded(&world, "a");
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
        let mut world = prepared();
        world.edit(
            "OperatorGroup",
            "ns",
            "og",
            json!({"spec": {"upgradeStrategy": strategy}}),
        );
        let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
        world.sick.insert("demo".into(), stuck);
        world.put(csv("a", ""));
        world.settle_for(5);
        assert!(world.status("a").starts_with("Failed"), "{}", world.status("a"));
        let mut newer = csv("b", "a");
        newer["spec"]["minKubeVersion"] = json!("99.0.0");
        world.put(newer);
        world.settle_for(5);
        assert!(
            world.status("a").starts_with(expected),
            "{strategy}: {}",
            world.status("a")
        );
    }
}

#[test]
fn a_fail_forward_chain_waits_for_its_last_one() {
    let mut world = prepared();
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"upgradeStrategy": "TechPreviewUnsafeFailForward"}}),
    );
    world.settle();
    for (name, replaces, phase) in [
        ("a", "", "Replacing"),
        ("b", "a", "Replacing"),
        ("c", "b", "Pending"),
    ] {
        let mut csv = csv(name, replaces);
        csv["status"] = json!({"phase": phase, "reason": "X"});
        world.put(csv);
    }
    world.round_of_csv(&csv_key("a"));
    assert!(
        world.status("a").starts_with("Replacing"),
        "{}",
        world.status("a")
    );
    world.settle_for(20);
    assert_eq!(
        (world.status("a"), world.status("b")),
        ("gone".into(), "gone".into())
    );
    succeeded(&world, "c");
}

#[test]
fn a_csv_that_is_ready_says_which_predecessor_it_waits_for() {
    let mut world = prepared();
    let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    world.sick.insert("demo".into(), stuck);
    world.put(csv("a", ""));
    world.settle_for(5);
    world.put(csv("b", "a"));
    world.settle_for(10);
    assert_eq!(
        world.status("b"),
        "Pending AllRequirementsMet: all requirements found, waiting for csv a to be in phase Replacing (it is in Failed)"
    );
}

#[test]
fn two_unrelated_owners_of_a_crd_conflict_and_the_running_one_is_undisturbed() {
    let mut world = installed();
    let mut other = csv("x", "");
    other["spec"]["install"]["spec"]["deployments"] = json!([deployment("x", "x:1")]);
    other["spec"]["install"]["spec"]["permissions"] = json!([]);
    other["spec"]["install"]["spec"]["clusterPermissions"] = json!([]);
    world.put(other);
    world.settle_for(5);
    assert_eq!(
        world.status("x"),
        "Failed OwnerConflict: conflicting CRD owner in namespace: demos.example.com is owned by a"
    );
    succeeded(&world, "a");
    let writes = world.writes.len();
    world.settle_for(10);
    assert_eq!(world.writes.len(), writes);
    world.delete("ClusterServiceVersion", "ns", "a");
    world.settle_for(5);
    succeeded(&world, "x");
}

#[test]
fn an_account_shared_through_an_upgrade_has_both_owners_and_satisfies_both() {
    let mut world = installed();
    let mut newer = csv("b", "a");
    newer["spec"]["nativeAPIs"] = json!([{"group": "x", "version": "v1", "kind": "X"}]);
    world.put(newer);
    world.settle_for(5);
    let owners: Vec<Value> =
        world.get("ServiceAccount", "ns", "demo").unwrap()["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|owner| owner["name"].clone())
            .collect();
    assert_eq!(owners, ["a", "b"]);
    let rows = &world.get("ClusterServiceVersion", "ns", "b").unwrap()["status"]["requirementStatus"];
    assert_eq!(rows.as_array().unwrap().last().unwrap()["status"], "Present");
}
