//! The reconciler of unpack Jobs: the reads of a reconcile and their order.

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, Client};
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::Plan;
use olm_runtime::store::Store;

use super::decide::{self, Memory, Verdict};
use super::is_name;
use super::observed::Observed;
use super::requests::UnpackJobs;

/// Reconciles the objects of unpack Jobs.
pub(crate) struct UnpackJobReconciler {
    pub client: Client,
    /// Their requests.
    pub jobs: UnpackJobs,
    pub accounts: Store<ServiceAccount>,
    pub roles: Store<Role>,
    pub role_bindings: Store<RoleBinding>,
}

#[async_trait]
impl Reconciler for UnpackJobReconciler {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = Memory;

    const NAME: &'static str = "bundleunpack";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(self.jobs.sources(), &self.jobs.request(key)?.catalog)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        if !is_name(&key.name) {
            return Ok(None);
        }
        let request = self.jobs.request(key);
        let jobs = self.jobs.jobs_of(key);
        let account = self.accounts.get_key(key);
        // Users who can create Jobs can create any number with the label.
        let has_jobs = jobs.iter().any(|job| job.config_map.is_some());
        if request.is_none() && !has_jobs && account.is_none() {
            return Ok(None);
        }
        // A live read: a store of all ConfigMaps with OLM's label would contain the bundles' own, which are
        // created and deleted within minutes.
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
        let what = format!("ConfigMap {key}");
        let config_map = deadline(&what, api.get_metadata_opt(&key.name)).await?;
        Ok(Some(Observed {
            source: request
                .as_ref()
                .and_then(|request| self.jobs.sources().get_key(&request.catalog)),
            request,
            config_map,
            account,
            role: self.roles.get_key(key),
            role_binding: self.role_bindings.get_key(key),
            jobs,
            settings: self.jobs.settings().clone(),
            key: key.clone(),
        }))
    }

    fn decide(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, memory, now)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate<Memory> {
        decide::status(observed, verdict, outcomes)
    }
}
