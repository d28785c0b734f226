//! Triggers Operators and adoption by changes of the kinds that may be components.

use kube::Resource;
use olm_runtime::{
    NamespacedName,
    queue::Queue,
    store::{Change, Store},
};

use crate::{
    adoption,
    operator::{self, founder},
    run::Queues,
    stores::Stores,
};

pub(super) fn connect(stores: &Stores, queues: &Queues) {
    connect_operators(stores, &queues.operators);
    connect_adoptions(stores, &queues.adoptions);
}

fn connect_operators(stores: &Stores, queue: &Queue<NamespacedName>) {
    list_component(stores, &stores.deployments, queue, founder::of_none);
    list_component(stores, &stores.services, queue, founder::of_none);
    list_component(stores, &stores.namespaces, queue, founder::of_none);
    list_component(stores, &stores.api_services, queue, founder::of_none);
    list_component(stores, &stores.crds, queue, founder::of_none);
    list_component(stores, &stores.subscriptions, queue, founder::of_subscription);
    list_component(stores, &stores.install_plans, queue, founder::of_none);
    list_component(stores, &stores.csvs, queue, founder::of_csv);
    list_component(stores, &stores.conditions, queue, founder::of_none);
    list_component(stores, &stores.secrets, queue, founder::of_none);
    list_component(stores, &stores.config_maps, queue, founder::of_none);
    list_component(stores, &stores.accounts, queue, founder::of_none);
    list_component(stores, &stores.roles, queue, founder::of_none);
    list_component(stores, &stores.role_bindings, queue, founder::of_none);
    list_component(stores, &stores.cluster_roles, queue, founder::of_none);
    list_component(stores, &stores.cluster_role_bindings, queue, founder::of_none);
    let queue = queue.clone();
    stores.operators.on_change(move |change| {
        let operator = change.object();
        queue.add_after(
            operator.key(),
            operator::triggers::gather(Some(operator.as_ref())),
        );
    });
}

/// Triggers the Operators of a kind's objects; `founded` returns the Operator that an object requires.
fn list_component<K>(
    stores: &Stores,
    store: &Store<K>,
    queue: &Queue<NamespacedName>,
    founded: fn(&K) -> Option<String>,
) where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let (operators, queue) = (stores.operators.clone(), queue.clone());
    store.on_change(move |change| {
        let is_there = |name: &NamespacedName| operators.get_key(name).is_some();
        for operator in operator::triggers::by_component(change, founded, is_there) {
            let delay = operator::triggers::gather(operators.get_key(&operator).as_deref());
            queue.add_after(operator, delay);
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
    adopt(&stores.config_maps, queue, adoption::triggers::by_referring);
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

/// Triggers adoption; `namespaces` returns the namespaces to reconcile after a change.
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
