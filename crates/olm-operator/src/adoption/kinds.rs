//! The kinds of objects that ClusterServiceVersions own: how they are found, and the triggers of their changes.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource;
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::{
    NamespacedName,
    queue::Queue,
    store::{Change, Store},
};

use crate::{
    adoption::{Labelled, triggers},
    owner,
    stores::{CustomResourceDefinition, Stores},
};

/// ClusterServiceVersions of a namespace, by name.
pub(super) type Csvs<'a> = BTreeMap<String, &'a ClusterServiceVersion>;

/// Returns the objects of one kind that ClusterServiceVersions of a namespace own, each with the name of its owner.
type Listing = Box<dyn Fn(&str, &Csvs<'_>) -> Vec<(String, Labelled)> + Send + Sync>;

/// Kinds of objects that ClusterServiceVersions own.
pub(crate) struct OwnedKinds(Vec<Listing>);

impl OwnedKinds {
    /// Triggers the namespaces of changed objects. Must be called before the stores get objects.
    ///
    /// ServiceAccounts are not included, because this program may not write them: their InstallPlan sets the label.
    pub(crate) fn follow(stores: &Stores, queue: &Queue<NamespacedName>) -> Self {
        trigger(&stores.subscriptions, queue, triggers::by_install);
        trigger(&stores.install_plans, queue, triggers::by_install);
        trigger(&stores.csvs, queue, triggers::by_install);
        Self(vec![
            referring(&stores.deployments, queue),
            referring(&stores.services, queue),
            referring(&stores.secrets, queue),
            referring(&stores.config_maps, queue),
            referring(&stores.roles, queue),
            referring(&stores.role_bindings, queue),
            referring(&stores.conditions, queue),
            labelled(&stores.cluster_roles, queue),
            labelled(&stores.cluster_role_bindings, queue),
            labelled(&stores.api_services, queue),
            definitions(&stores.crds, queue),
        ])
    }

    /// Returns the objects that these ClusterServiceVersions of a namespace own, each with the name of its owner.
    pub(super) fn find(&self, namespace: &str, csvs: &Csvs<'_>) -> Vec<(String, Labelled)> {
        self.0.iter().flat_map(|list| list(namespace, csvs)).collect()
    }
}

/// Lists namespaced objects, which refer to their owner.
fn referring<K>(store: &Store<K>, queue: &Queue<NamespacedName>) -> Listing
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    trigger(store, queue, triggers::by_referring);
    let store = store.clone();
    Box::new(move |namespace, csvs| {
        let mut found = Vec::new();
        for object in store.list_in(namespace) {
            for owner in owner::references(object.meta()) {
                let csv = csvs.get(&owner.name);
                if csv.is_some_and(|csv| csv.metadata.uid.as_ref() == Some(&owner.uid)) {
                    let object = Labelled::of(object.as_ref());
                    found.extend(object.map(|object| (owner.name.clone(), object)));
                }
            }
        }
        found
    })
}

/// Lists cluster-scoped objects, which name their owner in labels.
fn labelled<K>(store: &Store<K>, queue: &Queue<NamespacedName>) -> Listing
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let index = store.index(namespace_of_owner);
    trigger(store, queue, triggers::by_labelled);
    Box::new(move |namespace, csvs| {
        let found = index.list(namespace);
        let owned = found.iter().filter_map(|object| {
            let owner = owner::labelled(object.meta()).filter(|owner| csvs.contains_key(&owner.name))?;
            Some((owner.name, Labelled::of(object.as_ref())?))
        });
        owned.collect()
    })
}

fn namespace_of_owner<K: Resource>(object: &K) -> BTreeSet<String> {
    let owner = owner::labelled(object.meta());
    owner.map(|owner| owner.namespace).into_iter().collect()
}

/// Lists definitions that name a ClusterServiceVersion as their origin. Other ClusterServiceVersions that claim to own
/// a definition are ignored.
fn definitions(store: &Store<CustomResourceDefinition>, queue: &Queue<NamespacedName>) -> Listing {
    trigger(store, queue, triggers::by_crd);
    let store = store.clone();
    Box::new(move |namespace, csvs| {
        let mut all = Vec::new();
        for (name, csv) in csvs {
            for owned in csv.spec.owned_crds() {
                let Some(found) = store.get_key(&NamespacedName::cluster(&owned.name)) else {
                    continue;
                };
                if !found.origins().any(|origin| origin == (namespace, name.as_str())) {
                    continue;
                }
                let others = found.origins().map(|(namespace, _)| namespace.to_owned());
                let others = others.filter(|other| other != namespace).collect();
                let object = Labelled::of(found.as_ref());
                let object = object.map(|object| Labelled { others, ..object });
                all.extend(object.map(|object| (name.clone(), object)));
            }
        }
        all
    })
}

/// Triggers adoption; `namespaces` returns the namespaces to reconcile after a change.
fn trigger<K, N>(store: &Store<K>, queue: &Queue<NamespacedName>, namespaces: fn(&Change<K>) -> N)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
    N: IntoIterator<Item = NamespacedName> + 'static,
{
    let queue = queue.clone();
    store.on_change(move |change| {
        for namespace in namespaces(change) {
            queue.add_after(namespace, triggers::GATHER);
        }
    });
}
