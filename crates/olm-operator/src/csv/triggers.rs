//! Maps changed objects to ClusterServiceVersions to reconcile. No I/O.
//!
//! The handles are the store's snapshots; a listener passes the ones it needs.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Namespace},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Resource, ResourceExt, core::PartialObjectMeta};
use olm_api::{
    api_key::{ApiSet, provided_apis},
    labels,
    names::service_name,
    v1::OperatorGroup,
    v1alpha1::{ClusterServiceVersion, Subscription},
    v2::OperatorCondition,
};
use olm_runtime::{NamespacedName, store::Change};

use crate::{csv::observe::accounts::AccountSketch, operator_group, owner, stores::CustomResourceDefinition};

pub(crate) type Keys = BTreeSet<NamespacedName>;

type Csvs = [Arc<ClusterServiceVersion>];

fn key(csv: &ClusterServiceVersion) -> NamespacedName {
    NamespacedName::from_object(csv)
}

fn select(csvs: &Csvs, test: impl Fn(&ClusterServiceVersion) -> bool) -> Keys {
    csvs.iter().filter(|csv| test(csv)).map(|csv| key(csv)).collect()
}

/// Returns the ClusterServiceVersion itself. If its phase, chain, Deployments or existence changed, also its
/// predecessor and successors, and those that share one of its CustomResourceDefinitions, Deployments or
/// Services.
pub(crate) fn by_csv(change: &Change<ClusterServiceVersion>, in_namespace: &Csvs) -> Keys {
    let own = change.object();
    let mut keys = Keys::from([key(own)]);
    if let Change::Applied { old: Some(old), new } = change
        && old.phase() == new.phase()
        && old.spec.replaces == new.spec.replaces
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && owned_crds(old).eq(owned_crds(new))
        && deployments(old).eq(deployments(new))
    {
        return keys;
    }
    let name = own.name_any();
    let owned: BTreeSet<&str> = change.versions().flat_map(|csv| owned_crds(csv)).collect();
    let deployed: BTreeSet<String> = change.versions().flat_map(|csv| services(csv)).collect();
    keys.extend(select(in_namespace, |csv| {
        csv.spec.replaces() == Some(name.as_str())
            || change
                .versions()
                .any(|version| version.spec.replaces() == Some(csv.name_any().as_str()))
            || owned_crds(csv).any(|crd| owned.contains(crd))
            || services(csv).any(|name| deployed.contains(&name))
    }));
    keys
}

fn owned_crds(csv: &ClusterServiceVersion) -> impl Iterator<Item = &str> {
    csv.spec.owned_crds().iter().map(|crd| crd.name.as_str())
}

fn deployments(csv: &ClusterServiceVersion) -> impl Iterator<Item = &str> {
    csv.spec
        .install
        .deployments()
        .iter()
        .map(|entry| entry.name.as_str())
}

/// Returns the names of the Services of its Deployments; two Deployments may have the same.
fn services(csv: &ClusterServiceVersion) -> impl Iterator<Item = String> {
    deployments(csv).map(service_name)
}

/// Returns the ClusterServiceVersions for a changed object: those in its owner references and owner labels,
/// before or now. If these name a copy, the label with the copy's origin names the original.
pub(crate) fn by_owned<K: Resource>(change: &Change<K>) -> Keys {
    let mut keys = Keys::new();
    for version in change.versions() {
        let metadata = version.meta();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        keys.extend(
            owner::references(metadata).map(|owner| NamespacedName::new(namespace.as_str(), &owner.name)),
        );
        let labelled = owner::labelled(metadata);
        if let Some(owner) = &labelled
            && let Some(origin) = metadata
                .labels
                .iter()
                .find_map(|all| all.get(labels::COPIED_FROM))
        {
            keys.insert(NamespacedName::new(origin, &owner.name));
        }
        keys.extend(labelled);
    }
    keys
}

/// Returns the ClusterServiceVersions a Deployment was made for and, when it is deleted, those that wait for
/// its name.
pub(crate) fn by_deployment(change: &Change<Deployment>, in_namespace: &Csvs) -> Keys {
    let mut keys = by_owned(change);
    let stays = change.object().metadata.deletion_timestamp.is_none();
    if matches!(change, Change::Applied { .. }) && stays {
        return keys;
    }
    let name = change.object().name_any();
    keys.extend(select(in_namespace, |csv| {
        deployments(csv).any(|named| named == name)
    }));
    keys
}

