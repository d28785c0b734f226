//! Keys are only created in a reconcile that installs.

use serde_json::json;

use super::{prepared, succeeded};
use crate::test_env::{TestEnv, crd, csv, csv_key, csv_with_webhooks, group};

/// Returns whether a reconcile now would find a missing certificate, and whether it would issue one.
#[track_caller]
fn lacks_and_makes(env: &mut TestEnv, name: &str) -> (bool, bool) {
    let serving = env.observe(&csv_key(name)).expect("it exists").serving;
    (!serving.unfit.is_empty(), !serving.issued.is_empty())
}

#[test]
fn a_csv_that_waits_for_requirements_has_no_keys_made() {
    let mut env = TestEnv::new()
        .with(group("ns", "og", &["ns"]))
        .with(csv_with_webhooks("a", ""));
    env.settle_for(60);
    assert!(env.status("a").starts_with("Pending RequirementsNotMet"));
    assert_eq!(lacks_and_makes(&mut env, "a"), (true, false));
    env.put(crd("demos.example.com"));
    assert_eq!(
        lacks_and_makes(&mut env, "a"),
        (true, true),
        "this round installs"
    );
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(lacks_and_makes(&mut env, "a"), (false, false));
}

#[test]
fn a_successor_that_may_not_come_yet_has_no_keys_made() {
    let mut env = prepared();
    env.put(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    let refuses = json!({"spec": {"overrides": [{"type": "Upgradeable", "status": "False", "reason": "r", "message": "no"}]}});
    env.edit("OperatorCondition", "ns", "a", refuses);
    env.put(csv_with_webhooks("b", "a"));
    env.settle_for(60);
    assert!(
        env.status("b")
            .starts_with("Pending OperatorConditionNotUpgradeable"),
        "{}",
        env.status("b")
    );
    assert_eq!(lacks_and_makes(&mut env, "b"), (true, false));
}

#[test]
fn a_csv_whose_gate_is_closed_has_no_keys_made() {
    let mut env = prepared()
        .with(group("ns", "second", &["ns"]))
        .with(csv_with_webhooks("a", ""));
    env.settle_for(60);
    assert!(env.status("a").starts_with("Failed TooManyOperatorGroups"));
    assert_eq!(lacks_and_makes(&mut env, "a"), (true, false));
}

#[test]
fn a_csv_whose_deployment_makes_way_has_no_keys_made() {
    let mut env = prepared().with(csv_with_webhooks("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    env.kill();
    let mut spec = csv_with_webhooks("a", "")["spec"].clone();
    let deployment = &mut spec["install"]["spec"]["deployments"][0]["spec"];
    deployment["selector"]["matchLabels"] = json!({"app": "other"});
    deployment["template"]["metadata"]["labels"] = json!({"app": "other"});
    env.edit("ClusterServiceVersion", "ns", "a", json!({"spec": spec}));
    env.delete("Secret", "ns", "demo-service-cert");
    assert_eq!(lacks_and_makes(&mut env, "a"), (true, false));
    env.settle_for(30);
    succeeded(&env, "a");
    assert_eq!(lacks_and_makes(&mut env, "a"), (false, false));
}
