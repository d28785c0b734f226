//! Maps changed objects to OperatorGroups to reconcile. No I/O.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, core::PartialObjectMeta};
use olm_api::{v1::OperatorGroup, v1alpha1::ClusterServiceVersion};
use olm_runtime::{NamespacedName, store::Change};

use crate::{csv::observe::accounts::AccountSketch, operator_group::observe::Member};

/// Returns the group itself and the others of its namespace, because their number affects a condition.
pub(crate) fn by_group(
    change: &Change<OperatorGroup>,
    in_namespace: &[Arc<OperatorGroup>],
) -> BTreeSet<NamespacedName> {
    let others = in_namespace
        .iter()
        .map(|group| NamespacedName::from_object(group.as_ref()));
    let came_or_went = change.versions().count() == 1;
    let own = NamespacedName::from_object(change.object().as_ref());
    others.filter(|_| came_or_went).chain([own]).collect()
}

/// Returns every group that selects by labels, for a namespace that is created, deleted or relabelled.
pub(crate) fn by_namespace(
    change: &Change<PartialObjectMeta<Namespace>>,
    groups: &[Arc<OperatorGroup>],
) -> BTreeSet<NamespacedName> {
    if let Change::Applied { old: Some(old), new } = change
        && old.labels() == new.labels()
    {
        return BTreeSet::new();
    }
    let by_labels = groups
        .iter()
        .filter(|group| group.spec.target_namespaces.is_empty() && group.spec.selector.is_some());
    NamespacedName::of_all(by_labels)
}

/// Returns the groups of the namespace of a ClusterServiceVersion whose APIs, phase or existence changed.
pub(crate) fn by_csv(
    change: &Change<ClusterServiceVersion>,
    in_namespace: &[Arc<OperatorGroup>],
) -> BTreeSet<NamespacedName> {
    if let Change::Applied { old: Some(old), new } = change
        && Member::read(old) == Member::read(new)
    {
        return BTreeSet::new();
    }
    NamespacedName::of_all(in_namespace)
}

/// Returns the groups that name this ServiceAccount.
pub(crate) fn by_account(
    change: &Change<AccountSketch>,
    in_namespace: &[Arc<OperatorGroup>],
) -> BTreeSet<NamespacedName> {
    let name = Some(change.object().name());
    let concerned = in_namespace
        .iter()
        .filter(|group| group.spec.service_account() == name);
    NamespacedName::of_all(concerned)
}
