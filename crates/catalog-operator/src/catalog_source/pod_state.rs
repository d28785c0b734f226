//! State of a catalog's pods: which one serves, is dead, or waits, and the reason.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::labels;
use olm_api::pod::{is_pull_failure, is_starting, pull_cause, why_unscheduled};

use super::pod::{EXTRACT_CONTAINER, SERVER_CONTAINER};
use crate::timing::{elapsed, left};

/// Reason of a container that waits for its next restart.
const BACK_OFF: &str = "CrashLoopBackOff";

/// Time after the end of a deletion's grace period until a pod is deleted by force, because its node is lost.
const LONGEST_END: Duration = Duration::from_secs(30);

/// End of a dead pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is being deleted, and has this much time left.
    ByItself { within: Duration },
    /// It has to be deleted; 0 is by force.
    Deleted { grace_seconds: u32 },
}

pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// True when the pod's condition Ready is true and it is not being deleted.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && has_condition(pod, "Ready", "True")
}

/// True when the pod serves, or its servers have started and it may serve again in a moment.
pub(crate) fn is_up(pod: &Pod) -> bool {
    let containers = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let mut started = containers
        .map(|container| container.started == Some(true))
        .peekable();
    is_ready(pod) || started.peek().is_some() && started.all(|started| started)
}

/// True when the pod will never serve (again): about to be evicted, or ended.
pub(crate) fn is_dead(pod: &Pod) -> bool {
    has_condition(pod, "DisruptionTarget", "True") || has_ended(pod)
}

/// True when its containers have terminated for good.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Returns the end of a dead pod. One that is being deleted disappears by itself, unless its node is lost.
/// One that has ended is deleted by force. One that is about to be evicted still runs, so it is deleted
/// normally.
pub(crate) fn end_of(pod: &Pod, now: Timestamp) -> End {
    let Some(Time(over)) = pod.metadata.deletion_timestamp else {
        let grace_seconds = u32::from(!has_ended(pod));
        return End::Deleted { grace_seconds };
    };
    match left(LONGEST_END, elapsed(over, now)) {
        Some(within) => End::ByItself { within },
        None => End::Deleted { grace_seconds: 0 },
    }
}

/// Returns the reason of a pod's death, if known: a node that refuses a pod reports it here.
pub(crate) fn last_words(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let message = status.and_then(|status| status.message.as_deref());
    let words: Vec<&str> = reason.into_iter().chain(message).collect();
    if words.is_empty() {
        return "no reason given".to_owned();
    }
    words.join(": ")
}

fn has_condition(pod: &Pod, type_: &str, value: &str) -> bool {
    conditions(pod).any(|condition| condition.type_ == type_ && condition.status == value)
}

fn conditions(pod: &Pod) -> impl Iterator<Item = &k8s_openapi::api::core::v1::PodCondition> {
    pod.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
}

/// True when `pod` could be made from `wanted`: same images in the same containers, same spec hash.
/// Containers that others inject are ignored.
pub(crate) fn matches(pod: &Pod, wanted: &Pod) -> bool {
    let image = |name: &str| containers(pod).find(|(found, _)| *found == name);
    let has_ours = containers(wanted).all(|ours| image(ours.0) == Some(ours));
    has_ours && spec_hash(pod) == spec_hash(wanted)
}

fn spec_hash(pod: &Pod) -> Option<&String> {
    pod.metadata.labels.as_ref()?.get(labels::POD_SPEC_HASH)
}

/// Returns name and image of each container, including init containers.
fn containers(pod: &Pod) -> impl Iterator<Item = (&str, Option<&str>)> {
    let spec = pod.spec.iter();
    let all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.map(|container| (container.name.as_str(), container.image.as_deref()))
}

/// True when the content was copied from the catalog's image when the pod started: a restarted server has the
/// same content.
pub(crate) fn is_extracted(pod: &Pod) -> bool {
    containers(pod).any(|(name, _)| name == EXTRACT_CONTAINER)
}

/// Returns the reason why the pod does not become ready, if it is not temporary.
///
/// The text does not change while the kubelet alternates between attempts and back-off.
pub(crate) fn trouble(pod: &Pod) -> Option<String> {
    if let Some(why) = why_unscheduled(pod) {
        return Some(format!("pod {} cannot be scheduled: {why}", name(pod)));
    }
    let status = pod.status.as_ref()?;
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten();
    containers
        .into_iter()
        .find_map(|container| container_trouble(pod, container))
}

/// True for a reason to wait that needs a user's attention; the others are temporary.
fn is_stuck(reason: &str) -> bool {
    reason != BACK_OFF && !is_starting(reason)
}

fn container_trouble(pod: &Pod, container: &ContainerStatus) -> Option<String> {
    let place = format!("pod {} container {}", name(pod), container.name);
    if let Some(ended) = keeps_ending(container) {
        let output = ended.message.as_deref().map(str::trim).unwrap_or_default();
        let code = ended.exit_code;
        return Some(format!(
            "{place} keeps terminating (exit code {code}): {}",
            last_line(output)
        ));
    }
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| is_stuck(reason))?;
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(if is_pull_failure(reason) {
        let cause = pull_cause(message);
        format!("{place} cannot pull image {}: {cause}", container.image)
    } else {
        format!("{place} is waiting: {reason}: {message}")
    })
}

/// Returns the last termination of a container that terminates repeatedly, also during another attempt, until
/// it is up. Resolution reads the catalog's message, and must not run for each attempt.
fn keeps_ending(container: &ContainerStatus) -> Option<ContainerStateTerminated> {
    let state = container.state.clone().unwrap_or_default();
    let waiting = state.waiting.and_then(|waiting| waiting.reason);
    let is_backing_off = waiting.as_deref() == Some(BACK_OFF);
    let is_again = container.restart_count > 0 || is_backing_off;
    let is_up = container.ready || container.started == Some(true);
    if !is_again || is_up || waiting.is_some_and(|reason| is_stuck(&reason)) {
        return None;
    }
    let before = || container.last_state.clone()?.terminated;
    let ended = state.terminated.or_else(before);
    ended.or_else(|| is_backing_off.then(ContainerStateTerminated::default))
}

/// Returns the last line of a crashed server's output; the rest is its log.
fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no output")
}

/// Returns the image ID that the node reports, of the container that has the catalog's image.
pub(crate) fn image_id(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let extracting = status.init_container_statuses.iter().flatten();
    let extracting = extracting.filter(|container| container.name == EXTRACT_CONTAINER);
    let is_extracted = is_extracted(pod);
    let serving = status.container_statuses.iter().flatten();
    let serving = serving.filter(|container| !is_extracted && container.name == SERVER_CONTAINER);
    extracting
        .chain(serving)
        .map(|container| container.image_id.as_str())
        .find(|id| !id.is_empty())
}

/// True when the pod has the image with this digest, according to its node or its creator.
pub(crate) fn has_digest(pod: &Pod, digest: &str) -> bool {
    let pulled = image_id(pod).and_then(|id| id.rsplit_once('@'));
    pulled.is_some_and(|(_, pulled)| pulled == digest) || made_for(pod) == Some(digest)
}

/// Digest behind the tag when a poll caused the pod.
pub(crate) fn made_for(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(labels::IMAGE_DIGEST).map(String::as_str)
}

pub(crate) fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Time since the pod is not ready.
pub(crate) fn not_ready_since(pod: &Pod) -> Option<Timestamp> {
    let lost = conditions(pod).find(|condition| condition.type_ == "Ready" && condition.status != "True");
    let lost = lost
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0);
    lost.max(created(pod))
}
