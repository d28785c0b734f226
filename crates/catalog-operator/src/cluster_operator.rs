//! The report to the ClusterOperator of catalogs, on OpenShift (`docs/reference/openshift.md`).
//!
//! # Expected flow
//! Where the cluster has the kind, `observe` reads the ClusterOperator; a missing one is made, and its status says that this version
//! works, once a reconcile of a catalog went well or there is none. Elsewhere nothing is watched.

#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use kube::Resource;
use olm_api::cluster_operator::{
    AVAILABLE, CATALOG, ClusterOperatorStatus, DEGRADED, OLM, OperandVersion, PROGRESSING, RELEASE,
    RelatedObject, UPGRADEABLE,
};
use olm_api::v1alpha1::{InstallPlan, Subscription};
use olm_runtime::cluster_operator::{ClusterOperators, Stored};
use olm_runtime::condition::stored_time;
use olm_runtime::driver::{FirstRounds, Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Plan, Requeue};
use olm_runtime::{NamespacedName, Timestamp};

use crate::catalog_source::CatalogSourceReconciler;
use crate::stores::Stores;

/// Version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How often it is looked whether there still is a catalog.
const INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Report {
    pub stores: Stores,
    pub cluster_operators: ClusterOperators,
    pub first_rounds: FirstRounds,
    /// Namespace that this program runs in.
    pub namespace: String,
    /// Version of the cluster's release; empty where nobody said so.
    pub release: String,
}

/// The ClusterOperator and what it is to say.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    name: String,
    stored: Stored,
    is_working: bool,
    namespace: String,
    release: String,
}

#[async_trait]
impl Reconciler for Report {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "clusteroperator";

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let stored = self.cluster_operators.find(&key.name).await;
        Ok(stored.map(|stored| Observed {
            name: key.name.clone(),
            stored,
            is_working: self.first_rounds.has_one_of::<CatalogSourceReconciler>()
                || self.stores.sources.list().is_empty(),
            namespace: self.namespace.clone(),
            release: self.release.clone(),
        }))
    }

    fn decide(observed: &Observed, _: Option<&()>, _: Timestamp) -> (Plan, ()) {
        let mut plan = observed.stored.plan(&observed.name);
        if !observed.is_working {
            let look = Requeue::after(INTERVAL, "deletion of the last catalog is not watched");
            plan.requeue = plan.requeue.sooner(look);
        }
        (plan, ())
    }

    fn status(observed: &Observed, (): (), _: &Outcomes, now: Timestamp) -> StatusUpdate {
        observed.stored.update(&observed.name, |status| {
            // What an earlier process said stands until there is something to say.
            if observed.is_working {
                report(status, observed, now);
            }
        })
    }
}

fn report(status: &mut ClusterOperatorStatus, observed: &Observed, now: Timestamp) {
    let now = &stored_time(now);
    let deployed = format!("Deployed {VERSION}");
    status.set_condition(DEGRADED, false, ("", ""), now);
    status.set_condition(PROGRESSING, false, ("", &deployed), now);
    status.set_condition(AVAILABLE, true, ("", ""), now);
    status.set_condition(UPGRADEABLE, true, ("", ""), now);
    let versions = [(RELEASE, observed.release.as_str()), (OLM, VERSION)];
    let versions = versions
        .into_iter()
        .filter(|_| !observed.release.is_empty())
        .map(|(name, version)| OperandVersion::new(name, version));
    status.set_versions(versions.collect());
    if observed.name == CATALOG {
        let namespace = observed.namespace.as_str();
        status.related_objects = [
            related::<Subscription>(namespace),
            related::<InstallPlan>(namespace),
            RelatedObject::new("", "namespaces", "", namespace),
        ]
        .into();
    }
}

/// All of a kind in a namespace.
fn related<K: Resource<DynamicType = ()>>(namespace: &str) -> RelatedObject {
    RelatedObject::new(&K::group(&()), &K::plural(&()), namespace, "")
}
