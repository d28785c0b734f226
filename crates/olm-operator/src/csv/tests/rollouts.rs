//! Stuck rollouts, and the reported reasons from their pods.

use serde_json::{Value, json};

use super::{installed, prepared, succeeded};
use crate::test_env::{TestEnv, csv, deployment};

/// A ReplicaSet of the demo's Deployment.
fn replica_set(hash: &str, revision: &str, deployment: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "ns", "name": format!("demo-{hash}"),
        "labels": {"app": "demo", "pod-template-hash": hash},
        "annotations": {"deployment.kubernetes.io/revision": revision},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo",
            "uid": deployment["metadata"]["uid"], "controller": true}]}})
}

/// A pod of the Deployment that does not start.
fn pod(hash: &str, created: &str, image: &str, waiting: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": format!("demo-{hash}-x"),
        "creationTimestamp": created, "labels": {"app": "demo", "pod-template-hash": hash}},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "image": image, "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": waiting}}]}})
}

/// The demo runs, and a new image is rolled out that the Deployment controller has not observed yet.
fn edited() -> TestEnv {
    let mut env = installed();
    env.keep_deployments_as_they_are();
    let edited = json!({"spec": {"install": {"spec": {"deployments": [deployment("demo", "demo:typo")]}}}});
    env.edit("ClusterServiceVersion", "ns", "a", edited);
    env.settle();
    env
}

#[test]
fn a_bad_image_over_a_running_operator_is_reported_and_its_old_pods_are_not_blamed() {
    let mut env = edited();
    let live = env.get("Deployment", "ns", "demo").unwrap().clone();
    for (hash, revision) in [("old", "9"), ("new", "10")] {
        env.put(replica_set(hash, revision, &live));
    }
    let no_image = json!({"reason": "ErrImagePull", "message": "not found"});
    env.put(pod("new", "2026-01-01T00:00:00Z", "demo:typo", &no_image));
    // Meanwhile it moved to another node.
    let no_secret = json!({"reason": "CreateContainerConfigError", "message": "secret"});
    env.put(pod("old", "2026-01-02T00:00:00Z", "demo:1", &no_secret));
    let status = json!({"observedGeneration": live["metadata"]["generation"], "replicas": 2, "updatedReplicas": 1,
        "availableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    env.edit("Deployment", "ns", "demo", json!({"status": status}));
    env.settle_for(20);
    assert_eq!(
        env.status("a"),
        "Installing InstallWaiting: installing: waiting for deployment demo to become ready: deployment \"demo\" waiting for 1 \
         outdated replica(s) to be terminated; pod demo-new-x, container c: ImagePullBackOff: image demo:typo cannot be pulled: not found"
    );
    let writes = env.writes.len();
    env.settle_for(30);
    assert_eq!(env.writes.len(), writes, "told once");
}

const UNAVAILABLE: &str =
    "installing: waiting for deployment demo to become ready: deployment \"demo\" not available: none runs";

/// Installs the demo with a Deployment that has the conditions `more` and is not available.
fn stuck(env: &mut TestEnv, more: &[Value]) {
    let mut conditions = vec![json!({"type": "Available", "status": "False", "message": "none runs"})];
    conditions.extend_from_slice(more);
    env.sick.insert("demo".to_owned(), conditions.into());
}

fn gave_up() -> Value {
    json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"})
}

#[test]
fn a_quota_that_refuses_pods_is_reported_at_once_and_as_long_as_it_does() {
    let mut env = prepared().with(csv("a", ""));
    let refusal = "pods \"demo-1\" is forbidden: failed quota: q: must specify limits.cpu";
    let quota =
        json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refusal});
    stuck(&mut env, std::slice::from_ref(&quota));
    env.settle_for(3);
    assert_eq!(
        env.status("a"),
        format!("Installing InstallWaiting: {UNAVAILABLE}; {refusal}")
    );
    stuck(&mut env, &[quota, gave_up()]);
    env.edit("Deployment", "ns", "demo", json!({"status": null}));
    env.settle_for(300);
    let expected = format!(
        "Failed InstallCheckFailed: install failed: deployment demo not ready before timeout: deployment \"demo\" exceeded its \
         progress deadline; {refusal}"
    );
    assert_eq!(env.status("a"), expected);
    env.sick.clear();
    env.edit("Deployment", "ns", "demo", json!({"status": null}));
    env.settle_for(5);
    succeeded(&env, "a");
}

#[test]
fn a_volume_that_is_missing_is_reported_within_ten_seconds_and_as_long_as_it_is() {
    let mut env = prepared().with(csv("a", ""));
    stuck(&mut env, &[]);
    env.settle();
    let live = env.get("Deployment", "ns", "demo").unwrap().clone();
    env.put(replica_set("h", "1", &live));
    let mut making = pod(
        "h",
        "2026-01-01T00:00:00Z",
        "demo:1",
        &json!({"reason": "ContainerCreating"}),
    );
    making["metadata"]["uid"] = json!("pod-uid");
    env.put(making);
    let note = "MountVolume.SetUp failed for volume \"ca\" : configmap \"trusted-ca\" not found";
    let event = |uid: &str, reason: &str, note: &str| {
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"namespace": "ns", "name": uid},
            "type": "Warning", "reason": reason, "note": note, "regarding": {"uid": uid}})
    };
    env.put(event("pod-uid", "FailedMount", note));
    env.put(event("other-uid", "FailedMount", "of another"));
    env.settle_for(9);
    let cause = format!("pod demo-h-x: FailedMount: {note}");
    assert_eq!(
        env.status("a"),
        format!("Installing InstallWaiting: {UNAVAILABLE}; {cause}")
    );
    env.settle_for(300);
    let timeout = UNAVAILABLE.replacen("installing", "install timeout", 1);
    assert_eq!(
        env.status("a"),
        format!("Failed InstallCheckFailed: {timeout}; {cause}")
    );
    stuck(&mut env, &[gave_up()]);
    env.edit("Deployment", "ns", "demo", json!({"status": null}));
    env.settle_for(5);
    assert!(
        env.status("a")
            .ends_with(&format!("exceeded its progress deadline; {cause}")),
        "{}",
        env.status("a")
    );
    env.kill();
    env.writes.clear();
    env.settle_for(300);
    assert_eq!(env.writes, [""; 0], "at rest");
    // Another cause replaces it.
    env.delete("Event", "ns", "pod-uid");
    env.put(event("pod-uid", "FailedMount", "no such secret"));
    env.settle_for(61);
    assert!(
        env.status("a").ends_with("FailedMount: no such secret"),
        "{}",
        env.status("a")
    );
}