/// Returns those that grant rights to a ServiceAccount.
pub(crate) fn by_account(change: &Change<AccountSketch>, in_namespace: &Csvs) -> Keys {
    let name = change.object().name();
    select(in_namespace, |csv| accounts(csv).any(|named| named == name))
}

fn accounts(csv: &ClusterServiceVersion) -> impl Iterator<Item = &str> {
    let install = &csv.spec.install;
    let permissions = install.permissions().iter().chain(install.cluster_permissions());
    permissions.map(|permission| permission.service_account_name.as_str())
}

/// Returns those that own or need a CustomResourceDefinition, in all namespaces.
pub(crate) fn by_crd(change: &Change<CustomResourceDefinition>, csvs: &Csvs) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.spec == new.spec
        && old.status == new.status
        && old.metadata.annotations == new.metadata.annotations
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    let name = change.object().name_any();
    select(csvs, |csv| {
        let mut named = csv.spec.owned_crds().iter().chain(csv.spec.required_crds());
        named.any(|crd| crd.name == name)
    })
}

/// Returns those that need or serve an APIService, in all namespaces, and its former and current owner.
pub(crate) fn by_api_service(change: &Change<APIService>, csvs: &Csvs) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.status == new.status
        && old.spec == new.spec
        && old.metadata.labels == new.metadata.labels
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    let name = change.object().name_any();
    let mut keys = by_owned(change);
    keys.extend(select(csvs, |csv| {
        let spec = &csv.spec;
        let mut named = spec
            .required_api_services()
            .iter()
            .chain(spec.owned_api_services());
        named.any(|service| service.api_service_name() == name)
    }));
    keys
}

/// Returns the successors of the ClusterServiceVersion that an OperatorCondition belongs to; that one itself
/// is not affected.
pub(crate) fn by_condition(change: &Change<OperatorCondition>, in_namespace: &Csvs) -> Keys {
    let name = change.object().name_any();
    select(in_namespace, |csv| csv.spec.replaces() == Some(name.as_str()))
}

/// Returns the ClusterServiceVersions of a Subscription whose configuration or installed version changed.
pub(crate) fn by_subscription(change: &Change<Subscription>) -> Keys {
    let named = |subscription: &Subscription| {
        let status = subscription.status.clone().unwrap_or_default();
        [status.installed_csv, status.current_csv]
    };
    if let Change::Applied { old: Some(old), new } = change
        && old.spec.config == new.spec.config
        && named(old) == named(new)
    {
        return Keys::new();
    }
    let namespace = change.object().namespace().unwrap_or_default();
    let names = change.versions().flat_map(|version| named(version)).flatten();
    names
        .map(|name| NamespacedName::new(namespace.as_str(), name))
        .collect()
}

/// Returns the members of an OperatorGroup, and the providers of an API that it lists or listed.
pub(crate) fn by_group(change: &Change<OperatorGroup>, csvs: &Csvs) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.spec == new.spec
        && old.metadata.annotations == new.metadata.annotations
        && targets(old).eq(targets(new))
        && account(old) == account(new)
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    let namespace = change.object().namespace();
    let listed: ApiSet = change
        .versions()
        .flat_map(|group| operator_group::provided_apis(group))
        .collect();
    select(csvs, |csv| {
        csv.namespace() == namespace
            || provided_apis(&csv.spec).is_ok_and(|provided| !provided.is_disjoint(&listed))
    })
}

/// Returns the members of the groups that target a namespace which was created, deleted or is being deleted.
pub(crate) fn by_namespace(
    change: &Change<PartialObjectMeta<Namespace>>,
    groups: &[Arc<OperatorGroup>],
    csvs: &Csvs,
) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    let name = change.object().name_any();
    let concerned: BTreeSet<Option<String>> = groups
        .iter()
        .filter(|group| targets(group).any(|target| *target == name))
        .map(|group| group.namespace())
        .collect();
    select(csvs, |csv| concerned.contains(&csv.namespace()))
}

fn account(group: &OperatorGroup) -> Option<&String> {
    let reference = group.status.as_ref()?.service_account_ref.as_ref()?;
    reference.name.as_ref()
}

fn targets(group: &OperatorGroup) -> impl Iterator<Item = &String> {
    group.status.iter().flat_map(|status| status.namespaces.iter())
}
