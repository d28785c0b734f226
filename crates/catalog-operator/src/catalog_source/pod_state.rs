//! What a catalog's pods say about themselves: which serves, which is dead, which waits and for what.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::labels;
use olm_api::pod::{is_pull_failure, pull_cause, why_unscheduled};

use super::pod::{EXTRACT_CONTAINER, SERVER_CONTAINER};

/// What a container waits for between two ends.
const BACK_OFF: &str = "CrashLoopBackOff";

/// Waiting reasons that need somebody's attention; the others pass by themselves.
const TROUBLES: [&str; 9] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
    "RunContainerError",
];

/// Time after its deletion was to be over before a pod is deleted by force: its node is lost.
const LONGEST_END: Duration = Duration::from_secs(30);

/// How a dead pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is being deleted, and has so long for it.
    ByItself { within: Duration },
    /// It has to be deleted; 0 is by force.
    Deleted { grace_seconds: u32 },
}

/// Name of the pod.
pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// Whether the pod's Ready condition holds and it is not being deleted.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && has_condition(pod, "Ready", "True")
}

/// Whether the pod serves, or its servers have come up and it may serve again in a moment.
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

/// Whether the pod will never serve (again): about to be evicted, or ended.
pub(crate) fn is_dead(pod: &Pod) -> bool {
    has_condition(pod, "DisruptionTarget", "True") || has_ended(pod)
}

/// Whether its containers have ended for good.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// How a dead pod goes: a moment after its deletion by itself, unless its node is lost; one that has ended by force, and one that is about to
/// be evicted, and still runs, as all do.
pub(crate) fn end_of(pod: &Pod, now: Timestamp) -> End {
    let Some(Time(over)) = pod.metadata.deletion_timestamp else {
        let grace_seconds = u32::from(!has_ended(pod));
        return End::Deleted { grace_seconds };
    };
    let late = Duration::try_from(now.duration_since(over)).unwrap_or_default();
    match LONGEST_END.checked_sub(late).filter(|left| !left.is_zero()) {
        Some(within) => End::ByItself { within },
        None => End::Deleted { grace_seconds: 0 },
    }
}

/// How many pods died young one after the other before this one.
pub(crate) fn failures_before(pod: &Pod) -> u32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(labels::POD_FAILURES))
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// How many pods were outdated one after the other before they had started, before this one.
pub(crate) fn outdated_before(pod: &Pod) -> u32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(labels::POD_OUTDATED))
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// Why a dead pod died, as far as it says: a node that refuses a pod says so here.
pub(crate) fn last_words(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let message = status.and_then(|status| status.message.as_deref());
    let words: Vec<&str> = reason.into_iter().chain(message).collect();
    if words.is_empty() {
        return "no reason told".to_owned();
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

/// Whether `pod` is one that `wanted` would give: same images in the same containers, same spec hash. Containers that others add to
/// every pod are theirs.
pub(crate) fn matches(pod: &Pod, wanted: &Pod) -> bool {
    let image = |name: &str| containers(pod).find(|(found, _)| *found == name);
    let has_ours = containers(wanted).all(|ours| image(ours.0) == Some(ours));
    has_ours && spec_hash(pod) == spec_hash(wanted)
}

fn spec_hash(pod: &Pod) -> Option<&String> {
    pod.metadata.labels.as_ref()?.get(labels::POD_SPEC_HASH)
}

/// Name and image of each container, those that prepare the pod included.
fn containers(pod: &Pod) -> impl Iterator<Item = (&str, Option<&str>)> {
    let spec = pod.spec.iter();
    let all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.map(|container| (container.name.as_str(), container.image.as_deref()))
}

/// Whether the content was copied out of the catalog's image when the pod began: a server that is started again has no other.
pub(crate) fn is_extracted(pod: &Pod) -> bool {
    containers(pod).any(|(name, _)| name == EXTRACT_CONTAINER)
}

/// Why the pod does not get ready, if it is something that does not pass by itself.
///
/// The text stays the same while the kubelet alternates between trying and backing off.
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

fn container_trouble(pod: &Pod, container: &ContainerStatus) -> Option<String> {
    let place = format!("pod {} container {}", name(pod), container.name);
    if let Some(ended) = keeps_ending(container) {
        let told = ended.message.as_deref().map(str::trim).unwrap_or_default();
        let code = ended.exit_code;
        return Some(format!(
            "{place} keeps ending (exit code {code}): {}",
            last_line(told)
        ));
    }
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| TROUBLES.contains(reason))?;
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(if is_pull_failure(reason) {
        let cause = pull_cause(message);
        format!("{place} cannot pull image {}: {cause}", container.image)
    } else {
        format!("{place} is waiting: {reason}: {message}")
    })
}

/// How a container ended that ends again and again: also while it is being tried once more, until it is up. What a catalog says
/// of itself is read by resolution, which is not to run anew for each attempt.
fn keeps_ending(container: &ContainerStatus) -> Option<ContainerStateTerminated> {
    let state = container.state.clone().unwrap_or_default();
    let waiting = state.waiting.and_then(|waiting| waiting.reason);
    let is_backing_off = waiting.as_deref() == Some(BACK_OFF);
    let is_again = container.restart_count > 0 || is_backing_off;
    let is_up = container.ready || container.started == Some(true);
    let is_stuck = waiting.is_some_and(|reason| TROUBLES.contains(&reason.as_str()));
    if !is_again || is_up || is_stuck {
        return None;
    }
    let before = || container.last_state.clone()?.terminated;
    let ended = state.terminated.or_else(before);
    ended.or_else(|| is_backing_off.then(ContainerStateTerminated::default))
}

/// A crashed server's last words; what came before is its log.
fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no output")
}

/// The image that runs in the pod, as its node has it: of the container whose image the catalog is.
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

/// Whether the pod has the image with this digest, as far as its node or whoever made it says.
pub(crate) fn has_digest(pod: &Pod, digest: &str) -> bool {
    pulled_digest(pod) == Some(digest) || made_for(pod) == Some(digest)
}

/// The digest by which its node has pulled the image.
pub(crate) fn pulled_digest(pod: &Pod) -> Option<&str> {
    let (_, pulled) = image_id(pod)?.rsplit_once('@')?;
    Some(pulled)
}

/// The digest that was behind the tag when a poll had the pod made.
pub(crate) fn made_for(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(labels::IMAGE_DIGEST).map(String::as_str)
}

/// When the pod was created.
pub(crate) fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Since when the pod is not ready.
pub(crate) fn not_ready_since(pod: &Pod) -> Option<Timestamp> {
    let lost = conditions(pod).find(|condition| condition.type_ == "Ready" && condition.status != "True");
    let lost = lost
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0);
    lost.max(created(pod))
}
