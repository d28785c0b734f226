//! Why the pods of a Deployment do not run, in one line that does not change from one attempt to the next.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet},
    core::v1::{ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::{PartialObjectMeta, Selector},
};
use olm_api::pod::{is_pull_failure, is_starting, pull_cause, why_unscheduled};
use olm_runtime::{discovery::deadline, error::ObserveError};

use crate::csv::observed::Observed;

/// What the kubelet calls the pause before it starts a process again that ended.
const CRASH_LOOP: &str = "CrashLoopBackOff";

/// How Kubernetes numbers the ReplicaSets of a Deployment: the highest has the pods that are wanted now.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Label of a ReplicaSet and of its pods.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Reads the pods of the Deployments whose rollout hangs.
///
/// # Errors
/// When a read fails.
pub(super) async fn read(
    client: &Client,
    observed: &Observed,
) -> Result<BTreeMap<String, String>, ObserveError> {
    let mut troubles = BTreeMap::new();
    for (name, live) in observed.deployments.iter().filter(|(_, live)| hangs(live)) {
        let pods = newest_pods(client, observed.namespace(), live).await?;
        if let Some(trouble) = trouble(pods) {
            troubles.insert(name.clone(), trouble);
        }
    }
    Ok(troubles)
}

/// Whether pods as the Deployment wants them now do not run. That it is available says nothing: while it is rolled out the old
/// pods run.
fn hangs(live: &Deployment) -> bool {
    let wanted = live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let DeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        available_replicas,
        ..
    } = live.status.clone().unwrap_or_default();
    // Its newest ReplicaSet is not the one that is asked about.
    if observed_generation.unwrap_or(0) < live.metadata.generation.unwrap_or(0) {
        return false;
    }
    let available = available_replicas.unwrap_or(0);
    updated_replicas.unwrap_or(0) < wanted || available < wanted || available < replicas.unwrap_or(0)
}

/// The pods that the Deployment wants now. Older ones are not to blame, whatever ails them.
async fn newest_pods(client: &Client, namespace: &str, live: &Deployment) -> Result<Vec<Pod>, ObserveError> {
    let selector = live.spec.as_ref().map(|spec| spec.selector.clone());
    let Some(selector) = selector.and_then(|selector| Selector::try_from(selector).ok()) else {
        return Ok(Vec::new());
    };
    if selector.selects_all() {
        return Ok(Vec::new());
    }
    let name = live.name_any();
    let params = ListParams::default().labels(&selector.to_string());
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let what = format!("the ReplicaSets of Deployment {namespace}/{name}");
    let sets = deadline(&what, sets.list_metadata(&params)).await?;
    let Some(hash) = newest_hash(&sets.items, live) else {
        return Ok(Vec::new());
    };
    let params = ListParams::default().labels(&format!("{selector},{POD_TEMPLATE_HASH}={hash}"));
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let what = format!("the pods of Deployment {namespace}/{name}");
    Ok(deadline(&what, pods.list(&params)).await?.items)
}

/// What marks the pods of the newest ReplicaSet of the Deployment.
fn newest_hash<'a>(sets: &'a [PartialObjectMeta<ReplicaSet>], live: &Deployment) -> Option<&'a str> {
    let is_own = |set: &&PartialObjectMeta<ReplicaSet>| {
        let mut owners = set.owner_references().iter();
        owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == live.metadata.uid.as_ref())
    };
    let revision = |set: &&PartialObjectMeta<ReplicaSet>| {
        let text = set.annotations().get(REVISION);
        text.and_then(|text| text.parse::<u64>().ok())
    };
    let newest = sets.iter().filter(is_own).max_by_key(revision)?;
    newest.labels().get(POD_TEMPLATE_HASH).map(String::as_str)
}

/// The trouble of the newest pod that has one.
fn trouble(mut pods: Vec<Pod>) -> Option<String> {
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.creation_timestamp().map(|time| time.0)));
    pods.iter().find_map(|pod| {
        if let Some(why) = why_unscheduled(pod) {
            return Some(format!("pod {} cannot be scheduled: {why}", pod.name_any()));
        }
        let status = pod.status.clone().unwrap_or_default();
        let init = status.init_container_statuses.into_iter().flatten();
        let containers = init.chain(status.container_statuses.into_iter().flatten());
        containers
            .into_iter()
            .find_map(|container| container_trouble(&pod.name_any(), &container))
    })
}

