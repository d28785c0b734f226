//! Grants beyond the namespace: their sources and their cost.

use super::*;
use crate::test_env::service_account;

/// A user may apply an object as copied from another namespace, with annotation and finalizer.
#[test]
fn no_annotation_keeps_a_csv_from_going() {
    let mut env = installed_in(&[]);
    assert_eq!(env.cluster_roles().len(), 1);
    let patch = json!({"metadata": {"annotations": {"olm.operatorNamespace": "x"}}});
    env.edit("ClusterServiceVersion", "ns", "a", patch);
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(10);
    assert_eq!(env.status("a"), "gone");
    assert!(env.cluster_roles().is_empty(), "nothing is left");
}

/// ClusterRoles that upstream promoted have the Role's name; they remain, and are revoked like others.
#[test]
fn what_upstream_promoted_stays_and_counts() {
    let mut env = by_hand(&[], true);
    for name in ["one", "two"] {
        env.put(namespace_object(name));
    }
    let mut rules = permission("demo", "", "configmaps")["rules"].clone();
    rules
        .as_array_mut()
        .unwrap()
        .push(json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}));
    let upstreams = labelled("", "mine", rules, &[]);
    put_all(&mut env, upstreams);
    env.settle_for(10);
    succeeded(&env, "a");
    let made = env
        .writes
        .iter()
        .filter(|write| write.contains("Role ") && !write.ends_with("/a") && !is_for_users(write));
    assert_eq!(made.count(), 0, "nothing is made anew: {:#?}", env.writes);

    retarget(&mut env, json!(["ns", "one"]));
    assert_eq!(replicas(&env), ["one"]);
    assert!(env.cluster_roles().is_empty() && env.names("ClusterRoleBinding").is_empty());
    succeeded(&env, "a");
}

/// Two ClusterServiceVersions of the same name in two global groups have separate ClusterRoles.
#[test]
fn csvs_of_one_name_in_two_global_groups_do_not_share_a_cluster_role() {
    let mut unowned = demo();
    unowned["spec"]["customresourcedefinitions"] = json!({});
    let mut other = unowned.clone();
    other["metadata"]["namespace"] = json!("other");
    let mut env = prepared_for(&[])
        .with(namespace_object("other"))
        .with(group("other", "og", &[]))
        .with(unowned)
        .with(other);
    env.settle_for(10);
    succeeded(&env, "a");
    let name = role_name("configmaps");
    let beside = permission::name_beside(&name, "other");
    let mut names = [format!("/{name}"), format!("/{beside}")];
    let of_ns =
        env.get("ClusterRole", "", &name).unwrap()["metadata"]["labels"]["olm.owner.namespace"] == "ns";
    if !of_ns {
        names[1] = format!("/{}", permission::name_beside(&name, "ns"));
    }
    names.sort();
    assert_eq!(env.cluster_roles(), names);
    assert_eq!(env.names("ClusterRoleBinding"), names);
    let writes = env.writes.len();
    env.settle_for(10);
    assert_eq!(env.writes.len(), writes, "they are at rest");
}

/// RBAC by hand often has one name for the Role and the ClusterRole. Neither is filled with what the other says.
#[test]
fn a_cluster_role_of_the_roles_name_is_not_promoted_onto() {
    for labels in [
        json!({}),
        json!({"olm.managed": "true", "olm.owner": "a", "olm.owner.namespace": "ns",
        "olm.owner.kind": "ClusterServiceVersion"}),
    ] {
        let is_labelled = labels["olm.owner"].is_string();
        let mut env = by_hand(&[], true);
        let by_hand = labelled("", "mine", permission("demo", "", "pods")["rules"].clone(), &[]);
        let by_hand = by_hand.map(|mut object| {
            object["metadata"]["labels"] = labels.clone();
            object
        });
        put_all(&mut env, by_hand.clone());
        env.settle_for(60);
        succeeded(&env, "a");
        for (kind, object) in ["ClusterRole", "ClusterRoleBinding"].into_iter().zip(&by_hand) {
            let found = env.get(kind, "", "mine").unwrap();
            for field in ["rules", "roleRef", "subjects"] {
                assert_eq!(found[field], object[field], "{kind} {field}");
            }
        }
        if is_labelled {
            let beside = permission::name_beside("mine", "ns");
            let found = env.get("ClusterRole", "", &beside).unwrap();
            assert_eq!(found["rules"][0]["resources"], json!(["configmaps"]));
            assert_eq!(missing(&env), [""; 0]);
        } else {
            let told = missing(&env).join("\n");
            assert!(told.contains("the name is in use by another object"), "{told}");
        }
        let writes = env.writes.len();
        env.settle_for(10);
        assert_eq!(env.writes.len(), writes, "at rest");
    }
}

/// Rights that every user has, requested again and again by an account without others; as many as a ClusterServiceVersion can hold.
#[test]
fn an_account_with_many_requests_delays_no_other() {
    let asking = |name: &str, value: &dyn Fn(usize) -> String, count: usize| {
        let values: Vec<String> = (0..count).map(value).collect();
        let rule =
            json!({"verbs": values, "apiGroups": values, "resources": values, "resourceNames": values});
        let mut csv = csv(name, "");
        csv["spec"]["customresourcedefinitions"] = json!({});
        csv["spec"]["install"]["spec"] = json!({"deployments": [],
            "clusterPermissions": [{"serviceAccountName": "default", "rules": [rule]}]});
        csv
    };
    let everybody = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let mut wide = by_hand_for_everybody(everybody);
    let mut env = prepared_for(&["ns"]).with(service_account("default"));
    put_all(&mut env, wide.drain(..));
    env.put(asking("repeated", &|_| "same".to_owned(), 1000));
    env.put(asking("endless", &|number| format!("n{number}"), 1000));
    env.put(csv("a", ""));
    env.settle_for(20);
    succeeded(&env, "a");
    succeeded(&env, "repeated");
    assert_eq!(
        env.status("endless"),
        "Failed InvalidInstallStrategy: install strategy invalid: permissions have 1000000000000 combinations of verbs, groups, resources and names; the limit is 200000"
    );
}

fn by_hand_for_everybody(rules: Value) -> Vec<Value> {
    let mut objects = labelled("", "everybody", rules, &[]).to_vec();
    for object in &mut objects {
        object["metadata"]["labels"] = json!({});
    }
    objects[1]["subjects"] = json!([{"kind": "Group", "name": "system:authenticated"}]);
    objects
}
