//! Copies on the cluster in memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use olm_runtime::outcome::FailureClass;
use olm_testing::cluster::Verb;
use olm_testing::stage::story::{Interruption, Story, every_interruption};
use serde_json::{Value, json};

use super::{copies, copy, installed_for, prepared_for, shown};
use crate::csv::tests::properties::Step::{self, Delete, Edit, Put};
use crate::test_env::{TestEnv, csv, group, namespace_object};

const CSV: &str = "ClusterServiceVersion";

/// Returns OLM's writes to the copy in `namespace`.
fn writes_in(env: &TestEnv, namespace: &str) -> Vec<String> {
    let of_copy = format!("{CSV} {namespace}/a");
    let own = env.writes.iter().filter(|write| !write.starts_with("kubernetes"));
    own.filter(|write| write.contains(&of_copy)).cloned().collect()
}

#[test]
fn copy_001_every_target_namespace_shows_the_operator() {
    for (targets, expected) in [
        (&[][..], vec!["one", "two"]),
        (&["ns", "two"], vec!["two"]),
        (&["ns"], vec![]),
    ] {
        let env = installed_for(targets);
        assert_eq!(copies(&env), expected, "{targets:?}");
    }
    let env = installed_for(&[]);
    let (found, original) = (copy(&env, "one"), env.get(CSV, "ns", "a").unwrap());
    assert_eq!(found["spec"], original["spec"]);
    assert_eq!(found["metadata"]["labels"], json!({"olm.copiedFrom": "ns"}));
    assert_eq!(
        found["metadata"]["annotations"],
        json!({"capabilities": "Basic Install", "olm.operatorGroup": "og", "olm.operatorNamespace": "ns"})
    );
    let mut status = original["status"].clone();
    status["reason"] = json!("Copied");
    status["message"] = json!("The operator is running in ns but is managing this namespace");
    assert_eq!(found["status"], status);
    assert_eq!(found["metadata"]["finalizers"], Value::Null);
    assert_eq!(found["metadata"]["ownerReferences"], Value::Null);
}

