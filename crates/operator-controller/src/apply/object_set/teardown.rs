//! Decides how the objects of an archived revision go. Pure.

use olm_api::extension_v1::ClusterObjectSet;
use olm_runtime::plan::{Action, Guard, Target};
use serde_json::{Value, json};

use super::{ReadObject, ReadPhase, identity};
use crate::apply::collision::controller;
use crate::apply::object::{is_deleting, metadata_text, owners};

/// Returns the writes, and whether no object is left after them. Phases go from the last to the first, each after the one before is
/// gone. Objects that another revision or another client controls, and definitions with custom resources, stay. They lose only their
/// reference to this revision and, if nothing controls them, to the `anchor`.
pub(super) fn actions(
    set: &ClusterObjectSet,
    phases: &[ReadPhase],
    anchor: Option<&str>,
) -> (Vec<Action>, bool) {
    let mut actions = Vec::new();
    for phase in phases.iter().rev() {
        let mut is_gone = true;
        for object in &phase.objects {
            let (action, is_left) = removal(set, object, anchor);
            is_gone &= !is_left;
            actions.extend(action);
        }
        if !is_gone {
            return (actions, false);
        }
    }
    (actions, true)
}

/// Returns the write for an object, and whether the object is there until it is deleted.
fn removal(set: &ClusterObjectSet, object: &ReadObject, anchor: Option<&str>) -> (Option<Action>, bool) {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let (Some(target), Some(current)) = (&object.target, &object.current) else {
        return (None, false);
    };
    let live = &current.object;
    let (live_uid, version) = (metadata_text(live, "uid"), metadata_text(live, "resourceVersion"));
    let is_own = controller(live).is_some_and(|owner| owner.uid == uid);
    if is_own && is_deleting(live) {
        return (None, true);
    }
    if is_own && !object.is_kept {
        // Another revision may adopt it at the same time.
        let delete = Action::delete(target.clone(), live_uid).only_at(version);
        return (Some(delete.by(identity(set))), true);
    }
    let released = [Some(uid), anchor.filter(|_| is_own)];
    (release(target.clone(), live, &released), false)
}

/// Returns the patch that removes owners with these uids from an object; `None` if it has none of them.
pub(super) fn release(target: Target, live: &Value, uids: &[Option<&str>]) -> Option<Action> {
    let mut owners = owners(live);
    let before = owners.len();
    owners.retain(|owner| !uids.contains(&Some(owner.uid.as_str())));
    if owners.len() == before {
        return None;
    }
    let guard = Guard {
        uid: metadata_text(live, "uid"),
        resource_version: metadata_text(live, "resourceVersion"),
    };
    let patch = json!({"metadata": {"ownerReferences": owners}});
    Some(Action::patch(target, patch, guard))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::DynamicObject;
    use olm_api::extension_v1::{API_VERSION, CollisionProtection, ObservedPhase};
    use olm_runtime::store::Projected;

    use super::*;
    use crate::apply::object::ObjectId;

    /// A ConfigMap with these owners, each with uid and whether it is the controller.
    fn object(name: &str, owners: &[(&str, bool)], is_deleting: bool) -> ReadObject {
        let owner = |(uid, controller): &(&str, bool)| json!({"apiVersion": API_VERSION, "kind": "ClusterObjectSet", "name": "e", "uid": uid, "controller": controller});
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        let mut live = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "ns", "name": name, "uid": "u", "resourceVersion": "7", "ownerReferences": owners},
        });
        if is_deleting {
            live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let id = ObjectId::of(&live);
        let live: DynamicObject = serde_json::from_value(live).unwrap();
        ReadObject {
            id,
            manifest: json!({}),
            protection: CollisionProtection::Prevent,
            target: Some(Target::of::<ConfigMap>("ns", name)),
            current: Some(Arc::new(Projected::from_object(live))),
            is_kept: false,
        }
    }

    fn phase(name: &str, objects: Vec<ReadObject>) -> ReadPhase {
        ReadPhase {
            observed: ObservedPhase {
                name: name.to_owned(),
                ..ObservedPhase::default()
            },
            objects,
        }
    }

    /// Uid of each owner, and whether it is the controller.
    type Owners = &'static [(&'static str, bool)];

    /// One row per situation: the owners, and the start of the write.
    #[test]
    fn only_what_the_revision_controls_is_deleted() {
        let set: ClusterObjectSet = serde_json::from_value(json!({
            "apiVersion": API_VERSION, "kind": "ClusterObjectSet", "metadata": {"name": "e-1", "uid": "own"}, "spec": {},
        }))
        .unwrap();
        let rows: [(Owners, bool, &str, bool); 5] = [
            (&[("own", true)], false, "delete ConfigMap ns/a", false),
            (&[("own", true)], true, "", false),
            (
                &[("own", false), ("next", true)],
                false,
                "patch ConfigMap ns/a {\"metadata\"",
                true,
            ),
            (&[("next", true)], false, "", true),
            (&[], false, "", true),
        ];
        for (owners, is_deleting, write, is_gone) in rows {
            let phases = [phase("a", vec![object("a", owners, is_deleting)])];
            let (actions, is_done) = actions(&set, &phases, Some("anchor"));
            let text = actions.first().map(Action::to_string).unwrap_or_default();
            assert!(
                text.starts_with(write) && text.is_empty() == write.is_empty(),
                "{text}"
            );
            assert_eq!((actions.len() < 2, is_done), (true, is_gone), "{owners:?}");
        }
        let mut kept = object("a", &[("own", true), ("anchor", false), ("user", false)], false);
        kept.is_kept = true;
        let (writes, is_done) = actions(&set, &[phase("a", vec![kept])], Some("anchor"));
        let owners = writes.first().map(Action::to_string).unwrap_or_default();
        assert!(
            owners.starts_with("patch ConfigMap ns/a ") && owners.contains("\"uid\":\"user\""),
            "{owners}"
        );
        assert!(
            !owners.contains("\"own\"") && !owners.contains("\"anchor\"") && is_done,
            "{owners}"
        );
        let mut absent = object("a", &[("own", true)], false);
        absent.current = None;
        let own = || object("a", &[("own", true)], false);
        let phases = [
            phase("a", vec![own()]),
            phase("b", vec![own()]),
            phase("c", vec![absent]),
        ];
        let (actions, is_done) = actions(&set, &phases, Some("anchor"));
        assert_eq!((actions.len(), is_done), (1, false), "the phase a waits for b");
    }
}
