//! Observes a ClusterServiceVersion from the stores, without live reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource, ResourceExt,
    core::{PartialObjectMeta, SelectorExt},
};
use olm_api::{
    labels,
    overrides::Overrides,
    v1alpha1::{ClusterServiceVersion, Subscription},
};
use olm_runtime::{NamespacedName, store::Store};

use crate::{
    csv::{
        changeover,
        observe::serving,
        observed::{ClusterApis, ForeignGroup, Observed, Rbac, RbacKey},
        replacement::Sibling,
        strategy::{self, Strategy},
    },
    operator_group::{self, Group, Targets, intersection::NamespaceSet},
    owner,
    stores::{ProxyVariables, Stores},
};

/// Fills the fields that the stores provide; the rest is empty.
pub(crate) fn from_stores(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    let csv = stores.csvs.get_key(key).filter(|csv| !csv.is_copied())?;
    let groups = stores.groups.list_in(&key.namespace).into_iter().map(|group| {
        Group::read(&group, |selector| {
            let matching = |namespace: &PartialObjectMeta<_>| selector.matches(namespace.labels());
            !stores.namespaces.list_where(matching).is_empty()
        })
    });
    let groups: Vec<Group> = groups.collect();
    let replaces = csv.spec.replaces().filter(|replaces| *replaces != key.name);
    let strategy = strategy::read(&csv);
    let deployments = owned(stores.deployments.list_in(&key.namespace), key);
    let open_targets = open_targets(stores, &key.namespace, &groups);
    Some(Observed {
        namespace_terminating: stores
            .namespaces
            .get_key(&NamespacedName::cluster(&key.namespace))
            .is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()),
        rbac: own_rbac(stores, key, &open_targets),
        open_targets,
        groups,
        foreign_groups: foreign_groups(stores, &key.namespace),
        siblings: siblings(stores, key),
        previous_condition: replaces.and_then(|name| stores.conditions.get(&key.namespace, name)),
        deployments: deployments
            .into_iter()
            .map(|live| (live.name_any(), live))
            .collect(),
        inherited: inherited(stores, key, strategy.as_ref()),
        replica_sets: None,
        left_behind: left_behind(stores, key),
        pod_troubles: None,
        subscription: configured(&stores.subscriptions.list_in(&key.namespace), &key.name),
        cluster: cluster(stores, &csv),
        accounts: strategy
            .iter()
            .flat_map(account_names)
            .filter_map(|name| {
                let found = stores.account_sketches.get(&key.namespace, name)?;
                Some((name.clone(), found.owners.clone()))
            })
            .collect(),
        proxy: ProxyVariables::default(),
        leftovers: Vec::new(),
        serving: serving::from_stores(stores, &csv, strategy.as_ref().ok()),
        strategy,
        csv,
    })
}

fn inherited(
    stores: &Stores,
    key: &NamespacedName,
    strategy: Result<&Strategy, &String>,
) -> BTreeMap<String, Arc<Deployment>> {
    let entries = strategy.into_iter().flat_map(|strategy| &strategy.deployments);
    entries
        .filter_map(|entry| {
            let live = stores.deployments.get(&key.namespace, &entry.name)?;
            let is_own = owner::is_labelled(&live.metadata, &key.namespace, &key.name);
            (!is_own).then(|| (entry.name.clone(), live))
        })
        .collect()
}

fn left_behind(stores: &Stores, key: &NamespacedName) -> BTreeMap<String, String> {
    let marked = owned(stores.replica_sets.list_in(&key.namespace), key);
    let left = marked
        .iter()
        .filter(|found| changeover::is_left_behind(&found.metadata));
    left.filter_map(|found| Some((found.name_any(), found.uid()?)))
        .collect()
}

