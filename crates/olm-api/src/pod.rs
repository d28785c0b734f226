//! Interpretation of a pod's status. No I/O.

use k8s_openapi::api::core::v1::Pod;

use crate::condition;

/// Returns why no node fits a pod: the scheduler's message, else its reason, else an empty text. `None` for a pod that has a
/// node, and for a pod that no scheduler has processed.
pub fn why_unscheduled(pod: &Pod) -> Option<&str> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    // Any reason counts: a pod may also be held back by a scheduling gate.
    let refused = conditions
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == condition::FALSE)?;
    let message = refused.message.as_deref().filter(|text| !text.is_empty());
    Some(message.or(refused.reason.as_deref()).unwrap_or_default())
}

/// Returns true if a container waits for a reason that every container has for a moment at its start.
pub fn is_starting(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// Returns true if a container waits because its image cannot be pulled. The kubelet alternates between two reasons.
pub fn is_pull_failure(reason: &str) -> bool {
    matches!(reason, "ErrImagePull" | "ImagePullBackOff")
}

/// Extracts the cause from either message of these reasons: the back-off message quotes the failure.
pub fn pull_cause(message: &str) -> &str {
    message
        .split_once("ErrImagePull: ")
        .map_or(message, |(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_unschedulable_pod_reports_the_reason() {
        let told = |condition: Value| {
            let mut condition = condition;
            condition["type"] = json!("PodScheduled");
            let pod = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "other"}, condition]}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            why_unscheduled(&pod).map(str::to_owned)
        };
        let text = |text: &str| Some(text.to_owned());
        let refused = json!({"status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        assert_eq!(told(refused), text("0/3 nodes"));
        assert_eq!(
            told(json!({"status": "False", "reason": "SchedulingGated"})),
            text("SchedulingGated")
        );
        let empty = json!({"status": "False", "reason": "SchedulingGated", "message": ""});
        assert_eq!(told(empty), text("SchedulingGated"));
        assert_eq!(told(json!({"status": "False"})), text(""));
        assert_eq!(told(json!({"status": "True", "reason": "x"})), None);
        assert_eq!(why_unscheduled(&Pod::default()), None);
    }

    #[test]
    fn a_back_off_quotes_its_cause() {
        for (message, cause) in [
            ("denied", "denied"),
            (
                "Back-off pulling image \"i\": ErrImagePull: denied: ErrImagePull: x",
                "denied: ErrImagePull: x",
            ),
            ("Back-off pulling image \"i\"", "Back-off pulling image \"i\""),
        ] {
            assert_eq!(pull_cause(message), cause);
        }
        assert!(is_pull_failure("ErrImagePull") && is_pull_failure("ImagePullBackOff"));
        assert!(!is_pull_failure("InvalidImageName") && !is_starting("ErrImagePull"));
        assert!(is_starting("PodInitializing") && is_starting("ContainerCreating"));
    }
}
