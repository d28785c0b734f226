//! Changed object → Operators to look at again. Pure.

use std::{collections::BTreeSet, time::Duration};

use kube::Resource;
use olm_runtime::{NamespacedName, store::Change};

use crate::{component, operator_sketch::OperatorSketch};

/// How long changes of components are gathered: an install makes a dozen of them, each of which changes several times.
pub(crate) const GATHER: Duration = Duration::from_secs(1);

/// A component: the Operators it belongs to or belonged to.
pub(crate) fn by_component<K: Resource>(change: &Change<K>) -> BTreeSet<NamespacedName> {
    let versions = change.versions();
    let names = versions.flat_map(|version| component::operators_of(version.meta()));
    names.map(NamespacedName::cluster).collect()
}

/// An Operator itself.
pub(crate) fn by_operator(change: &Change<OperatorSketch>) -> NamespacedName {
    change.object().key().clone()
}
