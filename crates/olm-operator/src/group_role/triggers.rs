//! Maps changed objects to OperatorGroups whose ClusterRoles are reconciled. No I/O.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::rbac::v1::ClusterRole;
use olm_api::{
    v1::OperatorGroup,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::{NamespacedName, store::Change};

use crate::{
    operator_group::{observe::Member, provided_apis},
    owner,
};

/// Returns the key of a group that is created, deleted, or lists other APIs.
pub(crate) fn by_group(change: &Change<OperatorGroup>) -> Option<NamespacedName> {
    let key = NamespacedName::from_object(change.object().as_ref());
    match change {
        Change::Applied { old: Some(old), new } => {
            let same = provided_apis(old) == provided_apis(new)
                && old.metadata.uid == new.metadata.uid
                && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp;
            (!same).then_some(key)
        }
        Change::Applied { .. } | Change::Deleted { .. } => Some(key),
    }
}

/// Returns the groups of the namespace for a ClusterServiceVersion that is created, deleted, or owns other APIs.
pub(crate) fn by_csv(
    change: &Change<ClusterServiceVersion>,
    in_namespace: &[Arc<OperatorGroup>],
) -> BTreeSet<NamespacedName> {
    let provider = |csv: &ClusterServiceVersion| Member {
        phase: Phase::None,
        ..Member::read(csv)
    };
    if let Change::Applied { old: Some(old), new } = change
        && provider(old) == provider(new)
    {
        return BTreeSet::new();
    }
    in_namespace
        .iter()
        .map(|group| NamespacedName::from_object(group.as_ref()))
        .collect()
}

/// Returns the former and current groups in the owner labels of a ClusterRole.
pub(crate) fn by_cluster_role(change: &Change<ClusterRole>) -> BTreeSet<NamespacedName> {
    let versions = change.versions();
    versions
        .filter_map(|role| owner::labelled_group(&role.metadata))
        .collect()
}
