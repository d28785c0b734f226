//! Maps changed objects to namespaces to reconcile. No I/O.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, core::PartialObjectMeta};
use olm_api::v1::OperatorGroup;
use olm_runtime::{NamespacedName, store::Change};

use crate::namespace::targeted;

/// Returns the name of a namespace whose labels changed.
pub(crate) fn by_namespace(change: &Change<PartialObjectMeta<Namespace>>) -> Option<NamespacedName> {
    match change {
        Change::Applied { old: Some(old), new } if old.labels() == new.labels() => None,
        Change::Applied { new, .. } => Some(NamespacedName::from_object(new.as_ref())),
        Change::Deleted { .. } => None,
    }
}

/// Returns the former and current target namespaces of a group.
pub(crate) fn by_group(change: &Change<OperatorGroup>) -> BTreeSet<NamespacedName> {
    change
        .versions()
        .flat_map(|group| targeted(group))
        .map(NamespacedName::cluster)
        .collect()
}
