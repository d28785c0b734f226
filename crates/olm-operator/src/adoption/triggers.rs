//! Maps changed objects to namespaces whose components are reconciled. No I/O.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_runtime::{NamespacedName, store::Change};

use crate::{owner, stores::CustomResourceDefinition};

/// Delay in which the changes of a namespace are collected into one reconcile.
pub(crate) const GATHER: Duration = Duration::from_secs(1);

/// Returns the namespace of a changed Subscription, InstallPlan or ClusterServiceVersion.
pub(crate) fn by_install<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<NamespacedName> {
    Some(NamespacedName::cluster(present(change)?.namespace.clone()?))
}

/// Namespace of a changed object that has owner references and so may belong to a ClusterServiceVersion
/// there.
pub(crate) fn by_referring<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<NamespacedName> {
    let metadata = present(change)?;
    owner::references(metadata).next()?;
    Some(NamespacedName::cluster(metadata.namespace.clone()?))
}

/// Namespace in the owner labels of a changed object, which may belong to a ClusterServiceVersion there.
pub(crate) fn by_labelled<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<NamespacedName> {
    let owner = owner::labelled(present(change)?)?;
    Some(NamespacedName::cluster(owner.namespace))
}

/// Returns the namespaces of the ClusterServiceVersions that a CustomResourceDefinition came with.
pub(crate) fn by_crd(change: &Change<CustomResourceDefinition>) -> BTreeSet<NamespacedName> {
    let present = match change {
        Change::Applied { new, .. } => Some(new),
        Change::Deleted { .. } => None,
    };
    let origins = present.into_iter().flat_map(|crd| crd.origins());
    origins
        .map(|(namespace, _)| NamespacedName::cluster(namespace))
        .collect()
}

/// Returns the metadata of an object that is there.
fn present<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<&ObjectMeta> {
    match change {
        Change::Applied { new, .. } => Some(new.meta()),
        Change::Deleted { .. } => None,
    }
}