#[test]
fn csv_002_what_is_shown_of_an_operator_stays_as_it_was_written_and_is_shown_by_its_copies() {
    let mut env = prepared_for(&[]);
    let mut shown = csv("a", "");
    shown["metadata"]["labels"] = json!({"team": "x"});
    let described = json!({"displayName": "My Operator", "version": "1.0.1", "description": "# What it does\n\nAll.",
        "labels": {"tier": "gold"}, "keywords": ["demo"], "maturity": "stable", "provider": {"name": "Example"},
        "maintainers": [{"name": "Someone", "email": "someone@example.com"}],
        "links": [{"name": "Source", "url": "https://example.com/source"}],
        "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}]});
    for (field, value) in described.as_object().unwrap() {
        shown["spec"][field] = value.clone();
    }
    env.put(shown.clone());
    env.settle_for(10);
    let original = env.get(CSV, "ns", "a").unwrap();
    assert_eq!(original["status"]["phase"], "Succeeded");
    for found in [original, copy(&env, "one")] {
        assert_eq!(found["spec"], shown["spec"]);
        assert_eq!(found["metadata"]["labels"]["team"], "x");
    }
}

/// The goals P7 and P8: two requests for a copy, one for a change, and a few for all copies together.
#[test]
fn a_copy_costs_two_writes_and_a_change_of_its_original_one() {
    let mut env = prepared_for(&[]);
    let names: Vec<String> = (0..100).map(|index| format!("far-{index}")).collect();
    for name in &names {
        env.put(namespace_object(name));
    }
    let reads = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reads);
    env.cluster.on_request(move |request| {
        let is_read = request.verb == Verb::Get && request.kind.kind == CSV;
        count.fetch_add(usize::from(is_read), Ordering::Relaxed);
        None
    });
    env.put(csv("a", ""));
    env.settle_for(10);
    for name in &names {
        let writes = writes_in(&env, name);
        assert_eq!(writes.len(), 2, "{writes:#?}");
    }
    let before = reads.load(Ordering::Relaxed);
    assert!(before <= 3, "{before} reads");
    env.writes.clear();
    env.edit(CSV, "ns", "a", json!({"spec": {"displayName": "Renamed"}}));
    env.settle_for(10);
    for name in &names {
        assert_eq!(writes_in(&env, name).len(), 1, "{:#?}", writes_in(&env, name));
        assert_eq!(copy(&env, name)["spec"]["displayName"], "Renamed");
    }
    let more = reads.load(Ordering::Relaxed) - before;
    assert!(more <= 3, "{more} reads");
    env.writes.clear();
    env.settle_for(120);
    env.kill();
    env.settle_for(120);
    assert_eq!(
        env.writes, [""; 0],
        "a new process looks at all and writes nothing"
    );
}

#[test]
fn changes_of_a_copy_are_undone_without_a_reconcile_of_its_original() {
    let mut env = installed_for(&[]);
    let before = shown(copy(&env, "one"));
    let rows = [
        json!({"spec": {"displayName": "Forged"}}),
        json!({"spec": {"install": {"spec": {"deployments": []}}}}),
        json!({"metadata": {"labels": {"more": "x"}}}),
        json!({"metadata": {"labels": {"olm.copiedFrom": null}}}),
        json!({"metadata": {"annotations": {"olm.operatorNamespace": "one"}}}),
        json!({"metadata": {"annotations": {"olm.targetNamespaces": ""}}}),
        json!({"status": {"phase": "Failed", "message": "forged", "more": 1}}),
        json!({"status": null}),
    ];
    for edit in rows {
        env.writes.clear();
        env.edit(CSV, "one", "a", edit.clone());
        env.settle();
        assert_eq!(shown(copy(&env, "one")), before, "{edit}");
        assert_eq!(env.writes.len(), 1, "{edit}: {:#?}", env.writes);
    }
    env.writes.clear();
    env.delete(CSV, "one", "a");
    env.settle();
    assert_eq!(shown(copy(&env, "one")), before);
    assert_eq!(
        env.writes.len(),
        writes_in(&env, "one").len(),
        "{:#?}",
        env.writes
    );
}

/// If the label names another namespace as the origin, the copy is deleted because it has no original there,
/// and is then recreated.
#[test]
fn a_copy_labelled_for_another_namespace_is_corrected() {
    let mut env = installed_for(&[]);
    let before = shown(copy(&env, "one"));
    let label = json!({"metadata": {"labels": {"olm.copiedFrom": "two"}}});
    env.edit(CSV, "one", "a", label);
    env.settle();
    assert_eq!(shown(copy(&env, "one")), before);
}

#[test]
fn copy_004_copies_go_with_their_original() {
    let mut env = installed_for(&[]);
    env.delete(CSV, "ns", "a");
    env.settle_for(10);
    assert_eq!(env.names(CSV), [""; 0]);
}

/// The original was deleted while OLM was down.
#[test]
fn copy_004_copies_without_an_original_are_found_by_a_new_process() {
    let mut env = installed_for(&[]);
    env.kill();
    env.edit(CSV, "ns", "a", json!({"metadata": {"finalizers": null}}));
    env.delete(CSV, "ns", "a");
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"status": {"namespaces": ["ns"]}, "spec": {"targetNamespaces": ["ns"]}}),
    );
    env.settle_for(10);
    assert_eq!(env.names(CSV), [""; 0]);
}

