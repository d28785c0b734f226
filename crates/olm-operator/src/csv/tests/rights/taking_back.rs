//! Revocation of rights beyond the own namespace that are no longer covered: it waits for their replacement,
//! but not forever.

use olm_runtime::outcome::FailureClass;

use super::*;

/// Returns the index of the first write with this prefix in the log.
#[track_caller]
fn at(env: &TestEnv, text: &str) -> usize {
    let found = env.writes.iter().position(|write| write.starts_with(text));
    found.unwrap_or_else(|| panic!("{text} in {:#?}", env.writes))
}

/// The demo installed with cluster permissions as well.
fn installed_whole(targets: &[&str]) -> TestEnv {
    let mut env = prepared_for(targets);
    for name in ["one", "two", "three"] {
        env.put(namespace_object(name));
    }
    env.put(csv("a", ""));
    env.settle_for(10);
    succeeded(&env, "a");
    env
}

/// Number of ClusterRoleBindings, without the one of its plan.
fn promoted(env: &TestEnv) -> usize {
    env.names("ClusterRoleBinding").len() - 1
}

/// The namespaced counterparts exist before the cluster-wide rights are deleted, and vice versa.
#[test]
fn rights_are_taken_back_only_after_those_that_replace_them_are_there() {
    let mut env = installed_in(&[]);
    env.writes.clear();
    retarget(&mut env, json!(["ns", "one", "two"]));
    let taken = at(&env, "delete ClusterRoleBinding");
    for made in ["create RoleBinding one/", "create RoleBinding two/"] {
        assert!(at(&env, made) < taken, "{:#?}", env.writes);
    }
    assert!(env.cluster_roles().is_empty());
    env.writes.clear();
    retarget(&mut env, json!(null));
    assert!(at(&env, "create ClusterRoleBinding") < at(&env, "delete RoleBinding one/"));
    assert_eq!(replicas(&env), [""; 0]);
}

/// If an administrator deletes a Role, its ClusterRole is deleted, too, once no requested right depends on
/// it.
#[test]
fn what_has_no_role_any_more_goes() {
    let mut env = installed_in(&[]);
    env.by_hand = true;
    put_all(&mut env, labelled("ns", "more", configmaps(), &[]));
    env.settle_for(10);
    assert!(env.get("ClusterRole", "", "more").is_some());
    for kind in ["Role", "RoleBinding"] {
        env.delete(kind, "ns", "more");
    }
    env.settle_for(10);
    assert_eq!(env.cluster_roles(), [format!("/{}", role_name("configmaps"))]);
    assert_eq!(
        env.names("ClusterRoleBinding"),
        [format!("/{}", role_name("configmaps"))]
    );
    succeeded(&env, "a");
}

/// A user who can make one target refuse writes cannot keep the operator's former cluster-wide rights.
#[test]
fn a_target_that_refuses_does_not_keep_cluster_wide_rights() {
    let mut env = installed_whole(&[]);
    env.refused
        .insert("RoleBinding two".into(), FailureClass::Forbidden);
    retarget(&mut env, json!(["ns", "one", "two"]));
    env.settle_for(70);
    assert_eq!(promoted(&env), 0, "{}", env.status("a"));
    assert_eq!(replicas(&env), ["one"]);
    succeeded(&env, "a");
    let reported = missing(&env);
    assert!(
        matches!(&reported[..], [only] if only.starts_with("rights are missing in namespace two: create RoleBinding two/")),
        "{reported:?}"
    );
    assert_eq!(events_of_missing(&env), 1);
    env.refused.clear();
    env.settle_for(70);
    assert_eq!(replicas(&env), ["one", "two"]);
    assert_eq!(missing(&env), [""; 0]);
    succeeded(&env, "a");
}

/// In the other direction nothing was narrowed: the existing rights remain.
#[test]
fn a_group_that_may_not_be_widened_keeps_what_it_had() {
    let mut env = installed_whole(&["ns", "one"]);
    env.refused
        .insert("ClusterRoleBinding".into(), FailureClass::Forbidden);
    retarget(&mut env, json!(null));
    env.settle_for(800);
    assert_eq!(promoted(&env), 0);
    assert_eq!(replicas(&env), ["one"]);
}

#[test]
fn without_a_group_rights_beyond_the_namespace_go_after_a_while_and_come_back_with_it() {
    for targets in [&[][..], &["ns", "one", "two"]] {
        let mut env = installed_whole(targets);
        let has_reach = |env: &TestEnv| promoted(env) + replicas(env).len() > 0;
        env.delete("OperatorGroup", "ns", "og");
        env.settle_for(590);
        assert!(has_reach(&env), "made anew, it would find nothing changed");
        env.events.clear();
        env.settle_for(20);
        assert!(!has_reach(&env), "{:?}", env.names("ClusterRoleBinding"));
        assert_eq!(
            env.cluster_roles().len(),
            1,
            "what its plan made for the cluster stays"
        );
        let told = env.events.iter().any(|event| event.contains("RightsWithdrawn"));
        assert!(told, "{:?}", env.events);
        env.writes.clear();
        env.settle_for(600);
        assert_eq!(env.writes, [""; 0]);
        env.put(group("ns", "og", targets));
        env.settle_for(20);
        succeeded(&env, "a");
        assert!(has_reach(&env));
    }
}

/// The operator only supports all namespaces, and its group was narrowed.
#[test]
fn a_group_that_an_operator_does_not_support_gives_it_no_rights_beyond_the_namespace() {
    let mut env = prepared_for(&[]);
    env.put(super::super::changed("a", |spec| {
        spec["installModes"] = json!([{"type": "AllNamespaces", "supported": true}]);
    }));
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(promoted(&env), 1);
    retarget(&mut env, json!(["ns"]));
    assert!(env.status("a").starts_with("Failed UnsupportedOperatorGroup"));
    assert_eq!(promoted(&env), 1);
    env.settle_for(620);
    assert_eq!(promoted(&env), 0);
    retarget(&mut env, json!(null));
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(promoted(&env), 1);
}

/// The role reference of a binding is immutable: a binding of OLM's is replaced, and any other remains and is
/// reported.
#[test]
fn a_binding_to_another_role_is_replaced_if_it_is_ours_and_named_if_not() {
    for is_ours in [true, false] {
        let mut env = installed_whole(&["ns", "one"]);
        let (name, mut binding) = {
            let found = env.names("RoleBinding").into_iter();
            let name = found
                .filter_map(|name| name.strip_prefix("one/").map(str::to_owned))
                .next();
            let name = name.unwrap();
            let binding = env.get("RoleBinding", "one", &name).unwrap().clone();
            (name, binding)
        };
        env.kill();
        env.delete("RoleBinding", "one", &name);
        binding["metadata"] =
            json!({"namespace": "one", "name": name, "labels": binding["metadata"]["labels"]});
        if !is_ours {
            binding["metadata"]["labels"] = json!({});
        }
        binding["roleRef"]["name"] = json!("another");
        env.put(binding);
        env.settle_for(30);
        let points_to = &env.get("RoleBinding", "one", &name).unwrap()["roleRef"]["name"];
        if is_ours {
            assert_eq!(*points_to, *name);
            succeeded(&env, "a");
        } else {
            assert_eq!(*points_to, "another");
            succeeded(&env, "a");
            let told = format!(
                "rights are missing in namespace one: create RoleBinding one/{name}: the name is in use by another object"
            );
            assert_eq!(missing(&env), [told]);
            let writes = env.writes.len();
            env.settle_for(600);
            let tried = env.writes[writes..].len();
            assert!(tried <= 11 * 2, "at most one attempt a minute: {tried}");
        }
    }
}
