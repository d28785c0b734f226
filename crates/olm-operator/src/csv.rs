//! The ClusterServiceVersion controller: from requirements to a running operator, and on to its successor.
//!
//! # Expected flow
//! `observe` reads stores, and the API server where its documentation says so, into an
//! [`observed::Observed`]. If the reconcile installs, [`prepare`] adds new certificates, and finds existing
//! objects with the names that the install uses. [`decide`] advances through the phases until a write is needed, and
//! plans the writes. The executor makes them. [`status`] reports the result in one write.
//!
//! # Guarantees
//! - A ClusterServiceVersion whose objects are as they should be costs no write and no read.
//! - It is in phase Failed only for a lasting cause, and stays there without writes as long as the cause
//!   lasts.
//! - A waiting ClusterServiceVersion names the reason in the message or in the rows of the requirements.
//! - An operator is written with the rights its OperatorGroup grants, never with more.
//!
//! # Errors
//! Only a failed read ends a reconcile without a decision. Refused writes are reported by [`status`].

pub(crate) mod changeover;
pub(crate) mod coverage;
pub(crate) mod decide;
pub(crate) mod deployment;
pub(crate) mod health;
pub(crate) mod held_up;
pub(crate) mod install;
pub(crate) mod observe;
pub(crate) mod observed;
mod prepare;
pub(crate) mod rbac;
pub(crate) mod removal;
pub(crate) mod replacement;
pub(crate) mod requirements;
pub(crate) mod serving;
pub(crate) mod status;
pub(crate) mod strategy;
pub(crate) mod triggers;
pub(crate) mod upgrade;

#[cfg(test)]
pub(crate) mod tests;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use olm_api::labels;
use olm_runtime::{
    NamespacedName, Timestamp, clock,
    discovery::Discovery,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    outcome::Outcomes,
    plan::{Action, Plan},
};

use crate::{
    csv::{decide::transitions::Verdict, observed::Observed},
    stores::Stores,
};

/// Field manager of the applies of an install.
pub(crate) const FIELD_MANAGER: &str = labels::FIELD_MANAGER_CSV;

pub(crate) struct Csv {
    pub(crate) stores: Stores,
    /// APIs that the cluster serves.
    pub(crate) discovery: Discovery,
    /// For live reads.
    pub(crate) client: Client,
}

#[async_trait]
impl Reconciler for Csv {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    /// Time of the first refused write, if writes of the last reconcile were refused.
    type Memory = Timestamp;

    const NAME: &'static str = "csv";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.csvs, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(mut observed) = observe::from_stores(&self.stores, key) else {
            return Ok(None);
        };
        self.read_live(&mut observed, clock::now()).await?;
        prepare::for_install(&mut observed, &self.client, clock::now()).await?;
        Ok(Some(observed))
    }

    fn unobserved(&self, key: &NamespacedName, error: &ObserveError) -> Option<Action> {
        let csv = self.stores.csvs.get_key(key)?;
        status::unobserved(&csv, error)
    }

    fn decide(observed: &Observed, refused_since: Option<&Timestamp>, now: Timestamp) -> (Plan, Verdict) {
        let (plan, mut verdict) = decide::decide(observed, now);
        verdict.refused_since = refused_since.copied();
        (plan, verdict)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate<Timestamp> {
        status::status(observed, verdict, outcomes, now)
    }
}
