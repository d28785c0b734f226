//! Finds the reason why the pods of a Deployment do not run, as one line that is the same in each attempt.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet},
    core::v1::{ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod},
    events::v1::Event,
};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::{PartialObjectMeta, Selector},
};
use olm_api::{
    condition,
    pod::{is_pull_failure, is_starting, pull_cause, why_unscheduled},
};
use olm_runtime::{discovery::deadline, error::ObserveError};

use crate::{
    csv::{health, observed::Observed},
    owner,
};

/// The kubelet's reason for the pause before it restarts a terminated process.
const CRASH_LOOP: &str = "CrashLoopBackOff";
/// Reason of the kubelet's events about failing probes.
const UNHEALTHY: &str = "Unhealthy";
/// Reasons of events for which the status of the pod has more details, and shows when they no longer apply.
const IN_STATUS: [&str; 4] = ["BackOff", "Failed", "FailedScheduling", UNHEALTHY];
/// Limit of an event's note, in bytes.
const MAX_NOTE_BYTES: usize = 1024;
/// Number of hexadecimal digits from which a word counts as an identifier that differs between attempts.
const ID_LENGTH: usize = 32;

/// Annotation with the number of a ReplicaSet of a Deployment: the highest has the currently wanted pods.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Label of a ReplicaSet and of its pods.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Reads the pods of the Deployments with a stuck rollout, and the events of pods whose status does not
/// contain the reason. A Deployment whose own conditions contain the reason needs no read.
///
/// # Errors
/// When a read fails.
pub(super) async fn read(
    client: &Client,
    observed: &Observed,
) -> Result<BTreeMap<String, String>, ObserveError> {
    let mut troubles = BTreeMap::new();
    let hanging = observed.deployments.iter().filter(|(_, live)| hangs(live));
    for (name, live) in hanging.filter(|(_, live)| health::creation_failure(live).is_none()) {
        let mut pods = newest_pods(client, observed.namespace(), live).await?;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none() && !is(pod, "Ready"));
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.creation_timestamp().map(|time| time.0)));
        let told = pods.iter().find_map(|pod| Some((pod, trouble(pod)?)));
        let found = match (told, pods.first()) {
            (Some((_, Trouble { text, loops: false })), _) => Some(text),
            (Some((pod, Trouble { text, loops: true })), _) => {
                let probe = failed_probe(&events(client, pod).await?, &["Liveness", "Startup"]);
                Some(text + &probe.map(|probe| format!("; {probe}")).unwrap_or_default())
            }
            (None, Some(pod)) => untold(pod, &events(client, pod).await?),
            (None, None) => None,
        };
        if let Some(text) = found {
            troubles.insert(name.clone(), text);
        }
    }
    Ok(troubles)
}

async fn events(client: &Client, pod: &Pod) -> Result<Vec<Event>, ObserveError> {
    let namespace = pod.namespace().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let fields = format!("regarding.uid={},type=Warning", pod.uid().unwrap_or_default());
    let what = format!("the events of pod {namespace}/{}", pod.name_any());
    let list = deadline(&what, api.list(&ListParams::default().fields(&fields))).await?;
    Ok(list.items)
}

/// True when pods of the Deployment's current template do not run. Condition Available is no criterion,
/// because the old pods run during a rollout.
fn hangs(live: &Deployment) -> bool {
    let wanted = live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let DeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        available_replicas,
        ..
    } = live.status.clone().unwrap_or_default();
    // Its newest ReplicaSet does not belong to the current template yet.
    if observed_generation.unwrap_or(0) < live.metadata.generation.unwrap_or(0) {
        return false;
    }
    let available = available_replicas.unwrap_or(0);
    updated_replicas.unwrap_or(0) < wanted || available < wanted || available < replicas.unwrap_or(0)
}

/// Returns the pods of the Deployment's current template. Older ones are ignored, with any problem.
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

/// Returns the label value of the pods of the Deployment's newest ReplicaSet.
fn newest_hash<'a>(sets: &'a [PartialObjectMeta<ReplicaSet>], live: &Deployment) -> Option<&'a str> {
    let is_own = |set: &&PartialObjectMeta<ReplicaSet>| {
        let controller = owner::controller(&set.metadata);
        controller.is_some_and(|owner| Some(&owner.uid) == live.metadata.uid.as_ref())
    };
    let revision = |set: &&PartialObjectMeta<ReplicaSet>| {
        let text = set.annotations().get(REVISION);
        text.and_then(|text| text.parse::<u64>().ok())
    };
    let newest = sets.iter().filter(is_own).max_by_key(revision)?;
    newest.labels().get(POD_TEMPLATE_HASH).map(String::as_str)
}

/// Problem in the status of a pod.
#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    text: String,
    /// True when its process terminates repeatedly.
    loops: bool,
}

impl Trouble {
    fn new(text: String) -> Self {
        Self { text, loops: false }
    }
}

