//! Service, ServiceAccount and NetworkPolicies of a catalog, and the names and labels they share with its
//! pod.
//!
//! Rules: `docs/reference/catalogs.md`. All are pure functions of the CatalogSource.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LocalObjectReference, Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use olm_api::v1alpha1::{API_VERSION, CatalogSource};
use olm_api::{hash, labels};
use serde::Serialize;

use super::source::is_of_config_map;

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
        api_version: API_VERSION.to_owned(),
        kind: "CatalogSource".to_owned(),
        name: name(source),
        uid: source.metadata.uid.clone().unwrap_or_default(),
        controller: Some(controller),
        block_owner_deletion: Some(blocking),
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
    let secrets: Vec<_> = pull_secrets(source)
        .into_iter()
        .map(|name| LocalObjectReference {
            name: name.to_owned(),
        })
        .collect();
    let (ownership, automount) = if is_of_config_map(source) {
        (Ownership::Plain, Some(false))
    } else {
        (Ownership::ControllerAndBlocking, None)
    };
    ServiceAccount {
        metadata: metadata(source, service_account_name(source), ownership),
        automount_service_account_token: automount,
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
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
    Service {
        metadata,
        spec: Some(ServiceSpec {
            ports: Some(vec![ServicePort {
                name: Some("grpc".to_owned()),
                port: GRPC_PORT,
                // Explicit, because it is part of the key by which the server merges ports.
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::Int(GRPC_PORT)),
                ..ServicePort::default()
            }]),
            selector: Some(catalog_labels(source)),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Hash of the part of the Service spec that upstream hashes, in the field order of its Go struct. So a
/// Service of upstream's is recognised and kept.
fn service_hash(source: &CatalogSource) -> String {
    #[derive(Serialize)]
    struct HashedPort {
        name: &'static str,
        port: i32,
        #[serde(rename = "targetPort")]
        target_port: i32,
    }
    #[derive(Serialize)]
    struct HashedSpec {
        ports: [HashedPort; 1],
        selector: BTreeMap<String, String>,
    }
    let hashed = HashedSpec {
        ports: [HashedPort {
            name: "grpc",
            port: GRPC_PORT,
            target_port: GRPC_PORT,
        }],
        selector: catalog_labels(source),
    };
    // Plain structs always serialize.
    hash::hash_with_newline(&hashed).unwrap_or_default()
}

/// Policy of the catalog's pods: anyone may call the registry port, and the pods have no egress. A pod that
/// looks for newer content is not in the Service, and its catalog label is empty. Those of other catalogs in
/// the namespace have the same policy.
pub(crate) fn build_server_policy(source: &CatalogSource) -> NetworkPolicy {
    policy(
        source,
        SERVER_POLICY_SUFFIX,
        NetworkPolicySpec {
            pod_selector: Some(pod_selector(source)),
            policy_types: Some(both_directions()),
            ingress: Some(vec![NetworkPolicyIngressRule {
                ports: Some(vec![policy_port(GRPC_PORT, "TCP")]),
                from: None,
            }]),
            // Explicit, not absent, so that an apply removes a rule that others added.
            egress: Some(Vec::new()),
        },
    )
}

fn pod_selector(source: &CatalogSource) -> LabelSelector {
    let mut labels = catalog_labels(source);
    let strategy = source.spec.update_strategy.as_ref();
    if strategy.is_none_or(|strategy| strategy.registry_poll.is_none()) {
        return LabelSelector {
            match_labels: Some(labels),
            match_expressions: None,
        };
    }
    labels.remove(labels::CATALOG_SOURCE);
    LabelSelector {
        match_labels: Some(labels),
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: labels::CATALOG_SOURCE.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![name(source), String::new()]),
        }]),
    }
}

/// Policy of bundle unpack pods: no ingress, and unrestricted egress.
pub(crate) fn build_unpack_policy(source: &CatalogSource) -> NetworkPolicy {
    let dns = [(53, "TCP"), (53, "UDP"), (5353, "TCP"), (5353, "UDP")];
    policy(
        source,
        UNPACK_POLICY_SUFFIX,
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: None,
                match_expressions: Some(vec![
                    LabelSelectorRequirement {
                        key: labels::BUNDLE_UNPACK_REF.to_owned(),
                        operator: "Exists".to_owned(),
                        values: None,
                    },
                    LabelSelectorRequirement {
                        key: labels::MANAGED.to_owned(),
                        operator: "In".to_owned(),
                        values: Some(vec![labels::TRUE.to_owned()]),
                    },
                ]),
            }),
            policy_types: Some(both_directions()),
            ingress: Some(Vec::new()),
            egress: Some(vec![
                NetworkPolicyEgressRule::default(),
                NetworkPolicyEgressRule {
                    ports: Some(dns.map(|(port, protocol)| policy_port(port, protocol)).to_vec()),
                    to: None,
                },
            ]),
        },
    )
}

fn policy(source: &CatalogSource, suffix: &str, spec: NetworkPolicySpec) -> NetworkPolicy {
    let mut metadata = metadata(source, format!("{}-{suffix}", name(source)), Ownership::Plain);
    metadata.labels = Some(catalog_labels(source));
    NetworkPolicy {
        metadata,
        spec: Some(spec),
    }
}

fn both_directions() -> Vec<String> {
    vec!["Ingress".to_owned(), "Egress".to_owned()]
}

fn policy_port(port: i32, protocol: &str) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(port)),
        protocol: Some(protocol.to_owned()),
        end_port: None,
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