#[test]
fn copy_005_copies_follow_the_targets_of_the_group_and_the_namespaces() {
    let mut env = installed_for(&["ns", "one"]);
    let target = |env: &mut TestEnv, namespaces: Value| {
        env.edit(
            "OperatorGroup",
            "ns",
            "og",
            json!({"spec": {"targetNamespaces": namespaces}}),
        );
        env.settle_for(10);
    };
    assert_eq!(copies(&env), ["one"]);
    target(&mut env, json!(["ns", "two", "three"]));
    assert_eq!(copies(&env), ["two"], "three is not there yet");
    env.put(namespace_object("three"));
    env.settle();
    assert_eq!(copies(&env), ["three", "two"]);
    target(&mut env, Value::Null);
    assert_eq!(copies(&env), ["one", "three", "two"]);
    env.put(namespace_object("four"));
    env.settle();
    assert_eq!(copies(&env), ["four", "one", "three", "two"]);
    target(&mut env, json!(["ns"]));
    assert_eq!(copies(&env), [""; 0]);
}

/// Deleting a copy deletes the objects it owns, and a group that is replaced is missing for a moment.
#[test]
fn copies_outlast_their_group_and_go_when_the_next_does_not_target_their_namespace() {
    let mut env = installed_for(&[]);
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(10);
    assert_eq!(copies(&env), ["one", "two"]);
    assert_eq!(copy(&env, "one")["status"]["phase"], "Failed");
    env.put(group("ns", "og", &["one"]));
    env.settle_for(10);
    assert_eq!(copies(&env), ["one"]);
    env.delete("OperatorGroup", "ns", "og");
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(10);
    assert_eq!(copies(&env), [""; 0]);
}

/// Upstream keeps their last status without an error.
#[test]
fn copy_003_copies_of_what_does_not_fit_its_group_any_more_say_so() {
    let mut env = installed_for(&[]);
    env.put(group("ns", "second", &["one"]));
    env.settle_for(10);
    assert_eq!(copies(&env), ["one", "two"]);
    assert_eq!(copy(&env, "one")["status"]["phase"], "Failed");
    assert_eq!(copy(&env, "one")["status"]["reason"], "Copied");
}

#[test]
fn a_namespace_that_refuses_its_copy_is_reported_once_and_stops_no_other() {
    for class in [FailureClass::Forbidden, FailureClass::Invalid] {
        let mut env = prepared_for(&[]);
        env.refused.insert(format!("{CSV} one"), class);
        env.put(csv("a", ""));
        env.settle_for(10);
        assert_eq!(copies(&env), ["two"]);
        env.settle_for(300);
        let told = |event: &&String| event.contains("CopyRefused") && event.contains("namespace one");
        assert_eq!(env.events.iter().filter(told).count(), 1, "{:?}", env.events);
        let tries = writes_in(&env, "one").len();
        // After 5, 10, 20 and 40 seconds, and then every minute.
        assert!((3..=10).contains(&tries), "{tries} tries in five minutes");
        env.refused.clear();
        env.settle_for(61);
        assert_eq!(copies(&env), ["one", "two"]);
    }
}

#[test]
fn nothing_is_written_into_a_namespace_on_its_way_out() {
    let mut env = installed_for(&[]);
    let held = json!({"metadata": {"finalizers": ["held"]}});
    env.edit("Namespace", "", "one", held);
    env.delete("Namespace", "", "one");
    env.settle();
    env.writes.clear();
    env.edit(CSV, "ns", "a", json!({"spec": {"displayName": "Renamed"}}));
    env.settle_for(120);
    assert_eq!(writes_in(&env, "one"), [""; 0]);
    assert_eq!(writes_in(&env, "two").len(), 1);
}

