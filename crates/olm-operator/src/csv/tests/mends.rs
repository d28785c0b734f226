//! Problems that stop a ClusterServiceVersion or not: mistakes in the group, taken names, descriptions that
//! became invalid.

use std::sync::Arc;

use olm_api::{
    condition::csv as reason,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::store::Change;
use serde_json::{Value, json};

use super::{
    decisions::{at_rest, edit, phases, put_in, stays},
    installed, prepared, rests, succeeded,
};
use crate::{
    csv::{
        decide::decide,
        install,
        observed::Observed,
        replacement::{Sibling, tests::in_phase},
        triggers,
    },
    test_env::{TestEnv, crd, csv, decode, group},
};

#[test]
fn a_slip_in_what_a_group_selects_changes_nothing_for_its_members() {
    for slip in [
        json!({"targetNamespaces": ["ns", ""]}),
        json!({"targetNamespaces": null, "selector": {"matchExpressions": [{"key": "x", "operator": "Bogus"}]}}),
    ] {
        let mut env = installed();
        env.edit("OperatorGroup", "ns", "og", json!({ "spec": slip }));
        let writes = env.writes.len();
        env.settle_for(700);
        succeeded(&env, "a");
        assert_eq!(env.writes[writes..], [] as [String; 0], "{slip}");
        let annotations = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["annotations"];
        assert_eq!(annotations["olm.targetNamespaces"], "ns");
    }
}

#[test]
fn a_group_that_never_selected_anything_valid_is_reported() {
    let mut env = TestEnv::new()
        .with(group("ns", "og", &["ns", ""]))
        .with(crd("demos.example.com"));
    rests(
        &mut env,
        csv("a", ""),
        "Failed NoTargetNamespaces: no targetNamespaces are matched operatorgroups namespace selection: TargetNamespaces cannot contain NamespaceAll: [ns ]",
    );
}

/// Another operator with the demo's Deployment, and without a common API.
fn rival() -> Value {
    let mut csv = csv("z", "");
    csv["spec"]["customresourcedefinitions"] = json!({});
    csv
}

#[test]
fn a_deployment_that_belongs_to_another_operator_is_left_to_it_until_that_goes() {
    let mut env = installed();
    let owner = |env: &TestEnv| {
        env.get("Deployment", "ns", "demo").unwrap()["metadata"]["labels"]["olm.owner"].clone()
    };
    rests(
        &mut env,
        rival(),
        "Failed OwnerConflict: Deployment demo belongs to ClusterServiceVersion a",
    );
    assert_eq!(owner(&env), "a");
    let writes = env.writes.len();
    env.settle_for(60);
    succeeded(&env, "a");
    assert_eq!(env.writes.len(), writes, "nobody fights");
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    succeeded(&env, "z");
    assert_eq!(owner(&env), "z");
}

#[test]
fn a_running_operator_whose_deployment_became_anothers_says_so_and_writes_nothing() {
    let mut env = installed();
    env.put(rival());
    env.settle_for(5);
    env.edit(
        "Deployment",
        "ns",
        "demo",
        json!({"metadata": {"labels": {"olm.owner": "z"}}}),
    );
    env.writes.clear();
    env.settle_for(10);
    assert_eq!(
        env.status("a"),
        "Failed OwnerConflict: Deployment demo belongs to ClusterServiceVersion z"
    );
    succeeded(&env, "z");
    let applied: Vec<&String> = env
        .writes
        .iter()
        .filter(|write| write.contains("apply Deployment"))
        .collect();
    assert_eq!(applied.len(), 1, "z's own: {applied:#?}");
}

/// Makes the webhook description invalid, as if the rules had become stricter after the install.
fn misdescribe(observed: &mut Observed) {
    edit(observed, |csv| {
        csv["spec"]["webhookdefinitions"] = json!([{"type": "ValidatingAdmissionWebhook", "generateName": "v.example.com",
            "deploymentName": "demo", "containerPort": 443, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["demos"], "operations": ["CREATE"]}]}]);
    });
}

fn successor(phase: Phase) -> Vec<Sibling> {
    vec![in_phase("b", "a", phase)]
}

