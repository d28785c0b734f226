//! InstallPlans: approved, and carried out step by step.
//!
//! # Expected flow
//! Resolution creates a plan with its steps, in phase `RequiresApproval` or `Installing`. Once approved, the first round creates
//! the ClusterServiceVersions, the CustomResourceDefinitions and everything that needs no owner; the next one, when the
//! ClusterServiceVersions' uids are known, creates what they own. When the last CustomResourceDefinition is established the plan
//! is `Complete`. Each round ends with one write of the plan's status.
//!
//! # Guarantees
//! - A plan that is stopped after any write converges to the same state when it is looked at again: what is found is `Present`,
//!   nothing is made twice.
//! - A plan never fails for what may pass: servers that do not answer, conflicts, missing rights. A lasting error makes it fail
//!   once the retry window, counted from the first lasting error on, is over; one that passes in between starts it anew.
//! - `Complete` means that every object is in the cluster and every CustomResourceDefinition is served.
//! - With a ServiceAccount named by the OperatorGroup every object is written in its name; only CustomResourceDefinitions and the
//!   plan's status are written in the operator's own.
//!
//! - A Complete plan brings back the accounts and RBAC it made for a ClusterServiceVersion that still stands, as the identity its
//!   OperatorGroup names now; nothing else makes them.
//!
//! # Errors
//! Every error is in the plan's `status.message`, in upstream's words; see [`execution::StepError`] and [`StepKind::error_prefix`].
//!
//! Rules: `docs/reference/install-plans.md`; why they differ from upstream's: decision records 0003, 0004 and 0020. Custom resources are
//! not validated against a changed CustomResourceDefinition, and warnings of the API server are not turned into events yet.

pub(crate) mod adoption;
pub(crate) mod cluster_reads;
pub(crate) mod crd_upgrade;
pub(crate) mod csv_ownership;
pub(crate) mod decide;
pub(crate) mod execution;
pub(crate) mod manifest;
pub(crate) mod observe;
pub(crate) mod operator_group;
pub(crate) mod restoration;
pub(crate) mod retention;
pub(crate) mod status;
pub(crate) mod step_rbac;
pub(crate) mod step_write;
pub(crate) mod steps;
pub(crate) mod triggers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanPhase, Subscription};
use olm_runtime::NamespacedName;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::Plan;
use olm_runtime::store::{Presence, Projected, Store};

use self::cluster_reads::ClusterReads;
use self::decide::Verdict;
use self::observe::Observed;
use self::restoration::Inventory;
use crate::step_kind::StepKind;

/// Field manager of what a plan applies whole.
pub(crate) const FIELD_MANAGER: &str = "catalog-operator/install-plan";

/// Stores that InstallPlans are observed from and woken by.
#[derive(Clone)]
pub(crate) struct InstallPlanStores {
    /// InstallPlans of all namespaces, pruned by [`prune`].
    pub install_plans: Store<InstallPlan>,
    /// OperatorGroups of all namespaces.
    pub operator_groups: Store<OperatorGroup>,
    /// Subscriptions of all namespaces: a plan is carried out when they refer to it.
    pub subscriptions: Store<Subscription>,
    /// ClusterServiceVersions of all namespaces, copies left out; name, uid and owned APIs are read.
    pub csvs: Store<ClusterServiceVersion>,
    /// CustomResourceDefinitions: a change is a reason to look again.
    pub crds: Store<Projected<Presence<CustomResourceDefinition>>>,
    /// Accounts and RBAC that OLM made: what of a Complete plan is missing.
    pub rbac: RbacStores,
}

/// Accounts and RBAC with OLM's mark, RBAC as metadata and a hash of its content.
#[derive(Clone)]
pub(crate) struct RbacStores {
    /// ServiceAccounts.
    pub accounts: Store<ServiceAccount>,
    /// Roles, pruned by [`prune_role`].
    pub roles: Store<Role>,
    /// RoleBindings, pruned by [`prune_role_binding`].
    pub role_bindings: Store<RoleBinding>,
    /// ClusterRoles, pruned by [`prune_cluster_role`].
    pub cluster_roles: Store<ClusterRole>,
    /// ClusterRoleBindings, pruned by [`prune_cluster_role_binding`].
    pub cluster_role_bindings: Store<ClusterRoleBinding>,
}

impl Inventory for RbacStores {
    fn content(&self, kind: StepKind, namespace: &str, name: &str) -> Option<String> {
        let key = NamespacedName::new(namespace, name);
        match kind {
            StepKind::ServiceAccount => self.accounts.get_key(&key).map(|_| String::new()),
            StepKind::Role => self.roles.get_key(&key).map(|found| kept_hash(found.as_ref())),
            StepKind::RoleBinding => self
                .role_bindings
                .get_key(&key)
                .map(|found| kept_hash(found.as_ref())),
            StepKind::ClusterRole => self
                .cluster_roles
                .get_key(&key)
                .map(|found| kept_hash(found.as_ref())),
            StepKind::ClusterRoleBinding => self
                .cluster_role_bindings
                .get_key(&key)
                .map(|found| kept_hash(found.as_ref())),
            _ => None,
        }
    }
}

