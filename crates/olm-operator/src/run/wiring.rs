//! Connects changes in the stores with the queues, through the triggers of each controller.

use std::{collections::BTreeSet, hash::Hash, sync::Arc};

use kube::Resource;
use olm_api::cluster_operator::DEFINITION;
use olm_runtime::{
    NamespacedName,
    change::Object,
    clock,
    cluster_operator::ClusterOperators,
    driver::FirstRounds,
    queue::Queue,
    store::{Change, Store},
};

use crate::{
    api_role, cluster_operator, copied_csv,
    csv::{self, triggers::by_owned},
    group_role, namespace, olm_config, operator_condition, operator_group,
    orphaned_caller::{self, by_caller},
    run::Queues,
    stores::{CustomResourceDefinition, Stores},
};

/// Attaches all listeners. Must be called before the watches start, so that no change is missed. Each
/// listener has one trigger, so a panic in it loses no other trigger (decision record 0018).
pub(super) fn connect(stores: &Stores, queues: &Queues) {
    connect_csvs(stores, queues);
    connect_csvs_of_cluster(stores, queues);
    let csvs = &queues.csvs;
    stores.replica_sets.feed(csvs, by_owned);
    stores.cluster_roles.feed(csvs, by_owned);
    stores.cluster_role_bindings.feed(csvs, by_owned);
    stores.roles.feed(csvs, by_owned);
    stores.role_bindings.feed(csvs, by_owned);
    stores.services.feed(csvs, by_owned);
    stores.secrets.feed(csvs, by_owned);
    stores.validating_webhooks.feed(csvs, by_owned);
    stores.mutating_webhooks.feed(csvs, by_owned);
    let orphans = &queues.orphaned_callers;
    stores.api_services.feed(orphans, by_caller);
    stores.validating_webhooks.feed(orphans, by_caller);
    stores.mutating_webhooks.feed(orphans, by_caller);
    stores.csv_sketches.feed(orphans, orphaned_caller::by_csv);
    connect_copies(stores, queues);
    connect_olm_configs(stores, queues);
    connect_proxy(stores, queues);
    connect_conditions(stores, queues);
    connect_groups(stores, queues);
    connect_group_roles(stores, queues);
    connect_api_roles(stores, queues);
    let namespaces = &queues.namespaces;
    stores.groups.feed(namespaces, namespace::triggers::by_group);
    stores
        .namespaces
        .feed(namespaces, namespace::triggers::by_namespace);
}

/// Attaches the listeners for reports to ClusterOperators.
pub(super) fn connect_cluster_operators(
    stores: &Stores,
    queues: &Queues,
    cluster_operators: &ClusterOperators,
) {
    let (watched, queue) = (cluster_operators.clone(), queues.cluster_operators.clone());
    stores.crds.on_change(move |change| {
        if let Some(is_served) = CustomResourceDefinition::serves(DEFINITION, change) {
            watched.follow(is_served);
            add_all(&queue, watched.keys());
        }
    });
    let queue = queues.cluster_operators.clone();
    // Our own writes trigger this as well.
    cluster_operators.on_change(move |key| queue.add_after(key, cluster_operator::GATHER));
    let (watched, queue) = (cluster_operators.clone(), queues.cluster_operators.clone());
    stores.csvs.on_change(move |_| {
        let keys = watched.keys();
        keys.for_each(|key| queue.add_after(key, cluster_operator::GATHER));
    });
}

/// OLM reports itself as working after its first reconcile.
pub(super) fn connect_first_rounds(
    first_rounds: &FirstRounds,
    queues: &Queues,
    cluster_operators: &ClusterOperators,
) {
    let (watched, queue) = (cluster_operators.clone(), queues.cluster_operators.clone());
    first_rounds.on_first_of::<csv::Csv>(move || add_all(&queue, watched.keys()));
}

fn add_all<T: Clone + Ord + Hash>(queue: &Queue<T>, keys: impl IntoIterator<Item = T>) {
    keys.into_iter().for_each(|key| queue.add(key));
}

/// Returns the key of the changed object.
fn itself<K: Resource>(change: &Change<K>) -> [NamespacedName; 1] {
    [NamespacedName::from_object(change.object().as_ref())]
}

/// Adds to `queue`, for each change in `store`, the keys that `keys` returns for it and the objects of `others` in its namespace.
fn feed_beside<K: Object + 'static, N: Object + Send + Sync + 'static>(
    store: &Store<K>,
    others: &Store<N>,
    queue: &Queue<NamespacedName>,
    keys: fn(&Change<K>, &[Arc<N>]) -> BTreeSet<NamespacedName>,
) {
    let others = others.clone();
    store.feed(queue, move |change| {
        keys(change, &others.list_in(change.object().names().0))
    });
}

/// Does the same with all objects of `others`.
fn feed_all<K: Object + 'static, N: Object + Send + Sync + 'static>(
    store: &Store<K>,
    others: &Store<N>,
    queue: &Queue<NamespacedName>,
    keys: fn(&Change<K>, &[Arc<N>]) -> BTreeSet<NamespacedName>,
) {
    let others = others.clone();
    store.feed(queue, move |change| keys(change, &others.list()));
}

