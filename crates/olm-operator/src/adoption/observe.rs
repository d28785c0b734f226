//! Finds the objects that belong to the ClusterServiceVersions of a namespace. Reads only stores.

use kube::ResourceExt;

use crate::{
    adoption::{
        Observed,
        kinds::{Csvs, OwnedKinds},
    },
    component,
    stores::Stores,
};

/// Observes a namespace; `None` if nothing is installed there.
pub(super) fn observe(stores: &Stores, kinds: &OwnedKinds, namespace: &str) -> Option<Observed> {
    let mut csvs = stores.csvs.list_in(namespace);
    csvs.retain(|csv| !csv.is_copied() && csv.metadata.deletion_timestamp.is_none());
    let subscriptions = stores.subscriptions.list_in(namespace);
    if csvs.is_empty() && subscriptions.is_empty() {
        return None;
    }
    // Those that have labels to pass on.
    let giving = csvs
        .iter()
        .filter(|csv| component::labels_of(&csv.metadata).next().is_some());
    let giving: Csvs<'_> = giving.map(|csv| (csv.name_any(), csv.as_ref())).collect();
    let owned = match giving.is_empty() {
        true => Vec::new(),
        false => kinds.find(namespace, &giving),
    };
    Some(Observed {
        namespace: namespace.to_owned(),
        subscriptions,
        plans: stores.install_plans.list_in(namespace),
        owned,
        csvs,
    })
}
