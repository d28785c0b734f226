//! Rights beyond the own namespace that nobody covers any more: they wait for those that are to replace them, and not for ever.

use olm_runtime::outcome::FailureClass;

use super::*;

/// Where in the log a write of this kind comes first.
#[track_caller]
fn at(world: &World, text: &str) -> usize {
    let found = world.writes.iter().position(|write| write.starts_with(text));
    found.unwrap_or_else(|| panic!("{text} in {:#?}", world.writes))
}

/// Installed with cluster permissions besides.
fn installed_whole(targets: &[&str]) -> World {
    let mut world = prepared_for(targets);
    for name in ["one", "two", "three"] {
        world.put(namespace_object(name));
    }
    world.put(csv("a", ""));
    world.settle_for(10);
    succeeded(&world, "a");
    world
}

/// ClusterRoleBindings but for the one that its plan made.
fn promoted(world: &World) -> usize {
    world.names("ClusterRoleBinding").len() - 1
}

/// The namespaced counterparts stand before the cluster-wide rights go, and the other way round.
#[test]
fn rights_are_taken_back_only_after_those_that_replace_them_are_there() {
    let mut world = installed_in(&[]);
    world.writes.clear();
    retarget(&mut world, json!(["ns", "one", "two"]));
    let taken = at(&world, "delete ClusterRoleBinding");
    for made in ["apply RoleBinding one/", "apply RoleBinding two/"] {
        assert!(at(&world, made) < taken, "{:#?}", world.writes);
    }
    assert!(world.names("ClusterRole").is_empty());
    world.writes.clear();
    retarget(&mut world, json!(null));
    assert!(at(&world, "apply ClusterRoleBinding") < at(&world, "delete RoleBinding one/"));
    assert_eq!(replicas(&world), [""; 0]);
}

/// A namespace that refuses its counterpart keeps the cluster-wide rights in place.
#[test]
fn a_narrowed_group_keeps_cluster_wide_rights_as_long_as_a_target_has_none_of_its_own() {
    let mut world = installed_in(&[]);
    world
        .refused
        .insert("RoleBinding two".into(), FailureClass::Forbidden);
    retarget(&mut world, json!(["ns", "one", "two"]));
    world.settle_for(12);
    assert_eq!(world.names("ClusterRoleBinding").len(), 1);
    assert_eq!(replicas(&world), ["one"]);
    world.refused.clear();
    world.settle_for(70);
    assert!(world.names("ClusterRoleBinding").is_empty());
    assert_eq!(replicas(&world), ["one", "two"]);
    succeeded(&world, "a");
}

/// New permissions, by a new plan, are promoted before the old ones are taken back; nothing of the old ones stays.
#[test]
fn changed_permissions_leave_no_old_cluster_role_behind() {
    let mut world = installed_in(&[]);
    world.writes.clear();
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"permissions": [permission("demo", "", "secrets")]}}}}),
    );
    world.install_plan(&csv_key("a"));
    world.settle_for(5);
    succeeded(&world, "a");
    assert_eq!(
        world.names("ClusterRole"),
        [format!("/{}", promoted_name("secrets"))]
    );
    assert_eq!(
        world.names("ClusterRoleBinding"),
        [format!("/{}", promoted_name("secrets"))]
    );
    assert!(at(&world, "apply ClusterRoleBinding") < at(&world, "delete ClusterRoleBinding"));
}

/// Whoever can have writes refused in one target does not keep what the operator had everywhere.
#[test]
fn a_target_that_goes_on_refusing_does_not_keep_cluster_wide_rights() {
    let mut world = installed_whole(&[]);
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
    let mut world = installed_whole(&["ns", "one"]);
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
        let mut world = installed_whole(targets);
        let has_reach = |world: &World| promoted(world) + replicas(world).len() > 0;
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
        world.put(group("ns", "og", targets));
        world.settle_for(20);
        succeeded(&world, "a");
        assert!(has_reach(&world));
    }
}

/// The operator only works for all namespaces, and its group was narrowed.
#[test]
fn a_group_that_an_operator_does_not_support_gives_it_no_rights_beyond_the_namespace() {
    let mut world = prepared_for(&[]);
    world.put(super::super::changed("a", |spec| {
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
        let mut world = installed_whole(&["ns", "one"]);
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
