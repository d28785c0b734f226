//! The phases as users see them: a model cluster, the objects put into it, and its final state.

mod adopted;
mod any_csv;
mod api_services;
mod certificates;
mod changeover;
mod conversions;
mod decisions;
mod gates;
mod hand_edits;
mod held_up;
mod install;
mod intersection;
mod make_way;
mod membership;
mod mends;
mod order;
pub(crate) mod properties;
mod proxy;
mod reach;
mod refusals;
mod requirements;
mod rights;
mod rollouts;
mod service_names;
mod serving;
mod serving_edits;
mod status;
mod taken_over;
mod tenants;
mod transitions;
mod triggers;
mod upgrades;
mod upstream;

use serde_json::Value;

use crate::test_env::{TestEnv, crd, csv, group};

/// Prepares a namespace with its own OperatorGroup and the demo's CustomResourceDefinition; nothing is
/// installed.
fn prepared() -> TestEnv {
    prepared_for(&["ns"])
}

/// Prepares the same with an OperatorGroup for these namespaces; for all if there are none.
fn prepared_for(targets: &[&str]) -> TestEnv {
    TestEnv::new()
        .with(group("ns", "og", targets))
        .with(crd("demos.example.com"))
}

/// The demo `a`, installed and running.
#[track_caller]
fn installed() -> TestEnv {
    let mut env = prepared().with(csv("a", ""));
    env.settle_for(5);
    assert_eq!(
        env.status("a"),
        "Succeeded InstallSucceeded: install strategy completed with no errors"
    );
    env
}

/// Asserts that it is installed, with any message.
#[track_caller]
fn succeeded(env: &TestEnv, name: &str) {
    let status = env.status(name);
    assert!(status.starts_with("Succeeded"), "{status}");
}

/// The demo with changes.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut csv = csv(name, "");
    change(&mut csv["spec"]);
    csv
}

/// Asserts the final status of the demo with these changes.
#[track_caller]
fn rests(env: &mut TestEnv, csv: Value, expected: &str) {
    let name = csv["metadata"]["name"].as_str().unwrap().to_owned();
    env.put(csv);
    env.settle_for(5);
    assert_eq!(env.status(&name), expected);
}
