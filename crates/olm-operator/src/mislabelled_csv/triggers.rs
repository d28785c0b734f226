//! Changed object → ClusterServiceVersions whose label is to be taken off. Pure.

use olm_runtime::{NamespacedName, store::Change};

use crate::{csv_sketch::Sketch, mislabelled_csv::is_mislabelled};

/// One that has come into sight with the label and the finalizer, or stays so.
pub(crate) fn by_sketch(change: &Change<Sketch>) -> Option<NamespacedName> {
    match change {
        Change::Applied { new, .. } => is_mislabelled(new).then(|| new.key()),
        Change::Deleted { .. } => None,
    }
}
