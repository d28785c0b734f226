//! Service, ServiceAccount and NetworkPolicies of a catalog, and the names and labels they share with its
//! pod.
//!
//! Rules: `docs/reference/catalogs.md`. All are pure functions of the CatalogSource.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LocalObjectReference, Service, ServiceAccount, ServicePort};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use olm_api::v1alpha1::CatalogSource;
use olm_api::{hash, labels};
use serde_json::{Value, json};

use super::source::is_of_config_map;
use crate::object::typed;

/// Suffix of the policy for the catalog's pods.
pub(crate) const SERVER_POLICY_SUFFIX: &str = "grpc-server";
/// Suffix of the policy for unpack pods.
pub(crate) const UNPACK_POLICY_SUFFIX: &str = "unpack-bundles";
/// Port every catalog image serves on.
pub(crate) const GRPC_PORT: i32 = 50051;

/// Flags of an owner reference to a CatalogSource, as upstream sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Neither controller nor blocking.
    Plain,
    /// Controller, not blocking.
    ControllerOnly,
    /// Controller and blocking.
    ControllerAndBlocking,
}

pub(crate) fn owner_reference(source: &CatalogSource, ownership: Ownership) -> OwnerReference {
    let (controller, blocking) = match ownership {
        Ownership::Plain => (false, false),
        Ownership::ControllerOnly => (true, false),
        Ownership::ControllerAndBlocking => (true, true),
    };
    OwnerReference {
        controller: Some(controller),
        block_owner_deletion: Some(blocking),
        ..source.owner_ref(&()).unwrap_or_default()
    }
}

pub(crate) fn name(source: &CatalogSource) -> String {
    source.metadata.name.clone().unwrap_or_default()
}

/// Labels that the catalog's pods, Service selector and policies share.
pub(crate) fn catalog_labels(source: &CatalogSource) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::CATALOG_SOURCE.to_owned(), name(source)),
        (labels::MANAGED.to_owned(), labels::TRUE.to_owned()),
    ])
}

/// Names of the pull secrets, without empty entries. They are for the catalog's image, so a ConfigMap source
/// has none.
pub(crate) fn pull_secrets(source: &CatalogSource) -> Vec<&str> {
    if is_of_config_map(source) {
        return Vec::new();
    }
    let secrets = source.spec.secrets.iter();
    secrets
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect()
}

/// The pull secrets as references; `None` for none.
pub(crate) fn pull_secret_references(source: &CatalogSource) -> Option<Vec<LocalObjectReference>> {
    let reference = |name: &str| LocalObjectReference {
        name: name.to_owned(),
    };
    let secrets: Vec<_> = pull_secrets(source).into_iter().map(reference).collect();
    (!secrets.is_empty()).then_some(secrets)
}

/// Name of the ServiceAccount of the catalog's pod.
pub(crate) fn service_account_name(source: &CatalogSource) -> String {
    let name = name(source);
    if is_of_config_map(source) {
        format!("{name}-configmap-server")
    } else {
        name
    }
}

/// Name of the catalog's Service. Dots of the CatalogSource's name are not allowed in it.
pub(crate) fn service_name(source: &CatalogSource) -> String {
    name(source).replace('.', "-")
}

fn metadata(source: &CatalogSource, name: String, ownership: Ownership) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: source.metadata.namespace.clone(),
        labels: Some(BTreeMap::from([(
            labels::MANAGED.to_owned(),
            labels::TRUE.to_owned(),
        )])),
        owner_references: Some(vec![owner_reference(source, ownership)]),
        ..ObjectMeta::default()
    }
}

/// ServiceAccount of the catalog's pod.
pub(crate) fn build_service_account(source: &CatalogSource) -> ServiceAccount {
    let (ownership, automount) = if is_of_config_map(source) {
        (Ownership::Plain, Some(false))
    } else {
        (Ownership::ControllerAndBlocking, None)
    };
    ServiceAccount {
        metadata: metadata(source, service_account_name(source), ownership),
        automount_service_account_token: automount,
        image_pull_secrets: pull_secret_references(source),
        ..ServiceAccount::default()
    }
}

