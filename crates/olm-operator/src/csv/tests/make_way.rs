//! A running operator with a missing requirement is replaced by the version that provides it.

use serde_json::json;

use super::{installed, succeeded};
use crate::test_env::{TestEnv, crd, csv, group};

/// The upgrade provides the missing requirement.
#[test]
fn one_that_runs_and_lacks_a_requirement_makes_way() {
    let mut env = installed();
    env.delete("CustomResourceDefinition", "", "demos.example.com");
    env.settle_for(5);
    assert!(
        env.status("a").starts_with("Pending RequirementsNotMet"),
        "{}",
        env.status("a")
    );
    let mut newer = csv("b", "a");
    newer["spec"]["customresourcedefinitions"]["owned"][0]["name"] = json!("others.example.com");
    newer["spec"]["customresourcedefinitions"]["owned"][0]["kind"] = json!("Other");
    env.put(crd("others.example.com"));
    env.put(newer);
    env.settle_for(20);
    succeeded(&env, "b");
    assert_eq!(env.status("a"), "gone");
}

/// An operator that never ran waits for its requirements, and its successor waits for it.
#[test]
fn one_that_never_ran_makes_no_way() {
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"])).with(csv("a", ""));
    env.put(csv("b", "a"));
    env.settle_for(20);
    assert!(
        env.status("a").starts_with("Pending RequirementsNotMet"),
        "{}",
        env.status("a")
    );
}