fn container_trouble(pod: &str, container: &ContainerStatus) -> Option<String> {
    // Also an init container that has done its work.
    if container.ready {
        return None;
    }
    let place = format!("pod {pod}, container {}", container.name);
    let state = container.state.clone().unwrap_or_default();
    let reason = state.waiting.as_ref().and_then(|waiting| {
        let reason = waiting.reason.as_deref();
        reason.filter(|reason| !is_starting(reason) && *reason != CRASH_LOOP)
    });
    if let (Some(waiting), Some(reason)) = (&state.waiting, reason) {
        return Some(format!("{place}: {}", held_up(waiting, reason, &container.image)));
    }
    let last = container
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    let backs_off = state
        .waiting
        .as_ref()
        .is_some_and(|waiting| waiting.reason.as_deref() == Some(CRASH_LOOP));
    // A process that ends again and again backs off, runs and has just ended, in turn: that is one trouble. The message of the
    // back-off is not told, it counts the seconds up.
    if backs_off || container.restart_count > 0 && (state.terminated.is_some() || last.is_some()) {
        let ended = state.terminated.as_ref().or(last);
        let exit = ended.map(|ended| format!(", last {}", exit(ended)));
        return Some(format!("{place}: {CRASH_LOOP}{}", exit.unwrap_or_default()));
    }
    let ended = state.terminated?;
    Some(format!("{place}: ended with {}", exit(&ended)))
}

/// Why a container is not started.
fn held_up(waiting: &ContainerStateWaiting, reason: &str, image: &str) -> String {
    let message = waiting.message.as_deref().unwrap_or_default();
    let behind = |text: &str| match text {
        "" => String::new(),
        text => format!(": {text}"),
    };
    if !is_pull_failure(reason) {
        return format!("{reason}{}", behind(message));
    }
    let cause = pull_cause(message);
    let cause = if cause.starts_with("Back-off") { "" } else { cause };
    format!(
        "ImagePullBackOff: image {image} cannot be pulled{}",
        behind(cause)
    )
}

