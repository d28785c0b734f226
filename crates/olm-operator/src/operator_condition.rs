//! The OperatorCondition controller: one object for each ClusterServiceVersion, through which the operator reports, and
//! the rights it needs for that.
//!
//! # Expected flow
//! Round one makes the OperatorCondition; its uid is needed for the Role and RoleBinding of round two. What the
//! operator writes into `spec.conditions` is mirrored into the status with the generation it was seen in
//! (specification conditions-operators-openshift, section 1).
//!
//! Unlike upstream the variable `OPERATOR_CONDITION_NAME` is set by the install alone: two writers would fight.

pub mod decide;
pub mod status;
pub mod triggers;

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

/// Field manager of what this controller applies.
pub const FIELD_MANAGER: &str = "olm-operator/operator-condition";

/// Everything that is called like one ClusterServiceVersion.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Namespace of it all.
    pub namespace: String,
    /// Name of it all.
    pub name: String,
    /// The namespace is being deleted.
    pub namespace_terminating: bool,
    /// The ClusterServiceVersion, unless it is a copy.
    pub csv: Option<Arc<ClusterServiceVersion>>,
    /// Its OperatorCondition.
    pub condition: Option<Arc<OperatorCondition>>,
    /// The Role for that.
    pub role: Option<Arc<Role>>,
    /// The RoleBinding for that.
    pub binding: Option<Arc<RoleBinding>>,
}

/// The controller.
pub struct OperatorConditions {
    /// What it reads.
    pub stores: Stores,
}

#[async_trait]
impl Reconciler for OperatorConditions {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();

    const NAME: &'static str = "operator-condition";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.conditions, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        Ok(observe(&self.stores, key))
    }

    fn decide(&self, observed: &Observed, _now: Timestamp) -> (Plan, ()) {
        (decide::decide(observed), ())
    }

    fn status(&self, observed: &Observed, (): (), _: &Outcomes, _now: Timestamp) -> StatusUpdate {
        status::status(observed)
    }
}

/// Reads stores; nothing else.
pub fn observe(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
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