/// Returns the problem of a pod from its status.
fn trouble(pod: &Pod) -> Option<Trouble> {
    let name = pod.name_any();
    if let Some(why) = why_unscheduled(pod) {
        return Some(Trouble::new(format!("pod {name} cannot be scheduled: {why}")));
    }
    let status = pod.status.clone().unwrap_or_default();
    // Evicted, or rejected by the kubelet.
    if let Some(reason) = status.reason.filter(|reason| !reason.is_empty()) {
        return Some(Trouble::new(
            match status.message.as_deref().unwrap_or_default() {
                "" => format!("pod {name}: {reason}"),
                message => format!("pod {name}: {reason}: {message}"),
            },
        ));
    }
    let init = status.init_container_statuses.into_iter().flatten();
    let mut containers = init.chain(status.container_statuses.into_iter().flatten());
    containers.find_map(|container| container_trouble(&name, &container))
}

fn is(pod: &Pod, kind: &str) -> bool {
    condition_of(pod, kind).is_some_and(|(status, _)| status == condition::TRUE)
}

/// Status and message of a pod's condition.
fn condition_of<'a>(pod: &'a Pod, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == kind)?;
    Some((&found.status, found.message.as_deref().unwrap_or_default()))
}

/// Returns the reason why a pod is not ready although the status of no container shows a problem. It is taken
/// from events of creation (volumes, network) or of running containers (probes).
fn untold(pod: &Pod, events: &[Event]) -> Option<String> {
    let name = pod.name_any();
    let mut containers = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let runs = containers.any(|container| {
        let state = container.state.as_ref();
        state.is_some_and(|state| state.running.is_some())
    });
    if !runs {
        let mut of_creation = of_reasons(events, |reason| !IN_STATUS.contains(&reason));
        // The kubelet's summary of all pending volumes has fewer details than the event of a single volume.
        of_creation.sort_by_key(|event| is_summary(event));
        let event = of_creation.first()?;
        let reason = event.reason.as_deref().unwrap_or_default();
        return Some(format!("pod {name}: {reason}: {}", note(event)));
    }
    if let Some(probe) = failed_probe(events, &["Startup", "Readiness", "Liveness"]) {
        return Some(format!("pod {name}: {probe}"));
    }
    // Readiness gates that others require of a pod.
    let (status, message) = condition_of(pod, "Ready")?;
    let waits = status != condition::TRUE && is(pod, "ContainersReady") && !message.is_empty();
    waits.then(|| format!("pod {name} is not ready: {message}"))
}

fn is_summary(event: &Event) -> bool {
    let note = event.note.as_deref().unwrap_or_default();
    note.starts_with("Unable to attach or mount volumes")
}

/// Returns the newest event about a failing probe of one of these kinds.
fn failed_probe(events: &[Event], kinds: &[&str]) -> Option<String> {
    let of_probes = of_reasons(events, |reason| reason == UNHEALTHY);
    let mut notes = of_probes.into_iter().map(note);
    notes.find(|note| kinds.iter().any(|kind| note.starts_with(kind)))
}

/// Returns the events with one of these reasons, newest first.
fn of_reasons(events: &[Event], wanted: impl Fn(&str) -> bool) -> Vec<&Event> {
    let is_wanted = |event: &&Event| event.reason.as_deref().is_some_and(&wanted);
    let mut found: Vec<&Event> = events.iter().filter(is_wanted).collect();
    found.sort_by_key(|event| std::cmp::Reverse(last_seen(event)));
    found
}

fn last_seen(event: &Event) -> Option<jiff::Timestamp> {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    let last = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    series.or(last).or(first)
}

/// Returns the message of an event as one line, without parts that differ between attempts.
fn note(event: &Event) -> String {
    let text = event.note.as_deref().unwrap_or_default();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut note = without_ids(&words);
    if note.len() > MAX_NOTE_BYTES {
        note.truncate(note.floor_char_boundary(MAX_NOTE_BYTES));
        note.push('…');
    }
    note
}

/// Replaces identifiers of containers and sandboxes by an ellipsis.
fn without_ids(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if digits.len() >= ID_LENGTH && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            kept.push('…');
            kept.push_str(word.get(digits.len()..).unwrap_or_default());
        } else {
            kept.push_str(word);
        }
    }
    kept
}

fn container_trouble(pod: &str, container: &ContainerStatus) -> Option<Trouble> {
    // Also an init container that has finished.
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
        let text = format!("{place}: {}", held_up(waiting, reason, &container.image));
        return Some(Trouble::new(text));
    }
    let last = container
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    let backs_off = state
        .waiting
        .as_ref()
        .is_some_and(|waiting| waiting.reason.as_deref() == Some(CRASH_LOOP));
    // A process that terminates repeatedly alternates between waiting, running and terminated; this is
    // reported as one problem. The back-off message is not used, because it contains a counter of seconds.
    if backs_off || container.restart_count > 0 && (state.terminated.is_some() || last.is_some()) {
        let ended = state.terminated.as_ref().or(last);
        let exit = ended.map(|ended| format!(", last {}", exit(ended)));
        return Some(Trouble {
            text: format!("{place}: {CRASH_LOOP}{}", exit.unwrap_or_default()),
            loops: true,
        });
    }
    let ended = state.terminated?;
    Some(Trouble::new(format!("{place}: ended with {}", exit(&ended))))
}

