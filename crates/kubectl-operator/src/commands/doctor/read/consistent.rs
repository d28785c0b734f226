//! Whether the reads fit together. They may be minutes apart, and the remedy for a missing ClusterServiceVersion is to delete its
//! dependents. Pure.

use super::super::observed::Observed;
use crate::operators::Key;

/// Returns false if a ClusterServiceVersion is in no list although something names it. It may have been created meanwhile, and an
/// upgrade passes the dependents to the next version.
pub(super) fn is_consistent(observed: &Observed) -> bool {
    let mut named = owners(observed).chain(installed(observed));
    named.all(|csv| observed.has_csv(&csv) != Ok(false))
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
