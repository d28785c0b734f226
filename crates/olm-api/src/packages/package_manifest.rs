//! PackageManifest: a package of a catalog, as the package-server serves it.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::decode::{absent_means_default, or_default};
use crate::sparse::{List, Map};
use crate::v1alpha1::{
    ApiServiceDefinitions, AppLink, CustomResourceDefinitions, GroupVersionKind, Icon, InstallMode,
    Maintainer,
};

/// Nothing to be set.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "packages.operators.coreos.com",
    version = "v1",
    kind = "PackageManifest",
    plural = "packagemanifests",
    singular = "packagemanifest",
    namespaced,
    status = "PackageManifestStatus",
    derive = "Default",
    derive = "PartialEq",
    schema = "disabled",
    doc = "A package of a catalog, with its channels and versions. Read only.",
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(rename = "PackageManifestSpec")]
pub struct PackageManifestSpec {
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

absent_means_default!(PackageManifestSpec);

/// What a catalog says about a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageManifestStatus {
    /// Name of the CatalogSource.
    #[serde(deserialize_with = "or_default")]
    pub catalog_source: String,
    /// Name of the catalog for people.
    #[serde(deserialize_with = "or_default")]
    pub catalog_source_display_name: String,
    /// Who publishes the catalog.
    #[serde(deserialize_with = "or_default")]
    pub catalog_source_publisher: String,
    /// Namespace of the CatalogSource.
    #[serde(deserialize_with = "or_default")]
    pub catalog_source_namespace: String,
    /// Who publishes the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AppLink>,
    /// Name of the package.
    #[serde(deserialize_with = "or_default")]
    pub package_name: String,
    /// Says that the package is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
    /// Channels, by name.
    #[serde(deserialize_with = "or_default")]
    pub channels: Vec<PackageChannel>,
    /// Channel of Subscriptions that name none.
    #[serde(deserialize_with = "or_default")]
    pub default_channel: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Why something is deprecated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deprecation {
    /// What to do instead.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A channel of a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageChannel {
    /// Name of the channel.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Name of the ClusterServiceVersion at its head.
    #[serde(rename = "currentCSV", deserialize_with = "or_default")]
    pub current_csv: String,
    /// What that ClusterServiceVersion says.
    #[serde(rename = "currentCSVDesc", skip_serializing_if = "Option::is_none")]
    pub current_csv_desc: Option<CsvDescription>,
    /// Says that the channel is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
    /// Versions in the channel, newest first.
    #[serde(deserialize_with = "or_default")]
    pub entries: Vec<ChannelEntry>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One version in a channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChannelEntry {
    /// Name of the ClusterServiceVersion.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Says that the version is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What a ClusterServiceVersion says about its operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CsvDescription {
    /// Name of the operator for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Pictures of the operator. Empty in lists; fetch the icon sub-resource instead.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub icon: List<Icon>,
    /// Version of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Who publishes the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AppLink>,
    /// Annotations of the ClusterServiceVersion.
    #[serde(skip_serializing_if = "Map::is_absent")]
    pub annotations: Map,
    /// Words by which people search for the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub keywords: List<String>,
    /// Documentation, source code and other pages about the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub links: List<AppLink>,
    /// Who maintains the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub maintainers: List<Maintainer>,
    /// How mature the operator is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maturity: Option<String>,
    /// What the operator does, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which shapes of OperatorGroup the operator can be installed with.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub install_modes: List<InstallMode>,
    /// Custom resources the operator brings or needs.
    #[serde(rename = "customresourcedefinitions", skip_serializing_if = "Option::is_none")]
    pub custom_resource_definitions: Option<CustomResourceDefinitions>,
    /// Aggregated APIs the operator brings or needs.
    #[serde(rename = "apiservicedefinitions", skip_serializing_if = "Option::is_none")]
    pub api_service_definitions: Option<ApiServiceDefinitions>,
    /// APIs of Kubernetes itself, or of aggregated servers, that have to be there.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub native_apis: List<GroupVersionKind>,
    /// Oldest Kubernetes version the operator works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_kube_version: Option<String>,
    /// Images the operator uses.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub related_images: List<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
