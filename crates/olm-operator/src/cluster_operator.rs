//! Reports to ClusterOperators, on OpenShift (`docs/reference/openshift.md`).
//!
//! # Expected flow
//! If the cluster serves the kind, `observe` reads the ClusterOperator and the subject of its report. A
//! missing ClusterOperator is created. Its status is computed by [`olm`] or [`package_server`]. In other
//! clusters nothing is watched.

pub(crate) mod max_version;
pub(crate) mod olm;
pub(crate) mod package_server;
mod related;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use async_trait::async_trait;
use olm_runtime::{
    NamespacedName, Timestamp,
    cluster_operator::{ClusterOperators, Stored},
    driver::{FirstRounds, Reconciler, StatusUpdate},
    error::ObserveError,
    outcome::Outcomes,
    plan::Plan,
};
use tokio::time::Instant;

use self::settings::ReportSettings;
use crate::{csv::Csv, stores::Stores};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Delay in which changes are collected, because each reconcile reads the operators of the whole cluster, and a
/// write would follow each change by a tenant.
pub(crate) const GATHER: Duration = Duration::from_secs(1);

pub(crate) struct Reports {
    pub(crate) stores: Stores,
    pub(crate) cluster_operators: ClusterOperators,
    pub(crate) settings: ReportSettings,
    pub(crate) first_rounds: FirstRounds,
    /// Start time of this process.
    pub(crate) since: Instant,
}

/// A ClusterOperator and the subject of its report.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    name: String,
    stored: Stored,
    subject: Subject,
}

#[derive(Debug, Clone)]
enum Subject {
    Olm(olm::Inputs),
    PackageServer(package_server::Inputs),
}

#[async_trait]
impl Reconciler for Reports {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "cluster-operator";

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(stored) = self.cluster_operators.find(&key.name).await else {
            return Ok(None);
        };
        let is_olm = self.settings.olm() == Some(key.name.as_str());
        let subject = if is_olm {
            Subject::Olm(self.of_olm())
        } else {
            Subject::PackageServer(self.of_package_server())
        };
        Ok(Some(Observed {
            name: key.name.clone(),
            stored,
            subject,
        }))
    }

    fn decide(observed: &Observed, _: Option<&()>, _: Timestamp) -> (Plan, ()) {
        let mut plan = observed.stored.plan(&observed.name);
        if let Subject::Olm(inputs) = &observed.subject {
            plan.requeue = plan.requeue.sooner(olm::requeue(inputs));
        }
        (plan, ())
    }

    fn status(observed: &Observed, (): (), _: &Outcomes, now: Timestamp) -> StatusUpdate {
        observed
            .stored
            .update(&observed.name, |status| match &observed.subject {
                Subject::Olm(inputs) => olm::report(status, inputs, now),
                Subject::PackageServer(inputs) => package_server::report(status, inputs, now),
            })
    }
}

impl Reports {
    fn of_olm(&self) -> olm::Inputs {
        let ReportSettings {
            olm,
            namespace,
            release,
            ..
        } = &self.settings;
        let csvs = &self.stores.csvs;
        olm::Inputs {
            name: olm.clone(),
            release: release.clone(),
            version: VERSION.to_owned(),
            is_working: self.first_rounds.has_one_of::<Csv>() || csvs.list().is_empty(),
            at_work: self.since.elapsed(),
            operators: csvs.list_where(|csv| olm::properties(csv).is_some()),
            own: csvs.list_in(namespace),
        }
    }

    fn of_package_server(&self) -> package_server::Inputs {
        let settings = &self.settings;
        package_server::Inputs {
            name: settings.package_server.clone(),
            release: settings.release.clone(),
            csvs: self
                .stores
                .csvs
                .list_where(|csv| settings.is_of_package_server(csv)),
        }
    }
}
