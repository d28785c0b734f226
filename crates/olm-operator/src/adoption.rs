//! Adoption: labels the objects of a namespace's operators as components of those operators
//! (`docs/reference/operators.md`).
//!
//! Objects that OLM creates have these labels from the start. This controller adds them to older objects and
//! restores labels that were removed.
//!
//! # Expected flow
//! Each key is a namespace. `observe` finds the objects that its ClusterServiceVersions own. [`decide`] finds
//! labels that are missing and labels that have no source any more. Changes are collected for
//! [`triggers::GATHER`] before a reconcile.

pub(crate) mod decide;
pub(crate) mod kinds;
pub(crate) mod observe;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, Subscription};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::Reconciler,
    error::ObserveError,
    event::regarding,
    plan::{Plan, Target},
};

use crate::{adoption::kinds::OwnedKinds, component, stores::Stores};

pub(crate) struct Adoptions {
    pub(crate) stores: Stores,
    pub(crate) kinds: OwnedKinds,
}

/// Subscriptions, InstallPlans, ClusterServiceVersions and their objects in one namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    pub(crate) namespace: String,
    pub(crate) subscriptions: Vec<Arc<Subscription>>,
    pub(crate) plans: Vec<Arc<InstallPlan>>,
    /// ClusterServiceVersions, without copies.
    pub(crate) csvs: Vec<Arc<ClusterServiceVersion>>,
    /// Objects that the ClusterServiceVersions own, each with the name of its owner.
    pub(crate) owned: Vec<(String, Labelled)>,
}

/// An object that may become a component.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Labelled {
    pub(crate) target: Target,
    pub(crate) uid: Option<String>,
    /// Its component labels.
    pub(crate) labels: BTreeSet<String>,
    /// Other namespaces that a CustomResourceDefinition lists as the origin of one of its
    /// ClusterServiceVersions. A label with a truncated name may belong to one of them.
    pub(crate) others: BTreeSet<String>,
}

impl Labelled {
    /// Reads `object` from a store; `None` while it is being deleted.
    pub(crate) fn of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Self> {
        let metadata = object.meta();
        metadata.deletion_timestamp.is_none().then(|| Self {
            target: Target::of_object(object),
            uid: metadata.uid.clone(),
            // All of them, so that existing labels are not written again.
            labels: component::labels_of(metadata).map(str::to_owned).collect(),
            others: BTreeSet::new(),
        })
    }
}

#[async_trait]
impl Reconciler for Adoptions {
    /// Name of a namespace.
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "adoption";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.namespaces, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        Ok(observe::observe(&self.stores, &self.kinds, &key.name))
    }

    fn decide(observed: &Observed, _: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        (decide::decide(observed), ())
    }
}
