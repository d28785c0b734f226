//! OLMConfig `disableCopiedCSVs`.

use serde_json::{Value, json};

use super::{copies, installed_for};
use crate::test_env::{PROTECTED, TestEnv, csv, namespace_object};

fn config(is_off: Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster", "generation": 1},
        "spec": {"features": {"disableCopiedCSVs": is_off}}})
}

fn switch(env: &mut TestEnv, is_off: Value) {
    env.edit(
        "OLMConfig",
        "",
        "cluster",
        json!({"spec": {"features": {"disableCopiedCSVs": is_off}}}),
    );
    env.settle();
}

#[test]
fn copy_006_without_a_setting_copies_are_made() {
    let mut env = installed_for(&[]);
    assert_eq!(copies(&env), ["one", "two"]);
    env.put(config(Value::Null));
    env.settle_for(10);
    assert_eq!(copies(&env), ["one", "two"]);
}

#[test]
fn copy_007_copies_go_but_for_protected_namespaces() {
    let mut env = installed_for(&[]);
    env.put(namespace_object(PROTECTED));
    env.put(config(json!(false)));
    env.settle();
    assert_eq!(copies(&env), ["one", PROTECTED, "two"]);
    switch(&mut env, json!(true));
    assert_eq!(copies(&env), [PROTECTED]);
    env.put(namespace_object("late"));
    env.settle_for(10);
    assert_eq!(copies(&env), [PROTECTED]);
}

#[test]
fn copy_008_copies_come_back_with_the_setting_and_without_it() {
    let mut env = installed_for(&[]);
    env.put(config(json!(true)));
    env.settle();
    assert_eq!(copies(&env), [""; 0]);
    switch(&mut env, json!(false));
    assert_eq!(copies(&env), ["one", "two"]);
    switch(&mut env, json!(true));
    assert_eq!(copies(&env), [""; 0]);
    env.delete("OLMConfig", "", "cluster");
    env.settle();
    assert_eq!(copies(&env), ["one", "two"]);
}

#[test]
fn copies_of_operators_for_named_namespaces_stay() {
    let mut env = installed_for(&["ns", "one"]);
    env.put(config(json!(true)));
    env.settle_for(10);
    assert_eq!(copies(&env), ["one"]);
}

#[test]
fn an_operator_that_comes_later_is_not_copied() {
    let mut env = installed_for(&[]);
    env.put(config(json!(true)));
    env.settle();
    env.put(csv("b", "a"));
    env.settle_for(30);
    let names = env.names("ClusterServiceVersion");
    assert_eq!(names, ["ns/b"]);
}

#[test]
fn another_configuration_says_nothing() {
    let mut env = installed_for(&[]);
    let mut other = config(json!(true));
    other["metadata"]["name"] = json!("other");
    env.put(other);
    env.settle();
    assert_eq!(copies(&env), ["one", "two"]);
}
