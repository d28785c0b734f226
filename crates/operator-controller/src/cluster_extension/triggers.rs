//! Connects the controller to its stores, and decides which extensions are reconciled after a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt as _};
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_api::labels;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::Runner;
use olm_runtime::queue::Queue;
use olm_runtime::store::{Change, Store, StoreSet, Watch};
use tokio::task::JoinSet;

use super::{ClusterExtensions, Sources};
use crate::reads::Reads;

/// Reconciles at a time. They wait for nothing but the API server.
const WORKERS: usize = 2;

/// Connects the controller to the stores, of which those of ClusterObjectSets exist. Secrets of revisions are in
/// `system_namespace`. Returns the function that starts the controller on a set of tasks when this process leads.
pub fn register(
    set: &mut StoreSet,
    client: &Client,
    discovery: Discovery,
    revisions: &Store<ClusterObjectSet>,
    system_namespace: &str,
    sources: Sources,
) -> impl FnOnce(&Runner, &mut JoinSet<()>) + use<> {
    let queue: Queue<NamespacedName> = Queue::new();
    let extensions: Store<ClusterExtension> = set.add(Watch::new(client));
    let catalogs: Store<ClusterCatalog> = set.add(Watch::new(client));
    let secrets: Store<PartialObjectMeta<Secret>> =
        set.add_metadata(Watch::new(client).label_exists(labels::REVISION_NAME));
    let index = revisions.index(|revision| BTreeSet::from_iter(owner(revision)));
    let queued = queue.clone();
    extensions.on_change(move |change| queued.add(NamespacedName::from_object(&**change.object())));
    let queued = queue.clone();
    revisions.on_change(move |change| wake_owners(change, &queued));
    let queued = queue.clone();
    let of_system = system_namespace.to_owned();
    secrets.on_change(move |change| {
        // Labels elsewhere are anybody's.
        if change.object().namespace().as_ref() == Some(&of_system) {
            wake_owners(change, &queued);
        }
    });
    let (queued, known) = (queue.clone(), extensions.clone());
    // Catalogs seldom change, and packages that are known are not read again.
    catalogs.on_change(move |_| {
        for extension in known.list() {
            queued.add(NamespacedName::from_object(&*extension));
        }
    });
    let woken = queue.clone();
    let wake = move |extension: &NamespacedName| woken.add(extension.clone());
    let reconciler = ClusterExtensions {
        extensions,
        catalogs,
        revisions: index,
        secrets,
        sources,
        packages: Reads::new(wake.clone()),
        bundles: Reads::new(wake),
        client: client.clone(),
        discovery,
        system_namespace: Arc::from(system_namespace),
    };
    move |runner: &Runner, tasks: &mut JoinSet<()>| {
        runner.spawn(tasks, &Arc::new(reconciler), &queue, WORKERS);
    }
}

/// Returns the name of the extension that an object belongs to.
fn owner<K: Resource>(object: &K) -> Option<String> {
    object.labels().get(labels::EXTENSION_OWNER_NAME).cloned()
}

fn wake_owners<K: Resource>(change: &Change<K>, queue: &Queue<NamespacedName>) {
    let owners: BTreeSet<String> = change.versions().filter_map(|object| owner(&**object)).collect();
    for name in owners {
        queue.add(NamespacedName::cluster(name));
    }
}
