//! One place that refuses a write stops no other, and is told.

use olm_runtime::outcome::FailureClass;
use serde_json::json;

use super::{prepared, prepared_for, succeeded};
use crate::world::{World, csv, namespace_object};

fn targets() -> World {
    let mut world = prepared_for(&["ns", "one", "two", "three"]);
    for name in ["one", "two", "three"] {
        world.put(namespace_object(name));
    }
    world
}

fn bound(world: &World) -> Vec<String> {
    let names = world.names("RoleBinding").into_iter();
    names
        .map(|name| name.split('/').next().unwrap().to_owned())
        .filter(|namespace| namespace != "ns")
        .collect()
}

#[test]
fn a_target_that_refuses_rights_keeps_them_from_no_other_and_is_named() {
    for class in [FailureClass::Forbidden, FailureClass::Retry] {
        let mut world = targets();
        for kind in ["Role", "RoleBinding"] {
            world.refused.insert(format!("{kind} one"), class);
        }
        world.put(csv("a", ""));
        world.settle_for(20);
        assert_eq!(bound(&world), ["three", "two"], "{class:?}");
        assert_eq!(world.names("Deployment"), ["ns/demo"], "{class:?}");
        let status = world.status("a");
        assert!(
            status.starts_with("InstallReady InstallWaiting: installing: rights are missing in namespace one: apply Role one/")
                && status.ends_with("refused by the model"),
            "{class:?}: {status}"
        );
        let statuses = |world: &World| {
            let writes = world.writes.iter();
            writes
                .filter(|write| write.ends_with("ClusterServiceVersion ns/a status"))
                .count()
        };
        let before = statuses(&world);
        world.settle_for(10);
        assert_eq!(statuses(&world), before, "it is told once");
        world.refused.clear();
        world.settle_for(70);
        succeeded(&world, "a");
        assert_eq!(bound(&world), ["one", "three", "two"]);
    }
}

#[test]
fn a_running_operator_is_not_called_succeeded_while_a_new_target_lacks_its_rights() {
    let mut world = targets();
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "one"]}}),
    );
    world.put(csv("a", ""));
    world.settle_for(10);
    succeeded(&world, "a");
    world
        .refused
        .insert("RoleBinding two".into(), FailureClass::Forbidden);
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "one", "two", "three"]}}),
    );
    world.settle_for(12);
    let status = world.status("a");
    assert!(
        status.starts_with("InstallReady InstallWaiting: installing: rights are missing in namespace two: "),
        "{status}"
    );
    assert_eq!(bound(&world), ["one", "three"]);
    world.refused.clear();
    world.settle_for(70);
    succeeded(&world, "a");
}

/// Whoever can make one target refuse, as by a quota or a binding that stands in the way, must not stop upgrades.
#[test]
fn a_target_that_refuses_rights_does_not_stop_an_upgrade() {
    for class in [FailureClass::Forbidden, FailureClass::Invalid] {
        let mut world = targets();
        world.put(csv("a", ""));
        world.settle_for(10);
        succeeded(&world, "a");
        world.refused.insert("RoleBinding two".into(), class);
        world.delete("RoleBinding", "two", &replica(&world, "two"));
        world.settle_for(15);
        let status = world.status("a");
        assert!(!status.starts_with("Succeeded"), "{class:?}: {status}");
        world.put(csv("b", "a"));
        world.settle_for(40);
        let status = world.status("a");
        assert!(status.starts_with("Replacing"), "{class:?}: {status}");
        world.refused.clear();
        world.settle_for(120);
        succeeded(&world, "b");
        assert_eq!(world.status("a"), "gone");
    }
}

fn replica(world: &World, namespace: &str) -> String {
    let names = world.names("RoleBinding").into_iter();
    let mut within =
        names.filter_map(|name| Some(name.strip_prefix(namespace)?.strip_prefix('/')?.to_owned()));
    within.next().unwrap()
}

#[test]
fn rights_that_the_groups_account_may_not_grant_fail_the_install_and_are_tried_again() {
    let mut world = targets();
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "scoped"}}),
    );
    world.put(crate::world::service_account("scoped"));
    world.refused.insert("Role two".into(), FailureClass::Forbidden);
    world.put(csv("a", ""));
    world.settle_for(12);
    let status = world.status("a");
    assert!(
        status.starts_with(
            "Failed InstallComponentFailedNoRetry: install strategy failed: rights are missing in namespace two: "
        ),
        "{status}"
    );
    assert!(bound(&world).contains(&"three".to_owned()));
    world.refused.clear();
    world.settle_for(70);
    succeeded(&world, "a");
}

/// A refused Deployment still keeps the orphan of an earlier strategy alive.
#[test]
fn a_refused_deployment_stops_what_comes_after_it() {
    let mut world = prepared();
    world.put(csv("a", ""));
    world.settle_for(5);
    world.refused.insert("Deployment".into(), FailureClass::Invalid);
    let renamed = json!([crate::world::deployment("renamed", "demo:2")]);
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"deployments": renamed}}}}),
    );
    world.settle_for(10);
    assert_eq!(world.names("Deployment"), ["ns/demo"]);
}

#[test]
fn a_refused_membership_is_told() {
    let mut world = prepared();
    world
        .refused
        .insert("OperatorGroup".into(), FailureClass::Forbidden);
    world.put(csv("a", ""));
    world.settle_for(10);
    assert_eq!(
        world.status("a"),
        "Pending RequirementsUnknown: membership in the OperatorGroup could not be written: patch OperatorGroup ns/og: refused by the model"
    );
    world.refused.clear();
    world.settle_for(70);
    succeeded(&world, "a");
}

/// The group names an account that does not exist (yet): nothing is written, neither in our own name nor in that one.
#[test]
fn an_account_that_does_not_exist_yet_means_to_wait() {
    let mut world = prepared_for(&[]);
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "scoped"}}),
    );
    world.put(csv("a", ""));
    world.settle_for(20);
    assert_eq!(
        world.status("a"),
        "Pending RequirementsUnknown: please make sure the service account exists. sa=scoped operatorgroup=ns/og"
    );
    assert!(world.names("Deployment").is_empty());
    world.put(crate::world::service_account("another"));
    world.settle_for(5);
    assert!(world.names("Deployment").is_empty(), "another is not it");
    world.put(crate::world::service_account("scoped"));
    world.settle_for(5);
    succeeded(&world, "a");
    let own: Vec<&String> = world
        .writes
        .iter()
        .filter(|write| {
            (write.contains("Deployment ns/") || write.contains("ClusterRole"))
                && !write.starts_with("kubernetes")
        })
        .filter(|write| !write.ends_with("as ns/scoped"))
        .collect();
    assert!(own.is_empty(), "{own:#?}");

    // A running operator is left as it is while the account changes.
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "next"}}),
    );
    let writes = world.writes.len();
    world.settle_for(20);
    assert_eq!(world.writes[writes..], ["patch OperatorGroup ns/og status"]);
    succeeded(&world, "a");
}
