//! Maps changed objects to objects that serve APIs, whose ClusterRoles are reconciled. No I/O.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{api::rbac::v1::ClusterRole, kube_aggregator::pkg::apis::apiregistration::v1::APIService};
use kube::ResourceExt;
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::store::Change;

use crate::{
    api_role::{
        ServedBy,
        observe::{claimed, provided},
    },
    owner,
    stores::CustomResourceDefinition,
};

/// Returns the keys of APIs that a changed ClusterServiceVersion starts, changes or stops providing, and of
/// definitions that it no longer claims.
pub(crate) fn by_csv(change: &Change<ClusterServiceVersion>) -> BTreeSet<ServedBy> {
    let (old, new) = match change {
        Change::Applied { old, new } => (old.as_ref(), Some(new)),
        Change::Deleted { old } => (Some(old), None),
    };
    let before = old.map(|old| provided(old)).unwrap_or_default();
    let now = new.map(|new| provided(new)).unwrap_or_default().into_iter();
    let provided = now
        .filter(|(key, apis)| before.get(key) != Some(apis))
        .map(|(key, _)| key);
    let claims = new.map(|new| claimed(new)).unwrap_or_default();
    let given_up = old.map(|old| claimed(old)).unwrap_or_default();
    let given_up = given_up.difference(&claims);
    let given_up = given_up.map(|name| ServedBy::CustomResourceDefinition((*name).to_owned()));
    provided.chain(given_up).collect()
}

/// Returns the key of a definition that is there.
pub(crate) fn by_crd(change: &Change<CustomResourceDefinition>) -> Option<ServedBy> {
    match change {
        Change::Applied { new, .. } => Some(ServedBy::CustomResourceDefinition(new.name_any())),
        // Garbage collection deletes its ClusterRoles.
        Change::Deleted { .. } => None,
    }
}

/// Returns the keys for an APIService that is created, deleted or gets another owner: its own and those of
/// OLM's APIServices of the same group, from `all`.
pub(crate) fn by_api_service(change: &Change<APIService>, all: &[Arc<APIService>]) -> BTreeSet<ServedBy> {
    if let Change::Applied { old: Some(old), new } = change
        && old.metadata.uid == new.metadata.uid
        && owner::labelled(&old.metadata) == owner::labelled(&new.metadata)
    {
        return BTreeSet::new();
    }
    let group = |service: &APIService| {
        let name = service.name_any();
        name.split_once('.').map(|(_, group)| group.to_owned())
    };
    let changed = group(change.object());
    all.iter()
        .filter(|service| owner::labelled(&service.metadata).is_some() && group(service) == changed)
        .map(|service| ServedBy::ApiService(service.name_any()))
        .collect()
}

/// Returns the owners of a ClusterRole, before or now.
pub(crate) fn by_cluster_role(change: &Change<ClusterRole>) -> BTreeSet<ServedBy> {
    change
        .versions()
        .flat_map(|role| role.owner_references())
        .filter_map(ServedBy::referred_to)
        .collect()
}
