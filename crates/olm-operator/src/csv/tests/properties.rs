//! Properties of every story: a final state stays final, and a process killed at any point ends in the same
//! state.

use olm_testing::stage::{
    Stage,
    story::{Interruption, Story, StoryEnv, assert_rests, every_interruption, tell},
};
use serde_json::{Value, json};

use super::{conversions::converting, prepared};
use crate::{
    csv::decide::decide,
    test_env::{
        TestEnv, csv, csv_key, csv_with_webhooks, deployment, group, is_for_users, namespace_object,
        subscription,
    },
};

/// A change of the cluster.
#[derive(Clone)]
pub(crate) enum Step {
    Put(Value),
    Edit(&'static str, &'static str, Value),
    Delete(&'static str, &'static str),
    /// Sets these conditions on the Deployment `demo` from now on.
    Sick(Value),
    Healthy,
}

use Step::{Delete, Edit, Healthy, Put, Sick};

/// Steps on a prepared cluster, one after the other, with time to settle in between.
fn stories() -> Vec<Story<Step>> {
    let mut two_deployments = csv("a", "");
    two_deployments["spec"]["install"]["spec"]["deployments"] =
        json!([deployment("demo", "demo:1"), deployment("second", "demo:1")]);
    let mut renamed = csv("b", "a");
    renamed["spec"]["install"]["spec"]["deployments"] = json!([deployment("renamed", "demo:2")]);
    let mut reselected = csv("b", "a");
    let entry = &mut reselected["spec"]["install"]["spec"]["deployments"][0]["spec"];
    entry["selector"] = json!({"matchLabels": {"app": "other"}});
    entry["template"]["metadata"]["labels"] = json!({"app": "other"});
    let mut unsupported = csv("a", "");
    unsupported["spec"]["installModes"] = json!([]);
    let configured = subscription("a", json!({"env": [{"name": "A", "value": "b"}]}));
    let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    let targets = |targets: Value| {
        Edit(
            "OperatorGroup",
            "og",
            json!({"spec": {"targetNamespaces": targets}}),
        )
    };
    vec![
        ("install", vec![Put(csv("a", ""))]),
        (
            "install with a configuration",
            vec![Put(configured), Put(csv("a", ""))],
        ),
        ("upgrade", vec![Put(csv("a", "")), Put(csv("b", "a"))]),
        (
            "chain",
            vec![Put(csv("a", "")), Put(csv("b", "a")), Put(csv("c", "b"))],
        ),
        ("another Deployment", vec![Put(two_deployments), Put(renamed)]),
        ("another selector", vec![Put(csv("a", "")), Put(reselected)]),
        (
            "all namespaces",
            vec![Put(group("ns", "og", &[])), Put(csv("a", ""))],
        ),
        (
            "upgrade in all namespaces",
            vec![Put(group("ns", "og", &[])), Put(csv("a", "")), Put(csv("b", "a"))],
        ),
        ("unsupported", vec![Put(unsupported)]),
        (
            "removal",
            vec![Put(csv("a", "")), Delete("ClusterServiceVersion", "a")],
        ),
        ("failed and mended", vec![Sick(stuck), Put(csv("a", "")), Healthy]),
        (
            "other targets",
            vec![
                Put(namespace_object("one")),
                Put(csv("a", "")),
                targets(json!(["ns", "one"])),
                targets(json!(["ns"])),
            ],
        ),
        ("webhooks", vec![Put(csv_with_webhooks("a", ""))]),
        (
            "webhooks upgraded and removed",
            vec![
                Put(csv_with_webhooks("a", "")),
                Put(csv_with_webhooks("b", "a")),
                Delete("ClusterServiceVersion", "b"),
            ],
        ),
        (
            "conversion, upgraded and removed",
            vec![
                Put(group("ns", "og", &[])),
                Put(converting("a", "")),
                Put(converting("b", "a")),
                Delete("ClusterServiceVersion", "b"),
            ],
        ),
        (
            "certificate deleted",
            vec![
                Put(csv_with_webhooks("a", "")),
                Delete("Secret", "demo-service-cert"),
            ],
        ),
        (
            "Deployment deleted",
            vec![Put(csv("a", "")), Delete("Deployment", "demo")],
        ),
    ]
}