/// Service in front of the catalog's pods.
pub(crate) fn build_service(source: &CatalogSource) -> Service {
    let mut metadata = metadata(source, service_name(source), Ownership::Plain);
    metadata
        .labels
        .get_or_insert_default()
        .insert(labels::SERVICE_SPEC_HASH.to_owned(), service_hash(source));
    // The protocol is explicit, because it is part of the key by which the server merges ports.
    let spec = json!({
        "ports": [{"name": "grpc", "port": GRPC_PORT, "protocol": "TCP", "targetPort": GRPC_PORT}],
        "selector": catalog_labels(source),
    });
    Service {
        metadata,
        spec: typed(spec),
        status: None,
    }
}

/// Hash of the part of the Service spec that upstream hashes, in the field order of its Go struct, which is that of
/// the alphabet. So a Service of upstream's is recognised and kept.
fn service_hash(source: &CatalogSource) -> String {
    let hashed = json!({
        "ports": [{"name": "grpc", "port": GRPC_PORT, "targetPort": GRPC_PORT}],
        "selector": catalog_labels(source),
    });
    // Plain values always serialize.
    hash::hash_with_newline(&hashed).unwrap_or_default()
}

/// Policy of the catalog's pods: anyone may call the registry port, and the pods have no egress. A pod that
/// looks for newer content is not in the Service, and its catalog label is empty. Those of other catalogs in
/// the namespace have the same policy.
pub(crate) fn build_server_policy(source: &CatalogSource) -> NetworkPolicy {
    // The egress is explicit, not absent, so that an apply removes a rule that others added.
    let spec = json!({
        "podSelector": pod_selector(source),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": GRPC_PORT, "protocol": "TCP"}]}],
        "egress": [],
    });
    policy(source, SERVER_POLICY_SUFFIX, spec)
}

fn pod_selector(source: &CatalogSource) -> Value {
    let mut labels = catalog_labels(source);
    let strategy = source.spec.update_strategy.as_ref();
    if strategy.is_none_or(|strategy| strategy.registry_poll.is_none()) {
        return json!({"matchLabels": labels});
    }
    labels.remove(labels::CATALOG_SOURCE);
    let values = [name(source), String::new()];
    json!({
        "matchLabels": labels,
        "matchExpressions": [{"key": labels::CATALOG_SOURCE, "operator": "In", "values": values}],
    })
}

/// Policy of bundle unpack pods: no ingress, and unrestricted egress.
pub(crate) fn build_unpack_policy(source: &CatalogSource) -> NetworkPolicy {
    let dns = [(53, "TCP"), (53, "UDP"), (5353, "TCP"), (5353, "UDP")];
    let dns = dns.map(|(port, protocol)| json!({"port": port, "protocol": protocol}));
    let spec = json!({
        "podSelector": {"matchExpressions": [
            {"key": labels::BUNDLE_UNPACK_REF, "operator": "Exists"},
            {"key": labels::MANAGED, "operator": "In", "values": [labels::TRUE]},
        ]},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [],
        "egress": [{}, {"ports": dns}],
    });
    policy(source, UNPACK_POLICY_SUFFIX, spec)
}

fn policy(source: &CatalogSource, suffix: &str, spec: Value) -> NetworkPolicy {
    let mut metadata = metadata(source, format!("{}-{suffix}", name(source)), Ownership::Plain);
    metadata.labels = Some(catalog_labels(source));
    NetworkPolicy {
        metadata,
        spec: typed(spec),
    }
}

/// True when the policy matches the wanted one.
pub(crate) fn same_policy(live: &NetworkPolicy, wanted: &NetworkPolicy) -> bool {
    let (Some(live), Some(wanted)) = (&live.spec, &wanted.spec) else {
        return false;
    };
    live.pod_selector == wanted.pod_selector
        && live.policy_types == wanted.policy_types
        // The server drops empty lists.
        && live.ingress.as_deref().unwrap_or_default() == wanted.ingress.as_deref().unwrap_or_default()
        && live.egress.as_deref().unwrap_or_default() == wanted.egress.as_deref().unwrap_or_default()
}

/// True when the Service matches the wanted one. Additional ports of others are allowed; the server treats
/// the selector as one value.
pub(crate) fn same_service(live: &Service, wanted: &Service) -> bool {
    let (Some(live), Some(wanted)) = (&live.spec, &wanted.spec) else {
        return false;
    };
    let served = |port: &ServicePort| {
        live.ports.iter().flatten().any(|other| {
            other.port == port.port && other.name == port.name && other.target_port == port.target_port
        })
    };
    live.selector == wanted.selector && wanted.ports.iter().flatten().all(served)
}
