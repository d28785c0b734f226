//! Connects changes in the stores with the queues, through the triggers of each controller.

mod components;

use std::{hash::Hash, sync::Arc};

use kube::{Resource, ResourceExt};
use olm_runtime::{
    NamespacedName, clock,
    cluster_operator::ClusterOperators,
    driver::FirstRounds,
    queue::Queue,
    store::{NewsItem, Store},
};

use olm_api::v1::OperatorGroup;

use crate::{
    api_role,
    cluster_operator::{self, settings::ReportSettings},
    copied_csv, csv, group_role, namespace, olm_config, operator_condition, operator_group,
    orphaned_caller::{self, CallerKind},
    run::Queues,
    stores::Stores,
};

/// Attaches all listeners. Must be called before the watches start, so that no change is missed. Each
/// listener has one trigger, so a panic in it loses no other trigger (decision record 0018).
pub(super) fn connect(stores: &Stores, queues: &Queues) {
    connect_csvs(stores, queues);
    connect_sketches(stores, queues);
    connect_callers(stores, queues);
    connect_copies(stores, queues);
    connect_olm_configs(stores, queues);
    connect_proxy(stores, queues);
    connect_deployments(stores, queues);
    connect_owned(&stores.replica_sets, queues);
    connect_owned(&stores.cluster_roles, queues);
    connect_owned(&stores.cluster_role_bindings, queues);
    connect_owned(&stores.roles, queues);
    connect_owned(&stores.role_bindings, queues);
    connect_owned(&stores.services, queues);
    connect_owned(&stores.secrets, queues);
    connect_owned(&stores.validating_webhooks, queues);
    connect_owned(&stores.mutating_webhooks, queues);
    connect_rights_of_conditions(&stores.roles, queues);
    connect_rights_of_conditions(&stores.role_bindings, queues);
    connect_groups(stores, queues);
    connect_group_roles(stores, queues);
    connect_api_roles(stores, queues);
    connect_others(stores, queues);
    components::connect(stores, queues);
}

