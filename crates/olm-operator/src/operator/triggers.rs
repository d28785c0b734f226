//! Maps changed objects to Operators to reconcile. No I/O.

use std::{collections::BTreeSet, time::Duration};

use kube::Resource;
use olm_runtime::{NamespacedName, store::Change};

use crate::{component, operator_sketch::OperatorSketch};

/// Delay in which changes of components are collected. An install creates a dozen of them, and each changes
/// several times.
pub(crate) const GATHER: Duration = Duration::from_secs(2);

/// Returns the delay before a reconcile. A missing Operator is created at once, so that it exists before its
/// InstallPlan is complete. An Operator that a user created belongs to no install, so each change is reported
/// at once, as upstream does.
pub(crate) fn gather(operator: Option<&OperatorSketch>) -> Duration {
    match operator {
        Some(operator) if operator.is_ours => GATHER,
        Some(_) | None => Duration::ZERO,
    }
}

/// Returns the Operators of a component, before or now, if they exist or if the component requires them.
/// Others need no trigger: the object that requires one triggers it, and the index has the earlier
/// components.
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