/// Target namespaces that are not being deleted. Namespaces that do not exist yet are included; objects in a
/// namespace that is being deleted are deleted with it.
fn open_targets(stores: &Stores, own: &str, groups: &[Group]) -> BTreeSet<String> {
    let [
        Group {
            targets: Targets::Namespaces(targets),
            ..
        },
    ] = groups
    else {
        return BTreeSet::new();
    };
    let is_open = |name: &&String| {
        let found = stores.namespaces.get_key(&NamespacedName::cluster(*name));
        found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
    };
    let others = targets.iter().filter(|name| *name != own);
    others.filter(is_open).cloned().collect()
}

fn account_names(strategy: &Strategy) -> BTreeSet<&String> {
    strategy.roles.iter().map(|role| &role.service_account).collect()
}

/// Returns the configuration of the Subscription in `all` that names ClusterServiceVersion `csv`; `None`
/// without such a Subscription.
pub(crate) fn configured(all: &[Arc<Subscription>], csv: &str) -> Option<Result<Overrides, String>> {
    let named = |name: &Option<String>| name.as_deref() == Some(csv);
    let status = |subscription: &Subscription| subscription.status.clone().unwrap_or_default();
    // `installedCSV` is set late, but the configuration must apply from the first pod on.
    let installed = all
        .iter()
        .find(|subscription| named(&status(subscription).installed_csv));
    let found = installed.or_else(|| {
        all.iter()
            .find(|subscription| named(&status(subscription).current_csv))
    });
    found.map(|found| overrides(found))
}

fn cluster(stores: &Stores, csv: &ClusterServiceVersion) -> ClusterApis {
    let mut cluster = ClusterApis::default();
    let spec = &csv.spec;
    for description in spec.owned_crds().iter().chain(spec.required_crds()) {
        let found = stores.crds.get_key(&NamespacedName::cluster(&description.name));
        if let Some(found) = found {
            cluster.crds.insert(description.name.clone(), found);
        }
    }
    for description in spec
        .required_api_services()
        .iter()
        .chain(spec.owned_api_services())
    {
        let name = description.api_service_name();
        let found = stores.api_services.get_key(&NamespacedName::cluster(&name));
        cluster.api_services.extend(found.map(|found| (name, found)));
    }
    cluster
}

fn siblings(stores: &Stores, key: &NamespacedName) -> Vec<Sibling> {
    let mut siblings = stores.csvs.list_in(&key.namespace);
    siblings.retain(|csv| csv.name_any() != key.name && !csv.is_copied());
    siblings
}

fn foreign_groups(stores: &Stores, namespace: &str) -> Vec<ForeignGroup> {
    let elsewhere = stores
        .groups
        .list_where(|group| group.metadata.namespace.as_deref() != Some(namespace));
    elsewhere
        .iter()
        .filter_map(|group| {
            let provided = operator_group::provided_apis(group);
            let own = group.namespace().unwrap_or_default();
            let targets = group.status.iter().flat_map(|status| &status.namespaces).cloned();
            (!provided.is_empty()).then(|| ForeignGroup {
                id: NamespacedName::from_object(group.as_ref()).to_string(),
                targets: NamespaceSet::of_group(&own, targets),
                provided,
            })
        })
        .collect()
}

fn own_rbac(stores: &Stores, key: &NamespacedName, targets: &BTreeSet<String>) -> Rbac {
    let roles = owned(stores.roles.list_in(&key.namespace), key);
    let role_bindings = owned(stores.role_bindings.list_in(&key.namespace), key);
    Rbac {
        taken: taken(stores, key, targets, (&roles, &role_bindings)),
        bound_by_others: BTreeSet::new(),
        roles,
        role_bindings,
        cluster_roles: owned_anywhere(&stores.cluster_roles, key),
        cluster_role_bindings: owned_anywhere(&stores.cluster_role_bindings, key),
        replicated_roles: replicated(&stores.roles, key),
        replicated_bindings: replicated(&stores.role_bindings, key),
        granted_by_others: None,
    }
}

