//! Maps changed objects to OperatorConditions to reconcile, by the name they share with their
//! ClusterServiceVersion. No I/O.

use kube::Resource;
use olm_api::{v1alpha1::ClusterServiceVersion, v2::OperatorCondition};
use olm_runtime::{NamespacedName, store::Change};

/// Returns the key of a ClusterServiceVersion that is there.
pub(crate) fn by_csv(change: &Change<ClusterServiceVersion>) -> Option<NamespacedName> {
    match change {
        Change::Applied { new, .. } => Some(NamespacedName::from_object(new.as_ref())),
        Change::Deleted { .. } => None,
    }
}

/// Returns the OperatorCondition that owns a Role or RoleBinding.
pub(crate) fn by_owned<K: Resource>(change: &Change<K>) -> Option<NamespacedName> {
    let object = change.object();
    let kind = OperatorCondition::kind(&());
    let owners = object.meta().owner_references.iter().flatten();
    let owned = owners
        .into_iter()
        .any(|owner| owner.kind == kind && Some(&owner.name) == object.meta().name.as_ref());
    owned.then(|| NamespacedName::from_object(object.as_ref()))
}
