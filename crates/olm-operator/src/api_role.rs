//! The ClusterRoles of APIs that operators provide: Kubernetes' own `admin`, `edit` and `view` take them up, and so do those of the
//! OperatorGroups whose operators provide the API ([`crate::group_role`]).
//!
//! # Expected flow
//! A key is what serves the API, a CustomResourceDefinition or an APIService: several ClusterServiceVersions may provide one API, and
//! each ClusterRole has one writer. What is in it follows from what serves the API; a ClusterServiceVersion only says that it is wanted.
//!
//! # Guarantees
//! Each is written once. It goes with what serves the API, as its owner: objects outlive their operator, and with them the rights to
//! delete them; only of a definition that came with no ClusterServiceVersion do they go with the last that claims to own it. Those of an APIService also go when this comes to serve others, or its group is not one operator's any more. A ClusterRole of somebody else is never written.

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
    user_role::{self, TakenNames, Verdict},
};

/// What serves an API, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ServedBy {
    CustomResourceDefinition(String),
    ApiService(String),
}

impl ServedBy {
    /// Its place in the stores.
    pub(crate) fn stored(&self) -> NamespacedName {
        match self {
            Self::CustomResourceDefinition(name) | Self::ApiService(name) => {
                NamespacedName::cluster(name.as_str())
            }
        }
    }

    /// What an owner reference of a ClusterRole points to, if it is one of these. Upstream wrote the first kind in lower case.
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

    /// The reference to it as the owner of a ClusterRole, so that garbage collection takes that along.
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

/// An API that users get rights on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProvidedApi {
    /// What names of its ClusterRoles begin with, before the version.
    pub(crate) name: String,
    /// Plural of its objects.
    pub(crate) resource: String,
    pub(crate) key: ApiKey,
}

/// What serves APIs that operators provide, and what decides about their ClusterRoles.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) served_by: ServedBy,
    /// The uid of what serves them.
    pub(crate) uid: String,
    /// The APIs, each name and version once.
    pub(crate) apis: Vec<ProvidedApi>,
    /// By name: ClusterRoles with OLM's mark that have a name of theirs.
    pub(crate) found: BTreeMap<String, Arc<ClusterRole>>,
    /// Those of an APIService that are for none of the APIs: its owner serves others, or gives no rights on its group any more. Those of a
    /// definition that came with no ClusterServiceVersion, once none claims to own it.
    pub(crate) former: Vec<Arc<ClusterRole>>,
    /// The first ClusterServiceVersion that provides one, to tell it what is wrong; where none does what served them.
    pub(crate) provider: ObjectReference,
}

pub(crate) struct ApiRoles {
    pub(crate) stores: Stores,
    /// ClusterRoles of APIs by what serves them ([`observe::by_owner`]).
    pub(crate) made: Index<ClusterRole>,
}

#[async_trait]
impl Reconciler for ApiRoles {
    type Key = ServedBy;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = TakenNames;

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

    fn decide(observed: &Observed, before: Option<&TakenNames>, _now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, before)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate<TakenNames> {
        user_role::status(observed.provider.clone(), verdict, outcomes)
    }
}
