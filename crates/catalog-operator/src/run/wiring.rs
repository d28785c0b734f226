//! Connects changes in the stores with the queues, through the triggers of each controller.

use std::time::Duration;

use olm_api::cluster_operator::DEFINITION;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::NamespacedName;
use olm_runtime::change::Object;
use olm_runtime::cluster_operator::ClusterOperators;
use olm_runtime::queue::Queue;
use olm_runtime::store::{Change, Projected, Projection, Store};

use super::{Queues, Services};
use crate::bundle_unpack::Subscriber;
use crate::bundle_unpack::job::{UnpackJobs, triggers as unpack_triggers};
use crate::catalog_source::address::shown_address;
use crate::catalog_source::source::parse_source;
use crate::catalog_source::triggers as catalog_triggers;
use crate::install_plan;
use crate::resolution::triggers as resolution_triggers;
use crate::stores::Stores;
use crate::stores::unpacks::OfUnpack;
use crate::upgrade_policy;

/// Changes that come together are resolved together: users apply a catalog, an OperatorGroup and a Subscription at once,
/// and a plan's last step and its completion follow each other closely.
const RESOLVE_DEBOUNCE: Duration = Duration::from_millis(50);

/// Attaches all listeners; call it before the watches start, so that nothing is missed.
pub(super) fn connect(stores: &Stores, queues: &Queues, services: &Services, global_namespace: &str) {
    connect_sources(stores, queues, services, global_namespace);
    stores.pods.feed(&queues.sources, catalog_triggers::owners);
    stores.services.feed(&queues.sources, catalog_triggers::owners);
    stores.accounts.feed(&queues.sources, catalog_triggers::owners);
    stores.policies.feed(&queues.sources, catalog_triggers::owners);
    connect_config_maps(stores, queues);
    connect_namespaces(stores, queues);
    connect_unpacks(stores, queues, services);
    connect_resolution(stores, queues);
    install_plan::triggers::attach(stores, &queues.plans);
    install_plan::preview::reconciler::attach(stores, &queues.previews);
    upgrade_policy::reconciler::attach(stores, &queues.policies);
}

/// The same for the report to the ClusterOperator.
pub(super) fn connect_cluster_operators(
    stores: &Stores,
    queues: &Queues,
    cluster_operators: &ClusterOperators,
) {
    let (watched, queue) = (cluster_operators.clone(), queues.cluster_operators.clone());
    stores.crds.on_change(move |change| {
        // The definition alone shows that the cluster has the kind: only the presence of definitions is kept here.
        if change.object().name() == DEFINITION {
            watched.follow(matches!(change, Change::Applied { .. }));
            watched.keys().for_each(|key| queue.add(key));
        }
    });
    let queue = queues.cluster_operators.clone();
    cluster_operators.on_change(move |key| queue.add(key));
}

/// Called when the connection to a catalog's server changes: wakes the catalog, and the namespaces that may read over it.
pub(super) fn connection_changed(
    stores: &Stores,
    queues: &Queues,
    global_namespace: &str,
) -> impl Fn(&NamespacedName) + Send + Sync + use<> {
    let (queues, subscriptions) = (queues.clone(), stores.subscriptions.clone());
    let global = global_namespace.to_owned();
    move |source: &NamespacedName| {
        queues.sources.add(source.clone());
        let users = resolution_triggers::users_of_catalog(&source.namespace, &global, &subscriptions.list());
        users
            .into_iter()
            .for_each(|namespace| queues.namespaces.add(namespace));
    }
}

/// Returns a function that adds a key to `queue`.
pub(super) fn waker(queue: &Queue<NamespacedName>) -> impl Fn(&NamespacedName) + Send + Sync + use<> {
    let queue = queue.clone();
    move |key: &NamespacedName| queue.add(key.clone())
}

/// Wakes the subscriber of a bundle.
pub(super) fn wake(queues: &Queues, subscriber: &Subscriber) {
    match subscriber {
        Subscriber::Namespace(namespace) => queues.namespaces.add(namespace.clone()),
        Subscriber::InstallPlan(key) => {
            queues.plans.add(key.clone());
            queues.previews.add(key.clone());
        }
    }
}

fn resolve(queue: &Queue<String>, namespaces: impl IntoIterator<Item = String>) {
    namespaces
        .into_iter()
        .for_each(|namespace| queue.add_after(namespace, RESOLVE_DEBOUNCE));
}

