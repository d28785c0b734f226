//! Maps changed objects to namespaces whose components are reconciled. No I/O.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use olm_api::labels;
use olm_runtime::{NamespacedName, store::Change};

use crate::{component, owner, stores::CustomResourceDefinition};

/// Delay in which the changes of a namespace are collected into one reconcile.
pub(crate) const GATHER: Duration = Duration::from_secs(1);

/// Returns the namespace of a changed Subscription, InstallPlan or ClusterServiceVersion.
pub(crate) fn by_install<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<NamespacedName> {
    match change {
        Change::Applied { new, .. } => Some(NamespacedName::cluster(new.namespace().unwrap_or_default())),
        Change::Deleted { .. } => None,
    }
}

/// Namespace of a changed object that has owner references and so may belong to a ClusterServiceVersion
/// there.
pub(crate) fn by_referring<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<NamespacedName> {
    let metadata = news(change)?;
    owner::references(metadata).next()?;
    Some(NamespacedName::cluster(metadata.namespace.clone()?))
}

/// Namespace in the owner labels of a changed object, which may belong to a ClusterServiceVersion there.
pub(crate) fn by_labelled<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<NamespacedName> {
    let owner = owner::labelled(news(change)?)?;
    Some(NamespacedName::cluster(owner.namespace))
}

/// Returns the namespaces of the ClusterServiceVersions that a CustomResourceDefinition came with.
pub(crate) fn by_crd(change: &Change<CustomResourceDefinition>) -> BTreeSet<NamespacedName> {
    let annotations = news(change).and_then(|metadata| metadata.annotations.as_ref());
    let notes = annotations.into_iter().flatten();
    notes
        .filter(|(key, _)| key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX))
        .filter_map(|(_, value)| Some(NamespacedName::cluster(value.split_once('/')?.0)))
        .collect()
}

/// Returns the metadata of an object that is new, or whose owners or component labels changed.
fn news<K: Resource<DynamicType = ()>>(change: &Change<K>) -> Option<&ObjectMeta> {
    let Change::Applied { old, new } = change else {
        return None;
    };
    let metadata = new.meta();
    let said = |metadata: &ObjectMeta| {
        let own: Vec<String> = component::labels_of(metadata).map(str::to_owned).collect();
        let owners = metadata.owner_references.clone();
        (
            own,
            owners,
            owner::labelled(metadata),
            metadata.annotations.clone(),
        )
    };
    let is_same = old.as_ref().is_some_and(|old| said(old.meta()) == said(metadata));
    (!is_same).then_some(metadata)
}
