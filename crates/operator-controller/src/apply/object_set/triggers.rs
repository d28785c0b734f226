//! Decides which revisions are reconciled after a change.

use kube::ResourceExt as _;
use olm_api::extension_v1::{ClusterObjectSet, LifecycleState};
use olm_api::labels;
use olm_runtime::NamespacedName;
use olm_runtime::queue::Queue;
use olm_runtime::store::{Change, Store};

use crate::apply::managed::ManagedObjects;

/// Requeues revisions after changes of themselves, of their objects, and of other revisions of the same extension.
pub fn connect(sets: &Store<ClusterObjectSet>, managed: &ManagedObjects, queue: &Queue<NamespacedName>) {
    let (of_sets, known) = (queue.clone(), sets.clone());
    sets.on_change(move |change| {
        let set = change.object();
        of_sets.add(NamespacedName::from_object(&**set));
        if frees_objects(change) {
            let owner = set.labels().get(labels::EXTENSION_OWNER_NAME);
            let siblings = known.list_where(|other| {
                owner.is_some() && other.labels().get(labels::EXTENSION_OWNER_NAME) == owner
            });
            for sibling in siblings {
                of_sets.add(NamespacedName::from_object(&*sibling));
            }
        }
    });
    let of_objects = queue.clone();
    managed.on_change(move |set| of_objects.add(set.clone()));
}

/// True if another revision may get objects of this one.
fn frees_objects(change: &Change<ClusterObjectSet>) -> bool {
    let is_archived = |set: &ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Archived;
    match change {
        Change::Deleted { .. } => true,
        Change::Applied { old: Some(old), new } => is_archived(new) && !is_archived(old),
        Change::Applied { old: None, .. } => false,
    }
}
