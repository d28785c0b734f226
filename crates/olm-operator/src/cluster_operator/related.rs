//! References in the status of a ClusterOperator.

use kube::{Resource, ResourceExt};
use olm_api::{cluster_operator::RelatedObject, v1alpha1::ClusterServiceVersion};

/// Returns a reference to a ClusterServiceVersion.
pub(super) fn to_csv(csv: &ClusterServiceVersion) -> RelatedObject {
    RelatedObject::new(
        &ClusterServiceVersion::group(&()),
        &ClusterServiceVersion::plural(&()),
        &csv.namespace().unwrap_or_default(),
        &csv.name_any(),
    )
}

/// Returns a reference to a namespace.
pub(super) fn to_namespace(name: &str) -> RelatedObject {
    RelatedObject::new("", "namespaces", "", name)
}

/// True when the reference names a ClusterServiceVersion.
pub(super) fn is_csv(related: &RelatedObject) -> bool {
    related.group == ClusterServiceVersion::group(&())
        && related.resource == ClusterServiceVersion::plural(&())
}
