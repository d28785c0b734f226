//! InstallPlans: approved, and carried out step by step.
//!
//! # Expected flow
//! Resolution creates a plan without status, and its next reconcile writes the status with the steps, in phase `RequiresApproval`
//! or `Installing`. The plan begins once one of its Subscriptions refers to it or to a newer one ([`adoption`]), or none of them
//! exists any more. Once approved, the first reconcile creates
//! the ClusterServiceVersions, the CustomResourceDefinitions and everything that needs no owner; the next one, when the
//! ClusterServiceVersions' uids are known, creates what they own. When the last CustomResourceDefinition is established the plan
//! is `Complete`. The status is written once there is nothing more to do within a second, or a step fails ([`unwritten`]).
//!
//! # Guarantees
//! - A plan that is stopped after any write converges to the same state when it is looked at again: what is found is `Present`,
//!   nothing is made twice.
//! - A plan never fails because of temporary errors: unresponsive servers, conflicts, missing rights. A lasting error makes it fail
//!   at the end of the retry window, which begins with the first lasting error; after a resolved error the window begins again.
//! - `Complete` means that every object is in the cluster and every CustomResourceDefinition is served.
//! - With a ServiceAccount named by the OperatorGroup every object is written in its name; only CustomResourceDefinitions and the
//!   plan's status are written in the operator's own.
//! - A Complete plan restores the accounts and RBAC that it created for an existing ClusterServiceVersion, as the identity that its
//!   OperatorGroup names now; nothing else creates them.
//!
//! # Errors
//! Errors of steps are in the plan's `status.message`, in upstream's words; see [`execution::StepError`] and [`StepKind::error_prefix`](crate::step_kind::StepKind::error_prefix).
//! Errors of the OperatorGroup ([`operator_group`]) and `OtherStepsApproved` are only in condition `Installed`.
//!
//! Rules: `docs/reference/install-plans.md`; why they differ from upstream's: decision records 0003, 0004 and 0020.

pub(crate) mod adoption;
pub(crate) mod cluster_reads;
pub(crate) mod conversion_ca;
pub(crate) mod crd_upgrade;
pub(crate) mod csv_ownership;
pub(crate) mod custom_resources;
pub(crate) mod decide;
pub(crate) mod execution;
pub(crate) mod observe;
pub(crate) mod operator_group;
pub(crate) mod preview;
pub(crate) mod restoration;
pub(crate) mod retention;
pub(crate) mod status;
pub(crate) mod step_rbac;
pub(crate) mod step_write;
pub(crate) mod steps;
pub(crate) mod structural_schema;
pub(crate) mod triggers;
pub(crate) mod unwritten;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use olm_api::v1alpha1::InstallPlanPhase;
use olm_runtime::NamespacedName;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::Plan;

use self::cluster_reads::ClusterReads;
use self::decide::Verdict;
use self::observe::Observed;
use self::unwritten::Unwritten;
use crate::stores::Stores;

/// Reconciles InstallPlans.
pub(crate) struct InstallPlanReconciler {
    pub stores: Stores,
    pub reads: ClusterReads,
    /// How long lasting errors are retried, from the first of them on.
    pub retry_timeout: Duration,
}

#[async_trait]
impl Reconciler for InstallPlanReconciler {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = Unwritten;

    const NAME: &'static str = "installplan";
    const FIRST_BACKOFF_OF_REFUSED: Duration = status::LONGEST_PAUSE;

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.plans, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        self.observe_after(key, None).await
    }

    async fn observe_after(
        &self,
        key: &NamespacedName,
        memory: Option<&Unwritten>,
    ) -> Result<Option<Observed>, ObserveError> {
        let found = self.stores.plans.get_key(key);
        let Some(install_plan) = found.filter(|plan| plan.metadata.deletion_timestamp.is_none()) else {
            return Ok(None);
        };
        let mut observed = Observed {
            install_plan,
            operator_groups: self.stores.groups.list_in(&key.namespace),
            csvs: self.stores.csvs.list_in(&key.namespace),
            retry_timeout: self.retry_timeout,
            ..Observed::default()
        };
        let install_plan = &observed.install_plan;
        match install_plan.phase() {
            InstallPlanPhase::Failed => return Ok(None),
            InstallPlanPhase::Complete => {
                let plans = self.stores.plans.list_in(&key.namespace);
                return restoration::observe(&self.reads, &self.stores, observed, &plans).await;
            }
            _ => {}
        }
        if adoption::is_awaited(install_plan, &self.stores.subscriptions.list_in(&key.namespace)) {
            return Ok(None);
        }
        if let Some(ahead) = memory.and_then(|unwritten| unwritten.applied_to(install_plan)) {
            observed.stored = Some(std::mem::replace(&mut observed.install_plan, ahead));
        }
        observe::observe(&self.reads, observed).await.map(Some)
    }

    fn decide(observed: &Observed, _: Option<&Unwritten>, _: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate<Unwritten> {
        status::status(observed, verdict, outcomes, now)
    }
}

#[cfg(test)]
mod tests;
