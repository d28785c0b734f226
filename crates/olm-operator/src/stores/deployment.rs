//! Deployments as the store keeps them: without the spec of their pods, but with hashes that distinguish an edit of OLM's fields
//! from an addition.
//!
//! The API server lists in `managedFields` who owns which field; one that another client changes or removes is no longer ours. So [`prune`]
//! hashes the paths that are ours, and those that others set, into two annotations, a few bytes a field (`owned_fields`). [`lost_field`]
//! walks the spec that was applied and returns the first field that is not ours any more. The hashes of others matter only for fields that
//! the spec sets to nothing (`false`, 0, an empty text). What others only added is never visited, and stays until the Deployment is applied
//! for another reason. Replicas, `paused` and the annotation `restartedAt` never count as lost (`OF_OTHERS`), but a changed spec is
//! applied with the author's replicas.
//!
//! A writer that removes a field after each apply would be fought forever, so [`undone_change`] notes which loss was undone at which
//! generation, and one note is one attempt. `csv/health.rs` asks for losses, and `csv/install.rs` writes the note.
//!
//! Deployments that upstream's OLM created have no fields of ours yet. `adoption` makes them ours, also those that users set in the spec.
//! Until then another annotation keeps the managed fields as they will be, and the live spec if we never applied one.

pub(crate) mod adoption;
mod agreement;
mod owned_fields;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
};
use kube::ResourceExt;
use olm_api::labels;
use serde_json::Value;

use self::adoption::Adoption;

/// Annotation of a pruned Deployment with the summary of our fields, under a key that the API server does not allow. Absent without
/// `managedFields`.
const OWNED: &str = "//owned";
/// Annotation of a pruned Deployment with the summary of other managers' fields. Absent if they set none in the spec.
const OTHERS: &str = "//others";

/// Fields that others may set without being reverted, as paths from the spec. Replicas belong to an
/// autoscaler, and `kubectl rollout restart` sets the annotation to restart the pods.
const OF_OTHERS: [&[&str]; 3] = [
    &["f:replicas"],
    &["f:paused"],
    &[
        "f:template",
        "f:metadata",
        "f:annotations",
        "f:kubectl.kubernetes.io/restartedAt",
    ],
];

/// Keeps the annotations of the pods and the selector; the hash covers the rest of the spec.
pub(crate) fn prune(deployment: &mut Deployment) {
    let facts = facts(deployment);
    deployment.metadata.annotations = (!facts.is_empty()).then_some(facts);
    if let Some(spec) = &mut deployment.spec {
        spec.template.spec = None;
        if let Some(metadata) = &mut spec.template.metadata {
            metadata.labels = None;
        }
    }
}

/// Returns the annotations of the pruned Deployment.
fn facts(deployment: &Deployment) -> BTreeMap<String, String> {
    let mut facts: BTreeMap<String, String> = adoption::notes(deployment).collect();
    let adoption = adoption::read(&facts);
    if entries(&deployment.metadata).next().is_some() {
        let own = entries(&deployment.metadata).find(|entry| is_own_apply(entry));
        let applied = own.and_then(spec_of);
        // Fields that upstream set count as ours before the first apply.
        let adopted = adoption.as_ref().and_then(Adoption::own_fields);
        let ours = applied.or(adopted).unwrap_or(&Value::Null);
        facts.insert(OWNED.to_owned(), owned_fields::sketch([ours], false));
        if applied.is_some() {
            let foreign = entries(&deployment.metadata).filter(|entry| is_foreign(entry));
            let others = owned_fields::sketch(foreign.filter_map(spec_of), true);
            facts.extend((!others.is_empty()).then(|| (OTHERS.to_owned(), others)));
        }
    }
    let undone = deployment.annotations().get(labels::UNDONE_CHANGE);
    facts.extend(undone.map(|undone| (labels::UNDONE_CHANGE.to_owned(), undone.clone())));
    facts
}

/// Returns the path of the first field of the applied `spec` that others removed or changed; `None` also if applying it again had no
/// effect.
///
/// Some writers remove a field each time it is set, such as a webhook or an API server that does not know the
/// field. They leave the generation unchanged, so only one attempt is made. An edit causes another attempt,
/// and repeating the same edit counts as new.
pub(crate) fn lost_field(deployment: &Deployment, spec: &Value) -> Option<String> {
    let mut lost = lost_fields(deployment, spec);
    let noted = deployment.annotations().get(labels::UNDONE_CHANGE);
    if lost.is_empty() || noted == Some(&lost_mark(deployment, &lost)) {
        return None;
    }
    Some(lost.swap_remove(0))
}

/// Returns the value of [`labels::UNDONE_CHANGE`] for applying `spec` again; `None` if no field is lost.
pub(crate) fn undone_change(deployment: &Deployment, spec: &Value) -> Option<String> {
    let lost = lost_fields(deployment, spec);
    (!lost.is_empty()).then(|| lost_mark(deployment, &lost))
}

