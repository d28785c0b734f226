//! Rows of the transition table, by the cause of the transition.

use olm_runtime::outcome::FailureClass;
use serde_json::json;

use super::{changed, installed, prepared, rests, succeeded};
use crate::test_env::{TestEnv, csv, csv_key, deployment, group};

#[test]
fn csv_004_a_csv_whose_requirements_are_met_reaches_succeeded_by_itself() {
    let mut env = prepared();
    env.put(csv("a", ""));
    env.settle_for(5);
    insta::assert_snapshot!(env.log.join("\n"), @r"
a: Pending (RequirementsUnknown) requirements not yet checked
a: InstallReady (AllRequirementsMet) all requirements found, attempting install
a: Installing (InstallSucceeded) waiting for install components to report healthy
a: Succeeded (InstallSucceeded) install strategy completed with no errors
");
    // The controllers run concurrently, so only the set of writes is deterministic.
    env.writes.sort();
    insta::assert_snapshot!(env.writes.join("\n"), @r#"
    apply Deployment ns/demo
    apply OperatorCondition ns/a
    create ClusterRole demos.example.com-v1-admin
    create ClusterRole demos.example.com-v1-crdview
    create ClusterRole demos.example.com-v1-edit
    create ClusterRole demos.example.com-v1-view
    create ClusterRole olm.og.og.admin-7hdvs1pJiMS8ikuUkvThunsWUnvSLPNYPbr0ec
    create ClusterRole olm.og.og.edit-5RZt9bI4b7MaRoQRfSvU16qlDG9HDDCLxy7jK9
    create ClusterRole olm.og.og.view-8vAKjjAWQgj5N39d65nNyqAFAWxEyQiKvWnQ8J
    create Role ns/a
    create RoleBinding ns/a
    kubernetes: status of Deployment demo
    patch ClusterServiceVersion ns/a status
    patch ClusterServiceVersion ns/a status
    patch ClusterServiceVersion ns/a {"metadata":{"annotations":{"olm.operatorGroup":"og","olm.operatorNamespace":"ns","olm.targetNamespaces":"ns"},"finalizers":["operators.coreos.com/csv-cleanup"]}}
    patch Namespace ns {"metadata":{"labels":{"olm.operatorgroup.uid/uid-3":""}}}
    patch OperatorGroup ns/og status
    patch OperatorGroup ns/og {"metadata":{"annotations":{"olm.providedAPIs":"Demo.v1.example.com"}}}
    "#);
}

#[test]
fn arch_008_a_pending_csv_waits_for_missing_crd_and_goes_on_when_it_is_established() {
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"])).with(csv("a", ""));
    env.settle_for(30);
    assert_eq!(
        env.status("a"),
        "Pending RequirementsNotMet: one or more requirements couldn't be found: CustomResourceDefinition demos.example.com (CRD is not present)"
    );
    assert!(env.names("Deployment").is_empty());
    env.put(crate::test_env::crd("demos.example.com"));
    env.settle();
    succeeded(&env, "a");
}

#[test]
fn csv_010_a_missing_deployment_takes_a_failed_csv_back_to_pending_and_to_a_new_install() {
    let mut env = installed();
    env.log.clear();
    env.delete("Deployment", "ns", "demo");
    env.settle();
    insta::assert_snapshot!(env.log.join("\n"), @r"
    a: Failed (ComponentUnhealthy) installing: missing deployment with name=demo
    a: Pending (NeedsReinstall) installing: missing deployment with name=demo
    a: InstallReady (AllRequirementsMet) all requirements found, attempting install
    a: Installing (InstallSucceeded) waiting for install components to report healthy
    a: Succeeded (InstallSucceeded) install strategy completed with no errors
    ");
    assert_eq!(env.names("Deployment"), ["ns/demo"]);
}

#[test]
fn csv_010_an_unhealthy_operator_is_reported_and_recovers_with_its_deployment() {
    let mut env = installed();
    env.log.clear();
    env.sick.insert(
        "demo".into(),
        json!([{"type": "Available", "status": "False", "message": "no pods"}]),
    );
    env.settle();
    insta::assert_snapshot!(env.log.join("\n"), @r#"
    a: Failed (ComponentUnhealthy) installing: waiting for deployment demo to become ready: deployment "demo" not available: no pods
    a: Pending (NeedsReinstall) installing: waiting for deployment demo to become ready: deployment "demo" not available: no pods
    a: InstallReady (AllRequirementsMet) all requirements found, attempting install
    a: Installing (InstallSucceeded) waiting for install components to report healthy
    a: Installing (InstallWaiting) installing: waiting for deployment demo to become ready: deployment "demo" not available: no pods
    "#);
    env.sick.clear();
    env.settle();
    assert_eq!(
        env.status("a"),
        "Succeeded InstallSucceeded: install strategy completed with no errors"
    );
}

#[test]
fn an_install_that_takes_five_minutes_fails_and_stays_failed_without_writes() {
    let mut env = prepared();
    env.sick.insert(
        "demo".into(),
        json!([{"type": "Available", "status": "False", "message": "no pods"}]),
    );
    env.put(csv("a", ""));
    env.settle_for(4);
    assert_eq!(
        env.status("a"),
        "Installing InstallWaiting: installing: waiting for deployment demo to become ready: deployment \"demo\" not available: no pods"
    );
    env.advance(5 * 60);
    env.settle();
    assert_eq!(
        env.status("a"),
        "Failed InstallCheckFailed: install timeout: waiting for deployment demo to become ready: deployment \"demo\" not available: no pods"
    );
    let writes = env.writes.len();
    env.settle_for(20);
    env.advance(3600);
    env.settle();
    assert_eq!(env.writes.len(), writes, "a lasting failure costs no writes");
    env.sick.clear();
    env.settle();
    succeeded(&env, "a");
}

#[test]
fn a_deployment_past_its_deadline_fails_the_install_and_a_fixed_csv_is_rolled_out_over_it() {
    let mut env = prepared();
    let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    env.sick.insert("demo".into(), stuck);
    rests(
        &mut env,
        csv("a", ""),
        "Failed InstallCheckFailed: install failed: deployment demo not ready before timeout: deployment \"demo\" exceeded its progress deadline",
    );
    env.sick.clear();
    let fixed = json!({"spec": {"install": {"spec": {"deployments": [deployment("demo", "demo:fixed")]}}}});
    env.edit("ClusterServiceVersion", "ns", "a", fixed);
    env.round_of_csv(&csv_key("a"));
    let image =
        env.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["spec"]["containers"][0]["image"]
            .clone();
    assert_eq!(image, "demo:fixed");
    env.settle();
    succeeded(&env, "a");
}

#[test]
fn a_csv_edited_in_place_updates_its_deployment_creates_a_renamed_one_and_deletes_the_orphan() {
    let mut env = installed();
    env.put(unmanaged_deployment());
    env.log.clear();
    let renamed = json!([deployment("demo", "demo:2"), deployment("second", "demo:2")]);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"deployments": renamed}}}}),
    );
    env.settle();
    assert_eq!(env.names("Deployment"), ["ns/demo", "ns/mine", "ns/second"]);
    let uid = env.get("Deployment", "ns", "second").unwrap()["metadata"]["uid"].clone();
    let only = json!([deployment("second", "demo:2")]);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"deployments": only}}}}),
    );
    env.settle();
    assert_eq!(
        env.names("Deployment"),
        ["ns/mine", "ns/second"],
        "the unmanaged one is left alone"
    );
    assert_eq!(
        env.get("Deployment", "ns", "second").unwrap()["metadata"]["uid"],
        uid,
        "the unchanged one is kept"
    );
    succeeded(&env, "a");
}

