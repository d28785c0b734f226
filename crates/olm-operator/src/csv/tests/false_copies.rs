//! ClusterServiceVersions that somebody passes off as copies.

use serde_json::{Value, json};

use super::*;

/// Installed for all namespaces, so that it has rights which only its finalizer takes away.
fn installed_for_all() -> World {
    let mut world = prepared_for(&[]).with(csv("a", ""));
    world.settle_for(5);
    succeeded(&world, "a");
    assert_eq!(world.names("ClusterRole").len(), 2, "its own, and one promoted");
    world
}

fn hide(world: &mut World, from: &str) {
    let label = json!({"metadata": {"labels": {"olm.copiedFrom": from}}});
    world.edit("ClusterServiceVersion", "ns", "a", label);
}

#[track_caller]
fn label(world: &World) -> &Value {
    &world.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["labels"]["olm.copiedFrom"]
}

#[test]
fn the_label_of_copies_keeps_no_csv_from_going() {
    let mut world = installed_for_all();
    hide(&mut world, "elsewhere");
    world.delete("ClusterServiceVersion", "ns", "a");
    world.settle_for(10);
    assert_eq!(world.status("a"), "gone");
    assert!(world.names("ClusterRole").is_empty(), "nothing is left");
    assert!(world.names("ClusterRoleBinding").is_empty());
}

/// Also when the label comes while no operator runs.
#[test]
fn the_label_comes_off_and_the_operator_is_looked_after_again() {
    let mut world = installed_for_all();
    world.kill();
    hide(&mut world, "ns");
    world.delete("Deployment", "ns", "demo");
    world.events.clear();
    world.settle_for(10);
    assert_eq!(*label(&world), Value::Null);
    succeeded(&world, "a");
    assert!(world.get("Deployment", "ns", "demo").is_some());
    let told = |event: &&String| event.contains("LabelRemoved");
    assert_eq!(world.events.iter().filter(told).count(), 1, "{:?}", world.events);
    world.writes.clear();
    world.settle_for(60);
    assert_eq!(world.writes, [""; 0]);
}

#[test]
fn a_copy_keeps_its_label() {
    let mut world = prepared();
    let mut copy = csv("a", "");
    copy["metadata"]["labels"] = json!({"olm.copiedFrom": "elsewhere"});
    copy["metadata"]["annotations"]["olm.operatorNamespace"] = json!("elsewhere");
    world.put(copy);
    world.settle_for(5);
    world.writes.clear();
    world.settle_for(60);
    assert_eq!(*label(&world), "elsewhere");
    assert_eq!(world.status("a"), "- -: -");
    assert_eq!(world.writes, [""; 0]);
}
