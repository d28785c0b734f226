//! How far the Job of a wish is. Pure.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use olm_api::unpacked_bundle;
use olm_runtime::NamespacedName;

use super::super::error::UnpackClass;
use super::JobWish;
use super::objects::{EXTRACT, runs_the_same};

/// Upstream's word for a Job that is not over.
const INCOMPLETE: &str = "unpack job not completed";
/// Letters of what a container or a Job says that are repeated.
const MAX_TEXT: usize = 512;
/// Pods of a Job of which is told.
const MAX_PODS: usize = 4;

/// What has become of a wish.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Progress {
    /// There is no Job yet, or none any more.
    NoJob,
    /// It goes on; why that takes long, if it is known.
    Pending(String),
    /// It has succeeded.
    Complete(Arc<Job>),
    /// It has failed.
    Failed {
        /// What kind of failure.
        class: UnpackClass,
        /// What the Job and its containers say.
        message: String,
        /// Whether a container has said anything.
        is_explained: bool,
    },
}

/// How far the wish is, given the Jobs of its key and their pods. `runs` is what a Job of ours runs.
pub(crate) fn progress(
    key: &NamespacedName,
    wish: &JobWish,
    runs: &PodSpec,
    jobs: &[Arc<Job>],
    pods: &[Arc<Pod>],
) -> Progress {
    let Some(job) = current(key, wish, runs, jobs) else {
        return Progress::NoJob;
    };
    let pods = pods_of(job, pods);
    match ending(job) {
        Some((COMPLETE, _, _)) => Progress::Complete(Arc::clone(job)),
        Some((_, reason, message)) => failed(&name(job), reason, message, &pods),
        None => Progress::Pending(pending(&pods)),
    }
}

/// The Job that counts: one that has not failed before one that has, the newest of several.
pub(crate) fn current<'a>(
    key: &NamespacedName,
    wish: &JobWish,
    runs: &PodSpec,
    jobs: &'a [Arc<Job>],
) -> Option<&'a Arc<Job>> {
    let counts = |job: &&Arc<Job>| {
        is_ours(key, runs, job)
            && job.metadata.deletion_timestamp.is_none()
            && !wish.passed_over.contains(uid(job))
    };
    jobs.iter().filter(counts).max_by_key(|job| {
        let created = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (!is_failed(job), created, uid(job).to_owned())
    })
}

/// Whether we would have made the Job so: one of the ConfigMap that runs what ours run.
fn is_ours(key: &NamespacedName, runs: &PodSpec, job: &Job) -> bool {
    let spec = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    config_map_owner(key, job).is_some() && spec.is_some_and(|spec| runs_the_same(spec, runs))
}

/// The reference of a Job to the ConfigMap of its key.
pub(crate) fn config_map_owner<'a>(key: &NamespacedName, job: &'a Job) -> Option<&'a OwnerReference> {
    let owners = job.metadata.owner_references.iter().flatten();
    owners
        .into_iter()
        .find(|owner| owner.kind == "ConfigMap" && owner.name == key.name)
}

