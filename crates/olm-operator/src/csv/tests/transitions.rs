//! Rows of the transition table, by what brings a ClusterServiceVersion from one phase to the next.

use olm_runtime::outcome::FailureClass;
use serde_json::json;

use super::{changed, installed, prepared, rests, succeeded};
use crate::world::{World, csv, csv_key, deployment, group};

#[test]
fn a_csv_whose_requirements_are_met_reaches_succeeded_by_itself() {
    let mut world = prepared();
    world.put(csv("a", ""));
    world.settle_for(5);
    insta::assert_snapshot!(world.log.join("\n"), @r"
a: Pending (RequirementsUnknown) requirements not yet checked
a: InstallReady (AllRequirementsMet) all requirements found, attempting install
a: Installing (InstallSucceeded) waiting for install components to report healthy
a: Succeeded (InstallSucceeded) install strategy completed with no errors
");
    // The controllers work side by side, so that only what is written is certain.
    world.writes.sort();
    insta::assert_snapshot!(world.writes.join("\n"), @r#"
    apply Deployment ns/demo
    apply OperatorCondition ns/a
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
fn a_pending_csv_waits_for_missing_crd_and_goes_on_when_it_is_established() {
    let mut world = World::new().with(group("ns", "og", &["ns"])).with(csv("a", ""));
    world.settle_for(30);
    assert_eq!(
        world.status("a"),
        "Pending RequirementsNotMet: one or more requirements couldn't be found"
    );
    assert!(world.names("Deployment").is_empty());
    world.put(crate::world::crd("demos.example.com"));
    world.settle();
    succeeded(&world, "a");
}

#[test]
fn a_missing_deployment_takes_a_failed_csv_back_to_pending_and_to_a_new_install() {
    let mut world = installed();
    world.log.clear();
    world.delete("Deployment", "ns", "demo");
    world.settle();
    insta::assert_snapshot!(world.log.join("\n"), @r"
    a: Failed (ComponentUnhealthy) installing: missing deployment with name=demo
    a: Pending (NeedsReinstall) installing: missing deployment with name=demo
    a: InstallReady (AllRequirementsMet) all requirements found, attempting install
    a: Installing (InstallSucceeded) waiting for install components to report healthy
    a: Succeeded (InstallSucceeded) install strategy completed with no errors
    ");
    assert_eq!(world.names("Deployment"), ["ns/demo"]);
}

#[test]
fn an_unhealthy_operator_is_told_and_recovers_with_its_deployment() {
    let mut world = installed();
    world.log.clear();
    world.sick.insert(
        "demo".into(),
        json!([{"type": "Available", "status": "False", "message": "no pods"}]),
    );
    world.settle();
    insta::assert_snapshot!(world.log.join("\n"), @r#"
    a: Failed (ComponentUnhealthy) installing: waiting for deployment demo to become ready: deployment "demo" not available: no pods
    a: Pending (NeedsReinstall) installing: waiting for deployment demo to become ready: deployment "demo" not available: no pods
    a: InstallReady (AllRequirementsMet) all requirements found, attempting install
    a: Installing (InstallSucceeded) waiting for install components to report healthy
    a: Installing (InstallWaiting) installing: waiting for deployment demo to become ready: deployment "demo" not available: no pods
    "#);
    world.sick.clear();
    world.settle();
    assert_eq!(
        world.status("a"),
        "Succeeded InstallSucceeded: install strategy completed with no errors"
    );
}

#[test]
fn an_install_that_takes_five_minutes_fails_and_stays_failed_without_writes() {
    let mut world = prepared();
    world.sick.insert(
        "demo".into(),
        json!([{"type": "Available", "status": "False", "message": "no pods"}]),
    );
    world.put(csv("a", ""));
    world.settle_for(4);
    assert_eq!(
        world.status("a"),
        "Installing InstallWaiting: installing: waiting for deployment demo to become ready: deployment \"demo\" not available: no pods"
    );
    world.advance(5 * 60);
    world.settle();
    assert_eq!(
        world.status("a"),
        "Failed InstallCheckFailed: install timeout: waiting for deployment demo to become ready: deployment \"demo\" not available: no pods"
    );
    let writes = world.writes.len();
    world.settle_for(20);
    world.advance(3600);
    world.settle();
    assert_eq!(world.writes.len(), writes, "a lasting failure costs no writes");
    world.sick.clear();
    world.settle();
    succeeded(&world, "a");
}

#[test]
fn a_deployment_past_its_deadline_fails_the_install_and_a_fixed_csv_is_rolled_out_over_it() {
    let mut world = prepared();
    let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    world.sick.insert("demo".into(), stuck);
    rests(
        &mut world,
        csv("a", ""),
        "Failed InstallCheckFailed: install failed: deployment demo not ready before timeout: deployment \"demo\" exceeded its progress deadline",
    );
    world.sick.clear();
    let fixed = json!({"spec": {"install": {"spec": {"deployments": [deployment("demo", "demo:fixed")]}}}});
    world.edit("ClusterServiceVersion", "ns", "a", fixed);
    world.round_of_csv(&csv_key("a"));
    let image =
        world.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["spec"]["containers"][0]["image"]
            .clone();
    assert_eq!(image, "demo:fixed");
    world.settle();
    succeeded(&world, "a");
}

#[test]
fn a_csv_edited_in_place_updates_its_deployment_creates_a_renamed_one_and_deletes_the_orphan() {
    let mut world = installed();
    world.put(unmanaged_deployment());
    world.log.clear();
    let renamed = json!([deployment("demo", "demo:2"), deployment("second", "demo:2")]);
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"deployments": renamed}}}}),
    );
    world.settle();
    assert_eq!(world.names("Deployment"), ["ns/demo", "ns/mine", "ns/second"]);
    let uid = world.get("Deployment", "ns", "second").unwrap()["metadata"]["uid"].clone();
    let only = json!([deployment("second", "demo:2")]);
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"deployments": only}}}}),
    );
    world.settle();
    assert_eq!(
        world.names("Deployment"),
        ["ns/mine", "ns/second"],
        "the unmanaged one is left alone"
    );
    assert_eq!(
        world.get("Deployment", "ns", "second").unwrap()["metadata"]["uid"],
        uid,
        "the unchanged one is kept"
    );
    succeeded(&world, "a");
}

