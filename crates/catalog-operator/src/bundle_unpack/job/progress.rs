//! Progress of the Job of a request. No I/O.

use std::sync::Arc;

use olm_api::pod::is_pull_failure;

use super::super::error::UnpackClass;
use super::JobRequest;
use crate::stores::unpacks::{Ending, LastWords, Programs, UnpackJob, UnpackPod};

/// Upstream's text for an unfinished Job.
pub(crate) const INCOMPLETE: &str = "unpack job not completed";
/// Maximum number of pods of a Job in a message.
const MAX_PODS: usize = 4;

/// Progress of a request.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// The Job does not exist.
    NoJob,
    /// The Job exists, but has no pod.
    NoPod,
    /// The Job is running.
    Pending {
        /// Class of the failure if it takes long.
        class: UnpackClass,
        /// Cause of the delay.
        trouble: Trouble,
        /// Reason for the delay, if known.
        message: String,
    },
    /// The Job has succeeded.
    Complete(Arc<UnpackJob>),
    /// The Job has failed.
    Failed {
        /// Class of the failure.
        class: UnpackClass,
        /// Messages of the Job and its containers.
        message: String,
        /// True when a container has left a message.
        is_explained: bool,
    },
}

/// Cause of a running Job's delay, if its messages alternate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A node cannot pull an image, and its messages alternate between attempts and back-off.
    Pulling,
    /// No node accepts a pod, and the scheduler's message counts the nodes, which changes constantly.
    Scheduling,
    /// Another cause, or none.
    Other,
}

impl Trouble {
    /// True when another message after that of `before` is no new information.
    pub(crate) fn is_same(self, before: Self) -> bool {
        self == before && self != Self::Other
    }
}

/// Returns the progress of the request, from the Jobs of its key and their pods. `runs` are the programs of
/// our Jobs.
pub(crate) fn progress(
    request: &JobRequest,
    runs: &Programs,
    jobs: &[Arc<UnpackJob>],
    pods: &[Arc<UnpackPod>],
) -> Progress {
    let Some(job) = current(request, runs, jobs) else {
        return Progress::NoJob;
    };
    let pods = pods_of(job, pods);
    match &job.ending {
        Some(ending) if ending.is_failed => failed(job, ending, &pods),
        Some(_) => Progress::Complete(Arc::clone(job)),
        None if pods.is_empty() && !job.has_made_pods => Progress::NoPod,
        None => pending(&pods),
    }
}

/// Returns the Job that counts: one that has not failed is preferred, and then the newest.
pub(crate) fn current<'a>(
    request: &JobRequest,
    runs: &Programs,
    jobs: &'a [Arc<UnpackJob>],
) -> Option<&'a Arc<UnpackJob>> {
    let counts = |job: &&Arc<UnpackJob>| {
        is_ours(runs, job) && !job.is_deleting() && !request.passed_over.contains(&uid(job))
    };
    jobs.iter()
        .filter(counts)
        .max_by_key(|job| (!is_failed(job), job.created, uid(job)))
}

/// True when we would have created the Job like this: for the ConfigMap, with the programs of ours.
pub(crate) fn is_ours(runs: &Programs, job: &UnpackJob) -> bool {
    job.config_map.is_some() && job.programs == *runs
}

/// Returns the uid of a Job.
pub(crate) fn uid(job: &UnpackJob) -> String {
    job.uid().unwrap_or_default()
}

/// True when a Job has succeeded or failed.
pub(crate) fn is_over(job: &UnpackJob) -> bool {
    job.ending.is_some()
}

/// True when a Job has failed.
fn is_failed(job: &UnpackJob) -> bool {
    job.ending.as_ref().is_some_and(|ending| ending.is_failed)
}

/// Returns the pods that a Job created.
pub(crate) fn pods_of<'a>(job: &UnpackJob, pods: &'a [Arc<UnpackPod>]) -> Vec<&'a Arc<UnpackPod>> {
    let uid = uid(job);
    let is_of = |pod: &&Arc<UnpackPod>| pod.job.as_deref() == Some(uid.as_str());
    pods.iter().filter(is_of).collect()
}

fn failed(job: &UnpackJob, ending: &Ending, pods: &[&Arc<UnpackPod>]) -> Progress {
    let mut message = format!("unpack Job {}: {}", job.key(), ending.message);
    let mut class = match &*ending.reason {
        "DeadlineExceeded" => UnpackClass::DeadlineExceeded,
        "BackoffLimitExceeded" => UnpackClass::BackoffLimitExceeded,
        _ => UnpackClass::JobFailed,
    };
    let last = last_words(pods);
    if let Some(last) = last {
        let (container, said) = (&last.container, &last.said);
        message = format!("{message}; container {container} terminated: {said}");
        // Message of `opm` about a bundle that is too large.
        if last.is_too_large {
            class = UnpackClass::TooLarge;
            message =
                format!("{message}; a bundle that a Job unpacks must fit into a ConfigMap, at most 1 MiB");
        }
    } else if let Some(waiting) = unschedulable(pods).or_else(|| waiting(pods)) {
        message = format!("{message}; {waiting}");
    }
    Progress::Failed {
        class,
        message,
        is_explained: last.is_some(),
    }
}

fn pending(pods: &[&Arc<UnpackPod>]) -> Progress {
    if let Some(text) = unschedulable(pods) {
        return Progress::Pending {
            class: UnpackClass::JobHeldUp,
            trouble: Trouble::Scheduling,
            message: format!("{INCOMPLETE}: {text}"),
        };
    }
    let mut waiting_containers = pods.iter().flat_map(|pod| &pod.waiting);
    let trouble = if waiting_containers.any(|container| is_pull_failure(&container.reason)) {
        Trouble::Pulling
    } else {
        Trouble::Other
    };
    let message = match (waiting(pods), last_words(pods)) {
        (Some(waiting), _) => format!("{INCOMPLETE}: {waiting}"),
        (None, Some(LastWords { container, said, .. })) => {
            format!("{INCOMPLETE}: a pod terminated, container {container}: {said}")
        }
        (None, None) => INCOMPLETE.to_owned(),
    };
    Progress::Pending {
        class: UnpackClass::JobIncomplete,
        trouble,
        message,
    }
}

fn unschedulable(pods: &[&Arc<UnpackPod>]) -> Option<String> {
    pods.iter().find_map(|pod| {
        let message = pod.unschedulable.as_deref()?;
        Some(format!("pod {} cannot be scheduled: {message}", pod.key()))
    })
}

/// Describes containers that do not start, with upstream's text.
fn waiting(pods: &[&Arc<UnpackPod>]) -> Option<String> {
    let texts = pods.iter().flat_map(|pod| {
        pod.waiting.iter().map(|container| {
            format!(
                "Unpack pod({}) container({}) is pending. Reason: {}, Message: {}",
                pod.key(),
                container.name,
                container.reason,
                container.message
            )
        })
    });
    let texts: Vec<String> = texts.take(MAX_PODS).collect();
    (!texts.is_empty()).then(|| texts.join(" | "))
}

fn last_words<'a>(pods: &[&'a Arc<UnpackPod>]) -> Option<&'a LastWords> {
    pods.iter().find_map(|pod| pod.failure.as_ref())
}
