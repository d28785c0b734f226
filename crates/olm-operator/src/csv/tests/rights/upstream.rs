//! Counterparts that upstream created in the namespaces of a group: they belong to the copy of their
//! ClusterServiceVersion there.

use super::*;

/// The demo in a group for `ns` and `one`. In `one` it has upstream's objects with `name` instead of ours.
fn taken_over(name: &str, rules: Value) -> TestEnv {
    let mut env = installed_in(&["ns", "one"]);
    assert_eq!(replicas(&env), ["one"]);
    let copy = env.get("ClusterServiceVersion", "one", "a");
    let uid = copy.expect("its copy is there")["metadata"]["uid"].clone();
    env.kill();
    for kind in ["Role", "RoleBinding"] {
        env.delete(kind, "one", &role_name("configmaps"));
    }
    let marks = [("olm.copiedFrom", "ns"), ("olm.owner.namespace", "one")];
    for mut object in labelled("one", name, rules, &marks) {
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion", "name": "a", "uid": uid, "controller": false, "blockOwnerDeletion": false}]);
        env.put(object);
    }
    env.writes.clear();
    env
}

fn rbac_writes(env: &TestEnv) -> Vec<&String> {
    let all = env.writes.iter();
    all.filter(|write| write.contains("Role")).collect()
}

#[test]
fn what_grants_the_rights_stays_as_it_is() {
    let mut env = taken_over(&role_name("configmaps"), configmaps());
    env.settle_for(30);
    succeeded(&env, "a");
    assert_eq!(rbac_writes(&env), [""; 0]);
}

#[test]
fn changed_objects_are_corrected_under_their_name() {
    let name = role_name("configmaps");
    let mut env = taken_over(&name, permission("demo", "", "secrets")["rules"].clone());
    env.settle_for(30);
    succeeded(&env, "a");
    assert_eq!(env.get("Role", "one", &name).unwrap()["rules"], configmaps());
    assert_eq!(replicas(&env), ["one"], "no second one beside it");
}

#[test]
fn deleted_objects_are_missed_at_once() {
    let name = role_name("configmaps");
    let mut env = taken_over(&name, configmaps());
    env.settle_for(30);
    env.delete("RoleBinding", "one", &name);
    env.settle_for(1);
    assert_eq!(replicas(&env), ["one"]);
}

#[test]
fn what_no_group_covers_any_more_is_withdrawn() {
    let mut env = taken_over(&role_name("configmaps"), configmaps());
    env.settle_for(30);
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(620);
    assert_eq!(replicas(&env), [""; 0]);
}

/// The object has an earlier name of the permissions, and exists beside the one with the current name.
#[test]
fn what_is_asked_for_no_more_goes() {
    let mut env = taken_over(
        "of-an-older-release",
        permission("demo", "", "secrets")["rules"].clone(),
    );
    env.settle_for(30);
    succeeded(&env, "a");
    assert_eq!(env.get("Role", "one", "of-an-older-release"), None);
    assert_eq!(replicas(&env), ["one"]);
}
