//! The ClusterServiceVersion controller: from requirements to a running operator, and on to its successor.
//!
//! # Expected flow
//! `observe` reads stores (and, where it says so, the API server) into an [`observed::Observed`]; [`decide`] walks the
//! phases as far as no effect is needed and plans the writes that are; the executor makes them; [`status`] tells what
//! came of it, in one write.
//!
//! # Guarantees
//! - A ClusterServiceVersion whose world is as it should be costs no write and no read.
//! - It is in phase Failed only for a cause that lasts, and stays there without writes as long as the cause does.
//! - What waits says for what, in the message or in the rows of the requirements.
//! - An operator is written with the rights its OperatorGroup grants, never with more.
//!
//! # Errors
//! Only a failed read ends a round without a decision. Refused writes are told by [`status`].

pub(crate) mod changeover;
pub(crate) mod coverage;
pub(crate) mod decide;
pub(crate) mod deployment;
mod failure_cause;
pub(crate) mod health;
pub(crate) mod held_up;
pub(crate) mod install;
pub(crate) mod missing_rights;
pub(crate) mod observe;
pub(crate) mod observed;
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
use olm_api::labels;
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    outcome::Outcomes,
    plan::{Action, Plan},
};

use crate::csv::{decide::transitions::Verdict, observe::Reader, observed::Observed};

/// Field manager of what an install applies.
pub(crate) const FIELD_MANAGER: &str = labels::FIELD_MANAGER_CSV;

pub(crate) struct Csv {
    /// Where observations come from.
    pub(crate) reader: Reader,
}

#[async_trait]
impl Reconciler for Csv {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    /// When the writes began to be refused, if those of the last round were.
    type Memory = Timestamp;

    const NAME: &'static str = "csv";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.reader.stores.csvs, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        self.reader.observe(key).await
    }

    fn unobserved(&self, key: &NamespacedName, error: &ObserveError) -> Option<Action> {
        let csv = self.reader.stores.csvs.get_key(key)?;
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
