//! Changed object → ClusterServiceVersions whose label is to be taken off. Pure.

use kube::core::PartialObjectMeta;
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::{NamespacedName, store::Change};

/// One that has come into sight with the label and the finalizer, or stays so.
pub(crate) fn by_mislabelled_csv(
    change: &Change<PartialObjectMeta<ClusterServiceVersion>>,
) -> Option<NamespacedName> {
    match change {
        Change::Applied { new, .. } => Some(NamespacedName::from_object(new.as_ref())),
        Change::Deleted { .. } => None,
    }
}