/// Attaches the listeners for reports to ClusterOperators.
pub(super) fn connect_cluster_operators(
    stores: &Stores,
    queues: &Queues,
    cluster_operators: &ClusterOperators,
    settings: &ReportSettings,
) {
    let (watched, queue) = (cluster_operators.clone(), queues.cluster_operators.clone());
    stores.crds.on_change(move |change| {
        if let Some(is_served) = cluster_operator::triggers::served_by(change) {
            watched.follow(is_served);
            add_all(&queue, watched.keys());
        }
    });
    let queue = queues.cluster_operators.clone();
    // Our own writes trigger this as well. Without a delay, each change by a tenant would be written at once.
    cluster_operators.on_change(move |key| queue.add_after(key, cluster_operator::triggers::GATHER));
    let (settings, queue) = (settings.clone(), queues.cluster_operators.clone());
    stores.csvs.on_change(move |change| {
        for key in cluster_operator::triggers::by_csv(change, &settings) {
            queue.add_after(key, cluster_operator::triggers::GATHER);
        }
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

fn connect_sketches(stores: &Stores, queues: &Queues) {
    let (places, queue) = (stores.clone(), queues.copies.clone());
    stores.csv_sketches.on_change(move |change| {
        let named = |name: &str| copied_csv::triggers::originals_called(&places, name);
        add_all(&queue, copied_csv::triggers::by_copy(change, named));
    });
    let (places, queue) = (stores.clone(), queues.copies.clone());
    stores.csv_sketches.on_change(move |change| {
        // A key that is queued for another reason is not delayed.
        let delay = copied_csv::triggers::delay(change, clock::now());
        for key in copied_csv::triggers::by_original(change, &places) {
            queue.add_after(key, delay);
        }
    });
}

fn connect_copies(stores: &Stores, queues: &Queues) {
    let (places, queue) = (stores.clone(), queues.copies.clone());
    stores.groups.on_change(move |change| {
        let members = copied_csv::triggers::originals_in(&places, &namespace_of(change.object()));
        add_all(&queue, copied_csv::triggers::by_group(change, &members, &places));
    });
    let (places, queue) = (stores.clone(), queues.copies.clone());
    stores.namespaces.on_change(move |change| {
        let (groups, members) = (places.groups.list(), |namespace: &str| {
            copied_csv::triggers::originals_in(&places, namespace)
        });
        add_all(
            &queue,
            copied_csv::triggers::by_namespace(change, &groups, members),
        );
    });
    let (places, queue) = (stores.clone(), queues.copies.clone());
    stores.olm_configs.on_change(move |change| {
        let (groups, members) = (places.groups.list(), |namespace: &str| {
            copied_csv::triggers::originals_in(&places, namespace)
        });
        add_all(
            &queue,
            copied_csv::triggers::by_config(change, &groups, members, &places),
        );
    });
}

fn connect_callers(stores: &Stores, queues: &Queues) {
    connect_caller(CallerKind::ApiService, &stores.api_services, stores, queues);
    connect_caller(
        CallerKind::ValidatingWebhook,
        &stores.validating_webhooks,
        stores,
        queues,
    );
    connect_caller(
        CallerKind::MutatingWebhook,
        &stores.mutating_webhooks,
        stores,
        queues,
    );
}

fn connect_caller<K>(kind: CallerKind, callers: &Store<K>, stores: &Stores, queues: &Queues)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let queue = queues.orphaned_callers.clone();
    callers.on_change(move |change| add_all(&queue, orphaned_caller::triggers::by_caller(kind, change)));
    let (known, queue) = (callers.clone(), queues.orphaned_callers.clone());
    stores.csv_sketches.on_change(move |change| {
        add_all(
            &queue,
            orphaned_caller::triggers::by_csv(change, kind, &known.list()),
        );
    });
}

/// A change of the setting triggers a reconcile at once, and a change of its subjects after a delay.
fn connect_olm_configs(stores: &Stores, queues: &Queues) {
    let queue = queues.olm_configs.clone();
    stores.olm_configs.on_change(move |change| {
        if olm_config::triggers::is_about(change) {
            queue.add(olm_config::key());
        }
    });
    let later = |queues: &Queues| {
        let queue = queues.olm_configs.clone();
        move || queue.add_after(olm_config::key(), olm_config::triggers::GATHER)
    };
    let wake = later(queues);
    stores.csv_sketches.on_change(move |_| wake());
    let wake = later(queues);
    stores.groups.on_change(move |_| wake());
    let wake = later(queues);
    stores.namespaces.on_change(move |_| wake());
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

fn connect_group_roles(stores: &Stores, queues: &Queues) {
    let queue = queues.group_roles.clone();
    stores
        .groups
        .on_change(move |change| add_all(&queue, group_role::triggers::by_group(change)));
    let (groups, queue) = (stores.groups.clone(), queues.group_roles.clone());
    stores.csvs.on_change(move |change| {
        let in_namespace = groups.list_in(&namespace_of(change.object()));
        add_all(&queue, group_role::triggers::by_csv(change, &in_namespace));
    });
    let queue = queues.group_roles.clone();
    stores
        .cluster_roles
        .on_change(move |change| add_all(&queue, group_role::triggers::by_cluster_role(change)));
}

fn connect_api_roles(stores: &Stores, queues: &Queues) {
    let queue = queues.api_roles.clone();
    stores
        .csvs
        .on_change(move |change| add_all(&queue, api_role::triggers::by_csv(change)));
    let queue = queues.api_roles.clone();
    stores
        .crds
        .on_change(move |change| add_all(&queue, api_role::triggers::by_crd(change)));
    let (all, queue) = (stores.api_services.clone(), queues.api_roles.clone());
    stores.api_services.on_change(move |change| {
        add_all(&queue, api_role::triggers::by_api_service(change, &all.list()));
    });
    let queue = queues.api_roles.clone();
    stores
        .cluster_roles
        .on_change(move |change| add_all(&queue, api_role::triggers::by_cluster_role(change)));
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

fn connect_others(stores: &Stores, queues: &Queues) {
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores.accounts.on_change(move |change| {
        add_all(
            &queue,
            csv::triggers::by_account(change, &csvs.list_in(&namespace_of(change.object()))),
        );
    });
    let (csvs, queue) = (stores.csvs.clone(), queues.csvs.clone());
    stores.account_news.on_news(move |heard| {
        let concerned = match heard {
            NewsItem::Changed(change) => csvs.list_in(&namespace_of(change.object())),
            NewsItem::Listed => csvs.list(),
        };
        add_all(&queue, csv::triggers::by_account_news(heard, &concerned));
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
