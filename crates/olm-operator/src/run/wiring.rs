//! Connects changes in the stores with the queues, through the triggers of each controller.

use std::{hash::Hash, sync::Arc};

use kube::{Resource, ResourceExt};
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
    api_role, cluster_operator, copied_csv, csv, group_role, namespace, olm_config, operator_condition,
    operator_group, orphaned_caller,
    run::Queues,
    stores::{CustomResourceDefinition, Stores},
};

/// Attaches all listeners. Must be called before the watches start, so that no change is missed. Each
/// listener has one trigger, so a panic in it loses no other trigger (decision record 0018).
pub(super) fn connect(stores: &Stores, queues: &Queues) {
    connect_csvs(stores, queues);
    connect_csvs_of_cluster(stores, queues);
    wake(&stores.replica_sets, &queues.csvs, csv::triggers::by_owned);
    wake(&stores.cluster_roles, &queues.csvs, csv::triggers::by_owned);
    wake(
        &stores.cluster_role_bindings,
        &queues.csvs,
        csv::triggers::by_owned,
    );
    wake(&stores.roles, &queues.csvs, csv::triggers::by_owned);
    wake(&stores.role_bindings, &queues.csvs, csv::triggers::by_owned);
    wake(&stores.services, &queues.csvs, csv::triggers::by_owned);
    wake(&stores.secrets, &queues.csvs, csv::triggers::by_owned);
    wake(&stores.validating_webhooks, &queues.csvs, csv::triggers::by_owned);
    wake(&stores.mutating_webhooks, &queues.csvs, csv::triggers::by_owned);
    let orphans = &queues.orphaned_callers;
    wake(&stores.api_services, orphans, orphaned_caller::by_caller);
    wake(&stores.validating_webhooks, orphans, orphaned_caller::by_caller);
    wake(&stores.mutating_webhooks, orphans, orphaned_caller::by_caller);
    wake(&stores.csv_sketches, orphans, orphaned_caller::by_csv);
    connect_copies(stores, queues);
    connect_olm_configs(stores, queues);
    connect_proxy(stores, queues);
    connect_conditions(stores, queues);
    connect_groups(stores, queues);
    connect_group_roles(stores, queues);
    connect_api_roles(stores, queues);
    wake(&stores.groups, &queues.namespaces, namespace::triggers::by_group);
    wake(
        &stores.namespaces,
        &queues.namespaces,
        namespace::triggers::by_namespace,
    );
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

/// Adds the keys that `keys` returns for each change in `store`.
fn wake<K, T, I>(store: &Store<K>, queue: &Queue<T>, keys: impl Fn(&Change<K>) -> I + Send + Sync + 'static)
where
    K: Object + 'static,
    T: Clone + Ord + Hash + Send + 'static,
    I: IntoIterator<Item = T>,
{
    let queue = queue.clone();
    store.on_change(move |change| add_all(&queue, keys(change)));
}

fn add_all<T: Clone + Ord + Hash>(queue: &Queue<T>, keys: impl IntoIterator<Item = T>) {
    keys.into_iter().for_each(|key| queue.add(key));
}

/// Returns the key of the changed object.
fn itself<K: Resource>(change: &Change<K>) -> [NamespacedName; 1] {
    [NamespacedName::from_object(change.object().as_ref())]
}

/// Returns the objects of `store` in the namespace of the changed object.
fn beside<K: Resource, N: Object>(store: &Store<N>, change: &Change<K>) -> Vec<Arc<N>> {
    store.list_in(&change.object().namespace().unwrap_or_default())
}

/// Changes in the namespace of a ClusterServiceVersion.
fn connect_csvs(stores: &Stores, queues: &Queues) {
    let csvs = stores.csvs.clone();
    wake(&stores.csvs, &queues.csvs, move |change| {
        csv::triggers::by_csv(change, &beside(&csvs, change))
    });
    let csvs = stores.csvs.clone();
    wake(&stores.deployments, &queues.csvs, move |change| {
        csv::triggers::by_deployment(change, &beside(&csvs, change))
    });
    let csvs = stores.csvs.clone();
    wake(&stores.conditions, &queues.csvs, move |change| {
        csv::triggers::by_condition(change, &beside(&csvs, change))
    });
    wake(
        &stores.subscriptions,
        &queues.csvs,
        csv::triggers::by_subscription,
    );
    let csvs = stores.csvs.clone();
    wake(&stores.account_sketches, &queues.csvs, move |change| {
        csv::triggers::by_account(change, &csvs.list_in(change.object().namespace()))
    });
}

/// Changes that concern ClusterServiceVersions of several namespaces.
fn connect_csvs_of_cluster(stores: &Stores, queues: &Queues) {
    let csvs = stores.csvs.clone();
    wake(&stores.groups, &queues.csvs, move |change| {
        csv::triggers::by_group(change, &csvs.list())
    });
    let (csvs, groups) = (stores.csvs.clone(), stores.groups.clone());
    wake(&stores.namespaces, &queues.csvs, move |change| {
        csv::triggers::by_namespace(change, &groups.list(), &csvs.list())
    });
    let csvs = stores.csvs.clone();
    wake(&stores.crds, &queues.csvs, move |change| {
        csv::triggers::by_crd(change, &csvs.list())
    });
    let csvs = stores.csvs.clone();
    wake(&stores.api_services, &queues.csvs, move |change| {
        csv::triggers::by_api_service(change, &csvs.list())
    });
}

fn connect_copies(stores: &Stores, queues: &Queues) {
    let places = stores.clone();
    wake(&stores.csv_sketches, &queues.copies, move |change| {
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
    wake(&stores.groups, &queues.copies, move |change| {
        copied_csv::triggers::by_group(change, &places)
    });
    let places = stores.clone();
    wake(&stores.namespaces, &queues.copies, move |change| {
        copied_csv::triggers::by_namespace(change, &places)
    });
    let places = stores.clone();
    wake(&stores.olm_configs, &queues.copies, move |change| {
        copied_csv::triggers::by_config(change, &places)
    });
}

/// A change of the setting triggers a reconcile at once, and a change of its subjects after a delay.
fn connect_olm_configs(stores: &Stores, queues: &Queues) {
    fn later<K: Object>(store: &Store<K>, queues: &Queues) {
        let queue = queues.olm_configs.clone();
        store.on_change(move |_| queue.add_after(olm_config::key(), olm_config::triggers::GATHER));
    }
    wake(&stores.olm_configs, &queues.olm_configs, |change| {
        olm_config::triggers::is_about(change).then(olm_config::key)
    });
    later(&stores.csv_sketches, queues);
    later(&stores.groups, queues);
    later(&stores.namespaces, queues);
}

fn connect_conditions(stores: &Stores, queues: &Queues) {
    let queue = &queues.conditions;
    wake(&stores.csvs, queue, operator_condition::triggers::by_csv);
    wake(&stores.roles, queue, operator_condition::triggers::by_owned);
    wake(
        &stores.role_bindings,
        queue,
        operator_condition::triggers::by_owned,
    );
    wake(&stores.conditions, queue, itself);
}

fn connect_groups(stores: &Stores, queues: &Queues) {
    let groups = stores.groups.clone();
    wake(&stores.csvs, &queues.groups, move |change| {
        operator_group::triggers::by_csv(change, &beside(&groups, change))
    });
    let groups = stores.groups.clone();
    wake(&stores.groups, &queues.groups, move |change| {
        operator_group::triggers::by_group(change, &beside(&groups, change))
    });
    let groups = stores.groups.clone();
    wake(&stores.namespaces, &queues.groups, move |change| {
        operator_group::triggers::by_namespace(change, &groups.list())
    });
    let groups = stores.groups.clone();
    wake(&stores.account_sketches, &queues.groups, move |change| {
        operator_group::triggers::by_account(change, &groups.list_in(change.object().namespace()))
    });
}

fn connect_group_roles(stores: &Stores, queues: &Queues) {
    let queue = &queues.group_roles;
    wake(&stores.groups, queue, itself);
    let groups = stores.groups.clone();
    wake(&stores.csvs, queue, move |change| {
        let groups = beside(&groups, change).into_iter();
        groups.map(|group| NamespacedName::from_object(group.as_ref()))
    });
    wake(
        &stores.cluster_roles,
        queue,
        group_role::triggers::by_cluster_role,
    );
}

fn connect_api_roles(stores: &Stores, queues: &Queues) {
    let queue = &queues.api_roles;
    wake(&stores.csvs, queue, api_role::triggers::by_csv);
    wake(&stores.crds, queue, api_role::triggers::by_crd);
    let all = stores.api_services.clone();
    wake(&stores.api_services, queue, move |change| {
        api_role::triggers::by_api_service(change, &all.list())
    });
    wake(&stores.cluster_roles, queue, api_role::triggers::by_cluster_role);
}

/// The proxy settings are part of every operator's Deployments.
fn connect_proxy(stores: &Stores, queues: &Queues) {
    let proxy = stores.proxy.clone();
    stores.crds.on_change(move |change| proxy.follow(change));
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores.proxy.on_change(move || {
        let all = csvs.list();
        add_all(
            &queue,
            all.iter().map(|csv| NamespacedName::from_object(csv.as_ref())),
        );
    });
}

#[cfg(test)]
mod tests;
