//! Reads once more what depends on ClusterServiceVersions before one of these is reported as missing. The first reads may be
//! minutes old, and the remedy is to delete dependents.

use super::super::observed::Observed;
use super::serving::targets;
use super::{Reader, each};
use crate::operators::Key;

impl Reader<'_> {
    /// Reads dependents and operators again if a ClusterServiceVersion is in no list. It may have been created meanwhile, and an
    /// upgrade passes the dependents to the next version.
    pub(super) async fn read_again(&self, observed: &mut Observed) {
        let is_consistent = owners(observed)
            .chain(installed(observed))
            .all(|csv| observed.has_csv(&csv) != Ok(false));
        if is_consistent {
            return;
        }
        let namespace = observed.namespace.clone();
        let namespace = namespace.as_deref();
        observed.copies = self.copies(namespace).await;
        observed.webhooks = self.webhooks(namespace).await;
        observed.api_services = self.api_services(namespace).await;
        observed.roles = self.roles(namespace).await;
        observed.operators = self.operators(namespace).await;
        let targets = targets(&observed.webhooks, &observed.api_services, &observed.definitions);
        observed.services = each(targets, async |key: &Key| self.service(key).await).await;
    }
}

/// Returns the ClusterServiceVersions that own something.
fn owners(observed: &Observed) -> impl Iterator<Item = Key> {
    let callers = observed.webhooks.iter().chain(&observed.api_services).flatten();
    let of_roles = observed.roles.iter().flatten();
    let owned = callers.map(|caller| &caller.object).chain(of_roles);
    let of_copies = observed.copies.iter().flatten().flatten();
    owned
        .map(|owned| owned.owner.clone())
        .chain(of_copies.map(|copy| (copy.from.clone(), copy.name.clone())))
}

/// Returns the ClusterServiceVersions that Subscriptions installed.
fn installed(observed: &Observed) -> impl Iterator<Item = Key> {
    let subscriptions = observed.operators.iter().flat_map(|found| &found.subscriptions);
    subscriptions.filter_map(|subscription| {
        let csv = subscription.status.as_ref()?.installed_csv.clone()?;
        let namespace = subscription.metadata.namespace.clone()?;
        (!csv.is_empty()).then_some((namespace, csv))
    })
}
