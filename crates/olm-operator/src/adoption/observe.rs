//! Finds the objects that belong to the ClusterServiceVersions of a namespace. Reads only stores.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Resource, ResourceExt};
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::{
    NamespacedName,
    store::{Index, Store},
};

use crate::{
    adoption::{Labelled, Observed},
    component, owner,
    stores::Stores,
};

/// Indexes cluster-scoped objects by the namespace of their owner.
pub(crate) struct OwnedIndex {
    cluster_roles: Index<ClusterRole>,
    cluster_role_bindings: Index<ClusterRoleBinding>,
    api_services: Index<APIService>,
}

impl OwnedIndex {
    /// Must be called before the stores trigger the controllers that use it.
    pub(crate) fn follow(stores: &Stores) -> Self {
        Self {
            cluster_roles: stores.cluster_roles.index(namespace_of_owner),
            cluster_role_bindings: stores.cluster_role_bindings.index(namespace_of_owner),
            api_services: stores.api_services.index(namespace_of_owner),
        }
    }
}

fn namespace_of_owner<K: Resource>(object: &K) -> BTreeSet<String> {
    let owner = owner::labelled(object.meta());
    owner.map(|owner| owner.namespace).into_iter().collect()
}

/// Observes a namespace; `None` if nothing is installed there.
pub(super) fn observe(stores: &Stores, index: &OwnedIndex, namespace: &str) -> Option<Observed> {
    let mut csvs = stores.csvs.list_in(namespace);
    csvs.retain(|csv| !csv.is_copied() && csv.metadata.deletion_timestamp.is_none());
    let subscriptions = stores.subscriptions.list_in(namespace);
    if csvs.is_empty() && subscriptions.is_empty() {
        return None;
    }
    let owned = Owned::of(namespace, &csvs).found_in(stores, index);
    Some(Observed {
        namespace: namespace.to_owned(),
        subscriptions,
        plans: stores.install_plans.list_in(namespace),
        csvs,
        owned,
    })
}

/// Collects the objects of ClusterServiceVersions.
struct Owned<'a> {
    namespace: &'a str,
    /// ClusterServiceVersions that have labels to pass on, by name.
    csvs: BTreeMap<String, &'a ClusterServiceVersion>,
    found: Vec<(String, Labelled)>,
}

impl<'a> Owned<'a> {
    fn of(namespace: &'a str, csvs: &'a [Arc<ClusterServiceVersion>]) -> Self {
        let giving = csvs
            .iter()
            .filter(|csv| component::labels_of(&csv.metadata).next().is_some());
        Self {
            namespace,
            csvs: giving.map(|csv| (csv.name_any(), csv.as_ref())).collect(),
            found: Vec::new(),
        }
    }

    fn found_in(mut self, stores: &Stores, index: &OwnedIndex) -> Vec<(String, Labelled)> {
        if self.csvs.is_empty() {
            return self.found;
        }
        self.add_referring(&stores.deployments);
        self.add_referring(&stores.services);
        self.add_referring(&stores.secrets);
        self.add_referring(&stores.config_maps);
        self.add_referring(&stores.roles);
        self.add_referring(&stores.role_bindings);
        self.add_referring(&stores.conditions);
        self.add_labelled(&index.cluster_roles);
        self.add_labelled(&index.cluster_role_bindings);
        self.add_labelled(&index.api_services);
        self.add_crds(stores);
        self.found
    }

    /// Adds namespaced objects, which refer to their owner. ServiceAccounts are not included, because this
    /// program may not write them: their InstallPlan sets the label.
    fn add_referring<K: Resource<DynamicType = ()>>(&mut self, store: &Store<K>) {
        for object in store.list_in(self.namespace) {
            for owner in owner::references(object.meta()) {
                let csv = self.csvs.get(&owner.name);
                if csv.is_some_and(|csv| csv.metadata.uid.as_ref() == Some(&owner.uid)) {
                    self.add(&owner.name, object.as_ref());
                }
            }
        }
    }

    /// Adds cluster-scoped objects, which name their owner in labels.
    fn add_labelled<K: Resource<DynamicType = ()>>(&mut self, index: &Index<K>) {
        for object in index.list(self.namespace) {
            let owner = owner::labelled(object.meta());
            if let Some(owner) = owner.filter(|owner| self.csvs.contains_key(&owner.name)) {
                self.add(&owner.name, object.as_ref());
            }
        }
    }

    /// Adds definitions that list a ClusterServiceVersion as their origin. Other ClusterServiceVersions that
    /// claim to own a definition are ignored.
    fn add_crds(&mut self, stores: &Stores) {
        for (name, csv) in self.csvs.clone() {
            for owned in csv.spec.owned_crds() {
                let Some(found) = stores.crds.get_key(&NamespacedName::cluster(&owned.name)) else {
                    continue;
                };
                if !found.origins().any(|origin| origin == (self.namespace, &*name)) {
                    continue;
                }
                let others = found.origins().map(|(namespace, _)| namespace.to_owned());
                let others = others.filter(|other| other != self.namespace).collect();
                let object = Labelled::of(found.as_ref());
                let object = object.map(|object| Labelled { others, ..object });
                self.found.extend(object.map(|object| (name.clone(), object)));
            }
        }
    }

    fn add<K: Resource<DynamicType = ()>>(&mut self, csv: &str, object: &K) {
        let object = Labelled::of(object);
        self.found.extend(object.map(|object| (csv.to_owned(), object)));
    }
}
