//! Maps changed objects to APIServices and webhook configurations whose owner may have been deleted. No I/O.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_runtime::store::Change;

use crate::{
    csv_sketch::Sketch,
    orphaned_caller::{CallerKey, CallerKind},
    owner,
};

/// Returns the key of an object with owner labels.
pub(crate) fn by_caller<K: Resource<DynamicType = ()>>(
    kind: CallerKind,
    change: &Change<K>,
) -> Option<CallerKey> {
    match change {
        Change::Applied { new, .. } => owner::labelled(new.meta()).map(|_| CallerKey {
            kind,
            name: new.name_any(),
        }),
        Change::Deleted { .. } => None,
    }
}

/// Returns the objects that name a deleted ClusterServiceVersion, original or copy.
pub(crate) fn by_csv<K: Resource<DynamicType = ()>>(
    change: &Change<Sketch>,
    kind: CallerKind,
    all: &[Arc<K>],
) -> Vec<CallerKey> {
    let Change::Deleted { old } = change else {
        return Vec::new();
    };
    let own = all
        .iter()
        .filter(|found| owner::is_labelled(found.meta(), old.namespace(), old.name()));
    own.map(|found| CallerKey {
        kind,
        name: found.name_any(),
    })
    .collect()
}
