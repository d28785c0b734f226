//! CatalogSource: a catalog of operators and its connection.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::Icon;
use crate::api_type::{api_kind, api_type};
use crate::decode::text_or_number;
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

api_kind! {
    /// Where the catalog comes from and how its pod is set up.
    #[kube(
        group = "operators.coreos.com",
        version = "v1alpha1",
        kind = "CatalogSource",
        plural = "catalogsources",
        namespaced,
        status = "CatalogSourceStatus",
        doc = "A catalog of operators that Subscriptions of its namespace, or of every namespace for a global catalog, can use."
    )]
    pub struct CatalogSourceSpec {
        /// How the catalog is served: grpc, configmap, or internal, an old word for configmap.
        pub source_type: SourceType,
        /// Rank among catalogs that offer the same package; the higher number wins, then the name decides.
        pub priority: Option<i64>,
        /// Image of the catalog; a pod that serves it is run.
        pub image: Option<String>,
        /// Host and port of a server that serves the catalog already. It takes precedence over the image.
        pub address: Option<String>,
        /// Name of the ConfigMap with the catalog, for the type configmap.
        pub config_map: Option<String>,
        /// Names of Secrets of the same namespace for pulling images.
        pub secrets: List<String>,
        /// How newer content behind the image's tag is found.
        pub update_strategy: Option<UpdateStrategy>,
        /// Changes to the pod that serves the image.
        pub grpc_pod_config: Option<GrpcPodConfig>,
        /// Name of the catalog for people.
        pub display_name: Option<String>,
        /// What the catalog offers.
        pub description: Option<String>,
        /// Who publishes the catalog.
        pub publisher: Option<String>,
        /// Picture of the catalog.
        pub icon: Option<Icon>,
    }
}

api_type! {
    /// How newer content is found.
    pub struct UpdateStrategy {
        /// Looks for another digest behind the image's tag in intervals. Nothing is polled without it.
        pub registry_poll: Option<RegistryPoll>,
    }
}

api_type! {
    /// Polling of the image's registry.
    pub struct RegistryPoll {
        /// Time between two looks, for example 30m or 1h30m; 15m when it cannot be understood.
        pub interval: Option<String>,
    }
}

api_type! {
    /// Changes to the pod that serves a catalog image.
    pub struct GrpcPodConfig {
        /// Labels a node must have.
        pub node_selector: Option<BTreeMap<String, String>>,
        /// Tolerations of the pod.
        pub tolerations: List<Embedded<Toleration>>,
        /// Affinity of the pod.
        pub affinity: Option<Embedded<Affinity>>,
        /// PriorityClass of the pod.
        pub priority_class_name: Option<String>,
        /// Security context of the pod: legacy for images that have to run as root, restricted for all others. When not
        /// set, the pod security level of the namespace decides.
        pub security_context_config: Option<SecurityContextConfig>,
        /// Memory the pod requests and tries to stay below.
        pub memory_target: Option<Embedded<Quantity>>,
        /// Copies the catalog out of the image and serves it by our own server, instead of running the image's.
        pub extract_content: Option<ExtractContentConfig>,
    }
}

api_type! {
    /// Where an image keeps its catalog.
    pub struct ExtractContentConfig {
        /// Folder of the ready-made cache in the image, if it has one.
        pub cache_dir: Option<String>,
        /// Folder of the file-based catalog in the image.
        pub catalog_dir: String,
    }
}

api_type! {
    /// Whether the catalog can be used.
    pub struct CatalogSourceStatus {
        /// What is wrong with the catalog, in one word.
        pub reason: Option<String>,
        /// What is wrong with the catalog, for people.
        pub message: Option<String>,
        /// When the registry was last asked for newer content.
        pub latest_image_registry_poll: Option<Time>,
        /// The ConfigMap the catalog is served from.
        pub config_map_reference: Option<ConfigMapResourceReference>,
        /// The Service in front of the catalog's pod.
        pub registry_service: Option<RegistryServiceStatus>,
        /// The connection to the catalog.
        pub connection_state: Option<GrpcConnectionState>,
        /// Statements about the catalog.
        pub conditions: List<Condition>,
    }
}

api_type! {
    /// A ConfigMap at one point in time.
    pub struct ConfigMapResourceReference {
        /// Name of the ConfigMap.
        pub name: String,
        /// Namespace of the ConfigMap.
        pub namespace: String,
        /// Uid of the ConfigMap.
        pub uid: Option<String>,
        /// Version of the ConfigMap that is served.
        pub resource_version: Option<String>,
        /// When that version was first seen.
        pub last_update_time: Option<Time>,
    }
}

api_type! {
    /// The Service in front of a catalog's pod.
    pub struct RegistryServiceStatus {
        /// Protocol, always grpc.
        pub protocol: Option<String>,
        /// Name of the Service.
        pub service_name: Option<String>,
        /// Namespace of the Service.
        pub service_namespace: Option<String>,
        /// Port of the Service.
        #[serde(deserialize_with = "text_or_number")]
        pub port: Option<String>,
        /// When the Service was made.
        pub created_at: Option<Time>,
    }
}

api_type! {
    /// The connection to a catalog.
    pub struct GrpcConnectionState {
        /// Host and port.
        pub address: Option<String>,
        /// IDLE, CONNECTING, READY, TRANSIENT_FAILURE or SHUTDOWN.
        pub last_observed_state: String,
        /// When the state last changed.
        pub last_connect: Option<Time>,
    }
}