/// Changes in the namespace of a ClusterServiceVersion.
fn connect_csvs(stores: &Stores, queues: &Queues) {
    use csv::triggers;
    let (csvs, queue) = (&stores.csvs, &queues.csvs);
    feed_beside(csvs, csvs, queue, triggers::by_csv);
    feed_beside(&stores.deployments, csvs, queue, triggers::by_deployment);
    feed_beside(&stores.conditions, csvs, queue, triggers::by_condition);
    stores.subscriptions.feed(queue, triggers::by_subscription);
    feed_beside(&stores.account_sketches, csvs, queue, triggers::by_account);
}

/// Changes that concern ClusterServiceVersions of several namespaces.
fn connect_csvs_of_cluster(stores: &Stores, queues: &Queues) {
    use csv::triggers;
    let (csvs, queue) = (&stores.csvs, &queues.csvs);
    feed_all(&stores.groups, csvs, queue, triggers::by_group);
    feed_all(&stores.crds, csvs, queue, triggers::by_crd);
    feed_all(&stores.api_services, csvs, queue, triggers::by_api_service);
    let (csvs, groups) = (csvs.clone(), stores.groups.clone());
    stores.namespaces.feed(queue, move |change| {
        triggers::by_namespace(change, &groups.list(), &csvs.list())
    });
}

fn connect_copies(stores: &Stores, queues: &Queues) {
    let places = stores.clone();
    stores.csv_sketches.feed(&queues.copies, move |change| {
        copied_csv::triggers::by_copy(change, |name| {
            copied_csv::triggers::originals_called(&places, name)
        })
    });
    let (places, queue) = (stores.clone(), queues.copies.clone());
    stores.csv_sketches.on_change(move |change| {
        // A key that is queued for another reason is not delayed.
        let delay = copied_csv::triggers::delay(change, clock::now());
        for key in copied_csv::triggers::by_original(change, &places) {
            queue.add_after(key, delay);
        }
    });
    let places = stores.clone();
    stores.groups.feed(&queues.copies, move |change| {
        copied_csv::triggers::by_group(change, &places)
    });
    let places = stores.clone();
    stores.namespaces.feed(&queues.copies, move |change| {
        copied_csv::triggers::by_namespace(change, &places)
    });
    let places = stores.clone();
    stores.olm_configs.feed(&queues.copies, move |change| {
        copied_csv::triggers::by_config(change, &places)
    });
}

/// A change of the setting triggers a reconcile at once, and a change of its subjects after a delay.
fn connect_olm_configs(stores: &Stores, queues: &Queues) {
    fn later<K: Object>(store: &Store<K>, queues: &Queues) {
        let queue = queues.olm_configs.clone();
        store.on_change(move |_| queue.add_after(olm_config::key(), olm_config::triggers::GATHER));
    }
    stores.olm_configs.feed(&queues.olm_configs, |change| {
        olm_config::triggers::is_about(change).then(olm_config::key)
    });
    later(&stores.csv_sketches, queues);
    later(&stores.groups, queues);
    later(&stores.namespaces, queues);
}

fn connect_conditions(stores: &Stores, queues: &Queues) {
    use operator_condition::triggers;
    let queue = &queues.conditions;
    stores.csvs.feed(queue, triggers::by_csv);
    stores.roles.feed(queue, triggers::by_owned);
    stores.role_bindings.feed(queue, triggers::by_owned);
    stores.conditions.feed(queue, itself);
}

fn connect_groups(stores: &Stores, queues: &Queues) {
    use operator_group::triggers;
    let (groups, queue) = (&stores.groups, &queues.groups);
    feed_beside(&stores.csvs, groups, queue, triggers::by_csv);
    feed_beside(groups, groups, queue, triggers::by_group);
    feed_all(&stores.namespaces, groups, queue, triggers::by_namespace);
    feed_beside(&stores.account_sketches, groups, queue, triggers::by_account);
}

fn connect_group_roles(stores: &Stores, queues: &Queues) {
    let queue = &queues.group_roles;
    stores.groups.feed(queue, itself);
    feed_beside(&stores.csvs, &stores.groups, queue, |_, groups| {
        NamespacedName::of_all(groups)
    });
    stores
        .cluster_roles
        .feed(queue, group_role::triggers::by_cluster_role);
}

fn connect_api_roles(stores: &Stores, queues: &Queues) {
    use api_role::triggers;
    let queue = &queues.api_roles;
    stores.csvs.feed(queue, triggers::by_csv);
    stores.crds.feed(queue, triggers::by_crd);
    let all = stores.api_services.clone();
    stores
        .api_services
        .feed(queue, move |change| triggers::by_api_service(change, &all.list()));
    stores.cluster_roles.feed(queue, triggers::by_cluster_role);
}

/// The proxy settings are part of every operator's Deployments.
fn connect_proxy(stores: &Stores, queues: &Queues) {
    let proxy = stores.proxy.clone();
    stores.crds.on_change(move |change| proxy.follow(change));
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores
        .proxy
        .on_change(move || add_all(&queue, NamespacedName::of_all::<_, Vec<_>>(&csvs.list())));
}

#[cfg(test)]
mod tests;
