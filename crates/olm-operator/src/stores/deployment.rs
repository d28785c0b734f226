//! A Deployment without its pods, and whether others changed its spec.
//!
//! The spec itself is not kept. The hash label identifies the applied spec, and the API server's
//! `managedFields` show who later changed it, and when. Removing a field adds no entry, but it removes the
//! field from our entry (`owned_fields`).

pub(crate) mod adoption;
mod agreement;
mod owned_fields;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
};
use kube::ResourceExt;
use olm_api::labels;
use serde_json::Value;

/// Annotation of a pruned Deployment only; its key is no valid annotation key. It contains the time of the
/// last change of the spec by others, and the field manager.
const CHANGED: &str = "//changed";

/// Annotation of a pruned Deployment only: hashes of the fields we own. Missing if the API server reports no
/// fields.
const OWNED: &str = "//owned";

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

/// A change of the spec by others that was not reverted yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForeignChange<'a> {
    pub(crate) time: &'a str,
    /// Name of the field manager.
    pub(crate) manager: &'a str,
}

/// Removes unused fields. Only the pods' annotations and the selector are read from the spec; the hash covers
/// the rest.
pub(crate) fn prune(deployment: &mut Deployment) {
    let changed = last_change(&deployment.metadata);
    let undone = deployment.annotations().get(labels::UNDONE_CHANGE).cloned();
    let undone = undone.filter(|undone| is_possible(&deployment.metadata, undone));
    let notes: BTreeMap<String, String> = adoption::notes(deployment).collect();
    let adoption = adoption::read(&notes);
    let mut kept = BTreeMap::new();
    let noted = undone.as_deref().and_then(|undone| Undone::parse(undone).time);
    if let Some((time, manager)) = changed
        && noted.is_none_or(|undone| undone < time)
    {
        kept.insert(CHANGED.to_owned(), format!("{time} {manager}"));
    }
    if entries(&deployment.metadata).next().is_some() {
        let own = entries(&deployment.metadata).find(|entry| is_own_apply(entry));
        let own = own.and_then(spec_of);
        // Fields that upstream set count as ours before their adoption.
        let made = adoption.as_ref().filter(|_| own.is_none());
        let spec = made.and_then(|adoption| adoption.own_fields());
        kept.insert(
            OWNED.to_owned(),
            owned_fields::sketch(own.or(spec).unwrap_or(&Value::Null)),
        );
    }
    kept.extend(notes);
    if let Some(undone) = undone {
        kept.insert(labels::UNDONE_CHANGE.to_owned(), undone);
    }
    deployment.metadata.annotations = (!kept.is_empty()).then_some(kept);
    if let Some(spec) = &mut deployment.spec {
        spec.template.spec = None;
        if let Some(metadata) = &mut spec.template.metadata {
            metadata.labels = None;
        }
    }
}

/// Returns the change of a pruned Deployment's spec to revert.
pub(crate) fn foreign_change(deployment: &Deployment) -> Option<ForeignChange<'_>> {
    let (time, manager) = deployment.annotations().get(CHANGED)?.split_once(' ')?;
    Some(ForeignChange { time, manager })
}

/// Returns the path of the first field of the applied `spec` that others removed or took over. `None` also
/// when a new apply was tried without success.
///
/// Some writers remove a field each time it is set, such as a webhook or an API server that does not know the
/// field. They leave the generation unchanged, so only one attempt is made. An edit causes another attempt,
/// and repeating the same edit counts as new.
pub(crate) fn lost_field(deployment: &Deployment, spec: &Value) -> Option<String> {
    let mut lost = lost_fields(deployment, spec);
    let noted = Undone::noted(deployment).lost;
    if lost.is_empty() || noted == Some(lost_mark(deployment, &lost).as_str()) {
        return None;
    }
    Some(lost.swap_remove(0))
}

/// Returns the value for the annotation about undone changes when `spec` is applied again; `None` when others
/// never changed it.
pub(crate) fn undone_change(deployment: &Deployment, spec: &Value) -> Option<String> {
    let time = undone_time(deployment);
    let lost = lost_fields(deployment, spec);
    if lost.is_empty() {
        return time.map(str::to_owned);
    }
    let mark = lost_mark(deployment, &lost);
    Some(format!("{} {mark}", time.unwrap_or(NEVER)))
}

