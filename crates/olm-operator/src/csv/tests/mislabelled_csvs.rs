//! ClusterServiceVersions that users label as copies.

use serde_json::{Value, json};

use super::*;

/// The demo installed for all namespaces, so that it has rights that only its finalizer removes.
fn installed_for_all() -> TestEnv {
    let mut env = prepared_for(&[]).with(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(env.cluster_roles().len(), 2, "its own, and one promoted");
    env
}

fn hide(env: &mut TestEnv, from: &str) {
    let label = json!({"metadata": {"labels": {"olm.copiedFrom": from}}});
    env.edit("ClusterServiceVersion", "ns", "a", label);
}

#[track_caller]
fn label(env: &TestEnv) -> &Value {
    &env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["labels"]["olm.copiedFrom"]
}

#[test]
fn the_label_of_copies_keeps_no_csv_from_going() {
    let mut env = installed_for_all();
    hide(&mut env, "elsewhere");
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(10);
    assert_eq!(env.status("a"), "gone");
    assert!(env.cluster_roles().is_empty(), "nothing is left");
    assert!(env.names("ClusterRoleBinding").is_empty());
}

/// Also when the label is added while no operator runs.
#[test]
fn the_label_comes_off_and_the_operator_is_looked_after_again() {
    let mut env = installed_for_all();
    env.kill();
    hide(&mut env, "ns");
    env.delete("Deployment", "ns", "demo");
    env.events.clear();
    env.settle_for(10);
    assert_eq!(*label(&env), Value::Null);
    succeeded(&env, "a");
    assert!(env.get("Deployment", "ns", "demo").is_some());
    let told = |event: &&String| event.contains("LabelRemoved");
    assert_eq!(env.events.iter().filter(told).count(), 1, "{:?}", env.events);
    env.writes.clear();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
}

#[test]
fn what_may_be_a_copy_keeps_its_label() {
    let mut env = prepared();
    let mut copy = csv("a", "");
    copy["metadata"]["labels"] = json!({"olm.copiedFrom": "elsewhere"});
    env.put(copy);
    env.settle_for(40);
    env.writes.clear();
    env.settle_for(60);
    assert_eq!(*label(&env), "elsewhere");
    assert_eq!(env.status("a"), "- -: -");
    assert_eq!(env.writes, [""; 0]);
}
