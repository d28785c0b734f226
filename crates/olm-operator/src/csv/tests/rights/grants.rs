//! What proves that somebody granted rights, and how long it does.

use super::*;
use crate::test_env::service_account;

/// The annotation and the finalizer come along when somebody applies what another namespace shows.
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

/// What was granted once stays and counts for further namespaces, whatever becomes of the plan: with its Subscription it goes.
#[test]
fn what_was_granted_once_counts_after_its_plan_is_gone_until_the_rules_change() {
    for (targets, then) in [
        (&["ns", "one"][..], json!(["ns", "one", "two"])),
        (&[], json!(["ns", "one", "two"])),
    ] {
        let mut env = installed_in(targets);
        env.by_hand = true;
        env.delete("InstallPlan", "ns", "install-a");
        env.settle_for(5);
        succeeded(&env, "a");
        retarget(&mut env, then);
        succeeded(&env, "a");
        assert_eq!(replicas(&env), ["one", "two"]);
        retarget(&mut env, json!(null));
        succeeded(&env, "a");
        assert_eq!(rbac_outside(&env).len(), 2, "{:?}", rbac_outside(&env));

        ask_for_secrets(&mut env);
        env.settle_for(20);
        unmet(&env);
    }
}

/// Neither an account that goes for a while nor a group that is narrow for a while ends a grant.
#[test]
fn a_grant_is_noted_as_long_as_its_role_is_asked_for() {
    for narrowed in [false, true] {
        let mut env = installed_in(&["ns", "one"]);
        env.by_hand = true;
        env.delete("InstallPlan", "ns", "install-a");
        let account = env.get("ServiceAccount", "ns", "demo").unwrap().clone();
        if narrowed {
            retarget(&mut env, json!(["ns"]));
            env.settle_for(10);
        } else {
            env.delete("ServiceAccount", "ns", "demo");
            env.settle_for(20);
            assert_eq!(message(&env), "Service account does not exist");
            env.put(account);
            env.settle_for(20);
        }
        succeeded(&env, "a");
        retarget(&mut env, json!(["ns", "one", "two"]));
        succeeded(&env, "a");
        assert_eq!(replicas(&env), ["one", "two"], "narrowed {narrowed}");
    }
}

/// The note that a plan was there is in the status: who may only write ClusterServiceVersions cannot put it there, and one that
/// was copied from another ClusterServiceVersion names other roles.
#[test]
fn the_note_of_a_grant_is_in_the_status_alone() {
    let env = installed_in(&["ns", "one"]);
    let row = account_row(&env);
    let note = row["dependents"].as_array().unwrap().last().unwrap();
    assert_eq!(
        note["message"],
        format!("made by an InstallPlan: {}", role_name("configmaps"))
    );
    let uid = &env.get("InstallPlan", "ns", "install-a").unwrap()["metadata"]["uid"];
    assert_eq!(note["uuid"], *uid);
    let own = prepared_for(&["ns"]).with(demo());
    let mut own = own;
    own.settle_for(10);
    assert_eq!(
        account_row(&own)["dependents"].as_array().unwrap().len(),
        1,
        "rows are upstream's where nothing is carried elsewhere"
    );
}

/// A Role in a target namespace can have been made by a tenant of that namespace: it counts there and nowhere else, also with an
/// account in the group. What it would prove then would outlive that account.
#[test]
fn a_counterpart_that_a_tenant_may_have_made_proves_nothing_for_other_namespaces() {
    let rules = permission("demo", "", "configmaps")["rules"].clone();
    for scoped in [false, true] {
        let mut env = forged(&["ns", "one", "two"]);
        if scoped {
            env.edit(
                "OperatorGroup",
                "ns",
                "og",
                json!({"spec": {"serviceAccountName": "scoped"}}),
            );
            env.put(crate::test_env::service_account("scoped"));
        }
        for name in [role_name("configmaps"), promoted_name("configmaps")] {
            put_all(
                &mut env,
                labelled("one", &name, rules.clone(), &[("olm.copiedFrom", "ns")]),
            );
        }
        env.settle_for(20);
        unmet(&env);
        assert_eq!(
            message(&env),
            format!(
                "Policy rule not satisfied for service account in namespace two: no completed InstallPlan made role {}",
                role_name("configmaps")
            )
        );
        let in_two = env
            .names("Role")
            .into_iter()
            .filter(|name| name.starts_with("two/"));
        assert_eq!(in_two.count(), 0);
    }
}

/// ClusterRoles that upstream promoted bear the Role's name; they stay, count as proof, and are taken back when the time comes.
#[test]
fn what_upstream_promoted_stays_and_counts() {
    let mut env = forged(&[]);
    for name in ["one", "two"] {
        env.put(namespace_object(name));
    }
    let mut rules = permission("demo", "", "configmaps")["rules"].clone();
    rules
        .as_array_mut()
        .unwrap()
        .push(json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}));
    let upstreams = labelled("", &role_name("configmaps"), rules, &[]);
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

/// Two ClusterServiceVersions of one name in two global groups have ClusterRoles of their own.
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
    assert_eq!(env.cluster_roles().len(), 2);
    let writes = env.writes.len();
    env.settle_for(10);
    assert_eq!(env.writes.len(), writes, "they are at rest");
}

/// What everybody may, asked for again and again, by one who may do nothing else; and as much as a CSV can hold of it.
#[test]
fn one_who_asks_for_everything_often_holds_up_nobody() {
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
        "Failed InvalidInstallStrategy: install strategy invalid: permissions ask for 1000000000000 combinations of verbs, groups, \
         resources and names; at most 200000 are compared with what is granted"
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