fn unmanaged_deployment() -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "mine"},
        "spec": {"selector": {}, "template": {}}})
}

#[test]
fn annotations_edited_on_the_pods_are_put_back() {
    let mut env = installed();
    let wrong =
        json!({"spec": {"template": {"metadata": {"annotations": {"capabilities": "Deep Insights"}}}}});
    env.edit("Deployment", "ns", "demo", wrong);
    env.settle_for(2);
    let annotations =
        &env.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["capabilities"], "Basic Install");
    succeeded(&env, "a");
}

#[test]
fn a_user_who_writes_the_phase_starts_the_install_again() {
    let mut env = installed();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"status": {"phase": "Pending"}}),
    );
    env.settle_for(3);
    succeeded(&env, "a");
}

#[test]
fn an_unknown_phase_is_left_to_its_author() {
    let mut env = installed();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"status": {"phase": "Unknown"}}),
    );
    let writes = env.writes.len();
    env.settle_for(3);
    assert_eq!(env.writes.len(), writes);
}

#[test]
fn an_unrecognized_strategy_fails_once_and_recovers_when_it_is_fixed() {
    let mut env = prepared();
    rests(
        &mut env,
        changed("a", |spec| spec["install"]["strategy"] = json!("helm")),
        "Failed InvalidInstallStrategy: install strategy invalid: unrecognized install strategy",
    );
    let writes = env.writes.len();
    env.settle_for(10);
    assert_eq!(env.writes.len(), writes);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"strategy": "deployment"}}}),
    );
    env.install_plan(&csv_key("a"));
    env.settle_for(3);
    succeeded(&env, "a");
}

