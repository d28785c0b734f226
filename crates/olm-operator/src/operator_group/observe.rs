//! Everything one decision about an OperatorGroup reads, as values.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::{
    api_key::{ApiSet, provided_apis},
    v1::OperatorGroup,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::NamespacedName;

use crate::{operator_group::targets::NamespaceLabels, stores::Stores};

/// One OperatorGroup and what decides about it.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The object itself.
    pub group: Arc<OperatorGroup>,
    /// There are others in its namespace.
    pub ambiguous: bool,
    /// All namespaces.
    pub namespaces: Vec<NamespaceLabels>,
    /// The ClusterServiceVersions of its namespace, copies left out.
    pub members: Vec<Member>,
}

/// A ClusterServiceVersion as a provider of APIs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Member {
    /// APIs it owns; none when its description names none properly.
    pub provides: ApiSet,
    /// Its phase.
    pub phase: Phase,
    /// It is on its way out.
    pub deleting: bool,
}

impl Member {
    /// Reads a ClusterServiceVersion.
    pub fn read(csv: &ClusterServiceVersion) -> Self {
        Self {
            provides: provided_apis(&csv.spec).unwrap_or_default(),
            phase: csv.phase().clone(),
            deleting: csv.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Reads stores; nothing else.
pub fn observe(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    let group = stores.groups.get_key(key)?;
    let members = stores.csvs.list_in(&key.namespace);
    Some(Observed {
        group,
        ambiguous: stores.groups.list_in(&key.namespace).len() > 1,
        namespaces: namespaces(stores),
        members: members
            .iter()
            .filter(|csv| !csv.is_copied())
            .map(|csv| Member::read(csv))
            .collect(),
    })
}

/// The namespaces of the cluster with their labels.
pub fn namespaces(stores: &Stores) -> Vec<NamespaceLabels> {
    let all = stores.namespaces.list();
    all.iter()
        .map(|namespace| NamespaceLabels {
            name: namespace.name_any(),
            labels: namespace.labels().clone(),
        })
        .collect()
}
