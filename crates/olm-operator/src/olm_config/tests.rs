//! Reports of OLMConfig about copies, on the cluster in memory.

use serde_json::{Value, json};

use crate::test_env::{TestEnv, crd, csv, group, namespace_object};

fn installed() -> TestEnv {
    let mut env = TestEnv::new();
    env.put(namespace_object("one"));
    env.put(group("ns", "og", &[]));
    env.put(crd("demos.example.com"));
    env.put(csv("a", ""));
    env.settle_for(10);
    env.put(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}}));
    env.settle_for(5);
    env
}

fn switch(env: &mut TestEnv, is_off: bool) {
    env.edit(
        "OLMConfig",
        "",
        "cluster",
        json!({"spec": {"features": {"disableCopiedCSVs": is_off}}}),
    );
    env.settle_for(5);
}

#[track_caller]
fn check(env: &TestEnv, status: &str, reason: &str, message: &str) {
    let config = env.get("OLMConfig", "", "cluster").unwrap();
    let [condition] = config["status"]["conditions"].as_array().unwrap().as_slice() else {
        panic!("{config}")
    };
    let part = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(part("type"), "DisabledCopiedCSVs");
    assert_eq!(
        [part("status"), part("reason"), part("message")],
        [status, reason, message].map(str::to_owned)
    );
    assert_eq!(condition["observedGeneration"], config["metadata"]["generation"]);
}

const PRESENT: &str = "Copied CSVs are enabled and present across the cluster";
const GONE: &str = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode";

fn told(env: &TestEnv) -> usize {
    let told = |event: &&String| {
        event.contains("DisabledCopiedCSVs") && event.contains("CSV copying disabled for ns/")
    };
    env.events.iter().filter(told).count()
}

#[test]
fn copy_007_copy_008_the_condition_says_whether_the_setting_is_in_force() {
    let mut env = installed();
    check(&env, "False", "CopiedCSVsEnabled", PRESENT);
    switch(&mut env, true);
    check(&env, "True", "CopiedCSVsDisabled", GONE);
    switch(&mut env, false);
    check(&env, "False", "CopiedCSVsEnabled", PRESENT);
}

#[test]
fn missing_and_surplus_copies_are_reported() {
    let mut env = installed();
    env.refused.insert(
        "ClusterServiceVersion two".into(),
        olm_runtime::outcome::FailureClass::Forbidden,
    );
    env.put(namespace_object("two"));
    env.settle_for(5);
    check(
        &env,
        "False",
        "CopiedCSVsEnabled",
        "Copied CSVs are enabled and at least one copied CSVs is missing",
    );
    env.refused.clear();
    env.settle_for(61);
    check(&env, "False", "CopiedCSVsEnabled", PRESENT);
    // It is deleted as soon as the finalizer is removed.
    env.edit(
        "ClusterServiceVersion",
        "two",
        "a",
        json!({"metadata": {"finalizers": ["held"]}}),
    );
    switch(&mut env, true);
    check(
        &env,
        "False",
        "CopiedCSVsDisabled",
        "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode",
    );
    env.edit(
        "ClusterServiceVersion",
        "two",
        "a",
        json!({"metadata": {"finalizers": null}}),
    );
    env.settle_for(5);
    check(&env, "True", "CopiedCSVsDisabled", GONE);
}

#[test]
fn an_operator_reports_once_that_it_is_not_copied() {
    let mut env = installed();
    assert_eq!(told(&env), 0);
    switch(&mut env, true);
    assert_eq!(told(&env), 1);
    env.put(namespace_object("two"));
    env.settle_for(60);
    env.kill();
    env.settle_for(60);
    assert_eq!(told(&env), 1, "{:?}", env.events);
    switch(&mut env, false);
    switch(&mut env, true);
    assert_eq!(told(&env), 2);
}

#[test]
fn at_rest_nothing_is_written_and_without_the_object_there_is_no_status() {
    let mut env = installed();
    env.put(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "other"}}),
    );
    env.settle_for(10);
    env.writes.clear();
    env.settle_for(60);
    env.kill();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
    assert_eq!(env.get("OLMConfig", "", "other").unwrap()["status"], Value::Null);
}

/// OLM does not delete it, so the condition does not wait for it.
#[test]
fn what_bears_only_the_label_of_copies_does_not_count() {
    let mut env = installed();
    switch(&mut env, true);
    let mut forged = csv("a", "");
    forged["metadata"]["namespace"] = json!("one");
    forged["metadata"]["labels"] = json!({"olm.copiedFrom": "ns"});
    env.put(forged);
    env.settle_for(60);
    assert_eq!(env.names("ClusterServiceVersion"), ["ns/a", "one/a"]);
    check(&env, "True", "CopiedCSVsDisabled", GONE);
}
