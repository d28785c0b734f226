//! Input of decisions about one CatalogSource, all from stores.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use olm_api::v1alpha1::CatalogSource;

use super::connection::ConnectionState;
use super::image_template::ImageTemplate;
use super::pod::PodSettings;
use super::polling::Poll;
use super::source::Source;
use crate::stores::config_maps::ConfigMapState;

/// Input of decisions about one CatalogSource.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The object.
    pub source: Arc<CatalogSource>,
    /// Image from its template annotation.
    pub template: ImageTemplate,
    /// Parsed spec, with that image.
    pub parsed: Source,
    /// Further settings of its pod.
    pub settings: PodSettings,
    /// ServiceAccount with the catalog's name, if it is ours.
    pub service_account: Option<Arc<ServiceAccount>>,
    /// Service with the catalog's name, if it is ours.
    pub service: Option<Arc<Service>>,
    /// Policy of the catalog's pods.
    pub server_policy: Option<Arc<NetworkPolicy>>,
    /// Policy of unpack pods.
    pub unpack_policy: Option<Arc<NetworkPolicy>>,
    /// Pods with the catalog's label that belong to exactly this object, sorted by name.
    pub pods: Vec<Arc<Pod>>,
    /// Its other pods: they look for a newer image and do not serve yet, or have lost the serving label.
    pub update_pods: Vec<Arc<Pod>>,
    /// Poll state; `None` for a catalog that is not polled.
    pub poll: Option<Poll>,
    /// State of the connection to the server.
    pub connection: ConnectionState,
    /// The ConfigMap of the catalog.
    pub config_map: ConfigMapState,
}
