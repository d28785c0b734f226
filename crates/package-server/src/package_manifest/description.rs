//! The description of an operator from the head of a channel.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use k8s_openapi::api::apps::v1::DeploymentSpec;
use olm_api::decode_csv_manifest;
use olm_api::packages::CsvDescription;
use olm_api::sparse::{List, Map};
use olm_api::v1alpha1::{
    ApiServiceDefinitions, ApiServiceDescription, AppLink, ClusterServiceVersion, ClusterServiceVersionSpec,
    CrdDescription, CustomResourceDefinitions, GroupVersionKind, InstallMode, Maintainer,
};

use super::Icon;
use crate::limits::CSV_BYTES;

/// The head of a channel, with the fields that PackageManifests show.
#[derive(Debug, Clone)]
pub struct Head {
    /// Name of the ClusterServiceVersion.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Publisher of the operator.
    pub provider: AppLink,
    /// Its first icon.
    pub icon: Option<Icon>,
    /// `currentCSVDesc`, as JSON.
    pub description: Bytes,
}

impl Head {
    /// Parses the text of a registry's ClusterServiceVersion.
    ///
    /// # Errors
    /// The text is not a valid ClusterServiceVersion; its channel is skipped.
    pub fn parse(csv: &str) -> Result<Self, String> {
        if csv.len() > CSV_BYTES {
            return Err(format!(
                "the ClusterServiceVersion has more than {CSV_BYTES} bytes"
            ));
        }
        let invalid =
            |error: serde_json::Error| format!("the ClusterServiceVersion is not valid JSON: {error}");
        let csv = serde_json::from_str(csv).map_err(invalid)?;
        let csv = decode_csv_manifest(csv).map_err(|error| error.to_string())?;
        let description = serde_json::to_vec(&describe(&csv)?).map_err(invalid)?;
        let ClusterServiceVersion { metadata, spec, .. } = csv;
        Ok(Self {
            name: metadata.name.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            provider: provider(&spec),
            icon: spec.icon.first().and_then(Icon::new),
            description: description.into_boxed_slice().into(),
        })
    }

    /// Returns the approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        let labels: usize = self
            .labels
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        let icon = self
            .icon
            .as_ref()
            .map_or(0, |icon| icon.data.len() + icon.media_type.len());
        self.description.len() + labels + icon + self.name.len()
    }
}

fn describe(csv: &ClusterServiceVersion) -> Result<CsvDescription, String> {
    let spec = &csv.spec;
    let version = spec.version();
    let version = version.map_err(|_| {
        let text = spec.version.as_deref().unwrap_or_default();
        format!("invalid version {text:?}")
    })?;
    Ok(CsvDescription {
        display_name: filled(Some(&spec.display_name)),
        // Icons are a resource of their own.
        icon: List::default(),
        version: Some(version.to_string()),
        provider: Some(provider(spec)),
        annotations: Map::from(csv.metadata.annotations.clone().unwrap_or_default()),
        keywords: spec.keywords.iter().cloned().collect(),
        links: spec.links.iter().map(link).collect(),
        maintainers: spec.maintainers.iter().map(maintainer).collect(),
        maturity: filled(spec.maturity.as_ref()),
        description: filled(spec.description.as_ref()),
        install_modes: spec.install_modes.iter().map(install_mode).collect(),
        custom_resource_definitions: Some(CustomResourceDefinitions {
            owned: spec.owned_crds().iter().map(definition).collect(),
            required: spec.required_crds().iter().map(definition).collect(),
            ..CustomResourceDefinitions::default()
        }),
        api_service_definitions: Some(ApiServiceDefinitions {
            owned: spec.owned_api_services().iter().map(service).collect(),
            required: spec.required_api_services().iter().map(service).collect(),
            ..ApiServiceDefinitions::default()
        }),
        native_apis: spec.native_apis.iter().map(api).collect(),
        min_kube_version: filled(spec.min_kube_version.as_ref()),
        related_images: related_images(spec).into_iter().collect(),
        ..CsvDescription::default()
    })
}

/// Returns the text, or `None` if it is empty.
fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

fn provider(spec: &ClusterServiceVersionSpec) -> AppLink {
    spec.provider.as_ref().map(link).unwrap_or_default()
}

// Unknown fields are not passed on, so each function lists the known ones.

fn link(link: &AppLink) -> AppLink {
    AppLink {
        name: filled(link.name.as_ref()),
        url: filled(link.url.as_ref()),
        ..AppLink::default()
    }
}

fn maintainer(maintainer: &Maintainer) -> Maintainer {
    Maintainer {
        name: filled(maintainer.name.as_ref()),
        email: filled(maintainer.email.as_ref()),
        ..Maintainer::default()
    }
}

fn install_mode(mode: &InstallMode) -> InstallMode {
    InstallMode {
        type_: mode.type_.clone(),
        supported: mode.supported,
        ..InstallMode::default()
    }
}

fn definition(definition: &CrdDescription) -> CrdDescription {
    CrdDescription {
        name: definition.name.clone(),
        version: definition.version.clone(),
        kind: definition.kind.clone(),
        display_name: filled(definition.display_name.as_ref()),
        description: filled(definition.description.as_ref()),
        ..CrdDescription::default()
    }
}

fn service(service: &ApiServiceDescription) -> ApiServiceDescription {
    ApiServiceDescription {
        name: service.name.clone(),
        group: service.group.clone(),
        version: service.version.clone(),
        kind: service.kind.clone(),
        display_name: filled(service.display_name.as_ref()),
        description: filled(service.description.as_ref()),
        ..ApiServiceDescription::default()
    }
}

fn api(api: &GroupVersionKind) -> GroupVersionKind {
    GroupVersionKind {
        group: api.group.clone(),
        version: api.version.clone(),
        kind: api.kind.clone(),
        ..GroupVersionKind::default()
    }
}

/// Returns the listed images and those of Deployments. An unreadable Deployment has none; the installation
/// reports it.
fn related_images(spec: &ClusterServiceVersionSpec) -> BTreeSet<String> {
    let listed = spec.related_images.iter().map(|related| related.image.clone());
    let deployments = spec.install.deployments().iter();
    let run = deployments
        .filter_map(|deployment| deployment.decode_spec().ok())
        .flat_map(|deployment| images_of(&deployment));
    let images = listed.chain(run);
    images.filter(|image| !image.is_empty()).collect()
}

fn images_of(deployment: &DeploymentSpec) -> Vec<String> {
    let Some(pod) = &deployment.template.spec else {
        return Vec::new();
    };
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    containers
        .filter_map(|container| container.image.clone())
        .collect()
}
