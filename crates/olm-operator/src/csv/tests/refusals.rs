//! A place that refuses a write delays no other place, and is reported.

use olm_runtime::outcome::FailureClass;
use serde_json::json;

use super::{prepared, prepared_for, succeeded};
use crate::test_env::{TestEnv, csv, is_for_users, namespace_object};

fn targets() -> TestEnv {
    let mut env = prepared_for(&["ns", "one", "two", "three"]);
    for name in ["one", "two", "three"] {
        env.put(namespace_object(name));
    }
    env
}

fn bound(env: &TestEnv) -> Vec<String> {
    let names = env.names("RoleBinding").into_iter();
    names
        .map(|name| name.split('/').next().unwrap().to_owned())
        .filter(|namespace| namespace != "ns")
        .collect()
}

#[test]
fn a_target_that_refuses_rights_keeps_them_from_no_other_and_is_named() {
    for class in [FailureClass::Forbidden, FailureClass::Retry] {
        let mut env = targets();
        for kind in ["Role", "RoleBinding"] {
            env.refused.insert(format!("{kind} one"), class);
        }
        env.put(csv("a", ""));
        env.settle_for(20);
        assert_eq!(bound(&env), ["three", "two"], "{class:?}");
        assert_eq!(env.names("Deployment"), ["ns/demo"], "{class:?}");
        succeeded(&env, "a");
        let reported = missing(&env);
        assert!(
            matches!(&reported[..], [role] if role.starts_with("rights are missing in namespace one: create Role one/")
                && role.ends_with("refused by the model")),
            "{class:?}: {reported:?}"
        );
        let statuses = |env: &TestEnv| {
            let writes = env.writes.iter();
            writes
                .filter(|write| write.ends_with("ClusterServiceVersion ns/a status"))
                .count()
        };
        let before = statuses(&env);
        env.settle_for(10);
        assert_eq!(statuses(&env), before, "it is told once");
        env.refused.clear();
        env.settle_for(70);
        succeeded(&env, "a");
        assert_eq!(bound(&env), ["one", "three", "two"]);
    }
}

/// Returns the messages of the status about missing rights beyond the namespace.
fn missing(env: &TestEnv) -> Vec<String> {
    let status = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
    let rows = status["requirementStatus"].as_array().into_iter().flatten();
    let messages = rows.filter_map(|row| row["message"].as_str());
    let messages = messages.filter(|message| message.starts_with("rights are missing "));
    messages.map(str::to_owned).collect()
}

/// Returns the phases of the operator, oldest first.
fn phases(env: &TestEnv) -> Vec<String> {
    let status = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
    let entries = status["conditions"].as_array().into_iter().flatten();
    let phases = entries.filter_map(|entry| entry["phase"].as_str());
    phases.map(str::to_owned).collect()
}

#[test]
fn a_running_operator_stays_succeeded_while_a_new_target_lacks_its_rights() {
    let mut env = targets();
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "one"]}}),
    );
    env.put(csv("a", ""));
    env.settle_for(10);
    succeeded(&env, "a");
    let seen = phases(&env).len();
    env.refused
        .insert("RoleBinding two".into(), FailureClass::Forbidden);
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "one", "two", "three"]}}),
    );
    env.settle_for(12);
    succeeded(&env, "a");
    assert_eq!(missing(&env).len(), 1, "{:?}", missing(&env));
    assert_eq!(bound(&env), ["one", "three"]);
    env.refused.clear();
    env.settle_for(70);
    succeeded(&env, "a");
    assert_eq!(missing(&env), [""; 0]);
    // The log also contains copies, whose history begins with Pending.
    let since = &phases(&env)[seen..];
    let is_bad = |phase: &&String| ["Pending", "Failed"].contains(&phase.as_str());
    assert_eq!(since.iter().find(is_bad), None, "{since:#?}");
}

