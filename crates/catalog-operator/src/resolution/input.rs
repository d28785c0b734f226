//! What is resolved: objects of the cluster as the resolver takes them. Pure.

use std::collections::BTreeSet;

use olm_api::v1alpha1::ClusterServiceVersionPhase;
pub use olm_resolver::objects::{installed_csv, resolver_subscription};
use olm_resolver::{CatalogKey, InstalledCsv, OperatorGroup, Subscription};

use crate::snapshots::ContentId;

/// Everything a resolution depends on. Two equal inputs come to the same.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolutionInput {
    /// All Subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// All ClusterServiceVersions.
    pub installed: Vec<InstalledCsv>,
    /// The OperatorGroup.
    pub operator_group: OperatorGroup,
    /// The catalogs, with priority and content or why there is none.
    pub catalogs: Vec<(CatalogKey, i32, Result<ContentId, String>)>,
    /// Whether anything is to be resolved; else only deprecations are looked up.
    pub resolve: bool,
}

/// Marks as `Replacing` what has a successor that a Subscription has moved on to.
///
/// olm-operator does so a moment after the successor was created. A resolution in that moment would find two operators
/// for the same APIs, one of them nobody's, and call the namespace unsatisfiable.
pub fn mark_replaced(installed: &mut [InstalledCsv], subscriptions: &[Subscription]) {
    let successors: BTreeSet<String> = installed
        .iter()
        .filter(|csv| {
            subscriptions
                .iter()
                .any(|subscription| subscription.installed_csv == csv.name)
        })
        .map(|csv| csv.replaces.clone())
        .filter(|replaced| !replaced.is_empty())
        .collect();
    let replacing = ClusterServiceVersionPhase::Replacing.as_str();
    let deleting = ClusterServiceVersionPhase::Deleting.as_str();
    for csv in installed {
        if successors.contains(&csv.name) && csv.phase != deleting {
            replacing.clone_into(&mut csv.phase);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_predecessors_of_what_a_subscription_has_are_marked() {
        let csv = |name: &str, replaces: &str, phase: &str| InstalledCsv {
            name: name.to_owned(),
            replaces: replaces.to_owned(),
            phase: phase.to_owned(),
            ..InstalledCsv::default()
        };
        let mut installed = [
            csv("a.v1", "", "Succeeded"),
            csv("a.v2", "a.v1", "Pending"),
            csv("b.v1", "", "Succeeded"),
            csv("b.v2", "b.v1", "Succeeded"),
            csv("c.v1", "", "Deleting"),
            csv("c.v2", "c.v1", "Succeeded"),
        ];
        let has = |csv: &str| olm_resolver::Subscription {
            installed_csv: csv.to_owned(),
            ..Default::default()
        };
        mark_replaced(&mut installed, &[has("a.v2"), has("c.v2")]);
        let phases: Vec<&str> = installed.iter().map(|csv| csv.phase.as_str()).collect();
        assert_eq!(
            phases,
            [
                "Replacing",
                "Pending",
                "Succeeded",
                "Succeeded",
                "Deleting",
                "Succeeded"
            ]
        );
    }
}