/// Returns the names of these Roles and bindings that other objects of the cluster or of targets already
/// have.
fn taken(
    stores: &Stores,
    csv: &NamespacedName,
    targets: &BTreeSet<String>,
    (roles, bindings): (&[Arc<Role>], &[Arc<RoleBinding>]),
) -> BTreeSet<RbacKey> {
    let mut keys = BTreeSet::new();
    for namespace in targets.iter().map(String::as_str).chain([""]) {
        let (role, binding) = match namespace {
            "" => ("ClusterRole", "ClusterRoleBinding"),
            _ => ("Role", "RoleBinding"),
        };
        keys.extend(
            roles
                .iter()
                .map(|it| RbacKey::new(role, namespace, it.name_any())),
        );
        keys.extend(
            bindings
                .iter()
                .map(|it| RbacKey::new(binding, namespace, it.name_any())),
        );
    }
    keys.retain(|key| match key.kind {
        "Role" => is_of_another(&stores.roles, key, csv),
        "RoleBinding" => is_of_another(&stores.role_bindings, key, csv),
        "ClusterRole" => is_of_another(&stores.cluster_roles, key, csv),
        _ => is_of_another(&stores.cluster_role_bindings, key, csv),
    });
    keys
}

/// True when an object of this name exists that is no counterpart of the ClusterServiceVersion's. One that came
/// with the operator, or that its administrator made for it by hand, has owner labels, too, and other rules.
fn is_of_another<K: Resource>(store: &Store<K>, key: &RbacKey, csv: &NamespacedName) -> bool {
    let found = store.get_key(&NamespacedName::new(&key.namespace, &key.name));
    found.is_some_and(|found| {
        let metadata = found.meta();
        let is_counterpart = if key.namespace.is_empty() {
            found.labels().contains_key(labels::PERMISSIONS_HASH)
                && owner::is_labelled(metadata, &csv.namespace, &csv.name)
        } else {
            is_replica(metadata, csv)
        };
        !is_counterpart
    })
}

/// Returns only objects that are labelled as made for their own namespace. Objects of others with these
/// labels are not touched.
fn replicated<K: Resource>(store: &Store<K>, key: &NamespacedName) -> Vec<Arc<K>> {
    store.list_where(|object| is_replica(object.meta(), key))
}

fn owned_anywhere<K: Resource>(store: &Store<K>, key: &NamespacedName) -> Vec<Arc<K>> {
    store.list_where(|object| owner::is_labelled(object.meta(), &key.namespace, &key.name))
}

/// True for a counterpart in another namespace of an object that belongs to this ClusterServiceVersion. Ours
/// names the ClusterServiceVersion as the owner; upstream's names its copy there, by labels and by reference.
pub(crate) fn is_replica(metadata: &ObjectMeta, csv: &NamespacedName) -> bool {
    let copied_from = metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::COPIED_FROM));
    metadata.namespace.as_ref() != Some(&csv.namespace)
        && copied_from == Some(&csv.namespace)
        && (owner::is_labelled(metadata, &csv.namespace, &csv.name) || is_of_copy(metadata, &csv.name))
}

fn is_of_copy(metadata: &ObjectMeta, name: &str) -> bool {
    let own = metadata.namespace.as_deref().unwrap_or_default();
    owner::is_labelled(metadata, own, name) && owner::references(metadata).any(|owner| owner.name == name)
}

fn owned<K: Resource>(mut objects: Vec<Arc<K>>, key: &NamespacedName) -> Vec<Arc<K>> {
    objects.retain(|object| owner::is_labelled(object.meta(), &key.namespace, &key.name));
    objects
}

/// Returns the pod overrides of a Subscription's configuration.
fn overrides(subscription: &Subscription) -> Result<Overrides, String> {
    let Some(config) = &subscription.spec.config else {
        return Ok(Overrides::default());
    };
    Overrides::decode(config, "spec.config").map_err(|error| {
        format!(
            "failed to get subscription pod configuration - Subscription {}: {error}",
            subscription.name_any()
        )
    })
}
