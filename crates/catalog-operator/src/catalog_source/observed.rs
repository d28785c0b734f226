//! Everything read for one CatalogSource. All of it comes from stores.

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

/// Facts about one CatalogSource.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The object.
    pub source: Arc<CatalogSource>,
    /// What its annotation says the image is.
    pub template: ImageTemplate,
    /// What its spec asks for, with that image.
    pub parsed: Source,
    /// What its pod depends on besides.
    pub settings: PodSettings,
    /// ServiceAccount under the catalog's name, if it is one of ours.
    pub service_account: Option<Arc<ServiceAccount>>,
    /// Service under the catalog's name, if it is one of ours.
    pub service: Option<Arc<Service>>,
    /// Policy of the catalog's pods.
    pub server_policy: Option<Arc<NetworkPolicy>>,
    /// Policy of unpack pods.
    pub unpack_policy: Option<Arc<NetworkPolicy>>,
    /// Pods that carry the catalog's label and belong to this very object, sorted by name.
    pub pods: Vec<Arc<Pod>>,
    /// Its other pods: they look for a newer image and do not serve yet, or have lost the label by which they did.
    pub update_pods: Vec<Arc<Pod>>,
    /// What is known of newer content; `None` for a catalog that is not polled.
    pub poll: Option<Poll>,
    /// State of the connection to the server.
    pub connection: ConnectionState,
    /// The ConfigMap that the catalog is made of.
    pub config_map: ConfigMapState,
}
