//! The OperatorCondition controller: one object for each ClusterServiceVersion, through which the operator
//! reports conditions, and the rights it needs for that.
//!
//! # Expected flow
//! The first reconcile creates the OperatorCondition; the second needs its uid for the Role and RoleBinding.
//! An existing Role or RoleBinding of that name without OLM's label is kept. Conditions that the
//! operator writes into `spec.conditions` are copied to the status with the generation they were seen in
//! (`docs/reference/lifecycle.md`).
//!
//! Unlike upstream, only the install sets the variable `OPERATOR_CONDITION_NAME`: two writers would overwrite
//! each other.

pub(crate) mod decide;
pub(crate) mod status;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use olm_api::{v1alpha1::ClusterServiceVersion, v2::OperatorCondition};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    outcome::Outcomes,
    plan::Plan,
};

use crate::stores::Stores;

/// Field manager of this controller's applies.
pub(crate) const FIELD_MANAGER: &str = "olm-operator/operator-condition";

/// All objects with the name of one ClusterServiceVersion.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The namespace is being deleted.
    pub(crate) namespace_terminating: bool,
    /// The ClusterServiceVersion, unless it is a copy.
    pub(crate) csv: Option<Arc<ClusterServiceVersion>>,
    pub(crate) condition: Option<Arc<OperatorCondition>>,
    /// The Role to write it.
    pub(crate) role: Option<Arc<Role>>,
    /// The RoleBinding to write it.
    pub(crate) binding: Option<Arc<RoleBinding>>,
}

pub(crate) struct OperatorConditions(pub(crate) Stores);

#[async_trait]
impl Reconciler for OperatorConditions {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "operator-condition";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.0.conditions, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        Ok(from_stores(&self.0, key))
    }

    fn decide(observed: &Observed, _: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        (decide::decide(observed), ())
    }

    fn status(observed: &Observed, (): (), _: &Outcomes, _now: Timestamp) -> StatusUpdate {
        status::status(observed)
    }
}

/// Reads only stores.
pub(crate) fn from_stores(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    let namespace = stores
        .namespaces
        .get_key(&NamespacedName::cluster(&key.namespace));
    let observed = Observed {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        namespace_terminating: namespace
            .is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()),
        csv: stores.csvs.get_key(key).filter(|csv| !csv.is_copied()),
        condition: stores.conditions.get_key(key),
        role: stores.roles.get_key(key),
        binding: stores.role_bindings.get_key(key),
    };
    let nothing = observed.csv.is_none() && observed.condition.is_none();
    (!nothing).then_some(observed)
}