/// The same operator, installed in two namespaces: only one of them can have its copy in a third.
#[test]
fn the_first_of_two_with_one_name_is_shown_until_it_is_deleted() {
    let mut env = installed_for(&["ns", "one"]);
    let mut second = csv("a", "");
    second["metadata"]["namespace"] = json!("two");
    second["spec"]["customresourcedefinitions"] = json!({});
    second["spec"]["install"]["spec"]["permissions"] = json!([]);
    second["spec"]["install"]["spec"]["clusterPermissions"] = json!([]);
    env.put(group("two", "og", &["two", "one"]));
    env.put(second);
    // The ClusterRoles of a group without APIs wait a while.
    env.settle_for(40);
    let from = |env: &TestEnv| copy(env, "one")["metadata"]["labels"]["olm.copiedFrom"].clone();
    assert_eq!(from(&env), "ns");
    env.writes.clear();
    env.settle_for(120);
    assert_eq!(env.writes, [""; 0]);
    env.delete(CSV, "ns", "a");
    env.settle_for(10);
    assert_eq!(from(&env), "two");
}

/// Users who can create ClusterServiceVersions in a namespace can write any annotations.
#[test]
fn annotations_of_an_original_carry_it_nowhere() {
    let mut env = prepared_for(&["ns"]);
    let mut forged = csv("a", "");
    forged["metadata"]["annotations"] =
        json!({"olm.operatorGroup": "og", "olm.operatorNamespace": "ns", "olm.targetNamespaces": ""});
    env.put(forged);
    env.settle_for(30);
    assert_eq!(copies(&env), [""; 0]);
}

fn stories() -> Vec<Story<Step>> {
    let far = || Put(namespace_object("far"));
    let global = || Put(group("ns", "og", &[]));
    let targets = |targets: Value| {
        Edit(
            "OperatorGroup",
            "og",
            json!({"spec": {"targetNamespaces": targets}}),
        )
    };
    vec![
        ("copied", vec![far(), global(), Put(csv("a", ""))]),
        (
            "copied and edited",
            vec![
                far(),
                global(),
                Put(csv("a", "")),
                Edit(CSV, "a", json!({"spec": {"displayName": "x"}})),
            ],
        ),
        (
            "copied and deleted",
            vec![far(), global(), Put(csv("a", "")), Delete(CSV, "a")],
        ),
        (
            "narrowed and widened",
            vec![
                global(),
                Put(csv("a", "")),
                far(),
                targets(json!(["ns"])),
                targets(Value::Null),
            ],
        ),
        (
            "upgraded",
            vec![far(), global(), Put(csv("a", "")), Put(csv("b", "a"))],
        ),
    ]
}

#[test]
fn copies_come_out_the_same_after_a_kill_at_any_write() {
    every_interruption::<TestEnv>("kills of copies", stories(), Interruption::Kill);
}

#[test]
fn copies_come_out_the_same_after_a_lost_answer_to_any_write() {
    every_interruption::<TestEnv>("lost answers to copies", stories(), Interruption::LoseAnswer);
}

#[test]
fn converged_copies_need_nothing() {
    let mut env = installed_for(&[]);
    for namespace in ["one", "two", "ns"] {
        assert_eq!(env.plan_of_copy("ns", "a", namespace), "", "{namespace}");
    }
    env.kill();
    env.edit(CSV, "one", "a", json!({"spec": {"displayName": "x"}}));
    assert_eq!(
        env.plan_of_copy("ns", "a", "one"),
        format!("replace {CSV} one/a\n")
    );
}

/// A copy that is given the finalizer of operators stays a copy.
#[test]
fn a_copy_that_is_given_the_finalizer_is_a_copy() {
    let mut env = installed_for(&["one", "two"]);
    let before = shown(copy(&env, "one"));
    let own = json!(["theirs", "operators.coreos.com/csv-cleanup"]);
    env.edit(CSV, "one", "a", json!({"metadata": {"finalizers": own}}));
    env.settle_for(60);
    assert_eq!(shown(copy(&env, "one")), before);
    assert_eq!(env.get("Deployment", "one", "demo"), None);
    env.edit(CSV, "one", "a", json!({"metadata": {"finalizers": null}}));
    env.writes.clear();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
    env.delete(CSV, "ns", "a");
    env.settle_for(60);
    assert_eq!(copies(&env), [""; 0]);
}