fn connect_sources(stores: &Stores, queues: &Queues, services: &Services, global_namespace: &str) {
    let (queues, services) = (queues.clone(), services.clone());
    let (subscriptions, global) = (stores.subscriptions.clone(), global_namespace.to_owned());
    stores.sources.on_change(move |change| {
        let key = NamespacedName::from_object(change.object().as_ref());
        match change {
            Change::Deleted { .. } => services.snapshots.forget_source(&key),
            Change::Applied { old: Some(old), new } if old.spec == new.spec => {}
            Change::Applied { old, .. } => {
                // What was read from another server is not this one's last good content, should this one not answer.
                if old.as_ref().is_some_and(|old| is_elsewhere(old, change.object())) {
                    services.connections.forget(&key);
                    services.snapshots.forget(&key);
                }
                // What was not to be had may be now: images, secrets or the catalog itself are others.
                services.unpacker.forget_failures(&key);
            }
        }
        if let Some(jobs) = &services.unpack_jobs {
            jobs.catalog_changed(&key);
        }
        queues.sources.add(key);
        let users = resolution_triggers::catalog_namespaces(change, &global, &subscriptions.list());
        resolve(&queues.namespaces, users);
    });
}

/// Whether a catalog is served by others than before. Another image of a catalog that a pod of ours serves is another version
/// of it, and a spec that says nothing which can be served leaves what serves alone: that is where the status says.
fn is_elsewhere(old: &CatalogSource, new: &CatalogSource) -> bool {
    let address = |source: &CatalogSource| shown_address(source, &parse_source(source));
    let connected = || {
        let status = old.status.as_ref();
        status.and_then(|status| status.connection_state.as_ref()?.address.clone())
    };
    address(new).is_some_and(|new| address(old).or_else(connected) != Some(new))
}

fn connect_config_maps(stores: &Stores, queues: &Queues) {
    let sources = stores.sources.clone();
    stores.config_maps.store.feed(&queues.sources, move |change| {
        let config_map = change.object().key();
        let sources = sources.list_in(&config_map.namespace);
        catalog_triggers::made_of_config_map(&config_map, sources.iter().map(AsRef::as_ref))
    });
}

fn connect_unpacks(stores: &Stores, queues: &Queues, services: &Services) {
    let (Some(jobs), Some(unpacks)) = (&services.unpack_jobs, &stores.unpacks) else {
        return;
    };
    connect_unpack_watch(&unpacks.jobs, queues, jobs);
    connect_unpack_watch(&unpacks.pods, queues, jobs);
    let queue = &queues.unpacks;
    stores.accounts.feed(queue, unpack_triggers::named_as_owner);
    stores.roles.feed(queue, unpack_triggers::named_as_owner);
    stores.role_bindings.feed(queue, unpack_triggers::named_as_owner);
}

/// The subscriber of a Job observes it itself, beside the reconciles that create the Job.
fn connect_unpack_watch<P: OfUnpack + Projection>(
    store: &Store<Projected<P>>,
    queues: &Queues,
    jobs: &UnpackJobs,
) {
    let (queue, jobs) = (queues.unpacks.clone(), jobs.clone());
    store.on_change(move |change| {
        for key in unpack_triggers::named_by_label(change) {
            jobs.changed(&key);
            queue.add(key);
        }
    });
}

fn connect_namespaces(stores: &Stores, queues: &Queues) {
    let sources = stores.sources.clone();
    stores.namespaces.feed(&queues.sources, move |change| {
        let namespace = catalog_triggers::relabelled_namespace(change);
        let sources = namespace.map(|namespace| sources.list_in(&namespace));
        NamespacedName::of_all::<_, Vec<_>>(sources.iter().flatten())
    });
}

fn connect_resolution(stores: &Stores, queues: &Queues) {
    resolve_on(&stores.subscriptions, queues, resolution_triggers::own_namespace);
    resolve_on(&stores.plans, queues, resolution_triggers::own_namespace);
    resolve_on(&stores.csvs, queues, resolution_triggers::csv_namespace);
    let subscriptions = stores.subscriptions.clone();
    resolve_on(&stores.groups, queues, move |change| {
        let namespace = resolution_triggers::own_namespace(change);
        namespace.filter(|namespace| !subscriptions.list_in(namespace).is_empty())
    });
}

fn resolve_on<K: Object + 'static>(
    store: &Store<K>,
    queues: &Queues,
    namespace: impl Fn(&Change<K>) -> Option<String> + Send + Sync + 'static,
) {
    let queue = queues.namespaces.clone();
    store.on_change(move |change| resolve(&queue, namespace(change)));
}

#[cfg(test)]
mod tests;
