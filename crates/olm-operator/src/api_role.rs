//! ClusterRoles for the APIs that operators provide. Kubernetes aggregates them into `admin`, `edit` and
//! `view`. The ClusterRoles of OperatorGroups whose operators provide the API aggregate them, too
//! ([`crate::group_role`]).
//!
//! # Expected flow
//! A key is the object that serves the API: a CustomResourceDefinition or an APIService. Several
//! ClusterServiceVersions may provide one API, and each ClusterRole has one writer. The rules follow from the
//! object that serves the API; a ClusterServiceVersion only requests that the ClusterRole exists.
//!
//! # Guarantees
//! - Each ClusterRole is written once.
//! - A ClusterRole is owned by the object that serves its API and is deleted with it. Custom resources
//!   outlive their operator, and so do the rights to delete them.
//! - If a definition came with no ClusterServiceVersion, its ClusterRoles are deleted with the last
//!   ClusterServiceVersion that claims to own it.
//! - ClusterRoles of an APIService are also deleted when the APIService serves others, or when its group is
//!   no longer one operator's.
//! - ClusterRoles that have another owner are never written.

pub(crate) mod decide;
pub(crate) mod observe;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::{
    api::{core::v1::ObjectReference, rbac::v1::ClusterRole},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::Resource;
use olm_api::api_key::ApiKey;
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    outcome::Outcomes,
    plan::Plan,
    store::Index,
};

use crate::{
    stores::{CustomResourceDefinition, Stores},
    user_role::{self, Sent, Verdict},
};

/// Object that serves an API, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ServedBy {
    CustomResourceDefinition(String),
    ApiService(String),
}

impl ServedBy {
    /// Its key in the stores.
    pub(crate) fn stored(&self) -> NamespacedName {
        match self {
            Self::CustomResourceDefinition(name) | Self::ApiService(name) => {
                NamespacedName::cluster(name.as_str())
            }
        }
    }

    /// Returns the API server object that an owner reference of a ClusterRole names; `None` for other owners.
    /// Upstream wrote the kind CustomResourceDefinition in lower case.
    pub(crate) fn referred_to(owner: &OwnerReference) -> Option<Self> {
        let is = |group: &str, kind: &str| {
            owner.api_version.split('/').next() == Some(group) && owner.kind.eq_ignore_ascii_case(kind)
        };
        if is(
            &CustomResourceDefinition::group(&()),
            &CustomResourceDefinition::kind(&()),
        ) {
            Some(Self::CustomResourceDefinition(owner.name.clone()))
        } else if is(&APIService::group(&()), &APIService::kind(&())) {
            Some(Self::ApiService(owner.name.clone()))
        } else {
            None
        }
    }

    /// Owner reference for a ClusterRole, so that garbage collection deletes it with the object.
    fn reference(&self, uid: String) -> OwnerReference {
        let (api_version, kind) = match self {
            Self::CustomResourceDefinition(_) => (
                CustomResourceDefinition::api_version(&()),
                CustomResourceDefinition::kind(&()),
            ),
            Self::ApiService(_) => (APIService::api_version(&()), APIService::kind(&())),
        };
        OwnerReference {
            api_version: api_version.into_owned(),
            kind: kind.into_owned(),
            name: self.stored().name,
            uid,
            controller: Some(false),
            block_owner_deletion: Some(false),
        }
    }
}

impl fmt::Display for ServedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CustomResourceDefinition(name) => write!(f, "CustomResourceDefinition {name}"),
            Self::ApiService(name) => write!(f, "APIService {name}"),
        }
    }
}

/// An API on which users get rights.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProvidedApi {
    /// Prefix of the names of its ClusterRoles; the version follows it.
    pub(crate) name: String,
    /// Plural name of the kind.
    pub(crate) resource: String,
    pub(crate) key: ApiKey,
}

/// The object that serves APIs of operators, and the input for decisions about its ClusterRoles.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) served_by: ServedBy,
    /// The uid of the object that serves them.
    pub(crate) uid: String,
    /// The APIs, without duplicates of name and version.
    pub(crate) apis: Vec<ProvidedApi>,
    /// OLM's ClusterRoles with one of the wanted names, by name.
    pub(crate) found: BTreeMap<String, Arc<ClusterRole>>,
    /// ClusterRoles that no API needs any more. For an APIService: its owner serves others, or grants no
    /// rights on its group any more. For a definition that came with no ClusterServiceVersion: none claims to
    /// own it any more.
    pub(crate) former: Vec<Arc<ClusterRole>>,
    /// Object for events: the first ClusterServiceVersion that provides one of the APIs; if none does, the
    /// object that served them.
    pub(crate) provider: ObjectReference,
}

pub(crate) struct ApiRoles {
    pub(crate) stores: Stores,
    /// ClusterRoles of APIs by the object that serves them ([`observe::by_owner`]).
    pub(crate) made: Index<ClusterRole>,
}

#[async_trait]
impl Reconciler for ApiRoles {
    type Key = ServedBy;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = Sent;

    const NAME: &'static str = "api-role";

    fn regarding(&self, key: &ServedBy) -> Option<ObjectReference> {
        match key {
            ServedBy::CustomResourceDefinition(_) => regarding(&self.stores.crds, &key.stored()),
            ServedBy::ApiService(_) => regarding(&self.stores.api_services, &key.stored()),
        }
    }

    async fn observe(&self, key: &ServedBy) -> Result<Option<Observed>, ObserveError> {
        Ok(observe::observe(&self.stores, &self.made, key))
    }

    fn decide(observed: &Observed, sent: Option<&Sent>, _now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, sent)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate<Sent> {
        user_role::status(observed.provider.clone(), verdict, outcomes)
    }
}
