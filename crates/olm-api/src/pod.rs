//! What the status of a pod says. Pure.

use k8s_openapi::api::core::v1::Pod;

use crate::condition;

/// Why no node takes a pod: the scheduler's words, else its reason; empty when it gives none. `None` for a pod that has a node, and
/// for one that no scheduler has looked at.
pub fn why_unscheduled(pod: &Pod) -> Option<&str> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    // Whatever the reason is: a pod may also be held back by a gate.
    let refused = conditions
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == condition::FALSE)?;
    let message = refused.message.as_deref().filter(|text| !text.is_empty());
    Some(message.or(refused.reason.as_deref()).unwrap_or_default())
}

/// Whether a container that waits for this reason does what every container does for a moment.
pub fn is_starting(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// Whether a container waits because its image cannot be pulled: two words, between which the kubelet alternates.
pub fn is_pull_failure(reason: &str) -> bool {
    matches!(reason, "ErrImagePull" | "ImagePullBackOff")
}

/// The cause out of either of the two messages that go with these words: the back-off quotes the failure it backs off from.
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
    fn a_pod_that_no_node_takes_says_why() {
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
