//! Objects of the cluster as the resolver takes them. Pure.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::{
    ApiServiceDescription, ClusterServiceVersion, ClusterServiceVersionPhase, CrdDescription, Subscription,
    SubscriptionStatus,
};
use olm_fbc::property::Gvk;
use olm_resolver::{CatalogKey, InstalledCsv};

/// Whether this is a copy of a ClusterServiceVersion of another namespace.
pub fn is_copied(csv: &ClusterServiceVersion) -> bool {
    let home = csv.annotations().get(labels::OPERATOR_NAMESPACE);
    csv.labels().contains_key(labels::COPIED_FROM)
        || home.is_some_and(|home| csv.namespace().as_ref() != Some(home))
}

/// A Subscription with its settled status, as the resolver takes it.
pub fn resolver_subscription(
    object: &Subscription,
    status: &SubscriptionStatus,
) -> olm_resolver::Subscription {
    let spec = &object.spec;
    olm_resolver::Subscription {
        name: object.name_any(),
        package: spec.name.clone(),
        channel: spec.channel().unwrap_or_default().to_owned(),
        starting_csv: spec.starting_csv().unwrap_or_default().to_owned(),
        catalog: CatalogKey {
            name: spec.source.clone(),
            namespace: spec.source_namespace.clone(),
        },
        current_csv: status.current_csv.clone().unwrap_or_default(),
        installed_csv: status.installed_csv.clone().unwrap_or_default(),
    }
}

/// A ClusterServiceVersion as the resolver takes it.
pub fn installed_csv(csv: &ClusterServiceVersion) -> InstalledCsv {
    let spec = &csv.spec;
    let crd = |crd: &CrdDescription| {
        // The group is what follows the plural in the CRD's name.
        let group = crd.name.split_once('.').map_or("", |(_, group)| group);
        Gvk {
            group: group.to_owned(),
            version: crd.version.clone(),
            kind: crd.kind.clone(),
        }
    };
    let api = |api: &ApiServiceDescription| Gvk {
        group: api.group.clone(),
        version: api.version.clone(),
        kind: api.kind.clone(),
    };
    InstalledCsv {
        name: csv.name_any(),
        version: spec.version.clone().unwrap_or_default(),
        replaces: spec.replaces().unwrap_or_default().to_owned(),
        phase: csv
            .status
            .as_ref()
            .map(|status| status.phase.to_string())
            .unwrap_or_default(),
        copied: is_copied(csv),
        properties: csv.annotations().get(labels::PROPERTIES).cloned(),
        owned: spec
            .owned_crds()
            .iter()
            .map(crd)
            .chain(spec.owned_api_services().iter().map(api))
            .collect(),
        required: spec
            .required_crds()
            .iter()
            .map(crd)
            .chain(spec.required_api_services().iter().map(api))
            .collect(),
    }
}

/// Marks as `Replacing` what has a successor that a Subscription has moved on to.
///
/// olm-operator does so a moment after the successor was created. A resolution in that moment would find two operators
/// for the same APIs, one of them nobody's, and call the namespace unsatisfiable.
pub fn mark_replaced(installed: &mut [InstalledCsv], subscriptions: &[olm_resolver::Subscription]) {
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
