//! The input of one decision about an OperatorGroup, as values.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ObjectReference, ServiceAccount};
use kube::{Api, Client, Resource, ResourceExt, core::PartialObjectMeta};
use olm_api::{
    api_key::{ApiSet, provided_apis},
    v1::OperatorGroup,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::{NamespacedName, discovery::deadline, error::ObserveError, key::is_path_segment};

use crate::{operator_group::targets::Selection, stores::Stores};

/// One OperatorGroup and the input of decisions about it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) group: Arc<OperatorGroup>,
    /// True when its namespace has other groups.
    pub(crate) ambiguous: bool,
    /// All namespaces of the cluster when the group selects by labels, else empty.
    pub(crate) namespaces: Vec<Arc<PartialObjectMeta<Namespace>>>,
    /// The ClusterServiceVersions of its namespace, without copies.
    pub(crate) members: Vec<Member>,
    /// The account whose rights limit installs.
    pub(crate) account: GroupAccount,
}

/// The ServiceAccount that a group names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum GroupAccount {
    /// The group names none.
    #[default]
    Unnamed,
    /// The named account does not exist.
    Missing(String),
    /// The named account exists.
    Found(Box<ObjectReference>),
}

/// A ClusterServiceVersion as a provider of APIs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Member {
    /// APIs it owns; empty when its description is invalid.
    pub(crate) provides: ApiSet,
    pub(crate) phase: Phase,
    /// True when it is being deleted.
    pub(crate) deleting: bool,
}

impl Member {
    pub(crate) fn read(csv: &ClusterServiceVersion) -> Self {
        Self {
            provides: provided_apis(&csv.spec).unwrap_or_default(),
            phase: csv.phase().clone(),
            deleting: csv.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Reads the stores. The account that the group names is read from the API server, because OLM's stores do
/// not have accounts of others.
///
/// # Errors
/// When that read fails.
pub(crate) async fn observe(
    stores: &Stores,
    client: &Client,
    key: &NamespacedName,
) -> Result<Option<Observed>, ObserveError> {
    let Some(mut observed) = from_stores(stores, key) else {
        return Ok(None);
    };
    if let Some(name) = observed.group.spec.service_account() {
        observed.account = account(client, &key.namespace, name).await?;
    }
    Ok(Some(observed))
}

async fn account(client: &Client, namespace: &str, name: &str) -> Result<GroupAccount, ObserveError> {
    if !is_path_segment(name) {
        return Ok(GroupAccount::Missing(name.to_owned()));
    }
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let what = format!("ServiceAccount {namespace}/{name}");
    let Some(found) = deadline(&what, api.get_metadata_opt(name)).await? else {
        return Ok(GroupAccount::Missing(name.to_owned()));
    };
    Ok(GroupAccount::Found(Box::new(ObjectReference {
        api_version: Some(ServiceAccount::api_version(&()).into_owned()),
        kind: Some(ServiceAccount::kind(&()).into_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: found.uid(),
        resource_version: found.resource_version(),
        ..ObjectReference::default()
    })))
}

/// Observes the stores only.
pub(crate) fn from_stores(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    let group = stores.groups.get_key(key)?;
    let members = stores.csvs.list_in(&key.namespace);
    let namespaces = match Selection::read(&group.spec) {
        Ok(Selection::Labels(_)) => stores.namespaces.list(),
        Ok(Selection::Names(_) | Selection::All) | Err(_) => Vec::new(),
    };
    Some(Observed {
        group,
        ambiguous: stores.groups.list_in(&key.namespace).len() > 1,
        namespaces,
        members: members
            .iter()
            .filter(|csv| !csv.is_copied())
            .map(|csv| Member::read(csv))
            .collect(),
        account: GroupAccount::Unnamed,
    })
}