/// Returns the time of the last change by others that the next apply overwrites, as in the annotation about
/// undone changes; `None` if there was none.
pub(crate) fn undone_time(deployment: &Deployment) -> Option<&str> {
    let change = foreign_change(deployment).map(|change| change.time);
    change.or_else(|| {
        let noted = deployment.annotations().get(labels::UNDONE_CHANGE)?;
        noted.split(' ').next().filter(|time| *time != NEVER)
    })
}

/// Placeholder for the time in the annotation about undone changes, if others set nothing.
const NEVER: &str = "-";

/// Content of the annotation about undone changes: the time of the last change by others, followed by the
/// mark of the fields lost then, if any.
struct Undone<'a> {
    time: Option<Timestamp>,
    lost: Option<&'a str>,
}

impl<'a> Undone<'a> {
    fn parse(text: &'a str) -> Self {
        let mut words = text.split(' ');
        Self {
            time: words.next().and_then(|time| time.parse().ok()),
            lost: words.next(),
        }
    }

    fn noted(deployment: &'a Deployment) -> Self {
        let text = deployment.annotations().get(labels::UNDONE_CHANGE);
        Self::parse(text.map_or("", String::as_str))
    }
}

fn lost_fields(deployment: &Deployment, spec: &Value) -> Vec<String> {
    let owned = deployment.annotations().get(OWNED);
    owned.map_or_else(Vec::new, |owned| owned_fields::lost(spec, owned))
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

/// False for an annotation with a time later than any write of the spec. OLM only notes changes that exist,
/// and OLM itself set the spec at the creation. Any user who edits a Deployment could write a later time, and
/// all changes until then would count as undone.
fn is_possible(metadata: &ObjectMeta, undone: &str) -> bool {
    let setting = entries(metadata).filter(|entry| spec_of(entry).is_some());
    let latest = setting.filter_map(|entry| Some(entry.time.as_ref()?.0)).max();
    match (Undone::parse(undone).time, latest) {
        (Some(noted), Some(latest)) => noted <= latest,
        _ => true,
    }
}

/// Returns the time of others' last change of a spec field that is not theirs, and the field manager.
fn last_change(metadata: &ObjectMeta) -> Option<(Timestamp, String)> {
    entries(metadata)
        .filter(|entry| is_foreign(entry))
        .filter_map(|entry| {
            let time = entry.time.as_ref()?.0;
            Some((time, entry.manager.clone().unwrap_or_default()))
        })
        .max()
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

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-01T00:00:09Z";

    fn entry(manager: &str, time: &str, subresource: &str, spec: Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": time, "subresource": subresource,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec}})
    }

    fn pruned(entries: Value, annotations: Value) -> Deployment {
        let mut deployment: Deployment =
            serde_json::from_value(json!({"metadata": {"name": "d", "managedFields": entries,
            "annotations": annotations}, "spec": {"selector": {}, "template": {}}}))
            .unwrap();
        prune(&mut deployment);
        deployment
    }

    fn image() -> Value {
        json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}}}}})
    }

    #[test]
    fn a_change_of_the_spec_by_others_is_seen_and_what_is_theirs_is_not() {
        let restarted = json!({"f:template": {"f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}}});
        let cases = [
            ("an image", entry("kubectl-set", EARLY, "", image()), true),
            (
                "a list as a whole",
                entry(
                    "x",
                    EARLY,
                    "",
                    json!({"f:template": {"f:spec": {"f:tolerations": {}}}}),
                ),
                true,
            ),
            ("a patch of ours", entry("olm", EARLY, "", image()), false),
            ("our own", entry("olm-operator/csv", EARLY, "", image()), false),
            (
                "an autoscaler",
                entry("hpa", EARLY, "scale", json!({"f:replicas": {}})),
                false,
            ),
            (
                "replicas",
                entry("kubectl", EARLY, "", json!({"f:replicas": {}})),
                false,
            ),
            ("a status", entry("kcm", EARLY, "status", image()), false),
            ("a restart", entry("kubectl-rollout", EARLY, "", restarted), false),
            (
                "a pause",
                entry("kubectl-rollout", EARLY, "", json!({"f:paused": {}})),
                false,
            ),
            (
                "metadata",
                json!({"manager": "x", "time": EARLY, "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}}),
                false,
            ),
        ];
        for (what, entry, expected) in cases {
            let found = pruned(json!([entry]), Value::Null);
            assert_eq!(foreign_change(&found).is_some(), expected, "{what}");
        }
    }

    #[test]
    fn a_change_that_was_undone_is_over_until_the_next() {
        let entries = json!([
            entry("first", EARLY, "", image()),
            entry("last", LATE, "", image())
        ]);
        let found = pruned(entries.clone(), Value::Null);
        let change = ForeignChange {
            time: LATE,
            manager: "last",
        };
        assert_eq!(foreign_change(&found), Some(change));
        assert_eq!(undone_time(&found), Some(LATE));

        let found = pruned(
            entries.clone(),
            json!({labels::UNDONE_CHANGE: EARLY, "other": "x"}),
        );
        assert!(foreign_change(&found).is_some());
        let found = pruned(entries.clone(), json!({labels::UNDONE_CHANGE: LATE}));
        assert_eq!(foreign_change(&found), None);
        assert_eq!(undone_time(&found), Some(LATE));
        let found = pruned(entries, json!({labels::UNDONE_CHANGE: "nonsense"}));
        assert!(foreign_change(&found).is_some());
        let found = pruned(json!([]), json!({"other": "x"}));
        assert_eq!(found.metadata.annotations, None);
    }

    #[test]
    fn a_note_from_the_future_hides_nothing_and_is_not_carried_on() {
        let never = "2999-01-01T00:00:00Z";
        let changed = entry("x", LATE, "", image());
        let status = entry("kcm", "2999-02-01T00:00:00Z", "status", image());
        let found = pruned(json!([changed, status]), json!({labels::UNDONE_CHANGE: never}));
        assert_eq!(foreign_change(&found).map(|change| change.time), Some(LATE));
        let own = entry("olm-operator/csv", EARLY, "", image());
        let found = pruned(json!([own]), json!({labels::UNDONE_CHANGE: never}));
        assert_eq!(undone_time(&found), None);
        // Without entries nothing is known, and nothing is dropped.
        let found = pruned(json!([]), json!({labels::UNDONE_CHANGE: LATE}));
        assert_eq!(undone_time(&found), Some(LATE));
    }

    #[test]
    fn a_loss_is_told_until_the_generation_that_has_it_was_applied_over() {
        let own = json!([{"manager": "olm-operator/csv", "operation": "Apply", "fieldsV1": {"f:spec": {"f:minReadySeconds": {}}}}]);
        let spec = json!({"minReadySeconds": 5, "progressDeadlineSeconds": 6});
        let told = Some("progressDeadlineSeconds".to_owned());
        let mut found = pruned(own.clone(), Value::Null);
        assert_eq!(lost_field(&found, &json!({"minReadySeconds": 5})), None);
        assert_eq!(lost_field(&found, &spec), told);
        found.metadata.generation = Some(7);
        let undone = undone_change(&found, &spec).unwrap();
        assert!(undone.starts_with("- ") && undone.ends_with("@7"), "{undone}");

        let mut tried = pruned(own, json!({labels::UNDONE_CHANGE: undone}));
        tried.metadata.generation = Some(7);
        assert_eq!(lost_field(&tried, &spec), None);
        assert_eq!((undone_time(&tried), foreign_change(&tried)), (None, None));
        let more = json!({"minReadySeconds": 5, "progressDeadlineSeconds": 6, "x": 1});
        assert_eq!(lost_field(&tried, &more), told, "more is lost");
        tried.metadata.generation = Some(8);
        assert_eq!(lost_field(&tried, &spec), told, "somebody did something since");

        let both = format!("{LATE} mark@7");
        let found = pruned(
            json!([entry("x", LATE, "", image())]),
            json!({labels::UNDONE_CHANGE: both}),
        );
        assert_eq!((foreign_change(&found), undone_time(&found)), (None, Some(LATE)));
        // If the API server reports no fields, or only those of a subresource, nothing counts as lost.
        assert_eq!(lost_field(&pruned(json!([]), Value::Null), &spec), None);
        let others = json!([{"manager": "x", "operation": "Apply", "fieldsV1": {"f:spec": {"f:minReadySeconds": {}}}}]);
        assert!(lost_field(&pruned(others, Value::Null), &spec).is_some());
    }
}
