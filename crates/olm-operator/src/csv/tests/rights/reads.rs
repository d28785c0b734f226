//! Live reads of a reconcile besides the stores: none if the data is known, and no more than needed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use olm_testing::cluster::Verb;

use super::*;
use crate::test_env::{crd, service_account};

/// Returns the reads of another reconcile of the demo, by verb and kind, without watches.
fn reads_of_a_round(env: &mut TestEnv) -> BTreeMap<String, usize> {
    let touch = json!({"metadata": {"labels": {"touched": env.now.to_string()}}});
    reads_after(env, |env| env.edit("ClusterServiceVersion", "ns", "a", touch))
}

/// Returns the reads after a change.
fn reads_after(env: &mut TestEnv, change: impl FnOnce(&mut TestEnv)) -> BTreeMap<String, usize> {
    let reads = Arc::<Mutex<BTreeMap<String, usize>>>::default();
    let seen = Arc::clone(&reads);
    env.cluster.on_request(move |request| {
        if matches!(request.verb, Verb::Get | Verb::List) {
            let read = format!("{} {}", request.verb.text(), request.kind.kind);
            *seen.lock().unwrap().entry(read).or_default() += 1;
        }
        None
    });
    change(env);
    env.settle_for(1);
    env.cluster.clear_hooks();
    std::mem::take(&mut *reads.lock().unwrap())
}

fn counted(reads: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let reads = reads.iter();
    reads.map(|(read, count)| ((*read).to_owned(), *count)).collect()
}

#[test]
fn a_csv_that_runs_reads_nothing() {
    let mut env = prepared_for(&["ns"]).with(csv("a", ""));
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(reads_of_a_round(&mut env), counted(&[]));
}

#[test]
fn an_account_that_olm_did_not_make_is_known_without_a_read() {
    let mut csv = demo();
    csv["spec"]["install"]["spec"]["permissions"] = json!([permission("default", "", "configmaps")]);
    let mut env = prepared_for(&["ns"]).with(service_account("default")).with(csv);
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(reads_of_a_round(&mut env), counted(&[]));

    let edit = json!({"metadata": {"labels": {"edited": "true"}}});
    let read = reads_after(&mut env, |env| env.edit("ServiceAccount", "ns", "default", edit));
    assert_eq!(read, counted(&[]));

    // A list without it shows that it was deleted.
    env.cluster.hold("ServiceAccount");
    env.delete("ServiceAccount", "ns", "default");
    env.settle();
    env.cluster.forget_history();
    env.cluster.release("ServiceAccount");
    env.settle_for(60);
    assert_eq!(message(&env), "Service account does not exist");
}

#[test]
fn bindings_of_the_cluster_are_read_only_when_those_of_namespaces_do_not_do() {
    let rules = permission("demo", "", "configmaps")["rules"].clone();
    let mut env = prepared_for(&["ns"]);
    env.by_hand = true;
    env.put(account());
    put_all(&mut env, unlabelled("ns", "mine", rules.clone()));
    let mut others = unlabelled("ns", "others", rules);
    others[1]["subjects"][0]["name"] = json!("other");
    put_all(&mut env, others);
    env.put(demo());
    env.settle_for(20);
    succeeded(&env, "a");
    // One Role that a user created, and the one of its OperatorCondition.
    assert_eq!(
        reads_of_a_round(&mut env),
        counted(&[("list RoleBinding", 1), ("get Role", 2)])
    );

    let cluster_rules = json!([permission("demo", "example.com", "demos")["rules"][0]]);
    put_all(&mut env, unlabelled("", "wide", cluster_rules));
    let asked = csv("a", "")["spec"]["install"]["spec"].clone();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": asked}}}),
    );
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(
        reads_of_a_round(&mut env),
        counted(&[
            ("list RoleBinding", 1),
            ("get Role", 2),
            ("list ClusterRoleBinding", 1),
            ("get ClusterRole", 1),
        ])
    );
}

/// Users write the role reference of a binding and the account of a permission. A question mark would request
/// another object, and a space makes an invalid request, which would make every observation fail.
#[test]
fn a_binding_to_what_cannot_be_a_name_gives_nothing_and_stops_nothing() {
    let rules = permission("demo", "", "configmaps")["rules"].clone();
    let [role, binding] = unlabelled("ns", "mine", rules);
    let mut env = prepared_for(&["ns"]);
    env.by_hand = true;
    put_all(&mut env, [account(), role]);
    for (name, role) in [("one", "mine?"), ("two", "no name")] {
        let mut odd = binding.clone();
        odd["metadata"]["name"] = json!(name);
        odd["roleRef"]["name"] = json!(role);
        env.put(odd);
    }
    env.put(demo());
    env.settle_for(40);
    unmet(&env);
    env.put(binding);
    env.settle_for(40);
    succeeded(&env, "a");
}

#[test]
fn an_account_that_cannot_be_a_name_does_not_exist_and_stops_nothing() {
    let mut csv = demo();
    csv["spec"]["install"]["spec"]["permissions"] = json!([permission("no name", "", "configmaps")]);
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"]));
    env.by_hand = true;
    env.put(csv);
    env.settle_for(40);
    assert_eq!(message(&env), "Service account does not exist");
    env.put(crd("demos.example.com"));
    env.settle_for(40);
    let status = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
    let rows = status["requirementStatus"].as_array().unwrap();
    let row = rows.iter().find(|row| row["kind"] == "CustomResourceDefinition");
    assert_eq!(row.unwrap()["status"], "Present");
}

/// While a plan is being carried out what it makes is not looked for; but this one has all it needs already.
#[test]
fn a_subscription_that_comes_takes_nothing_from_an_operator_that_runs() {
    let mut env = by_hand(&["ns"], false);
    env.settle_for(5);
    succeeded(&env, "a");
    env.log.clear();
    env.put(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"namespace": "ns", "name": "demo"}, "spec": {"name": "demo", "source": "cat", "sourceNamespace": "ns"},
        "status": {"installedCSV": "a", "currentCSV": "a"}}));
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(env.log, [""; 0]);
}

/// It is deleted with the other ClusterServiceVersion, and this one must not lose its rights then.
#[test]
fn a_role_or_binding_that_was_made_for_another_csv_gives_nothing() {
    let rules = permission("demo", "", "configmaps")["rules"].clone();
    for of_another in 0..2 {
        let mut both = unlabelled("ns", "mine", rules.clone());
        both[of_another]["metadata"]["labels"] = json!({"olm.owner": "other", "olm.owner.namespace": "ns",
            "olm.owner.kind": "ClusterServiceVersion"});
        let mut env = prepared_for(&["ns"]);
        env.by_hand = true;
        put_all(&mut env, both);
        put_all(&mut env, [account(), demo()]);
        env.settle_for(20);
        unmet(&env);
    }
}
