//! The OperatorCondition controller: one object for each ClusterServiceVersion, through which the operator
//! reports conditions, and the rights it needs for that.
//!
//! # Expected flow
//! The first reconcile creates the OperatorCondition; the second needs its uid for the Role and RoleBinding.
//! An existing Role or RoleBinding of that name with another owner is kept, and reported. Conditions that the
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
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, Client, ResourceExt};
use olm_api::{v1alpha1::ClusterServiceVersion, v2::OperatorCondition};
use olm_runtime::{
    NamespacedName, Timestamp, clock,
    discovery::deadline,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    key::is_path_segment,
    outcome::Outcomes,
    plan::Plan,
};

use crate::stores::Stores;

/// Time in which the Role and RoleBinding should follow a new OperatorCondition.
const RBAC_GRACE: Duration = Duration::from_secs(5);

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

/// Findings of `decide` besides the writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Object of others with a needed name, as `Role ns/a`.
    pub(crate) taken: Option<String>,
}

pub(crate) struct OperatorConditions {
    pub(crate) stores: Stores,
    /// For reads of objects that others created with our names.
    pub(crate) client: Client,
}

#[async_trait]
impl Reconciler for OperatorConditions {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = ();

    const NAME: &'static str = "operator-condition";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.conditions, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(mut observed) = from_stores(&self.stores, key) else {
            return Ok(None);
        };
        if is_settled(&observed, clock::now()) {
            self.read_foreign(&mut observed).await?;
        }
        Ok(Some(observed))
    }

    fn decide(observed: &Observed, _: Option<&()>, _now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed)
    }

    fn status(observed: &Observed, verdict: Verdict, _: &Outcomes, _now: Timestamp) -> StatusUpdate {
        status::status(observed, &verdict)
    }
}

impl OperatorConditions {
    /// Looks up missing objects live. The stores only have objects with OLM's label, so another owner's
    /// object may already have the name.
    async fn read_foreign(&self, observed: &mut Observed) -> Result<(), ObserveError> {
        let (namespace, name) = (observed.namespace.as_str(), observed.name.as_str());
        if !is_path_segment(name) {
            return Ok(());
        }
        if observed.role.is_none() {
            let api: Api<Role> = Api::namespaced(self.client.clone(), namespace);
            let found = deadline(&format!("Role {namespace}/{name}"), api.get_opt(name)).await?;
            observed.role = found.map(Arc::new);
        }
        if observed.binding.is_none() {
            let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
            let found = deadline(&format!("RoleBinding {namespace}/{name}"), api.get_opt(name)).await?;
            observed.binding = found.map(Arc::new);
        }
        Ok(())
    }
}

/// True when Role and RoleBinding should have been created and observed by now.
fn is_settled(observed: &Observed, now: Timestamp) -> bool {
    let condition = observed.condition.as_ref();
    let created = condition.and_then(|condition| condition.creation_timestamp());
    created.is_some_and(|created| {
        Duration::try_from(now.duration_since(created.0)).unwrap_or_default() > RBAC_GRACE
    })
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
