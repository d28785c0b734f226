//! Maps changed objects to ClusterServiceVersions whose label must be removed. No I/O.

use olm_runtime::{NamespacedName, store::Change};

use crate::{csv_sketch::Sketch, mislabelled_csv::is_mislabelled};

/// Returns the key of an object for which `is_mislabelled` is true, when it appears or changes.
pub(crate) fn by_sketch(change: &Change<Sketch>) -> Option<NamespacedName> {
    match change {
        Change::Applied { new, .. } => is_mislabelled(new).then(|| new.key()),
        Change::Deleted { .. } => None,
    }
}
