//! Laws that hold for every fixture: rest is rest, and a process killed anywhere ends in the same place.

use serde_json::{Value, json};

use super::prepared;
use crate::{
    csv::decide::decide,
    world::{World, csv, csv_key, deployment, group, subscription},
};

/// What is put into a prepared cluster, one after the other, with time to settle in between.
fn stories() -> Vec<(&'static str, Vec<Value>)> {
    let all_namespaces = group("ns", "og", &[]);
    let mut two_deployments = csv("a", "");
    two_deployments["spec"]["install"]["spec"]["deployments"] =
        json!([deployment("demo", "demo:1"), deployment("second", "demo:1")]);
    let mut renamed = csv("b", "a");
    renamed["spec"]["install"]["spec"]["deployments"] = json!([deployment("renamed", "demo:2")]);
    let mut unsupported = csv("a", "");
    unsupported["spec"]["installModes"] = json!([]);
    vec![
        ("install", vec![csv("a", "")]),
        (
            "install with a configuration",
            vec![
                subscription("a", json!({"env": [{"name": "A", "value": "b"}]})),
                csv("a", ""),
            ],
        ),
        ("upgrade", vec![csv("a", ""), csv("b", "a")]),
        ("chain", vec![csv("a", ""), csv("b", "a"), csv("c", "b")]),
        ("two deployments, then another", vec![two_deployments, renamed]),
        ("all namespaces", vec![all_namespaces, csv("a", "")]),
        ("unsupported", vec![unsupported]),
    ]
}

fn tell(world: &mut World, story: &[Value]) {
    for object in story {
        world.put(object.clone());
        world.settle_long();
    }
}

#[test]
fn deciding_on_the_converged_state_writes_nothing() {
    for (name, story) in stories() {
        let mut world = prepared();
        tell(&mut world, &story);
        let writes = world.writes.len();
        world.settle_for(30);
        assert_eq!(world.writes.len(), writes, "{name}");
        for csv in ["a", "b", "c"] {
            if let Some(observed) = world.observe(&csv_key(csv)) {
                let (plan, verdict) = decide(&observed, world.now);
                assert!(
                    plan.is_empty() && verdict.transitions.is_empty(),
                    "{name}: {csv}: {plan}"
                );
            }
        }
    }
}

#[test]
fn a_process_killed_after_any_write_ends_in_the_same_place() {
    for (name, story) in stories() {
        let mut reference = prepared();
        tell(&mut reference, &story);
        let most = reference.writes.len();
        for kill in 0..most {
            let mut world = prepared();
            world.killed_after = Some(kill);
            for object in &story {
                world.put(object.clone());
                world.settle_long();
                world.killed_after = None;
                world.settle_long();
            }
            assert_eq!(
                world.normalised(),
                reference.normalised(),
                "{name}, killed after {kill} writes"
            );
        }
    }
}

#[test]
fn an_install_costs_few_writes() {
    let mut world = prepared();
    world.settle();
    world.writes.clear();
    world.put(csv("a", ""));
    world.settle_for(10);
    let ours: Vec<&String> = world
        .writes
        .iter()
        .filter(|write| !write.starts_with("kubernetes"))
        .collect();
    // Of these, five make the account and the roles, which an InstallPlan would have made.
    assert!(ours.len() <= 14, "{ours:#?}");
}

#[test]
fn a_healthy_operator_comes_back_to_succeeded_from_every_phase_and_reason() {
    let reasons = [
        "",
        "RequirementsUnknown",
        "RequirementsNotMet",
        "AllRequirementsMet",
        "OwnerConflict",
        "InstallComponentFailed",
        "InstallComponentFailedNoRetry",
        "InvalidInstallStrategy",
        "InstallWaiting",
        "InstallSucceeded",
        "InstallCheckFailed",
        "ComponentUnhealthy",
        "BeingReplaced",
        "NeedsReinstall",
        "InvalidInstallModes",
        "NoTargetNamespaces",
        "UnsupportedOperatorGroup",
        "NoOperatorGroup",
        "TooManyOperatorGroups",
        "InterOperatorGroupOwnerConflict",
        "CannotModifyStaticOperatorGroupProvidedAPIs",
        "OperatorConditionNotUpgradeable",
        "SomethingElse",
    ];
    let mut world = prepared();
    tell(&mut world, &[csv("a", "")]);
    let rest = world.normalised();
    for phase in ["", "Pending", "InstallReady", "Installing", "Failed", "Replacing"] {
        for reason in reasons {
            let status = json!({"status": {"phase": phase, "reason": reason, "message": "written by hand"}});
            world.edit("ClusterServiceVersion", "ns", "a", status);
            let writes = world.writes.len();
            world.settle();
            assert_eq!(
                world.normalised(),
                rest,
                "{phase} {reason}: {:#?}",
                &world.writes[writes..]
            );
            assert_eq!(
                world.writes.len(),
                writes + 1,
                "{phase} {reason}: {:#?}",
                &world.writes[writes..]
            );
        }
    }
}