fn lost_fields(deployment: &Deployment, spec: &Value) -> Vec<String> {
    let kept = |name: &str| deployment.annotations().get(name).map(String::as_str);
    let others = kept(OTHERS).unwrap_or_default();
    kept(OWNED).map_or_else(Vec::new, |owned| owned_fields::lost(spec, owned, others))
}

/// Hash of these fields, with the generation of the spec that lacks them.
fn lost_mark(deployment: &Deployment, lost: &[String]) -> String {
    // A list of texts always serializes.
    let fields = olm_api::hash::hash_with_newline(&lost).unwrap_or_default();
    format!("{fields}@{}", deployment.metadata.generation.unwrap_or_default())
}

fn entries(metadata: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    metadata.managed_fields.iter().flatten()
}

fn is_foreign(entry: &ManagedFieldsEntry) -> bool {
    let own = [labels::FIELD_MANAGER_CSV, labels::FIELD_MANAGER_PATCH];
    let is_ours = entry
        .manager
        .as_deref()
        .is_some_and(|manager| own.contains(&manager));
    !is_ours && sets_spec(entry)
}

fn is_patched(entry: &ManagedFieldsEntry) -> bool {
    let is_update = entry.operation.as_deref() == Some("Update");
    is_update && entry.manager.as_deref() == Some(labels::FIELD_MANAGER_PATCH) && sets_spec(entry)
}

/// Entries of a subresource do not count, because applying a subresource under our name must not look like
/// our apply.
fn is_own_apply(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(labels::FIELD_MANAGER_CSV)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn sets_spec(entry: &ManagedFieldsEntry) -> bool {
    spec_of(entry).is_some_and(|spec| sets(spec, &mut Vec::new()))
}

/// Returns the spec fields of the entry; `None` for an entry of a subresource.
fn spec_of(entry: &ManagedFieldsEntry) -> Option<&Value> {
    let is_whole = entry.subresource.as_deref().unwrap_or_default().is_empty();
    let fields = entry.fields_v1.as_ref().filter(|_| is_whole)?;
    fields.0.get("f:spec")
}

/// True when these fields contain one that others may not set; `path` is their location.
fn sets<'a>(fields: &'a Value, path: &mut Vec<&'a str>) -> bool {
    if OF_OTHERS.contains(&path.as_slice()) {
        return false;
    }
    let Some(fields) = fields.as_object() else {
        return false;
    };
    let mut children = fields.iter().filter(|(key, _)| *key != ".").peekable();
    if children.peek().is_none() {
        // The marker for an existing map does not show its contents.
        return !fields.contains_key(".") && !path.is_empty();
    }
    children.any(|(key, value)| {
        path.push(key);
        let found = sets(value, path);
        path.pop();
        found
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pruned(entries: Value, annotations: Value) -> Deployment {
        let mut deployment: Deployment =
            serde_json::from_value(json!({"metadata": {"name": "d", "managedFields": entries,
            "annotations": annotations}, "spec": {"selector": {}, "template": {}}}))
            .unwrap();
        prune(&mut deployment);
        deployment
    }

    #[test]
    fn a_loss_is_reported_until_the_generation_that_has_it_was_applied_over() {
        let own = json!([{"manager": "olm-operator/csv", "operation": "Apply", "fieldsV1": {"f:spec": {"f:minReadySeconds": {}}}}]);
        let spec = json!({"minReadySeconds": 5, "progressDeadlineSeconds": 6});
        let told = Some("progressDeadlineSeconds".to_owned());
        let mut found = pruned(own.clone(), Value::Null);
        assert_eq!(lost_field(&found, &json!({"minReadySeconds": 5})), None);
        assert_eq!(lost_field(&found, &spec), told);
        found.metadata.generation = Some(7);
        let undone = undone_change(&found, &spec).unwrap();
        assert!(undone.ends_with("@7"), "{undone}");

        let mut tried = pruned(own, json!({labels::UNDONE_CHANGE: undone}));
        tried.metadata.generation = Some(7);
        assert_eq!(lost_field(&tried, &spec), None);
        let more = json!({"minReadySeconds": 5, "progressDeadlineSeconds": 6, "x": 1});
        assert_eq!(lost_field(&tried, &more), told, "more is lost");
        tried.metadata.generation = Some(8);
        assert_eq!(lost_field(&tried, &spec), told, "somebody did something since");

        // If the API server reports no fields, or only those of a subresource, no lost field is known.
        assert_eq!(lost_field(&pruned(json!([]), Value::Null), &spec), None);
        let others = json!([{"manager": "x", "operation": "Apply", "fieldsV1": {"f:spec": {"f:minReadySeconds": {}}}}]);
        assert!(lost_field(&pruned(others, Value::Null), &spec).is_some());
    }
}
