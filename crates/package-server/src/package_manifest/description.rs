//! The description of an operator from the head of a channel.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use k8s_openapi::api::apps::v1::DeploymentSpec;
use olm_api::decode_csv_manifest;
use olm_api::packages::CsvDescription;
use olm_api::sparse::{List, Map};
use olm_api::v1alpha1::{
    ApiServiceDefinitions, AppLink, ClusterServiceVersion, ClusterServiceVersionSpec,
    CustomResourceDefinitions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
    /// Parses the text of a registry's ClusterServiceVersion. A boolean or number in the place of a text of its spec is shown as
    /// text, although it cannot be installed: an operator that nobody finds has no error that names the field.
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
        let mut csv: Value = serde_json::from_str(csv).map_err(invalid)?;
        // The spec itself has no other scalars than texts: YAML 1.1 reads `displayName: N` as false.
        if let Some(spec) = csv.get_mut("spec").and_then(Value::as_object_mut) {
            for field in spec
                .values_mut()
                .filter(|field| field.is_boolean() || field.is_number())
            {
                *field = Value::String(field.to_string());
            }
        }
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
        links: all_picked(&spec.links, &LINK),
        maintainers: all_picked(&spec.maintainers, &["name", "email"]),
        maturity: filled(spec.maturity.as_ref()),
        description: filled(spec.description.as_ref()),
        install_modes: all_picked(&spec.install_modes, &["type", "supported"]),
        custom_resource_definitions: Some(CustomResourceDefinitions {
            owned: all_picked(spec.owned_crds(), &DEFINITION),
            required: all_picked(spec.required_crds(), &DEFINITION),
            ..CustomResourceDefinitions::default()
        }),
        api_service_definitions: Some(ApiServiceDefinitions {
            owned: all_picked(spec.owned_api_services(), &API),
            required: all_picked(spec.required_api_services(), &API),
            ..ApiServiceDefinitions::default()
        }),
        native_apis: all_picked(&spec.native_apis, &["group", "version", "kind"]),
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
    let provider = spec.provider.as_ref();
    provider.map(|link| picked(link, &LINK)).unwrap_or_default()
}

/// Fields of a link.
const LINK: [&str; 2] = ["name", "url"];
/// Fields of a CustomResourceDefinition that is owned or required.
const DEFINITION: [&str; 5] = ["name", "version", "kind", "displayName", "description"];
/// Fields of an APIService that is owned or required.
const API: [&str; 6] = ["name", "group", "version", "kind", "displayName", "description"];

/// Returns `value` with these fields alone, as unknown ones are not passed on. Empty texts are left out.
fn picked<T: Serialize + DeserializeOwned + Default>(value: &T, fields: &[&str]) -> T {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let Value::Object(map) = &mut value {
        map.retain(|field, value| fields.contains(&field.as_str()) && *value != "");
    }
    serde_json::from_value(value).unwrap_or_default()
}

/// Does the same for each value of a list.
fn all_picked<T: Serialize + DeserializeOwned + Default>(values: &[T], fields: &[&str]) -> List<T> {
    values.iter().map(|value| picked(value, fields)).collect()
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
