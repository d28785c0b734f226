//! Approval of an InstallPlan's steps, identified by a hash.
//!
//! `kubectl operator approve` writes the hash of the steps it showed to the annotation [`crate::labels::APPROVED_HASH`], in the
//! same write that sets `spec.approved`. A plan whose steps differ from the hash is not executed. Without the annotation only
//! `spec.approved` counts, as upstream.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha224};

use crate::hash::base62;
use crate::labels;
use crate::v1alpha1::{InstallPlan, Step};

/// Returns the hash of what a plan installs: its ClusterServiceVersions and steps, without their progress.
pub fn plan_hash(plan: &InstallPlan) -> String {
    let mut hasher = Sha224::new();
    let mut note = |text: &str| {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text);
    };
    note(&plan.spec.cluster_service_version_names.len().to_string());
    plan.spec
        .cluster_service_version_names
        .iter()
        .for_each(|name| note(name));
    let steps = plan.status.iter().flat_map(|status| status.plan.iter());
    for Step {
        resolving, resource, ..
    } in steps
    {
        let parts = [
            resolving,
            &resource.source_name,
            &resource.source_namespace,
            &resource.group,
            &resource.version,
            &resource.kind,
            &resource.name,
        ];
        parts.into_iter().for_each(|part| note(part));
        note(resource.manifest.as_deref().unwrap_or_default());
    }
    base62(&hasher.finalize())
}

/// Returns the approved hash; `None` if the approval names no hash.
pub fn approved_hash(annotations: &BTreeMap<String, String>) -> Option<&str> {
    annotations.get(labels::APPROVED_HASH).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(change: impl FnOnce(&mut Value)) -> InstallPlan {
        let mut plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": "p"},
            "spec": {"clusterServiceVersionNames": ["a.v1"], "approval": "Manual", "approved": false},
            "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [
                {"resolving": "a.v1", "status": "Unknown", "resource": {"sourceName": "c", "sourceNamespace": "n", "group": "g",
                    "version": "v", "kind": "K", "name": "x", "manifest": "m"}}]}});
        change(&mut plan);
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn the_hash_is_that_of_the_steps_and_not_of_how_far_they_are() {
        let shown = plan_hash(&plan(|_| {}));
        let goes_on = plan(|plan| {
            plan["spec"]["approved"] = json!(true);
            plan["metadata"]["resourceVersion"] = json!("7");
            plan["status"]["phase"] = json!("Installing");
            plan["status"]["plan"][0]["status"] = json!("Created");
        });
        assert_eq!(plan_hash(&goes_on), shown);
        for (pointer, value) in [
            ("/spec/clusterServiceVersionNames", json!(["a.v1", "b.v1"])),
            ("/status/plan/0/resource/manifest", json!("other")),
            ("/status/plan/0/resource/name", json!("y")),
            ("/status/plan/0/resolving", json!("b.v1")),
            ("/status/plan", json!([])),
        ] {
            let other = plan(|plan| *plan.pointer_mut(pointer).unwrap() = value);
            assert_ne!(plan_hash(&other), shown, "{pointer}");
        }
    }
}