#[test]
fn a_running_operator_is_replaced_even_if_its_webhooks_are_invalid_now() {
    for (phase, reason) in [
        ("Succeeded", reason::INSTALL_SUCCEEDED),
        ("InstallReady", reason::COMPONENT_UNHEALTHY),
        ("Failed", reason::INVALID_WEBHOOK_DESCRIPTION),
    ] {
        let (mut observed, now) = at_rest();
        misdescribe(&mut observed);
        observed.siblings = successor(Phase::Pending);
        put_in(&mut observed, phase, reason, "m", now);
        let (_, verdict) = decide(&observed, now);
        assert_eq!(phases(&verdict).first(), Some(&Phase::Replacing), "{phase}");
    }
}

#[test]
fn an_operator_that_does_not_run_and_is_misdescribed_keeps_its_failure() {
    let (mut observed, now) = at_rest();
    misdescribe(&mut observed);
    observed.siblings = successor(Phase::Pending);
    observed.deployments.clear();
    let message = "webhook rules cannot include all groups";
    put_in(
        &mut observed,
        "Failed",
        reason::INVALID_WEBHOOK_DESCRIPTION,
        message,
        now,
    );
    stays(&decide(&observed, now));
}

#[test]
fn requirements_are_reported_before_webhooks_that_cannot_be_installed() {
    let (mut observed, now) = at_rest();
    misdescribe(&mut observed);
    put_in(&mut observed, "Pending", reason::REQUIREMENTS_UNKNOWN, "m", now);
    let (_, verdict) = decide(&observed, now);
    assert_eq!(verdict.transitions[0].reason, reason::INVALID_WEBHOOK_DESCRIPTION);
    assert!(verdict.requirements.is_some(), "and the rows are there");
    observed.cluster.crds.clear();
    let (_, verdict) = decide(&observed, now);
    assert_eq!(verdict.transitions[0].reason, reason::REQUIREMENTS_NOT_MET);
}

#[test]
fn the_finalizer_is_there_before_the_group_is() {
    let finalizers = |env: &TestEnv| {
        let csv = env.get("ClusterServiceVersion", "ns", "a").unwrap();
        csv["metadata"]["finalizers"].clone()
    };
    let broken = || group("ns", "og", &["ns", ""]);
    for groups in [
        vec![],
        vec![group("ns", "one", &[]), group("ns", "two", &[])],
        vec![broken()],
    ] {
        let mut env = TestEnv::new();
        for group in groups {
            env.put(group);
        }
        env.put(csv("a", ""));
        env.settle_for(3);
        assert_eq!(finalizers(&env), json!(["operators.coreos.com/csv-cleanup"]));
        let of_csv = |write: &&String| write.starts_with("patch ClusterServiceVersion ns/a {");
        assert_eq!(env.writes.iter().filter(of_csv).count(), 1, "{:#?}", env.writes);
    }
    // A ClusterServiceVersion in phase Replacing loses its group without failing.
    let mut env = prepared();
    let mut replacing = csv("a", "");
    replacing["status"] = json!({"phase": "Replacing", "reason": "BeingReplaced"});
    env.put(replacing);
    env.put(csv("b", "a"));
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(3);
    assert_eq!(finalizers(&env), json!(["operators.coreos.com/csv-cleanup"]));
}

#[test]
fn a_deleted_csv_wakes_those_that_name_its_deployments() {
    let typed = |object: Value| -> Arc<ClusterServiceVersion> { Arc::new(decode(object)) };
    let mut going = csv("a", "");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let woken = |old: Value, new: Value| {
        let change = Change::Applied {
            old: Some(typed(old)),
            new: typed(new),
        };
        let keys = triggers::by_csv(&change, &[typed(rival())]);
        keys.into_iter().map(|key| key.name).collect::<Vec<_>>()
    };
    assert_eq!(woken(csv("a", ""), going), ["a", "z"]);
    assert_eq!(woken(csv("a", ""), csv("a", "")), ["a"]);
}

/// Tools match these texts, and golden records of upstream contain them.
#[test]
fn missing_requirements_of_apis_and_webhooks_have_upstreams_text() {
    for (text, expected) in [
        (
            "apiServices not installed: v1.g is not available",
            "apiServices not installed: v1.g is not available",
        ),
        (
            "webhooks not installed: x is missing",
            "webhooks not installed: x is missing",
        ),
        (
            "conversionWebhook not ready: x",
            "Webhook install failed: conversionWebhook not ready: x",
        ),
        (
            "missing deployment with name=d",
            "installing: missing deployment with name=d",
        ),
    ] {
        assert_eq!(install::message_of(text), expected);
    }
}
