//! The components of an Operator, from the stores.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::{
    condition::TRUE,
    sparse::List,
    v1::{ComponentCondition, RichReference},
    v1alpha1::{ClusterServiceVersion, Subscription},
};
use olm_runtime::{
    plan::to_value,
    store::{Index, Store},
};
use serde::Serialize;

use crate::{component, operator::founder, stores::Stores};

/// Maximum number of components in a status; etcd accepts objects of 1.5 MiB.
const MAX_COMPONENTS: usize = 1000;

type Conditions = List<ComponentCondition>;

/// Returns the objects of one kind with a label.
type Listing = Box<dyn Fn(&str) -> Vec<RichReference> + Send + Sync>;

/// Indexes of components by their label.
pub(crate) struct ComponentIndex {
    kinds: Vec<Listing>,
    subscriptions: Index<Subscription>,
    csvs: Index<ClusterServiceVersion>,
}

impl ComponentIndex {
    /// Must be called before the stores trigger the controllers that use it.
    pub(crate) fn follow(stores: &Stores) -> Self {
        let mut index = Self {
            kinds: Vec::new(),
            subscriptions: by_label(&stores.subscriptions),
            csvs: stores.csvs.index(labels_of_csv),
        };
        index.add(by_label(&stores.api_services), |found| conditions(&found.status));
        index.add(by_label(&stores.crds), |found| conditions(&found.status));
        index.add(by_label(&stores.deployments), |found| conditions(&found.status));
        index.add(index.subscriptions.clone(), |found| conditions(&found.status));
        index.add(by_label(&stores.install_plans), |found| conditions(&found.status));
        index.add(by_label(&stores.conditions), |found| conditions(&found.status));
        index.add(index.csvs.clone(), phase);
        index.add_plain(&stores.cluster_roles);
        index.add_plain(&stores.cluster_role_bindings);
        index.add_plain(&stores.services);
        index.add_plain(&stores.namespaces);
        index.add_plain(&stores.secrets);
        index.add_plain(&stores.config_maps);
        index.add_plain(&stores.accounts);
        index.add_plain(&stores.roles);
        index.add_plain(&stores.role_bindings);
        index
    }

    /// Adds a kind that is reported without conditions.
    fn add_plain<K>(&mut self, store: &Store<K>)
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.add(by_label(store), |_| Conditions::default());
    }

    fn add<K>(&mut self, index: Index<K>, conditions: fn(&K) -> Conditions)
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.kinds.push(Box::new(move |label| {
            let found = index.list(label);
            let references = found.iter().map(|object| RichReference {
                conditions: conditions(object),
                ..reference::<K>(object.meta())
            });
            references.collect()
        }));
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
    let mut refs: Vec<RichReference> = index.kinds.iter().flat_map(|list| list(label)).collect();
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

fn reference<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> RichReference {
    RichReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        ..RichReference::default()
    }
}

/// Returns the conditions in a status of any type, in an Operator's format.
fn conditions(status: &impl Serialize) -> Conditions {
    let found = to_value(status)["conditions"].take();
    let read = serde_json::from_value::<Option<Vec<ComponentCondition>>>(found);
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