fn unmanaged_deployment() -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "mine"},
        "spec": {"selector": {}, "template": {}}})
}

#[test]
fn annotations_edited_on_the_pods_are_put_back() {
    let mut world = installed();
    let wrong =
        json!({"spec": {"template": {"metadata": {"annotations": {"capabilities": "Deep Insights"}}}}});
    world.edit("Deployment", "ns", "demo", wrong);
    world.settle();
    let annotations =
        &world.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["capabilities"], "Basic Install");
    succeeded(&world, "a");
}

#[test]
fn a_user_who_writes_the_phase_starts_the_install_again() {
    let mut world = installed();
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"status": {"phase": "Pending"}}),
    );
    world.settle_for(3);
    succeeded(&world, "a");
}

#[test]
fn an_unknown_phase_is_left_to_whoever_wrote_it() {
    let mut world = installed();
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"status": {"phase": "Unknown"}}),
    );
    let writes = world.writes.len();
    world.settle_for(3);
    assert_eq!(world.writes.len(), writes);
}

#[test]
fn an_unrecognized_strategy_fails_once_and_recovers_when_it_is_fixed() {
    let mut world = prepared();
    rests(
        &mut world,
        changed("a", |spec| spec["install"]["strategy"] = json!("helm")),
        "Failed InvalidInstallStrategy: install strategy invalid: unrecognized install strategy",
    );
    let writes = world.writes.len();
    world.settle_for(10);
    assert_eq!(world.writes.len(), writes);
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"strategy": "deployment"}}}),
    );
    world.install_plan(&csv_key("a"));
    world.settle_for(3);
    succeeded(&world, "a");
}

