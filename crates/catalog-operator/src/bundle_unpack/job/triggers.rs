//! Maps changed objects to keys of unpack Jobs. No I/O.

use std::collections::BTreeSet;

use kube::Resource;
use olm_runtime::NamespacedName;
use olm_runtime::store::{Change, Projected, Projection};

use super::is_name;
use crate::stores::unpacks::{OfUnpack, unpack_of};

/// Returns the key in the label of a Job or a pod.
pub(crate) fn named_by_label<P: OfUnpack + Projection>(
    change: &Change<Projected<P>>,
) -> BTreeSet<NamespacedName> {
    let keys = change.versions().filter_map(|object| unpack_of(object));
    keys.collect()
}

/// Returns the key of an account, Role or RoleBinding: it has the name of the ConfigMap that owns it.
pub(crate) fn named_as_owner<K: Resource>(change: &Change<K>) -> BTreeSet<NamespacedName> {
    let keys = change.versions().filter_map(|object| {
        let meta = object.meta();
        let name = meta.name.as_ref().filter(|name| is_name(name))?;
        let mut owners = meta.owner_references.iter().flatten();
        owners
            .any(|owner| owner.kind == "ConfigMap" && owner.name == *name)
            .then(|| NamespacedName::new(meta.namespace.clone().unwrap_or_default(), name.clone()))
    });
    keys.collect()
}
