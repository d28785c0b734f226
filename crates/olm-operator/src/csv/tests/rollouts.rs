//! Rollouts that hang, and what is told of their pods.

use serde_json::{Value, json};

use super::installed;
use crate::test_env::{TestEnv, deployment};

/// A ReplicaSet of the demo's Deployment.
fn replica_set(hash: &str, revision: &str, deployment: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "ns", "name": format!("demo-{hash}"),
        "labels": {"app": "demo", "pod-template-hash": hash},
        "annotations": {"deployment.kubernetes.io/revision": revision},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo",
            "uid": deployment["metadata"]["uid"], "controller": true}]}})
}

/// A pod of it that does not start.
fn pod(hash: &str, created: &str, image: &str, waiting: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": format!("demo-{hash}-x"),
        "creationTimestamp": created, "labels": {"app": "demo", "pod-template-hash": hash}},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "image": image, "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": waiting}}]}})
}

/// The demo runs, and a new image of it is rolled out, of which nobody has seen anything yet.
fn edited() -> TestEnv {
    let mut env = installed();
    env.keep_deployments_as_they_are();
    let edited = json!({"spec": {"install": {"spec": {"deployments": [deployment("demo", "demo:typo")]}}}});
    env.edit("ClusterServiceVersion", "ns", "a", edited);
    env.settle();
    env
}

#[test]
fn a_bad_image_over_a_running_operator_is_told_and_its_old_pods_are_not_blamed() {
    let mut env = edited();
    let live = env.get("Deployment", "ns", "demo").unwrap().clone();
    for (hash, revision) in [("old", "9"), ("new", "10")] {
        env.put(replica_set(hash, revision, &live));
    }
    let no_image = json!({"reason": "ErrImagePull", "message": "not found"});
    env.put(pod("new", "2026-01-01T00:00:00Z", "demo:typo", &no_image));
    // It was moved to another node meanwhile.
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
