//! The components of an Operator, from the stores.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Resource, core::PartialObjectMeta};
use olm_api::{
    condition::TRUE,
    sparse::List,
    v1::{ComponentCondition, RichReference},
    v1alpha1::{ClusterServiceVersion, InstallPlan, Subscription},
    v2::OperatorCondition,
};
use olm_runtime::{
    plan::to_value,
    store::{Index, Store},
};
use serde::Serialize;

use crate::{
    component,
    operator::founder,
    stores::{CustomResourceDefinition, ServingSecret, Stores},
};

/// Maximum number of components in a status; etcd accepts objects of 1.5 MiB.
const MAX_COMPONENTS: usize = 1000;

type Conditions = List<ComponentCondition>;

/// Indexes of components by their label.
pub(crate) struct ComponentIndex {
    deployments: Index<Deployment>,
    api_services: Index<APIService>,
    crds: Index<CustomResourceDefinition>,
    subscriptions: Index<Subscription>,
    install_plans: Index<InstallPlan>,
    conditions: Index<OperatorCondition>,
    csvs: Index<ClusterServiceVersion>,
    services: Index<Service>,
    namespaces: Index<PartialObjectMeta<Namespace>>,
    secrets: Index<ServingSecret>,
    config_maps: Index<PartialObjectMeta<ConfigMap>>,
    accounts: Index<PartialObjectMeta<ServiceAccount>>,
    roles: Index<Role>,
    role_bindings: Index<RoleBinding>,
    cluster_roles: Index<ClusterRole>,
    cluster_role_bindings: Index<ClusterRoleBinding>,
}

impl ComponentIndex {
    /// Must be called before the stores trigger the controllers that use it.
    pub(crate) fn follow(stores: &Stores) -> Self {
        Self {
            deployments: by_label(&stores.deployments),
            api_services: by_label(&stores.api_services),
            crds: by_label(&stores.crds),
            subscriptions: by_label(&stores.subscriptions),
            install_plans: by_label(&stores.install_plans),
            conditions: by_label(&stores.conditions),
            csvs: stores.csvs.index(labels_of_csv),
            services: by_label(&stores.services),
            namespaces: by_label(&stores.namespaces),
            secrets: by_label(&stores.secrets),
            config_maps: by_label(&stores.config_maps),
            accounts: by_label(&stores.accounts),
            roles: by_label(&stores.roles),
            role_bindings: by_label(&stores.role_bindings),
            cluster_roles: by_label(&stores.cluster_roles),
            cluster_role_bindings: by_label(&stores.cluster_role_bindings),
        }
    }
}

fn by_label<K>(store: &Store<K>) -> Index<K>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    store.index(|object| labels_of(object.meta()))
}

/// Copies are no components.
fn labels_of_csv(csv: &ClusterServiceVersion) -> BTreeSet<String> {
    if csv.is_copied() {
        return BTreeSet::new();
    }
    labels_of(&csv.metadata)
}

fn labels_of(metadata: &ObjectMeta) -> BTreeSet<String> {
    component::labels_of(metadata).map(str::to_owned).collect()
}

/// Objects with the label of an Operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    /// Sorted by kind, API version, namespace and name; as many as fit into a status.
    pub(crate) refs: Vec<RichReference>,
    /// True when one of them requires the Operator, which creates and keeps it. Other objects do not count.
    /// For example, definitions outlive operator and namespace, and keep their labels.
    pub(crate) is_founded: bool,
}

/// Finds objects with `label`, the label of the Operator `name`.
pub(crate) fn find(index: &ComponentIndex, name: &str, label: &str) -> Found {
    let mut listing = Listing {
        label,
        refs: Vec::new(),
    };
    listing.add(&index.api_services, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&index.crds, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add_plain(&index.cluster_roles);
    listing.add_plain(&index.cluster_role_bindings);
    listing.add(&index.deployments, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&index.subscriptions, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&index.install_plans, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&index.conditions, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&index.csvs, phase);
    listing.add_plain(&index.services);
    listing.add_plain(&index.namespaces);
    listing.add_plain(&index.secrets);
    listing.add_plain(&index.config_maps);
    listing.add_plain(&index.accounts);
    listing.add_plain(&index.roles);
    listing.add_plain(&index.role_bindings);
    let Listing { mut refs, .. } = listing;
    refs.sort_by(|a, b| order(a).cmp(&order(b)));
    refs.truncate(MAX_COMPONENTS);
    Found {
        refs,
        is_founded: is_founded(index, name, label),
    }
}

/// True when an object with the label requires the Operator. Only objects in its own namespace do.
fn is_founded(index: &ComponentIndex, name: &str, label: &str) -> bool {
    let is = |founded: Option<String>| founded.as_deref() == Some(name);
    let subscriptions = index.subscriptions.list(label);
    let mut subscriptions = subscriptions.iter();
    let csvs = index.csvs.list(label);
    subscriptions.any(|found| is(founder::of_subscription(found)))
        || csvs.iter().any(|found| is(founder::of_csv(found)))
}

/// Sort key of the list.
fn order(found: &RichReference) -> [&Option<String>; 4] {
    [&found.kind, &found.api_version, &found.namespace, &found.name]
}

struct Listing<'a> {
    label: &'a str,
    refs: Vec<RichReference>,
}

impl Listing<'_> {
    /// Adds objects of a kind that is reported without conditions.
    fn add_plain<K: Resource<DynamicType = ()>>(&mut self, index: &Index<K>) {
        self.add(index, |_| Conditions::default());
    }

    fn add<K: Resource<DynamicType = ()>>(
        &mut self,
        index: &Index<K>,
        conditions: impl Fn(&K) -> Conditions,
    ) {
        let found = index.list(self.label);
        self.refs.extend(found.iter().map(|object| RichReference {
            conditions: conditions(object),
            ..reference::<K>(object.meta())
        }));
    }
}

fn reference<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> RichReference {
    RichReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        ..RichReference::default()
    }
}

/// Returns the conditions of an object of any type, in an Operator's format.
fn conditions(found: &impl Serialize) -> Conditions {
    let read = serde_json::from_value::<Option<Vec<ComponentCondition>>>(to_value(found));
    let mut all = read.ok().flatten().unwrap_or_default();
    for condition in &mut all {
        condition.extra = Default::default();
        for text in [&mut condition.reason, &mut condition.message] {
            *text = text.take().filter(|text| !text.is_empty());
        }
    }
    all.into()
}

/// Returns the phase of a ClusterServiceVersion as a condition; its own conditions are a history.
fn phase(csv: &ClusterServiceVersion) -> Conditions {
    let Some(status) = csv
        .status
        .as_ref()
        .filter(|status| !status.phase.as_str().is_empty())
    else {
        return Conditions::default();
    };
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    [ComponentCondition {
        type_: status.phase.as_str().to_owned(),
        status: TRUE.to_owned(),
        reason: said(&status.reason),
        message: said(&status.message),
        last_update_time: status.last_update_time.clone(),
        last_transition_time: status.last_transition_time.clone(),
        ..ComponentCondition::default()
    }]
    .into()
}
