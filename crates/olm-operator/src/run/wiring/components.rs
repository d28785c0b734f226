//! What wakes Operators and adoption: changes of the kinds that may be components.

use kube::Resource;
use olm_runtime::{
    NamespacedName,
    queue::Queue,
    store::{Change, Store},
};

use crate::{adoption, operator, run::Queues, stores::Stores};

pub(super) fn connect(stores: &Stores, queues: &Queues) {
    connect_operators(stores, &queues.operators);
    connect_adoptions(stores, &queues.adoptions);
}

fn connect_operators(stores: &Stores, queue: &Queue<NamespacedName>) {
    list_component(&stores.deployments, queue);
    list_component(&stores.services, queue);
    list_component(&stores.namespaces, queue);
    list_component(&stores.api_services, queue);
    list_component(&stores.crds, queue);
    list_component(&stores.subscriptions, queue);
    list_component(&stores.install_plans, queue);
    list_component(&stores.csvs, queue);
    list_component(&stores.conditions, queue);
    list_component(&stores.secrets, queue);
    list_component(&stores.accounts, queue);
    list_component(&stores.roles, queue);
    list_component(&stores.role_bindings, queue);
    list_component(&stores.cluster_roles, queue);
    list_component(&stores.cluster_role_bindings, queue);
    let queue = queue.clone();
    stores.operators.on_change(move |change| {
        queue.add_after(
            operator::triggers::by_operator(change),
            operator::triggers::GATHER,
        );
    });
}

fn list_component<K>(store: &Store<K>, queue: &Queue<NamespacedName>)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let queue = queue.clone();
    store.on_change(move |change| {
        for operator in operator::triggers::by_component(change) {
            queue.add_after(operator, operator::triggers::GATHER);
        }
    });
}

fn connect_adoptions(stores: &Stores, queue: &Queue<NamespacedName>) {
    adopt(&stores.subscriptions, queue, adoption::triggers::by_install);
    adopt(&stores.install_plans, queue, adoption::triggers::by_install);
    adopt(&stores.csvs, queue, adoption::triggers::by_install);
    adopt(&stores.deployments, queue, adoption::triggers::by_referring);
    adopt(&stores.services, queue, adoption::triggers::by_referring);
    adopt(&stores.secrets, queue, adoption::triggers::by_referring);
    adopt(&stores.roles, queue, adoption::triggers::by_referring);
    adopt(&stores.role_bindings, queue, adoption::triggers::by_referring);
    adopt(&stores.conditions, queue, adoption::triggers::by_referring);
    adopt(&stores.cluster_roles, queue, adoption::triggers::by_labelled);
    adopt(
        &stores.cluster_role_bindings,
        queue,
        adoption::triggers::by_labelled,
    );
    adopt(&stores.api_services, queue, adoption::triggers::by_labelled);
    adopt(&stores.crds, queue, adoption::triggers::by_crd);
}

/// `namespaces` names those to be looked at after a change.
fn adopt<K, N>(store: &Store<K>, queue: &Queue<NamespacedName>, namespaces: fn(&Change<K>) -> N)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
    N: IntoIterator<Item = NamespacedName> + 'static,
{
    let queue = queue.clone();
    store.on_change(move |change| {
        for namespace in namespaces(change) {
            queue.add_after(namespace, adoption::triggers::GATHER);
        }
    });
}