/// Uid of a Job.
pub(crate) fn uid(job: &Job) -> &str {
    job.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether a Job is over, one way or the other.
pub(crate) fn is_over(job: &Job) -> bool {
    ending(job).is_some()
}

/// Whether a Job has failed.
pub(crate) fn is_failed(job: &Job) -> bool {
    ending(job).is_some_and(|(type_, _, _)| type_ == FAILED)
}

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";

/// The condition that ended the Job: type, reason, message.
fn ending(job: &Job) -> Option<(&str, &str, &str)> {
    let conditions = job.status.as_ref()?.conditions.iter().flatten();
    conditions
        .filter(|condition| condition.status == "True")
        .find_map(|condition| {
            let type_ = [COMPLETE, FAILED]
                .into_iter()
                .find(|type_| *type_ == condition.type_)?;
            let reason = condition.reason.as_deref().unwrap_or_default();
            Some((type_, reason, condition.message.as_deref().unwrap_or_default()))
        })
}

/// The pods that a Job made.
pub(crate) fn pods_of<'a>(job: &Job, pods: &'a [Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
    let is_of = |pod: &&Arc<Pod>| {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners
            .into_iter()
            .any(|owner| owner.kind == "Job" && owner.uid == uid(job))
    };
    let mut found: Vec<_> = pods.iter().filter(is_of).collect();
    found.sort_by_key(|pod| pod.metadata.name.clone());
    found
}

fn failed(job: &str, reason: &str, message: &str, pods: &[&Arc<Pod>]) -> Progress {
    let mut text = format!("unpack Job {job}: {}", clipped(message));
    let mut class = match reason {
        "DeadlineExceeded" => UnpackClass::DeadlineExceeded,
        "BackoffLimitExceeded" => UnpackClass::BackoffLimitExceeded,
        _ => UnpackClass::JobFailed,
    };
    let ended = pods.iter().find_map(|pod| last_words(pod));
    if let Some((container, said)) = ended {
        text = format!("{text}; its container {container} ended with: {}", clipped(said));
        // What `opm` says of a bundle that does not fit.
        if container == EXTRACT && said.contains(unpacked_bundle::TOO_LARGE) {
            class = UnpackClass::TooLarge;
            text =
                format!("{text}; a ConfigMap, through which a Job hands a bundle over, has room for one MiB");
        }
    } else if let Some(waiting) = waiting(pods) {
        text = format!("{text}; {waiting}");
    }
    Progress::Failed {
        class,
        message: text,
        is_explained: ended.is_some(),
    }
}

fn pending(pods: &[&Arc<Pod>]) -> String {
    let ended = pods.iter().find_map(|pod| last_words(pod));
    match (waiting(pods), ended) {
        (Some(waiting), _) => format!("{INCOMPLETE}: {waiting}"),
        (None, Some((container, said))) => {
            let said = clipped(said);
            format!("{INCOMPLETE}: a pod ended, its container {container} with: {said}")
        }
        (None, None) => INCOMPLETE.to_owned(),
    }
}

/// Containers that do not start, as upstream tells of them.
fn waiting(pods: &[&Arc<Pod>]) -> Option<String> {
    let texts = pods.iter().flat_map(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        statuses(pod).filter_map(move |container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref().filter(|reason| !is_on_its_way(reason))?;
            let message = clipped(waiting.message.as_deref().unwrap_or_default());
            Some(format!(
                "Unpack pod({namespace}/{name}) container({}) is pending. Reason: {reason}, Message: {message}",
                container.name
            ))
        })
    });
    let texts: Vec<String> = texts.take(MAX_PODS).collect();
    (!texts.is_empty()).then(|| texts.join(" | "))
}

/// Reasons that every container has for a moment.
fn is_on_its_way(reason: &str) -> bool {
    matches!(reason, "PodInitializing" | "ContainerCreating" | "")
}

/// What a container that ended in failure said, and its name.
fn last_words(pod: &Pod) -> Option<(&str, &str)> {
    statuses(pod).find_map(|container| {
        let ended = container.state.as_ref()?.terminated.as_ref()?;
        let said = ended
            .message
            .as_deref()
            .or(ended.reason.as_deref())
            .unwrap_or_default();
        (ended.exit_code != 0).then_some((container.name.as_str(), said))
    })
}

/// Init containers and containers.
fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    init.into_iter().flatten().chain(main.into_iter().flatten())
}

/// What the container that wrote the ConfigMap said at its good end, and the image id of the one that pulled.
pub(crate) fn proof(pod: &Pod, pull: &str) -> Option<(String, Option<String>)> {
    let ended = |state: &Option<ContainerState>| {
        let ended = state.as_ref()?.terminated.as_ref()?;
        (ended.exit_code == 0).then(|| ended.message.clone().unwrap_or_default())
    };
    let extract = statuses(pod).find(|container| container.name == EXTRACT)?;
    let said = ended(&extract.state)?;
    let hash = unpacked_bundle::proven_hash(&said)?.to_owned();
    let pulled = statuses(pod).find(|container| container.name == pull);
    let image = pulled.map(|container| container.image_id.clone());
    Some((hash, image.filter(|id| !id.is_empty())))
}

fn name(job: &Job) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text(&job.metadata.namespace), text(&job.metadata.name))
}

/// Nodes repeat what registries say, which may be anything.
fn clipped(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_TEXT) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
