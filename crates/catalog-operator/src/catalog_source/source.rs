//! Parses a CatalogSource's spec.
//!
//! Rules: `docs/reference/catalogs.md`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use olm_api::embedded::decode_all;
use olm_api::names::is_dns1123_subdomain;
use olm_api::v1alpha1::{
    CatalogSource, ExtractContentConfig, GrpcPodConfig, SecurityContextConfig, SourceType,
};

/// Source of the content of a CatalogSource.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A pod runs this image. With `address`, that is used instead of the pod, as upstream does.
    Image {
        /// Catalog image.
        image: String,
        /// `host:port` that takes precedence over the pod's Service.
        address: Option<String>,
        /// Settings of the pod from the spec.
        config: Box<PodConfig>,
    },
    /// A pod serves the content of this ConfigMap of the catalog's namespace.
    ConfigMap {
        /// Its name.
        name: String,
        /// Settings of the pod from the spec.
        config: Box<PodConfig>,
    },
    /// An external server at this `host:port`.
    Address(String),
    /// The spec is invalid, with the error.
    Invalid(String),
}

impl Source {
    /// Address of a server that is used instead of a pod of ours.
    pub(crate) fn external(&self) -> Option<&str> {
        match self {
            Self::Address(address)
            | Self::Image {
                address: Some(address),
                ..
            } => Some(address),
            _ => None,
        }
    }
}

/// `spec.grpcPodConfig`, decoded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodConfig {
    /// Replaces the node selector.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Replaces the tolerations, if any are given.
    pub tolerations: Vec<Toleration>,
    /// Replaces the affinity.
    pub affinity: Option<Affinity>,
    /// PriorityClass; may be empty.
    pub priority_class_name: Option<String>,
    /// Security context from the spec, instead of the namespace's default.
    pub security: Option<SecurityContextConfig>,
    /// Memory target of the server.
    pub memory_target: Option<Quantity>,
    /// Copies the content from the image.
    pub extract: Option<ExtractContentConfig>,
}

/// Parses the source in a spec.
pub fn parse_source(source: &CatalogSource) -> Source {
    parse_with_image(source, source.spec.image.as_deref())
}

/// Parses the spec with another image.
pub(crate) fn parse_with_image(source: &CatalogSource, image: Option<&str>) -> Source {
    let source_type = &source.spec.source_type;
    match source_type {
        SourceType::Grpc => parse_grpc(source, image),
        SourceType::ConfigMap | SourceType::Internal => parse_config_map(source),
        SourceType::Other(unknown) => Source::Invalid(format!("unknown sourcetype: {unknown}")),
    }
}

/// True for a ConfigMap source, even with an invalid spec.
pub(crate) fn is_of_config_map(source: &CatalogSource) -> bool {
    matches!(
        source.spec.source_type,
        SourceType::ConfigMap | SourceType::Internal
    )
}

fn parse_config_map(source: &CatalogSource) -> Source {
    let spec = &source.spec;
    let Some(name) = spec.config_map.clone().filter(|name| !name.is_empty()) else {
        return Source::Invalid(format!(
            "configmap name unset: must be set for sourcetype: {}",
            spec.source_type
        ));
    };
    if !is_dns1123_subdomain(&name) {
        // The name becomes part of a request path, which other characters would change.
        return Source::Invalid(format!("configmap name invalid: {name:?}"));
    }
    match parse_pod_config(spec.grpc_pod_config.as_ref()) {
        Ok(config) => Source::ConfigMap { name, config },
        Err(text) => Source::Invalid(text),
    }
}

fn parse_grpc(source: &CatalogSource, image: Option<&str>) -> Source {
    let spec = &source.spec;
    let image = image.filter(|image| !image.is_empty());
    let address = spec.address.clone().filter(|address| !address.is_empty());
    match (image, address) {
        (None, None) => Source::Invalid(
            "image and address unset: at least one must be set for sourcetype: grpc".to_owned(),
        ),
        (None, Some(address)) => Source::Address(address),
        (Some(image), address) => match parse_pod_config(spec.grpc_pod_config.as_ref()) {
            Ok(config) => Source::Image {
                image: image.to_owned(),
                address,
                config,
            },
            Err(text) => Source::Invalid(text),
        },
    }
}

fn parse_pod_config(config: Option<&GrpcPodConfig>) -> Result<Box<PodConfig>, String> {
    let Some(config) = config else {
        return Ok(Box::default());
    };
    let field = |name: &str| format!("spec.grpcPodConfig.{name}");
    let affinity = config
        .affinity
        .as_ref()
        .map(|affinity| affinity.decode(&field("affinity")));
    let memory = config
        .memory_target
        .as_ref()
        .map(|target| target.decode(&field("memoryTarget")));
    Ok(Box::new(PodConfig {
        node_selector: config.node_selector.clone(),
        tolerations: decode_all(&config.tolerations, &field("tolerations"))
            .map_err(|error| error.to_string())?,
        affinity: affinity.transpose().map_err(|error| error.to_string())?,
        priority_class_name: config.priority_class_name.clone(),
        security: config.security_context_config.clone(),
        memory_target: memory.transpose().map_err(|error| error.to_string())?,
        extract: config.extract_content.clone(),
    }))
}
