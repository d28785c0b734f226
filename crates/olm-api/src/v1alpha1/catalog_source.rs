//! CatalogSource: a catalog of operators and its connection.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Icon;
use crate::Extra;
use crate::decode::{or_default, text_or_number};
use crate::embedded::Embedded;
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Source of a catalog.
    pub enum SourceType {
        /// A registry server: a pod that OLM runs from an image, or an address.
        Grpc = "grpc",
        /// A ConfigMap.
        ConfigMap = "configmap",
        /// Older name of `configmap`.
        Internal = "internal",
    }
}

open_enum! {
    /// Security context of a catalog pod.
    pub enum SecurityContextConfig {
        /// No security context, for images that need to run as root.
        Legacy = "legacy",
        /// Security context that the restricted pod security level admits.
        Restricted = "restricted",
    }
}

/// Where the catalog comes from and how its pod is set up.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "CatalogSource",
    plural = "catalogsources",
    singular = "catalogsource",
    shortname = "catsrc",
    category = "olm",
    namespaced,
    status = "CatalogSourceStatus",
    derive = "Default",
    derive = "PartialEq",
    schema = "disabled",
    doc = "A catalog of operators that Subscriptions of its namespace, or of every namespace for a global catalog, can use.",
    crates(kube_core = "kube_core"),
    printcolumn = r#"{"name":"Display","type":"string","description":"The name of the catalog for people","jsonPath":".spec.displayName"}"#,
    printcolumn = r#"{"name":"Type","type":"string","description":"How the catalog is served","jsonPath":".spec.sourceType"}"#,
    printcolumn = r#"{"name":"Publisher","type":"string","description":"Who publishes the catalog","jsonPath":".spec.publisher"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogSourceSpec {
    /// How the catalog is served: grpc, configmap, or internal, an old word for configmap.
    #[serde(deserialize_with = "or_default")]
    pub source_type: SourceType,
    /// Rank among catalogs that offer the same package; the higher number wins, then the name decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::integer")]
    pub priority: Option<i64>,
    /// Image of the catalog; a pod that serves it is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Host and port of a server that serves the catalog already. It takes precedence over the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Name of the ConfigMap with the catalog, for the type configmap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<String>,
    /// Names of Secrets of the same namespace for pulling images.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub secrets: List<String>,
    /// How newer content behind the image's tag is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Changes to the pod that serves the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_pod_config: Option<GrpcPodConfig>,
    /// Name of the catalog for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the catalog offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who publishes the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Picture of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<Icon>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How newer content is found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// Looks for another digest behind the image's tag in intervals. Nothing is polled without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_poll: Option<RegistryPoll>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Polling of the image's registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryPoll {
    /// Time between two looks, for example 30m or 1h30m; 15m when it cannot be understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Changes to the pod that serves a catalog image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcPodConfig {
    /// Labels a node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations of the pod.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub tolerations: List<Embedded<Toleration>>,
    /// Affinity of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Embedded<Affinity>>,
    /// PriorityClass of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Security context of the pod: legacy for images that have to run as root, restricted for all others. When not
    /// set, the pod security level of the namespace decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["legacy", "restricted"]))]
    pub security_context_config: Option<SecurityContextConfig>,
    /// Memory the pod requests and tries to stay below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_target: Option<Embedded<Quantity>>,
    /// Copies the catalog out of the image and serves it by our own server, instead of running the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract_content: Option<ExtractContentConfig>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Where an image keeps its catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtractContentConfig {
    /// Folder of the ready-made cache in the image, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_dir: Option<String>,
    /// Folder of the file-based catalog in the image.
    #[serde(deserialize_with = "or_default")]
    pub catalog_dir: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Whether the catalog can be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogSourceStatus {
    /// What is wrong with the catalog, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is wrong with the catalog, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the registry was last asked for newer content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_image_registry_poll: Option<Time>,
    /// The ConfigMap the catalog is served from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_reference: Option<ConfigMapResourceReference>,
    /// The Service in front of the catalog's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_service: Option<RegistryServiceStatus>,
    /// The connection to the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<GrpcConnectionState>,
    /// Statements about the catalog.
    #[serde(skip_serializing_if = "List::is_absent")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: List<Condition>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A ConfigMap at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapResourceReference {
    /// Name of the ConfigMap.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Namespace of the ConfigMap.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Uid of the ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Version of the ConfigMap that is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// When that version was first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The Service in front of a catalog's pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryServiceStatus {
    /// Protocol, always grpc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Name of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Namespace of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_namespace: Option<String>,
    /// Port of the Service.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text_or_number")]
    pub port: Option<String>,
    /// When the Service was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The connection to a catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcConnectionState {
    /// Host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// IDLE, CONNECTING, READY, TRANSIENT_FAILURE or SHUTDOWN.
    #[serde(deserialize_with = "or_default")]
    pub last_observed_state: String,
    /// When the state last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_connect: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
