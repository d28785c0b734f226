//! Deletes APIServices and webhook configurations that outlived their ClusterServiceVersion. No server
//! responds behind them any more, but the API server keeps calling it.
//!
//! Only objects with all three owner labels are OLM's. Before a deletion, the API server is asked whether the
//! owner is really deleted.

pub(crate) mod triggers;

use std::fmt;

use async_trait::async_trait;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Client};
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::{
    NamespacedName, Timestamp,
    discovery::deadline,
    driver::Reconciler,
    error::ObserveError,
    event::regarding,
    key::is_path_segment,
    plan::{Action, Plan, Target},
};

use crate::{owner, stores::Stores};

/// Kind of object through which the API server calls an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CallerKind {
    ApiService,
    ValidatingWebhook,
    MutatingWebhook,
}

/// Key of an APIService or webhook configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallerKey {
    pub(crate) kind: CallerKind,
    pub(crate) name: String,
}

impl CallerKey {
    fn target(&self) -> Target {
        match self.kind {
            CallerKind::ApiService => Target::cluster::<APIService>(&self.name),
            CallerKind::ValidatingWebhook => Target::cluster::<ValidatingWebhookConfiguration>(&self.name),
            CallerKind::MutatingWebhook => Target::cluster::<MutatingWebhookConfiguration>(&self.name),
        }
    }

    fn stored(&self) -> NamespacedName {
        NamespacedName::cluster(self.name.as_str())
    }
}

impl fmt::Display for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target().fmt(f)
    }
}

/// An object whose owner was deleted.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    key: CallerKey,
    uid: Option<String>,
}

pub(crate) struct OrphanedCallers {
    pub(crate) stores: Stores,
    /// For the read before a deletion.
    pub(crate) client: Client,
}

impl OrphanedCallers {
    fn metadata(&self, key: &CallerKey) -> Option<ObjectMeta> {
        let name = key.stored();
        match key.kind {
            CallerKind::ApiService => {
                let found = self.stores.api_services.get_key(&name)?;
                Some(found.metadata.clone())
            }
            CallerKind::ValidatingWebhook => {
                let found = self.stores.validating_webhooks.get_key(&name)?;
                Some(found.metadata.clone())
            }
            CallerKind::MutatingWebhook => {
                let found = self.stores.mutating_webhooks.get_key(&name)?;
                Some(found.metadata.clone())
            }
        }
    }
}

#[async_trait]
impl Reconciler for OrphanedCallers {
    type Key = CallerKey;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "orphaned-caller";

    fn regarding(&self, key: &CallerKey) -> Option<ObjectReference> {
        let name = key.stored();
        match key.kind {
            CallerKind::ApiService => regarding(&self.stores.api_services, &name),
            CallerKind::ValidatingWebhook => regarding(&self.stores.validating_webhooks, &name),
            CallerKind::MutatingWebhook => regarding(&self.stores.mutating_webhooks, &name),
        }
    }

    /// Returns the object, if its owner was deleted.
    async fn observe(&self, key: &CallerKey) -> Result<Option<Observed>, ObserveError> {
        let Some(found) = self.metadata(key).filter(|it| it.deletion_timestamp.is_none()) else {
            return Ok(None);
        };
        let Some(owner) = owner::labelled(&found) else {
            return Ok(None);
        };
        let is_name = is_path_segment(&owner.namespace) && is_path_segment(&owner.name);
        if !is_name || self.stores.csv_sketches.get_key(&owner).is_some() {
            return Ok(None);
        }
        let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), &owner.namespace);
        let what = format!("ClusterServiceVersion {owner}");
        let owner = deadline(&what, api.get_metadata_opt(&owner.name)).await?;
        Ok(owner.is_none().then(|| Observed {
            key: key.clone(),
            uid: found.uid,
        }))
    }

    fn decide(observed: &Observed, _: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        let delete = Action::delete(observed.key.target(), observed.uid.clone());
        (Plan::of(vec![delete]), ())
    }
}
