//! Rights beyond the own namespace that nobody covers any more: they wait for those that are to replace them, and not for ever.

use olm_runtime::outcome::FailureClass;
use serde_json::{Value, json};

use super::*;
use crate::world::namespace_object;

/// Installed for these namespaces, for all if there are none; three more exist.
fn installed_in(targets: &[&str]) -> World {
    let mut world = prepared_for(targets);
    for name in ["one", "two", "three"] {
        world.put(namespace_object(name));
    }
    world.put(csv("a", ""));
    world.settle_for(10);
    succeeded(&world, "a");
    world
}

fn retarget(world: &mut World, targets: Value) {
    let spec = json!({"spec": {"targetNamespaces": targets}});
    world.edit("OperatorGroup", "ns", "og", spec);
    world.settle_for(5);
}

/// Namespaces with counterparts.
fn replicas(world: &World) -> Vec<String> {
    let names = world.names("RoleBinding").into_iter();
    names
        .filter(|name| !name.starts_with("ns/"))
        .map(|name| name.split('/').next().unwrap().to_owned())
        .collect()
}

/// ClusterRoleBindings but for the one that its plan made.
fn promoted(world: &World) -> usize {
    world.names("ClusterRoleBinding").len() - 1
}

/// Whoever can have writes refused in one target does not keep what the operator had everywhere.
#[test]
fn a_target_that_goes_on_refusing_does_not_keep_cluster_wide_rights() {
    let mut world = installed_in(&[]);
    world
        .refused
        .insert("RoleBinding two".into(), FailureClass::Forbidden);
    retarget(&mut world, json!(["ns", "one", "two"]));
    world.settle_for(500);
    assert_eq!(promoted(&world), 1, "it may be made good");
    world.settle_for(200);
    assert_eq!(promoted(&world), 0, "{}", world.status("a"));
    assert_eq!(replicas(&world), ["one"]);
    let status = world.status("a");
    assert!(status.contains("rights are missing in namespace two"), "{status}");
    world.refused.clear();
    world.settle_for(70);
    assert_eq!(replicas(&world), ["one", "two"]);
    succeeded(&world, "a");
}

/// The other way round nothing was narrowed: what it has stays.
#[test]
fn a_group_that_may_not_be_widened_keeps_what_it_had() {
    let mut world = installed_in(&["ns", "one"]);
    world
        .refused
        .insert("ClusterRoleBinding".into(), FailureClass::Forbidden);
    retarget(&mut world, json!(null));
    world.settle_for(800);
    assert_eq!(promoted(&world), 0);
    assert_eq!(replicas(&world), ["one"]);
}

#[test]
fn without_a_group_rights_beyond_the_namespace_go_after_a_while_and_come_back_with_it() {
    for targets in [&[][..], &["ns", "one", "two"]] {
        let mut world = installed_in(targets);
        let has_reach = |world: &World| promoted(world) + replicas(world).len() > 0;
        let group = world.get("OperatorGroup", "ns", "og").unwrap().clone();
        world.delete("OperatorGroup", "ns", "og");
        world.settle_for(590);
        assert!(has_reach(&world), "made anew, it would find nothing changed");
        world.events.clear();
        world.settle_for(20);
        assert!(!has_reach(&world), "{:?}", world.names("ClusterRoleBinding"));
        assert_eq!(
            world.names("ClusterRole").len(),
            1,
            "what its plan made for the cluster stays"
        );
        let told = world.events.iter().any(|event| event.contains("RightsWithdrawn"));
        assert!(told, "{:?}", world.events);
        world.writes.clear();
        world.settle_for(600);
        assert_eq!(world.writes, [""; 0]);
        world.put(crate::world::group("ns", "og", targets));
        drop(group);
        world.settle_for(20);
        succeeded(&world, "a");
        assert!(has_reach(&world));
    }
}

/// The operator only works for all namespaces, and its group was narrowed.
#[test]
fn a_group_that_an_operator_does_not_support_gives_it_no_rights_beyond_the_namespace() {
    let mut world = prepared_for(&[]);
    world.put(changed("a", |spec| {
        spec["installModes"] = json!([{"type": "AllNamespaces", "supported": true}]);
    }));
    world.settle_for(10);
    succeeded(&world, "a");
    assert_eq!(promoted(&world), 1);
    retarget(&mut world, json!(["ns"]));
    assert!(world.status("a").starts_with("Failed UnsupportedOperatorGroup"));
    assert_eq!(promoted(&world), 1);
    world.settle_for(620);
    assert_eq!(promoted(&world), 0);
    retarget(&mut world, json!(null));
    world.settle_for(10);
    succeeded(&world, "a");
    assert_eq!(promoted(&world), 1);
}

/// What a binding points to cannot be changed: one that says it is ours makes way, any other stays and is named.
#[test]
fn a_binding_to_another_role_is_replaced_if_it_is_ours_and_named_if_not() {
    for is_ours in [true, false] {
        let mut world = installed_in(&["ns", "one"]);
        let (name, mut binding) = {
            let found = world.names("RoleBinding").into_iter();
            let name = found
                .filter_map(|name| name.strip_prefix("one/").map(str::to_owned))
                .next();
            let name = name.unwrap();
            let binding = world.get("RoleBinding", "one", &name).unwrap().clone();
            (name, binding)
        };
        world.kill();
        world.delete("RoleBinding", "one", &name);
        binding["metadata"] =
            json!({"namespace": "one", "name": name, "labels": binding["metadata"]["labels"]});
        if !is_ours {
            binding["metadata"]["labels"] = json!({});
        }
        binding["roleRef"]["name"] = json!("another");
        world.put(binding);
        world.settle_for(30);
        let points_to = &world.get("RoleBinding", "one", &name).unwrap()["roleRef"]["name"];
        let status = world.status("a");
        if is_ours {
            assert_eq!(*points_to, *name);
            succeeded(&world, "a");
        } else {
            assert_eq!(*points_to, "another");
            assert!(
                status.contains(&format!("apply RoleBinding one/{name}")),
                "{status}"
            );
            let writes = world.writes.len();
            world.settle_for(600);
            let tried = world.writes[writes..].len();
            assert!(tried <= 11 * 2, "at most one attempt a minute: {tried}");
        }
    }
}
