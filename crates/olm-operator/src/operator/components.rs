//! The components of an Operator, from the stores.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::{
    condition::TRUE,
    sparse::List,
    v1::{ComponentCondition, RichReference},
    v1alpha1::ClusterServiceVersion,
};
use olm_runtime::{NamespacedName, plan::to_value, queue::Queue, store::Store};
use serde::Serialize;

use crate::{
    component,
    operator::{founder, triggers},
    operator_sketch::OperatorSketch,
    stores::Stores,
};

/// Maximum number of components in a status; etcd accepts objects of 1.5 MiB.
const MAX_COMPONENTS: usize = 1000;

type Conditions = List<ComponentCondition>;

/// Returns the objects of one kind with a label, each with the Operator that it requires.
type Listing = Box<dyn Fn(&str) -> Vec<(RichReference, Option<String>)> + Send + Sync>;

/// Components by their label.
pub(crate) struct ComponentIndex(Vec<Listing>);

impl ComponentIndex {
    /// Indexes the kinds of components, and triggers the Operators of changed objects. Must be called before the
    /// stores get objects.
    pub(crate) fn follow(stores: &Stores, queue: &Queue<NamespacedName>) -> Self {
        let mut kinds = Kinds {
            operators: &stores.operators,
            queue,
            listings: Vec::new(),
        };
        kinds.add(&stores.api_services, |found| conditions(&found.status));
        kinds.add(&stores.crds, |found| conditions(&found.status));
        kinds.add(&stores.deployments, |found| conditions(&found.status));
        kinds.add(&stores.install_plans, |found| conditions(&found.status));
        kinds.add(&stores.conditions, |found| conditions(&found.status));
        kinds.add_founding(
            &stores.subscriptions,
            labels_of,
            |found| conditions(&found.status),
            founder::of_subscription,
        );
        kinds.add_founding(&stores.csvs, labels_of_csv, phase, founder::of_csv);
        kinds.add(&stores.cluster_roles, |_| Conditions::default());
        kinds.add(&stores.cluster_role_bindings, |_| Conditions::default());
        kinds.add(&stores.services, |_| Conditions::default());
        kinds.add(&stores.namespaces, |_| Conditions::default());
        kinds.add(&stores.secrets, |_| Conditions::default());
        kinds.add(&stores.config_maps, |_| Conditions::default());
        kinds.add(&stores.accounts, |_| Conditions::default());
        kinds.add(&stores.roles, |_| Conditions::default());
        kinds.add(&stores.role_bindings, |_| Conditions::default());
        let queue = queue.clone();
        stores.operators.on_change(move |change| {
            let operator = change.object();
            queue.add_after(operator.key(), triggers::gather(Some(operator.as_ref())));
        });
        Self(kinds.listings)
    }
}

/// Builder of a [`ComponentIndex`].
struct Kinds<'a> {
    operators: &'a Store<OperatorSketch>,
    queue: &'a Queue<NamespacedName>,
    listings: Vec<Listing>,
}

impl Kinds<'_> {
    /// Adds a kind whose objects require no Operator.
    fn add<K>(&mut self, store: &Store<K>, conditions: fn(&K) -> Conditions)
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.add_founding(store, labels_of, conditions, |_| None);
    }

    /// Adds a kind. `words` returns the labels of an object, `founded` the Operator that it requires.
    fn add_founding<K>(
        &mut self,
        store: &Store<K>,
        words: fn(&K) -> BTreeSet<String>,
        conditions: fn(&K) -> Conditions,
        founded: fn(&K) -> Option<String>,
    ) where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        // The index is updated before the Operators are triggered.
        let index = store.index(words);
        let (operators, queue) = (self.operators.clone(), self.queue.clone());
        store.on_change(move |change| {
            let is_there = |name: &NamespacedName| operators.get_key(name).is_some();
            for operator in triggers::by_component(change, founded, is_there) {
                let delay = triggers::gather(operators.get_key(&operator).as_deref());
                queue.add_after(operator, delay);
            }
        });
        self.listings.push(Box::new(move |label| {
            let found = index.list(label);
            let listed = found.iter().map(|object| {
                let reference = RichReference {
                    conditions: conditions(object),
                    ..reference::<K>(object.meta())
                };
                (reference, founded(object))
            });
            listed.collect()
        }));
    }
}

/// Copies are no components.
fn labels_of_csv(csv: &ClusterServiceVersion) -> BTreeSet<String> {
    if csv.is_copied() {
        return BTreeSet::new();
    }
    labels_of(csv)
}

fn labels_of<K: Resource>(object: &K) -> BTreeSet<String> {
    let labels = component::labels_of(object.meta());
    labels.map(str::to_owned).collect()
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

/// Finds objects with `label`, the label of the Operator `name`. Only objects in its own namespace require it.
pub(crate) fn find(index: &ComponentIndex, name: &str, label: &str) -> Found {
    let found: Vec<_> = index.0.iter().flat_map(|list| list(label)).collect();
    let is_founded = found.iter().any(|(_, founded)| founded.as_deref() == Some(name));
    let mut refs: Vec<RichReference> = found.into_iter().map(|(reference, _)| reference).collect();
    refs.sort_by(|a, b| order(a).cmp(&order(b)));
    refs.truncate(MAX_COMPONENTS);
    Found { refs, is_founded }
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
