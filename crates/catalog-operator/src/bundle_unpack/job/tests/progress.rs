//! Reports of a running Job.

use super::super::super::error::UnpackClass;
use super::super::progress::{Progress, progress};
use super::*;

fn told(pod: Option<Value>, status: &Value) -> (Option<UnpackClass>, String) {
    match found(pod, status) {
        Progress::Pending { class, message, .. } => (Some(class), message),
        Progress::NoPod => (None, "no pod".to_owned()),
        Progress::Failed { class, message, .. } => (Some(class), message),
        other => panic!("{other:?}"),
    }
}

fn found(pod: Option<Value>, status: &Value) -> Progress {
    let left = Left::of("r/b:v1");
    let mut job = left.job.clone();
    job["status"] = status.clone();
    let pods: Vec<Arc<UnpackPod>> = pod
        .into_iter()
        .map(|status| {
            let mut pod = left.pods[0].clone();
            pod["status"] = status;
            unpack_pod(&pod)
        })
        .collect();
    let runs = Programs::of(&pod_spec(
        &key("r/b:v1"),
        "r/b:v1",
        &source(&json!([])),
        &settings(),
    ));
    progress(&request("r/b:v1", 600), &runs, &[unpack_job(&job)], &pods)
}

#[test]
fn reasons_for_a_long_job_are_reported() {
    let unschedulable = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available"}]});
    let waiting = |reason: &str| json!({"initContainerStatuses": [{"name": "pull", "state": {"waiting": {"reason": reason, "message": "denied"}}}]});
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "long"}]});
    let (held_up, goes_on) = (Some(UnpackClass::JobHeldUp), Some(UnpackClass::JobIncomplete));
    let none = Value::Null;
    let rows = [
        (None, none.clone(), None, "no pod"),
        // It had a pod, and another one follows.
        (None, json!({"failed": 1}), goes_on, "unpack job not completed"),
        (
            Some(unschedulable.clone()),
            none.clone(),
            held_up,
            "unpack job not completed: pod golden/p cannot be scheduled: 0/3 nodes are available",
        ),
        (
            Some(waiting("PodInitializing")),
            none.clone(),
            goes_on,
            "unpack job not completed",
        ),
        (
            Some(waiting("ErrImagePull")),
            none,
            goes_on,
            "unpack job not completed: Unpack pod(golden/p) container(pull) is pending. Reason: ErrImagePull, Message: denied",
        ),
        (
            Some(unschedulable),
            failed,
            Some(UnpackClass::DeadlineExceeded),
            "pod golden/p cannot be scheduled: 0/3 nodes are available",
        ),
    ];
    for (pod, status, class, expected) in rows {
        let (found, text) = told(pod, &status);
        assert!(
            found == class && (text == expected || text.ends_with(&format!("long; {expected}"))),
            "{expected}: {found:?} {text}"
        );
    }
}

/// A node that cannot pull alternates between two messages, and a scheduler's message changes with the number
/// of nodes. Other messages are not treated like this.
#[test]
fn the_same_trouble_in_other_words_is_no_news() {
    let trouble = |status: Value| match found(Some(status), &Value::Null) {
        Progress::Pending { trouble, .. } => trouble,
        other => panic!("{other:?}"),
    };
    let waiting = |reason: &str, message: &str| {
        trouble(
            json!({"initContainerStatuses": [{"name": "pull", "state": {"waiting": {"reason": reason, "message": message}}}]}),
        )
    };
    let unscheduled = |message: &str| {
        trouble(json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}))
    };
    let pull = || waiting("ErrImagePull", "denied");
    let nodes = || unscheduled("0/3 nodes");
    let nothing = || waiting("PodInitializing", "");
    let rows = [
        (pull(), waiting("ImagePullBackOff", "Back-off"), true),
        (nodes(), unscheduled("0/4 nodes"), true),
        (nodes(), unscheduled("ErrImagePull"), true),
        (pull(), nodes(), false),
        (nothing(), nodes(), false),
        (nothing(), nothing(), false),
        (
            waiting("CreateContainerError", "no ErrImagePull"),
            waiting("CreateContainerError", "cannot be scheduled, ErrImagePull"),
            false,
        ),
    ];
    for (before, now, is_same) in rows {
        assert_eq!(now.is_same(before), is_same, "{before:?} {now:?}");
    }
}
