//! The components of an Operator, as the stores have them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::{
    condition::TRUE,
    sparse::List,
    v1::{ComponentCondition, RichReference},
    v1alpha1::ClusterServiceVersion,
};
use olm_runtime::{plan::to_value, store::Store};
use serde::Serialize;

use crate::{component, stores::Stores};

type Conditions = List<ComponentCondition>;

/// What bears `label`, ordered by kind, API version, namespace and name.
pub(crate) fn list(stores: &Stores, label: &str) -> Vec<RichReference> {
    let mut listing = Listing {
        label,
        found: Vec::new(),
    };
    listing.add(&stores.deployments, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&stores.api_services, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&stores.crds, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&stores.subscriptions, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&stores.install_plans, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add(&stores.conditions, |found| {
        conditions(&found.status.as_ref().map(|status| &status.conditions))
    });
    listing.add_where(&stores.csvs, |csv| !csv.is_copied(), phase);
    listing.add_plain(&stores.services);
    listing.add_plain(&stores.namespaces);
    listing.add_plain(&stores.secrets);
    listing.add_plain(&stores.accounts);
    listing.add_plain(&stores.roles);
    listing.add_plain(&stores.role_bindings);
    listing.add_plain(&stores.cluster_roles);
    listing.add_plain(&stores.cluster_role_bindings);
    let mut found = listing.found;
    found.sort_by(|a, b| order(a).cmp(&order(b)));
    found
}

/// What the list is ordered by.
pub(crate) fn order(found: &RichReference) -> [&Option<String>; 4] {
    [&found.kind, &found.api_version, &found.namespace, &found.name]
}

struct Listing<'a> {
    label: &'a str,
    found: Vec<RichReference>,
}

impl Listing<'_> {
    /// Kinds of which nothing but their presence is told.
    fn add_plain<K: Resource<DynamicType = ()>>(&mut self, store: &Store<K>) {
        self.add(store, |_| Conditions::default());
    }

    fn add<K: Resource<DynamicType = ()>>(
        &mut self,
        store: &Store<K>,
        conditions: impl Fn(&K) -> Conditions,
    ) {
        self.add_where(store, |_| true, conditions);
    }

    fn add_where<K: Resource<DynamicType = ()>>(
        &mut self,
        store: &Store<K>,
        counts: impl Fn(&K) -> bool,
        conditions: impl Fn(&K) -> Conditions,
    ) {
        let found = store.list_where(|object| component::bears(object.meta(), self.label) && counts(object));
        self.found.extend(found.iter().map(|object| RichReference {
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

/// Conditions of whatever type, as an Operator has them.
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

/// The phase of a ClusterServiceVersion as a condition; its own conditions are a history.
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