impl StoryEnv for TestEnv {
    type Step = Step;

    fn begin() -> Self {
        prepared()
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn take(&mut self, step: &Step) {
        match step.clone() {
            Put(object) => self.put(object),
            Edit(kind, name, patch) => self.edit(kind, "ns", name, patch),
            Delete(kind, name) => self.delete(kind, "ns", name),
            Sick(conditions) => drop(self.sick.insert("demo".into(), conditions)),
            Healthy => self.sick.clear(),
        }
    }

    fn rest(&mut self) {
        self.settle_long();
    }

    fn go_on(&mut self, seconds: u64) {
        self.settle_for(seconds);
    }

    fn writes(&self) -> &[String] {
        &self.writes
    }
}

#[test]
fn deciding_on_the_converged_state_writes_nothing() {
    for (name, story) in stories() {
        let mut env = prepared();
        tell(&mut env, &story);
        assert_rests(&mut env, name, 30, None);
        for csv in ["a", "b", "c"] {
            if let Some(observed) = env.observe(&csv_key(csv)) {
                let (plan, verdict) = decide(&observed, env.now);
                assert!(
                    plan.is_empty() && verdict.transitions.is_empty(),
                    "{name}: {csv}: {plan}"
                );
            }
        }
    }
}

#[test]
fn a_process_killed_after_any_write_ends_in_the_same_place() {
    every_interruption::<TestEnv>("interruptions of olm-operator", stories(), Interruption::Kill);
}

#[test]
fn an_answer_lost_after_any_write_changes_nothing_in_the_end() {
    let what = "interruptions of olm-operator";
    every_interruption::<TestEnv>(what, stories(), Interruption::LoseAnswer);
}

#[test]
fn an_install_costs_few_writes() {
    let mut env = prepared();
    env.settle();
    env.writes.clear();
    env.put(csv("a", ""));
    env.settle_for(10);
    let ours: Vec<&String> = env
        .writes
        .iter()
        .filter(|write| !write.starts_with("kubernetes"))
        .collect();
    let (for_users, ours): (Vec<_>, Vec<_>) = ours.into_iter().partition(|write| is_for_users(write));
    assert!(ours.len() <= 9, "{ours:#?}");
    assert_eq!(
        for_users.len(),
        7,
        "each ClusterRole for users once: {for_users:#?}"
    );
}

#[test]
fn a_healthy_operator_comes_back_to_succeeded_from_every_phase_and_reason() {
    let reasons = [
        "",
        "RequirementsUnknown",
        "RequirementsNotMet",
        "AllRequirementsMet",
        "OwnerConflict",
        "InstallComponentFailed",
        "InstallComponentFailedNoRetry",
        "InvalidInstallStrategy",
        "InstallWaiting",
        "InstallSucceeded",
        "InstallCheckFailed",
        "ComponentUnhealthy",
        "BeingReplaced",
        "NeedsReinstall",
        "InvalidInstallModes",
        "NoTargetNamespaces",
        "UnsupportedOperatorGroup",
        "NoOperatorGroup",
        "TooManyOperatorGroups",
        "InterOperatorGroupOwnerConflict",
        "CannotModifyStaticOperatorGroupProvidedAPIs",
        "OperatorConditionNotUpgradeable",
        "SomethingElse",
    ];
    let mut env = prepared();
    tell(&mut env, &[Put(csv("a", ""))]);
    let rest = env.normalised();
    for phase in ["", "Pending", "InstallReady", "Installing", "Failed", "Replacing"] {
        for reason in reasons {
            let status = json!({"status": {"phase": phase, "reason": reason, "message": "written by hand"}});
            // A user who edits without pause would be slowed down to this rate.
            env.settle_for(60);
            env.edit("ClusterServiceVersion", "ns", "a", status);
            let writes = env.writes.len();
            env.settle();
            assert_eq!(
                env.normalised(),
                rest,
                "{phase} {reason}: {:#?}",
                &env.writes[writes..]
            );
            // A ClusterServiceVersion that returns from phase Replacing is checked in another reconcile.
            let rounds = if phase == "Replacing" { 2 } else { 1 };
            assert_eq!(
                env.writes.len(),
                writes + rounds,
                "{phase} {reason}: {:#?}",
                &env.writes[writes..]
            );
        }
    }
}