#[test]
fn webhooks_and_owned_api_services_fail_with_a_message_that_says_what_is_missing() {
    let mut world = prepared();
    rests(
        &mut world,
        changed("a", |spec| {
            spec["webhookdefinitions"] =
                json!([{"generateName": "v.example.com", "type": "ValidatingAdmissionWebhook"}]);
        }),
        "Failed InvalidInstallStrategy: install strategy invalid: webhookdefinitions (v.example.com): this build does not install webhooks yet",
    );
    assert!(world.names("Deployment").is_empty());
}

#[test]
fn a_deployment_the_api_server_refuses_fails_once_and_is_tried_again_in_place() {
    let mut world = prepared();
    world.put(csv("a", ""));
    world.refused.insert("Deployment".into(), FailureClass::Invalid);
    world.settle_for(20);
    let failed = "Failed InstallComponentFailed: install strategy failed: apply Deployment ns/demo: refused by the model";
    assert_eq!(world.status("a"), failed);
    let statuses = world
        .writes
        .iter()
        .filter(|write| write.ends_with("ClusterServiceVersion ns/a status"))
        .count();
    assert_eq!(statuses, 1, "{:#?}", world.writes);
    world.refused.clear();
    world.settle_for(60);
    succeeded(&world, "a");
}

#[test]
fn a_passing_refusal_never_ends_in_failed_and_a_lasting_one_is_told() {
    for class in [
        FailureClass::Retry,
        FailureClass::Conflict,
        FailureClass::Forbidden,
        FailureClass::Terminating,
    ] {
        let mut world = prepared();
        world.put(csv("a", ""));
        world.refused.insert("Deployment".into(), class);
        world.settle_for(20);
        assert_eq!(
            world.status("a"),
            "InstallReady InstallWaiting: installing: apply Deployment ns/demo: refused by the model",
            "{class:?}"
        );
        assert!(
            !world.log.iter().any(|line| line.contains("Failed")),
            "{class:?}: {:#?}",
            world.log
        );
        world.refused.clear();
        world.settle_for(60);
        assert!(
            world.status("a").starts_with("Succeeded"),
            "{class:?}: {}",
            world.status("a")
        );
    }
}

#[test]
fn an_account_without_rights_fails_without_retry_and_recovers_when_it_gets_them() {
    let mut world = prepared();
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"serviceAccountName": "scoped"}}),
    );
    world.put(crate::world::service_account("scoped"));
    world.put(csv("a", ""));
    world.refused.insert("Deployment".into(), FailureClass::Forbidden);
    world.settle_for(20);
    assert_eq!(
        world.status("a"),
        "Failed InstallComponentFailedNoRetry: install strategy failed: apply Deployment ns/demo: refused by the model"
    );
    assert!(
        world
            .writes
            .iter()
            .any(|write| write.contains("apply Deployment ns/demo as ns/scoped")),
        "{:#?}",
        world.writes
    );
    world.refused.clear();
    world.settle_for(60);
    succeeded(&world, "a");
}

#[test]
fn a_subscription_configuration_that_cannot_be_used_fails_the_install_and_names_it() {
    let mut world = prepared();
    world.put(crate::world::subscription("a", json!({"env": [{"name": 7}]})));
    world.put(csv("a", ""));
    world.settle_for(20);
    let status = world.status("a");
    assert!(status.starts_with("Failed InstallComponentFailed: install strategy failed: failed to get subscription pod configuration - Subscription sub:"), "{status}");
    world.edit(
        "Subscription",
        "ns",
        "sub",
        json!({"spec": {"config": {"env": [{"name": "A", "value": "b"}]}}}),
    );
    world.settle_for(3);
    succeeded(&world, "a");
}

#[test]
fn nothing_is_created_in_a_namespace_on_its_way_out() {
    let mut world = prepared();
    world.edit(
        "Namespace",
        "",
        "ns",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    world.put(csv("a", ""));
    world.settle_for(5);
    assert_eq!(world.status("a"), "- -: -");
}