/// A tenant who can make one target refuse writes, for example by a quota or a conflicting binding, must not
/// stop upgrades.
#[test]
fn a_target_that_refuses_rights_does_not_stop_an_upgrade() {
    for class in [FailureClass::Forbidden, FailureClass::Invalid] {
        let mut env = targets();
        env.put(csv("a", ""));
        env.settle_for(10);
        succeeded(&env, "a");
        env.refused.insert("RoleBinding two".into(), class);
        env.delete("RoleBinding", "two", &replica(&env, "two"));
        env.settle_for(15);
        env.put(csv("b", "a"));
        env.settle_for(60);
        succeeded(&env, "b");
        assert_eq!(env.status("a"), "gone");
    }
}

fn replica(env: &TestEnv, namespace: &str) -> String {
    let names = env.names("RoleBinding").into_iter();
    let mut within =
        names.filter_map(|name| Some(name.strip_prefix(namespace)?.strip_prefix('/')?.to_owned()));
    within.next().unwrap()
}

#[test]
fn rights_that_the_groups_account_may_not_grant_are_reported_and_tried_again() {
    let mut env = targets();
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "scoped"}}),
    );
    env.put(crate::test_env::service_account("scoped"));
    env.refused.insert("Role two".into(), FailureClass::Forbidden);
    env.put(csv("a", ""));
    env.settle_for(12);
    succeeded(&env, "a");
    assert_eq!(missing(&env).len(), 1, "{:?}", missing(&env));
    assert!(bound(&env).contains(&"three".to_owned()));
    env.refused.clear();
    env.settle_for(70);
    succeeded(&env, "a");
}

/// A refused Deployment keeps the orphan of an earlier strategy.
#[test]
fn a_refused_deployment_stops_what_comes_after_it() {
    let mut env = prepared();
    env.put(csv("a", ""));
    env.settle_for(5);
    env.refused.insert("Deployment".into(), FailureClass::Invalid);
    let renamed = json!([crate::test_env::deployment("renamed", "demo:2")]);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"deployments": renamed}}}}),
    );
    env.settle_for(10);
    assert_eq!(env.names("Deployment"), ["ns/demo"]);
}

#[test]
fn a_refused_membership_is_reported() {
    let mut env = prepared();
    env.refused
        .insert("OperatorGroup".into(), FailureClass::Forbidden);
    env.put(csv("a", ""));
    // A lasting refusal is reported at once.
    env.settle_for(2);
    assert_eq!(
        env.status("a"),
        "Pending RequirementsUnknown: requirements not yet checked; held up: cannot write the membership in the OperatorGroup: patch OperatorGroup ns/og: refused by the model"
    );
    env.refused.clear();
    env.settle_for(70);
    succeeded(&env, "a");
}

/// The group names an account that does not exist yet: nothing is written, neither as OLM nor as that
/// account.
#[test]
fn an_account_that_does_not_exist_yet_means_to_wait() {
    let mut env = prepared_for(&[]);
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "scoped"}}),
    );
    env.put(csv("a", ""));
    env.settle_for(20);
    assert_eq!(
        env.status("a"),
        "Pending RequirementsUnknown: please make sure the service account exists. sa=scoped operatorgroup=ns/og"
    );
    assert!(env.names("Deployment").is_empty());
    env.put(crate::test_env::service_account("another"));
    env.settle_for(5);
    assert!(env.names("Deployment").is_empty(), "another is not it");
    env.put(crate::test_env::service_account("scoped"));
    env.settle_for(5);
    succeeded(&env, "a");
    let own: Vec<&String> = env
        .writes
        .iter()
        .filter(|write| {
            (write.contains("Deployment ns/") || write.contains("ClusterRole"))
                && !write.starts_with("kubernetes")
        })
        .filter(|write| !write.ends_with("as ns/scoped") && !is_for_users(write))
        .collect();
    assert!(own.is_empty(), "{own:#?}");

    // A running operator does not change while the account changes.
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "next"}}),
    );
    let writes = env.writes.len();
    env.settle_for(20);
    assert_eq!(env.writes[writes..], ["patch OperatorGroup ns/og status"]);
    succeeded(&env, "a");
}