/// Returns the reason why a container is not started.
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

/// Describes how a process ended.
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

    fn pod(name: &str, status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
    }

    fn event(reason: &str, note: &str, last: &str) -> Event {
        serde_json::from_value(
            json!({"metadata": {"name": "e"}, "reason": reason, "note": note, "type": "Warning",
            "deprecatedLastTimestamp": last}),
        )
        .unwrap()
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"containerStatuses": [{"name": "c", "image": "reg/op@sha256:1", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}},
            "lastState": {"terminated": {"exitCode": 7}}}]})
    }

    #[track_caller]
    fn check(status: Value, expected: Option<&str>) {
        let found = trouble(&pod("p", status)).map(|found| found.text);
        assert_eq!(found.as_deref(), expected);
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
    fn a_crash_loop_has_one_text_in_all_its_states() {
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
    fn a_pod_without_a_node_reports_it() {
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
    fn a_pod_that_the_kubelet_rejected_reports_it() {
        check(
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            Some("pod p: Evicted: low on memory"),
        );
        check(
            json!({"phase": "Failed", "reason": "OutOfcpu"}),
            Some("pod p: OutOfcpu"),
        );
    }

    #[test]
    fn a_pod_that_is_being_made_is_explained_by_its_events() {
        let made = pod("p", waiting("ContainerCreating", ""));
        assert_eq!(trouble(&made), None);
        assert_eq!(untold(&made, &[]), None);
        let volume = "MountVolume.SetUp failed for volume \"ca\" : configmap \"trusted-ca\" not found";
        let events = [
            event(
                "FailedMount",
                "Unable to attach or mount volumes: unmounted volumes=[ca]",
                "2026-01-01T00:00:09Z",
            ),
            event("FailedMount", volume, "2026-01-01T00:00:02Z"),
            event("FailedMount", "older", "2026-01-01T00:00:01Z"),
            // It no longer applied when the pod got its node.
            event("FailedScheduling", "no nodes", "2026-01-01T00:00:10Z"),
        ];
        let expected = format!("pod p: FailedMount: {volume}");
        assert_eq!(untold(&made, &events), Some(expected.clone()));
        let bare = pod(
            "p",
            json!({"conditions": [{"type": "PodScheduled", "status": "True"}]}),
        );
        assert_eq!(
            untold(&bare, &events),
            Some(expected),
            "before the kubelet says anything"
        );
        assert_eq!(
            untold(&bare, &events[..1]).map(|text| text.contains("unmounted")),
            Some(true)
        );
    }

    #[test]
    fn a_note_is_one_line_that_stays_the_same_and_is_cut() {
        let sandbox = |id: &str| {
            let note = format!("Failed to create pod sandbox:\n network for sandbox \"{id}\": no IP");
            super::note(&event("FailedCreatePodSandBox", &note, "2026-01-01T00:00:00Z"))
        };
        let expected = "Failed to create pod sandbox: network for sandbox \"…\": no IP";
        for id in ["0123456789abcdef".repeat(4), "fedcba9876543210".repeat(2)] {
            assert_eq!(sandbox(&id), expected);
        }
        assert!(sandbox("deadbeef").contains("deadbeef"));
        let long = super::note(&event(
            "Unhealthy",
            &"ü".repeat(MAX_NOTE_BYTES),
            "2026-01-01T00:00:00Z",
        ));
        assert!(
            long.ends_with('…') && long.len() < MAX_NOTE_BYTES + 5,
            "{}",
            long.len()
        );
    }

    #[test]
    fn a_pod_that_runs_and_is_not_ready_is_explained_by_its_probes_and_gates() {
        let runs = pod("p", container(false, 0, json!({"running": {}}), json!({})));
        let events = [
            event("Unhealthy", "Readiness probe failed: 500", "2026-01-01T00:00:01Z"),
            event("Unhealthy", "Readiness probe failed: 503", "2026-01-01T00:00:02Z"),
            event("FailedMount", "it came late", "2026-01-01T00:00:03Z"),
        ];
        let expected = Some("pod p: Readiness probe failed: 503");
        assert_eq!(untold(&runs, &events).as_deref(), expected);
        assert_eq!(failed_probe(&events, &["Liveness", "Startup"]), None);
        let mut gated = container(true, 0, json!({"running": {}}), json!({}));
        gated["conditions"] = json!([{"type": "ContainersReady", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "gate x is not true"}]);
        let expected = Some("pod p is not ready: gate x is not true");
        assert_eq!(untold(&pod("p", gated), &[]).as_deref(), expected);
    }
}