/// Reconciles InstallPlans.
pub(crate) struct InstallPlanReconciler {
    stores: InstallPlanStores,
    reads: ClusterReads,
    retry_timeout: Duration,
}

impl InstallPlanReconciler {
    /// `retry_timeout` is how long lasting errors are retried, from the first of them on.
    pub(crate) fn new(stores: InstallPlanStores, reads: ClusterReads, retry_timeout: Duration) -> Self {
        Self {
            stores,
            reads,
            retry_timeout,
        }
    }
}

impl InstallPlanReconciler {
    async fn observe_restoration(
        &self,
        key: &NamespacedName,
        install_plan: Arc<InstallPlan>,
    ) -> Result<Option<Observed>, ObserveError> {
        if install_plan.phase() != InstallPlanPhase::Complete {
            return Ok(None);
        }
        let observed = Observed {
            install_plan,
            operator_groups: self.stores.operator_groups.list_in(&key.namespace),
            csvs: self.stores.csvs.list_in(&key.namespace),
            steps: Vec::new(),
            living_csvs: BTreeSet::new(),
            converted_crds: BTreeSet::new(),
            retry_timeout: self.retry_timeout,
        };
        let plans = self.stores.install_plans.list_in(&key.namespace);
        restoration::observe(&self.reads, &self.stores.rbac, observed, &plans).await
    }
}

#[async_trait]
impl Reconciler for InstallPlanReconciler {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = ();

    const NAME: &'static str = "installplan";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.install_plans, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(install_plan) = self.stores.install_plans.get_key(key) else {
            return Ok(None);
        };
        if install_plan.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        if observe::is_over(&install_plan) {
            return self.observe_restoration(key, install_plan).await;
        }
        if adoption::is_awaited(&install_plan, &self.stores.subscriptions.list_in(&key.namespace)) {
            return Ok(None);
        }
        let groups = self.stores.operator_groups.list_in(&key.namespace);
        let csvs = self.stores.csvs.list_in(&key.namespace);
        observe::observe(&self.reads, install_plan, groups, csvs, self.retry_timeout)
            .await
            .map(Some)
    }

    fn decide(observed: &Observed, _: Option<&()>, _now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed)
    }

    fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes, now: Timestamp) -> StatusUpdate {
        status::status(observed, verdict, outcomes, now)
    }
}

/// Drops what nobody reads from a plan kept in a store: manifests of plans that are over, which may be large, but for a
/// fingerprint of what a Complete plan restores.
pub fn prune(install_plan: &mut InstallPlan) {
    if !observe::is_over(install_plan) {
        return;
    }
    let restores = install_plan.phase() == InstallPlanPhase::Complete;
    if let Some(status) = &mut install_plan.status {
        for step in status.plan.iter_mut() {
            step.resource.manifest = restoration::fingerprint(step).filter(|_| restores);
        }
        for lookup in status.bundle_lookups.iter_mut() {
            lookup.properties = None;
        }
    }
}

/// Annotation, in stores alone, with the hash of what was pruned; the name cannot be one of an object in a cluster.
const CONTENT_HASH: &str = "$content";

fn kept_hash(object: &impl Resource) -> String {
    let annotations = object.meta().annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(CONTENT_HASH))
        .cloned()
        .unwrap_or_default()
}

fn keep_hash(metadata: &mut ObjectMeta, hash: String) {
    metadata.annotations = Some([(CONTENT_HASH.to_owned(), hash)].into());
}

/// Leaves metadata and a hash of the rules.
pub(crate) fn prune_role(role: &mut Role) {
    let hash = restoration::content_hash(&role.rules.take());
    keep_hash(&mut role.metadata, hash);
}

/// Leaves metadata and a hash of the rules.
pub(crate) fn prune_cluster_role(role: &mut ClusterRole) {
    let hash = restoration::content_hash(&role.rules.take());
    keep_hash(&mut role.metadata, hash);
}

/// Leaves metadata and a hash of role and subjects.
pub(crate) fn prune_role_binding(binding: &mut RoleBinding) {
    let hash = restoration::binding_hash(&binding.role_ref, &binding.subjects.take());
    keep_hash(&mut binding.metadata, hash);
}

/// Leaves metadata and a hash of role and subjects.
pub(crate) fn prune_cluster_role_binding(binding: &mut ClusterRoleBinding) {
    let hash = restoration::binding_hash(&binding.role_ref, &binding.subjects.take());
    keep_hash(&mut binding.metadata, hash);
}

#[cfg(test)]
mod tests;
