//! Connects changes in the stores with the queues, through the triggers of each controller.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_runtime::{NamespacedName, queue::Queue, store::Store};

use olm_api::v1::OperatorGroup;

use crate::{
    csv, mislabelled_csv, namespace, operator_condition, operator_group, run::Queues, stores::Stores,
};

/// Attaches all listeners; call it before the watches start, so that nothing is missed. Each has one trigger: a panic in it loses no
/// wake of another (decision record 0018).
pub(super) fn connect(stores: &Stores, queues: &Queues) {
    connect_csvs(stores, queues);
    connect_mislabelled_csvs(stores, queues);
    connect_deployments(stores, queues);
    connect_owned(&stores.replica_sets, queues);
    connect_owned(&stores.cluster_roles, queues);
    connect_owned(&stores.cluster_role_bindings, queues);
    connect_owned(&stores.roles, queues);
    connect_owned(&stores.role_bindings, queues);
    connect_rights_of_conditions(&stores.roles, queues);
    connect_rights_of_conditions(&stores.role_bindings, queues);
    connect_groups(stores, queues);
    connect_others(stores, queues);
}

fn add_all(queue: &Queue<NamespacedName>, keys: impl IntoIterator<Item = NamespacedName>) {
    keys.into_iter().for_each(|key| queue.add(key));
}

fn namespace_of(object: &Arc<impl Resource<DynamicType = ()>>) -> String {
    object.namespace().unwrap_or_default()
}

fn connect_csvs(stores: &Stores, queues: &Queues) {
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores.csvs.on_change(move |change| {
        let in_namespace = csvs.list_in(&namespace_of(change.object()));
        add_all(&queue, csv::triggers::by_csv(change, &in_namespace));
    });
    let (groups, queue) = (stores.groups.clone(), queues.groups.clone());
    stores.csvs.on_change(move |change| {
        let in_namespace = groups.list_in(&namespace_of(change.object()));
        add_all(&queue, operator_group::triggers::by_csv(change, &in_namespace));
    });
    let queue = queues.conditions.clone();
    stores
        .csvs
        .on_change(move |change| add_all(&queue, operator_condition::triggers::by_csv(change)));
}

fn connect_mislabelled_csvs(stores: &Stores, queues: &Queues) {
    let queue = queues.mislabelled_csvs.clone();
    stores
        .mislabelled_csvs
        .on_change(move |change| add_all(&queue, mislabelled_csv::triggers::by_mislabelled_csv(change)));
}

fn connect_owned<K: Resource<DynamicType = ()> + Send + Sync + 'static>(store: &Store<K>, queues: &Queues) {
    let queue = queues.csvs.clone();
    store.on_change(move |change| add_all(&queue, csv::triggers::by_owned(change)));
}

fn connect_deployments(stores: &Stores, queues: &Queues) {
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores.deployments.on_change(move |change| {
        let in_namespace = csvs.list_in(&namespace_of(change.object()));
        add_all(&queue, csv::triggers::by_deployment(change, &in_namespace));
    });
}

fn connect_rights_of_conditions<K>(store: &Store<K>, queues: &Queues)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let queue = queues.conditions.clone();
    store.on_change(move |change| add_all(&queue, operator_condition::triggers::by_owned(change)));
}

fn connect_groups(stores: &Stores, queues: &Queues) {
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores
        .groups
        .on_change(move |change| add_all(&queue, csv::triggers::by_group(change, &csvs.list())));
    let (groups, queue) = (stores.groups.clone(), queues.groups.clone());
    stores.groups.on_change(move |change| {
        let in_namespace = groups.list_in(&namespace_of(change.object()));
        add_all(&queue, operator_group::triggers::by_group(change, &in_namespace));
    });
    let queue = queues.namespaces.clone();
    stores
        .groups
        .on_change(move |change| add_all(&queue, namespace::triggers::by_group(change)));
    connect_namespaces(stores, queues);
    let (groups, queue) = (stores.groups.clone(), queues.groups.clone());
    stores.account_news.on_news(move |heard| {
        add_all(
            &queue,
            operator_group::triggers::by_account(heard, &groups.list_where(names_account)),
        );
    });
}

fn connect_namespaces(stores: &Stores, queues: &Queues) {
    let (groups, queue) = (stores.groups.clone(), queues.groups.clone());
    stores.namespaces.on_change(move |change| {
        add_all(
            &queue,
            operator_group::triggers::by_namespace(change, &groups.list()),
        );
    });
    let queue = queues.namespaces.clone();
    stores
        .namespaces
        .on_change(move |change| add_all(&queue, namespace::triggers::by_namespace(change)));
    let (csvs, groups, queue) = (stores.csvs.clone(), stores.groups.clone(), queues.csvs.clone());
    stores.namespaces.on_change(move |change| {
        add_all(
            &queue,
            csv::triggers::by_namespace(change, &groups.list(), &csvs.list()),
        );
    });
}

fn names_account(group: &OperatorGroup) -> bool {
    group.spec.service_account().is_some()
}

fn connect_others(stores: &Stores, queues: &Queues) {
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores.accounts.on_change(move |change| {
        add_all(
            &queue,
            csv::triggers::by_account(change, &csvs.list_in(&namespace_of(change.object()))),
        );
    });
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores
        .crds
        .on_change(move |change| add_all(&queue, csv::triggers::by_crd(change, &csvs.list())));
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores
        .api_services
        .on_change(move |change| add_all(&queue, csv::triggers::by_api_service(change, &csvs.list())));
    let queue = queues.csvs.clone();
    stores
        .subscriptions
        .on_change(move |change| add_all(&queue, csv::triggers::by_subscription(change)));
    let queue = queues.csvs.clone();
    stores
        .install_plans
        .on_change(move |change| add_all(&queue, csv::triggers::by_install_plan(change)));
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores.conditions.on_change(move |change| {
        let in_namespace = csvs.list_in(&namespace_of(change.object()));
        add_all(&queue, csv::triggers::by_condition(change, &in_namespace));
    });
    let queue = queues.conditions.clone();
    stores.conditions.on_change(move |change| {
        add_all(&queue, [operator_condition::triggers::by_condition(change)]);
    });
}

#[cfg(test)]
mod tests;