#[test]
fn a_deployment_the_api_server_refuses_fails_once_and_is_tried_again_in_place() {
    let mut env = prepared();
    env.put(csv("a", ""));
    env.refused.insert("Deployment".into(), FailureClass::Invalid);
    env.settle_for(20);
    let failed = "Failed InstallComponentFailed: install strategy failed: apply Deployment ns/demo: refused by the model";
    assert_eq!(env.status("a"), failed);
    let statuses = env
        .writes
        .iter()
        .filter(|write| write.ends_with("ClusterServiceVersion ns/a status"))
        .count();
    assert_eq!(statuses, 1, "{:#?}", env.writes);
    env.refused.clear();
    env.settle_for(60);
    succeeded(&env, "a");
}

#[test]
fn a_passing_refusal_never_ends_in_failed_and_a_lasting_one_is_reported() {
    for class in [
        FailureClass::Retry,
        FailureClass::Conflict,
        FailureClass::Forbidden,
        FailureClass::Terminating,
    ] {
        let mut env = prepared();
        env.put(csv("a", ""));
        env.refused.insert("Deployment".into(), class);
        env.settle_for(20);
        assert_eq!(
            env.status("a"),
            "InstallReady InstallWaiting: installing: apply Deployment ns/demo: refused by the model",
            "{class:?}"
        );
        assert!(
            !env.log.iter().any(|line| line.contains("Failed")),
            "{class:?}: {:#?}",
            env.log
        );
        env.refused.clear();
        env.settle_for(60);
        assert!(
            env.status("a").starts_with("Succeeded"),
            "{class:?}: {}",
            env.status("a")
        );
    }
}

#[test]
fn an_account_without_rights_fails_without_retry_and_recovers_when_it_gets_them() {
    let mut env = prepared();
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "scoped"}}),
    );
    env.put(crate::test_env::service_account("scoped"));
    env.put(csv("a", ""));
    env.refused.insert("Deployment".into(), FailureClass::Forbidden);
    env.settle_for(20);
    assert_eq!(
        env.status("a"),
        "Failed InstallComponentFailedNoRetry: install strategy failed: apply Deployment ns/demo: refused by the model (account of OperatorGroup ns/og)"
    );
    assert!(
        env.writes
            .iter()
            .any(|write| write.contains("apply Deployment ns/demo as ns/scoped")),
        "{:#?}",
        env.writes
    );
    env.refused.clear();
    env.settle_for(60);
    succeeded(&env, "a");
}

#[test]
fn a_subscription_configuration_that_cannot_be_used_fails_the_install_and_names_it() {
    let mut env = prepared();
    env.put(crate::test_env::subscription("a", json!({"env": [{"name": 7}]})));
    env.put(csv("a", ""));
    env.settle_for(20);
    let status = env.status("a");
    assert!(status.starts_with("Failed InstallComponentFailed: install strategy failed: failed to get subscription pod configuration - Subscription sub:"), "{status}");
    env.edit(
        "Subscription",
        "ns",
        "sub",
        json!({"spec": {"config": {"env": [{"name": "A", "value": "b"}]}}}),
    );
    env.settle_for(3);
    succeeded(&env, "a");
}

#[test]
fn nothing_is_created_in_a_namespace_on_its_way_out() {
    let mut env = prepared();
    env.edit(
        "Namespace",
        "",
        "ns",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    env.put(csv("a", ""));
    env.settle_for(5);
    assert_eq!(env.status("a"), "- -: -");
}
