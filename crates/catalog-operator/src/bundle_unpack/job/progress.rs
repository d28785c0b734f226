//! How far the Job of a wish is. Pure.

use std::sync::Arc;

use olm_api::pod::is_pull_failure;

use super::super::error::UnpackClass;
use super::JobWish;
use crate::stores::unpacks::{Ending, JobSketch, LastWords, PodSketch, Programs};

/// Upstream's word for a Job that is not over.
pub(crate) const INCOMPLETE: &str = "unpack job not completed";
/// Pods of a Job of which is told.
const MAX_PODS: usize = 4;

/// What has become of a wish.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// There is no Job yet, or none any more.
    NoJob,
    /// There is one, and it has made no pod.
    NoPod,
    /// It goes on.
    Pending {
        /// What helps if that takes long.
        class: UnpackClass,
        /// What keeps it.
        trouble: Trouble,
        /// Why that takes long, if it is known.
        message: String,
    },
    /// It has succeeded.
    Complete(Arc<JobSketch>),
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

/// What keeps a Job that goes on, as far as texts of it come in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A node cannot pull an image, and tells of its tries and of its pauses.
    Pulling,
    /// No node takes a pod, and the scheduler counts the nodes, of which there are others in each moment.
    Scheduling,
    /// Something else, or nothing.
    Other,
}

impl Trouble {
    /// Whether another text of it, after that of `before`, is no news.
    pub(crate) fn is_same(self, before: Self) -> bool {
        self == before && self != Self::Other
    }
}

/// How far the wish is, given the Jobs of its key and their pods. `runs` is what a Job of ours runs.
pub(crate) fn progress(
    wish: &JobWish,
    runs: &Programs,
    jobs: &[Arc<JobSketch>],
    pods: &[Arc<PodSketch>],
) -> Progress {
    let Some(job) = current(wish, runs, jobs) else {
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

/// The Job that counts: one that has not failed before one that has, the newest of several.
pub(crate) fn current<'a>(
    wish: &JobWish,
    runs: &Programs,
    jobs: &'a [Arc<JobSketch>],
) -> Option<&'a Arc<JobSketch>> {
    let counts = |job: &&Arc<JobSketch>| {
        is_ours(runs, job) && !job.is_deleting() && !wish.passed_over.contains(&uid(job))
    };
    jobs.iter()
        .filter(counts)
        .max_by_key(|job| (!is_failed(job), job.created, uid(job)))
}

/// Whether we would have made the Job so: one of the ConfigMap that runs what ours run.
pub(crate) fn is_ours(runs: &Programs, job: &JobSketch) -> bool {
    job.config_map.is_some() && job.programs == *runs
}

/// Uid of a Job.
pub(crate) fn uid(job: &JobSketch) -> String {
    job.uid().unwrap_or_default()
}

/// Whether a Job is over, one way or the other.
pub(crate) fn is_over(job: &JobSketch) -> bool {
    job.ending.is_some()
}

/// Whether a Job has failed.
pub(crate) fn is_failed(job: &JobSketch) -> bool {
    job.ending.as_ref().is_some_and(|ending| ending.is_failed)
}

/// The pods that a Job made.
pub(crate) fn pods_of<'a>(job: &JobSketch, pods: &'a [Arc<PodSketch>]) -> Vec<&'a Arc<PodSketch>> {
    let uid = uid(job);
    let is_of = |pod: &&Arc<PodSketch>| pod.job.as_deref() == Some(uid.as_str());
    pods.iter().filter(is_of).collect()
}

fn failed(job: &JobSketch, ending: &Ending, pods: &[&Arc<PodSketch>]) -> Progress {
    let mut message = format!("unpack Job {}: {}", job.key(), ending.message);
    let mut class = match &*ending.reason {
        "DeadlineExceeded" => UnpackClass::DeadlineExceeded,
        "BackoffLimitExceeded" => UnpackClass::BackoffLimitExceeded,
        _ => UnpackClass::JobFailed,
    };
    let last = last_words(pods);
    if let Some(last) = last {
        let (container, said) = (&last.container, &last.said);
        message = format!("{message}; its container {container} ended with: {said}");
        // What `opm` says of a bundle that does not fit.
        if last.is_too_large {
            class = UnpackClass::TooLarge;
            message = format!(
                "{message}; a ConfigMap, through which a Job hands a bundle over, has room for one MiB"
            );
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

fn pending(pods: &[&Arc<PodSketch>]) -> Progress {
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
            format!("{INCOMPLETE}: a pod ended, its container {container} with: {said}")
        }
        (None, None) => INCOMPLETE.to_owned(),
    };
    Progress::Pending {
        class: UnpackClass::JobIncomplete,
        trouble,
        message,
    }
}

fn unschedulable(pods: &[&Arc<PodSketch>]) -> Option<String> {
    pods.iter().find_map(|pod| {
        let message = pod.unschedulable.as_deref()?;
        Some(format!("pod {} cannot be scheduled: {message}", pod.key()))
    })
}

/// Containers that do not start, as upstream tells of them.
fn waiting(pods: &[&Arc<PodSketch>]) -> Option<String> {
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

fn last_words<'a>(pods: &[&'a Arc<PodSketch>]) -> Option<&'a LastWords> {
    pods.iter().find_map(|pod| pod.failure.as_ref())
}
