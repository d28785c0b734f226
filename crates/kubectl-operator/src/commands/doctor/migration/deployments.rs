//! Deployments of operators that this OLM would change.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use olm_api::labels;
use serde_json::Value;

use super::super::finding::{Finding, about, at};
use crate::terminal::plain;

/// Field managers, other than users, that write operators' Deployments.
const WRITERS: [&str; 4] = [
    labels::FIELD_MANAGER_PATCH,
    labels::FIELD_MANAGER_CSV,
    "kube-controller-manager",
    "catalog",
];
/// Fields in `metadata.managedFields` that autoscalers and manual rollouts set. OLM keeps them.
const LEFT_ALONE: [&str; 2] = ["f:replicas", "f:paused"];

/// Returns what this OLM would change in a Deployment.
pub(super) fn edits(deployment: &Deployment) -> Vec<Finding> {
    let set = set_by(deployment).map(|manager| {
        Finding::warning(
            about(deployment),
            format!(
                "it was changed by hand with {}: this OLM restores it from its ClusterServiceVersion, which replaces its pods",
                plain(&manager)
            ),
            "use spec.config of the Subscription instead, which applies to every version of the operator",
        )
    });
    // Upstream's releases before 0.26 set no such label.
    let is_labelled = labels::is_true(deployment.labels(), labels::MANAGED);
    let label = format!("{}={}", labels::MANAGED, labels::TRUE);
    let unlabelled = (!is_labelled).then(|| {
        Finding::warning(
            about(deployment),
            format!("it lacks the label {label}: this OLM reinstalls it"),
            format!(
                "to let this OLM adopt it unchanged: kubectl label deployment {} {label}",
                at(deployment)
            ),
        )
    });
    set.into_iter().chain(unlabelled).collect()
}

/// Returns the field manager of a user who set fields of the spec that OLM restores.
fn set_by(deployment: &Deployment) -> Option<String> {
    let entries = deployment.metadata.managed_fields.iter().flatten();
    let mut foreign = entries.filter(|entry| {
        let manager = entry.manager.as_deref().unwrap_or_default();
        let spec = entry
            .fields_v1
            .as_ref()
            .and_then(|fields| fields.0["f:spec"].as_object());
        let is_whole = entry.subresource.as_deref().unwrap_or_default().is_empty();
        let sets = spec.is_some_and(|spec| spec.keys().any(|field| is_put_back(field, &spec[field])));
        is_whole && sets && !WRITERS.contains(&manager)
    });
    Some(foreign.next()?.manager.clone().unwrap_or_default())
}

/// Returns true if OLM reverts changes of this field. The annotation that `kubectl rollout restart` sets is kept.
fn is_put_back(field: &str, set: &Value) -> bool {
    let annotations = &set["f:metadata"]["f:annotations"];
    let only_restarted = field == "f:template"
        && set.as_object().is_some_and(|set| set.len() == 1)
        && annotations.as_object().is_some_and(|set| {
            set.keys()
                .all(|key| key == "." || key == "f:kubectl.kubernetes.io/restartedAt")
        });
    !LEFT_ALONE.contains(&field) && !only_restarted
}