/// How a process ended.
fn exit(ended: &ContainerStateTerminated) -> String {
    let reason = ended.reason.as_deref().unwrap_or_default();
    if ["", "Error", "Completed"].contains(&reason) {
        return format!("exit code {}", ended.exit_code);
    }
    format!("exit code {} ({reason})", ended.exit_code)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, created: &str, status: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "status": status,
        }))
        .unwrap()
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"containerStatuses": [{"name": "c", "image": "reg/op@sha256:1", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}},
            "lastState": {"terminated": {"exitCode": 7}}}]})
    }

    #[track_caller]
    fn check(status: Value, expected: Option<&str>) {
        assert_eq!(
            trouble(vec![pod("p", "2026-01-01T00:00:00Z", status)]).as_deref(),
            expected
        );
    }

    #[test]
    fn a_failed_pull_reads_the_same_while_the_kubelet_alternates() {
        let expected =
            Some("pod p, container c: ImagePullBackOff: image reg/op@sha256:1 cannot be pulled: not found");
        check(waiting("ErrImagePull", "not found"), expected);
        check(
            waiting(
                "ImagePullBackOff",
                "Back-off pulling image \"x\": ErrImagePull: not found",
            ),
            expected,
        );
        check(
            waiting("ImagePullBackOff", "Back-off pulling image \"x\""),
            Some("pod p, container c: ImagePullBackOff: image reg/op@sha256:1 cannot be pulled"),
        );
    }

    #[test]
    fn a_crash_loop_does_not_count_seconds() {
        check(
            waiting("CrashLoopBackOff", "back-off 20s restarting"),
            Some("pod p, container c: CrashLoopBackOff, last exit code 7"),
        );
        check(
            waiting("CreateContainerConfigError", "secret \"s\" not found"),
            Some("pod p, container c: CreateContainerConfigError: secret \"s\" not found"),
        );
        check(waiting("ContainerCreating", ""), None);
    }

    fn container(ready: bool, restarts: i32, state: Value, last: Value) -> Value {
        json!({"containerStatuses": [{"name": "c", "image": "reg/op", "imageID": "", "ready": ready,
            "restartCount": restarts, "state": state, "lastState": last}]})
    }

    fn ended(code: i32, reason: &str) -> Value {
        json!({"terminated": {"exitCode": code, "reason": reason}})
    }

    #[test]
    fn a_container_that_has_just_exited_counts() {
        let first = Some("pod p, container c: ended with exit code 3");
        check(container(false, 0, ended(3, "Error"), json!({})), first);
        let done = Some("pod p, container c: ended with exit code 0");
        check(container(false, 0, ended(0, "Completed"), json!({})), done);
        check(
            container(false, 0, ended(137, "OOMKilled"), json!({})),
            Some("pod p, container c: ended with exit code 137 (OOMKilled)"),
        );
        check(container(true, 0, ended(0, "Completed"), json!({})), None);
        check(container(false, 0, json!({"running": {}}), json!({})), None);
    }

    #[test]
    fn a_crash_loop_reads_the_same_while_it_goes_round() {
        let expected = Some("pod p, container c: CrashLoopBackOff, last exit code 3");
        let loops = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
        for state in [loops.clone(), json!({"running": {}}), ended(3, "Error")] {
            check(container(false, 2, state, ended(3, "Error")), expected);
        }
        check(
            container(true, 2, json!({"running": {}}), ended(3, "Error")),
            None,
        );
        let unknown = Some("pod p, container c: CrashLoopBackOff");
        check(container(false, 1, loops, json!({})), unknown);
    }

    #[test]
    fn only_a_rollout_that_hangs_is_asked_about() {
        let hangs = |generation: i64, status: Value| {
            let live = json!({"metadata": {"generation": generation}, "spec": {"replicas": 2, "selector": {},
                "template": {}}, "status": status});
            hangs(&serde_json::from_value(live).unwrap())
        };
        let status = |replicas: i32, updated: i32, available: i32| json!({"observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available});
        assert!(!hangs(2, status(2, 2, 2)));
        assert!(hangs(2, status(2, 2, 1)), "a fresh install");
        assert!(hangs(2, status(3, 1, 2)), "new pods beside old ones that run");
        assert!(hangs(2, status(3, 2, 2)), "the last of the new pods");
        assert!(hangs(2, status(2, 1, 2)), "no new pods can be made");
        assert!(!hangs(3, status(2, 2, 1)), "nobody has looked at the change yet");
        assert!(hangs(0, json!({})));
    }

    #[test]
    fn the_newest_replica_set_is_the_one_with_the_highest_revision() {
        let set = |hash: &str, revision: &str, owner: &str| {
            let set = json!({"metadata": {"name": hash, "labels": {"pod-template-hash": hash},
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": owner, "controller": true}]}});
            serde_json::from_value::<PartialObjectMeta<ReplicaSet>>(set).unwrap()
        };
        let live = serde_json::from_value(json!({"metadata": {"uid": "u"}})).unwrap();
        let sets = [set("a", "9", "u"), set("b", "10", "u"), set("c", "11", "another")];
        assert_eq!(newest_hash(&sets, &live), Some("b"));
        assert_eq!(newest_hash(&[], &live), None);
    }

    #[test]
    fn a_pod_without_a_node_says_so() {
        check(
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes"}]}),
            Some("pod p cannot be scheduled: no nodes"),
        );
        check(
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            Some("pod p cannot be scheduled: SchedulingGated"),
        );
        check(
            json!({"conditions": [{"type": "PodScheduled", "status": "True"}]}),
            None,
        );
    }

    #[test]
    fn the_newest_pod_speaks_first() {
        let pods = vec![
            pod(
                "old",
                "2026-01-01T00:00:00Z",
                waiting("CreateContainerError", "old"),
            ),
            pod(
                "new",
                "2026-01-02T00:00:00Z",
                waiting("CreateContainerError", "new"),
            ),
        ];
        assert!(trouble(pods).unwrap().starts_with("pod new"));
    }
}
