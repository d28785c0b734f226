//! Decides how the objects of an archived revision go. Pure.

use olm_api::extension_v1::ClusterObjectSet;
use olm_runtime::plan::{Action, Guard};
use serde_json::json;

use super::{ReadObject, ReadPhase};
use crate::apply::collision::controller;
use crate::apply::object::{is_deleting, metadata_text, owners};

/// Returns the writes, and whether no object is left after them. Phases go from the last to the first, each after the one before is
/// gone. Objects that another revision or another client controls stay, and lose only their reference to this revision.
pub(super) fn actions(set: &ClusterObjectSet, phases: &[ReadPhase]) -> (Vec<Action>, bool) {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let mut actions = Vec::new();
    for phase in phases.iter().rev() {
        let mut is_gone = true;
        for object in &phase.objects {
            let removal = removal(uid, object);
            is_gone &= !matches!(removal, Removal::Delete(_) | Removal::Awaited);
            match removal {
                Removal::Delete(action) | Removal::Release(action) => actions.push(action),
                Removal::Awaited | Removal::Nothing => {}
            }
        }
        if !is_gone {
            return (actions, false);
        }
    }
    (actions, true)
}

/// What happens to an object.
enum Removal {
    /// It is deleted.
    Delete(Action),
    /// It is being deleted.
    Awaited,
    /// It loses its reference to the revision.
    Release(Action),
    /// It is gone, or has nothing to do with the revision.
    Nothing,
}

fn removal(uid: &str, object: &ReadObject) -> Removal {
    let (Some(target), Some(current)) = (&object.target, &object.current) else {
        return Removal::Nothing;
    };
    let live = &current.object;
    let (live_uid, version) = (metadata_text(live, "uid"), metadata_text(live, "resourceVersion"));
    if controller(live).is_some_and(|owner| owner.uid == uid) {
        if is_deleting(live) {
            return Removal::Awaited;
        }
        // Another revision may adopt it at the same time.
        return Removal::Delete(Action::delete(target.clone(), live_uid).only_at(version));
    }
    let mut owners = owners(live);
    let before = owners.len();
    owners.retain(|owner| owner.uid != uid);
    if owners.len() == before {
        return Removal::Nothing;
    }
    let guard = Guard {
        uid: live_uid,
        resource_version: version,
    };
    let patch = json!({"metadata": {"ownerReferences": owners}});
    Removal::Release(Action::patch(target.clone(), patch, guard))
}
