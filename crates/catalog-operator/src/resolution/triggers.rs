//! Changed object → namespaces to resolve. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_api::cause::csv_cause;
use olm_api::v1alpha1::{CatalogSource, CatalogSourceStatus, ClusterServiceVersion, Subscription};
use olm_runtime::store::Change;

/// The namespace of the object.
pub(crate) fn own_namespace<K: Resource>(change: &Change<K>) -> Option<String> {
    change.object().meta().namespace.clone()
}

/// The namespace of a ClusterServiceVersion that appeared, went, or changed in what resolution reads of it.
pub(crate) fn csv_namespace(change: &Change<ClusterServiceVersion>) -> Option<String> {
    match change {
        Change::Applied { old: Some(old), new } if is_same_csv(old, new) => None,
        _ => own_namespace(change),
    }
}

fn is_same_csv(old: &ClusterServiceVersion, new: &ClusterServiceVersion) -> bool {
    old.metadata.uid == new.metadata.uid
        && old.metadata.annotations == new.metadata.annotations
        && old.spec == new.spec
        && old.phase() == new.phase()
        && csv_cause(old) == csv_cause(new)
}

/// Namespaces that a change of a catalog concerns: its own, and every namespace with Subscriptions if it is global.
pub(crate) fn catalog_namespaces(
    change: &Change<CatalogSource>,
    global_namespace: &str,
    subscriptions: &[Arc<Subscription>],
) -> BTreeSet<String> {
    if let Change::Applied { old: Some(old), new } = change
        && is_same_catalog(old, new)
    {
        return BTreeSet::new();
    }
    let Some(own) = own_namespace(change) else {
        return BTreeSet::new();
    };
    users_of_catalog(&own, global_namespace, subscriptions)
}

/// Namespaces with Subscriptions that see the catalogs of `namespace`: itself, and all of them if it is the global one.
pub(crate) fn users_of_catalog(
    namespace: &str,
    global_namespace: &str,
    subscriptions: &[Arc<Subscription>],
) -> BTreeSet<String> {
    let users = subscriptions
        .iter()
        .filter_map(|subscription| subscription.namespace());
    users
        .filter(|user| namespace == global_namespace || user == namespace)
        .collect()
}

/// The time of a connection is no change: the snapshots report what was read over it. Nor is the version of a ConfigMap, which
/// changes as often as its author likes.
fn is_same_catalog(old: &CatalogSource, new: &CatalogSource) -> bool {
    let compared = |source: &CatalogSource| {
        let mut status: CatalogSourceStatus = source.status.clone().unwrap_or_default();
        status.latest_image_registry_poll = None;
        status.config_map_reference = None;
        if let Some(state) = &mut status.connection_state {
            state.last_connect = None;
        }
        status
    };
    old.metadata.uid == new.metadata.uid
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.spec == new.spec
        && compared(old) == compared(new)
}

#[cfg(test)]
mod tests;
