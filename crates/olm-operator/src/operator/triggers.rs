//! Changed object → Operators to look at again. Pure.

use std::{collections::BTreeSet, time::Duration};

use kube::Resource;
use olm_runtime::{NamespacedName, store::Change};

use crate::{component, operator_sketch::OperatorSketch};

/// How long changes of components are gathered: an install makes a dozen of them, each of which changes several times.
const GATHER: Duration = Duration::from_secs(1);

/// How long to wait for more changes. One that is not there is made at once, so that it is there before its plan is complete. One
/// that a user made is no install's, and each of its changes is told as it comes, as upstream does.
pub(crate) fn gather(operator: Option<&OperatorSketch>) -> Duration {
    match operator {
        Some(operator) if operator.is_ours => GATHER,
        Some(_) | None => Duration::ZERO,
    }
}

/// A component: the Operators it belongs to or belonged to, of those that are there or that it brings into being. Of others
/// nobody need hear: whatever brings one into being wakes it, and the index has what bore its label before.
pub(crate) fn by_component<K: Resource>(
    change: &Change<K>,
    founded: fn(&K) -> Option<String>,
    is_there: impl Fn(&NamespacedName) -> bool,
) -> BTreeSet<NamespacedName> {
    let mut found = BTreeSet::new();
    for version in change.versions() {
        let names = component::operators_of(version.meta()).map(NamespacedName::cluster);
        found.extend(names.filter(&is_there));
        found.extend(founded(version).map(NamespacedName::cluster));
    }
    found
}

/// An Operator itself.
pub(crate) fn by_operator(change: &Change<OperatorSketch>) -> NamespacedName {
    change.object().key()
}
