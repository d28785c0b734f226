//! Connects the controller to its stores, and decides which revisions are reconciled after a change.

use std::sync::Arc;

use kube::{Client, ResourceExt as _};
use olm_api::extension_v1::{ClusterObjectSet, LifecycleState};
use olm_api::labels;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::Runner;
use olm_runtime::queue::Queue;
use olm_runtime::store::{Change, Store, StoreSet};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::ClusterObjectSets;
use crate::apply::managed::ManagedObjects;

/// Reconciles at a time. They wait for nothing but the API server.
const WORKERS: usize = 2;

/// Connects the controller to the store of all ClusterObjectSets. Secrets that a set refers to without a namespace are in
/// `system_namespace`. Returns the function that starts the controller on a set of tasks when this process leads.
pub fn register(
    set: &StoreSet,
    client: &Client,
    discovery: &Discovery,
    sets: &Store<ClusterObjectSet>,
    system_namespace: &str,
) -> impl FnOnce(&Runner, &mut JoinSet<()>) + use<> {
    let managed = ManagedObjects::new(set, client);
    let queue: Queue<NamespacedName> = Queue::new();
    connect(sets, &managed, &queue);
    let reconciler = ClusterObjectSets {
        sets: sets.clone(),
        managed,
        discovery: discovery.clone(),
        system_namespace: Arc::from(system_namespace),
        client: client.clone(),
        anchor: OnceCell::new(),
    };
    move |runner: &Runner, tasks: &mut JoinSet<()>| {
        runner.spawn(tasks, &Arc::new(reconciler), &queue, WORKERS);
    }
}

/// Requeues revisions after changes of themselves, of their objects, and of other revisions of the same extension.
fn connect(sets: &Store<ClusterObjectSet>, managed: &ManagedObjects, queue: &Queue<NamespacedName>) {
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
