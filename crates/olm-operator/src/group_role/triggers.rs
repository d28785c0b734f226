//! Maps changed objects to OperatorGroups whose ClusterRoles are reconciled. No I/O.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::ClusterRole;
use olm_runtime::{NamespacedName, store::Change};

use crate::owner;

/// Returns the former and current groups in the owner labels of a ClusterRole.
pub(crate) fn by_cluster_role(change: &Change<ClusterRole>) -> BTreeSet<NamespacedName> {
    let versions = change.versions();
    versions
        .filter_map(|role| owner::labelled_group(&role.metadata))
        .collect()
}
