//! Why the pods of a Deployment do not run, in one line that does not change from one attempt to the next.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams, core::Selector};
use olm_runtime::{discovery::deadline, error::ObserveError};

use crate::csv::observed::Observed;

/// States every container passes through.
const NORMAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Two words for one trouble, between which the kubelet alternates.
const PULL_FAILED: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// Reads the pods of the Deployments that are not available.
///
/// # Errors
/// When a read fails.
pub(super) async fn read(
    client: &Client,
    observed: &Observed,
) -> Result<BTreeMap<String, String>, ObserveError> {
    let mut troubles = BTreeMap::new();
    let namespace = observed.namespace();
    for (name, live) in &observed.deployments {
        let status = live.status.clone().unwrap_or_default();
        let wanted = live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let selector = live
            .spec
            .as_ref()
            .map(|spec| spec.selector.clone())
            .unwrap_or_default();
        let Ok(selector) = Selector::try_from(selector) else {
            continue;
        };
        if status.available_replicas.unwrap_or(0) >= wanted || selector.selects_all() {
            continue;
        }
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let what = format!("the pods of Deployment {namespace}/{name}");
        let pods = deadline(
            &what,
            api.list(&ListParams::default().labels(&selector.to_string())),
        )
        .await?;
        if let Some(trouble) = trouble(pods.items) {
            troubles.insert(name.clone(), trouble);
        }
    }
    Ok(troubles)
}

/// The trouble of the newest pod that has one.
fn trouble(mut pods: Vec<Pod>) -> Option<String> {
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.creation_timestamp().map(|time| time.0)));
    pods.iter().find_map(|pod| {
        let status = pod.status.clone().unwrap_or_default();
        let unschedulable = status.conditions.iter().flatten().find(|condition| {
            condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
        });
        if let Some(condition) = unschedulable {
            let message = condition.message.clone().unwrap_or_default();
            return Some(format!("pod {} cannot be scheduled: {message}", pod.name_any()));
        }
        let init = status.init_container_statuses.into_iter().flatten();
        let containers = init.chain(status.container_statuses.into_iter().flatten());
        containers
            .into_iter()
            .find_map(|container| container_trouble(&pod.name_any(), &container))
    })
}

fn container_trouble(pod: &str, container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| !NORMAL.contains(reason))?;
    let message = waiting.message.as_deref().unwrap_or_default();
    let place = format!("pod {pod}, container {}", container.name);
    if PULL_FAILED.contains(&reason) {
        // The back-off quotes the failure it backs off from.
        let cause = message
            .split_once("ErrImagePull: ")
            .map_or(message, |(_, cause)| cause);
        let cause = if cause.starts_with("Back-off") { "" } else { cause };
        let detail = if cause.is_empty() {
            String::new()
        } else {
            format!(": {cause}")
        };
        return Some(format!(
            "{place}: ImagePullBackOff: image {} cannot be pulled{detail}",
            container.image
        ));
    }
    if reason == "CrashLoopBackOff" {
        // Its message counts the seconds up.
        let last = container
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        let exit = last
            .map(|last| format!(", last exit code {}", last.exit_code))
            .unwrap_or_default();
        return Some(format!("{place}: CrashLoopBackOff{exit}"));
    }
    let detail = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    Some(format!("{place}: {reason}{detail}"))
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

    #[test]
    fn a_pod_without_a_node_says_so() {
        check(
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes"}]}),
            Some("pod p cannot be scheduled: no nodes"),
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
