//! PackageManifest: a package of a catalog, as the package-server serves it.

use crate::api_type::{api_kind, api_type};
use crate::decode::absent_means_default;
use crate::sparse::{List, Map};
use crate::v1alpha1::{
    ApiServiceDefinitions, AppLink, CustomResourceDefinitions, GroupVersionKind, Icon, InstallMode,
    Maintainer,
};

api_kind! {
    /// Nothing to be set.
    #[kube(
        group = "packages.operators.coreos.com",
        version = "v1",
        kind = "PackageManifest",
        plural = "packagemanifests",
        namespaced,
        status = "PackageManifestStatus",
        doc = "A package of a catalog, with its channels and versions. Read only."
    )]
    #[serde(remote = "Self")]
    pub struct PackageManifestSpec {}
}

absent_means_default!(PackageManifestSpec);

api_type! {
    /// What a catalog says about a package.
    pub struct PackageManifestStatus {
        /// Name of the CatalogSource.
        pub catalog_source: String,
        /// Name of the catalog for people.
        pub catalog_source_display_name: String,
        /// Who publishes the catalog.
        pub catalog_source_publisher: String,
        /// Namespace of the CatalogSource.
        pub catalog_source_namespace: String,
        /// Who publishes the operator.
        pub provider: Option<AppLink>,
        /// Name of the package.
        pub package_name: String,
        /// Says that the package is deprecated.
        pub deprecation: Option<Deprecation>,
        /// Channels, by name.
        pub channels: Vec<PackageChannel>,
        /// Channel of Subscriptions that name none.
        pub default_channel: String,
    }
}

api_type! {
    /// Why something is deprecated.
    pub struct Deprecation {
        /// What to do instead.
        pub message: String,
    }
}

api_type! {
    /// A channel of a package.
    pub struct PackageChannel {
        /// Name of the channel.
        pub name: String,
        /// Name of the ClusterServiceVersion at its head.
        #[serde(rename = "currentCSV")]
        pub current_csv: String,
        /// What that ClusterServiceVersion says.
        #[serde(rename = "currentCSVDesc")]
        pub current_csv_desc: Option<CsvDescription>,
        /// Says that the channel is deprecated.
        pub deprecation: Option<Deprecation>,
        /// Versions in the channel, newest first.
        pub entries: Vec<ChannelEntry>,
    }
}

api_type! {
    /// One version in a channel.
    pub struct ChannelEntry {
        /// Name of the ClusterServiceVersion.
        pub name: String,
        /// Its version.
        pub version: Option<String>,
        /// Says that the version is deprecated.
        pub deprecation: Option<Deprecation>,
    }
}

api_type! {
    /// What a ClusterServiceVersion says about its operator.
    pub struct CsvDescription {
        /// Name of the operator for people.
        pub display_name: Option<String>,
        /// Pictures of the operator. Empty in lists; fetch the icon sub-resource instead.
        pub icon: List<Icon>,
        /// Version of the operator.
        pub version: Option<String>,
        /// Who publishes the operator.
        pub provider: Option<AppLink>,
        /// Annotations of the ClusterServiceVersion.
        pub annotations: Map,
        /// Words by which people search for the operator.
        pub keywords: List<String>,
        /// Documentation, source code and other pages about the operator.
        pub links: List<AppLink>,
        /// Who maintains the operator.
        pub maintainers: List<Maintainer>,
        /// How mature the operator is.
        pub maturity: Option<String>,
        /// What the operator does, in Markdown.
        pub description: Option<String>,
        /// Which shapes of OperatorGroup the operator can be installed with.
        pub install_modes: List<InstallMode>,
        /// Custom resources the operator brings or needs.
        #[serde(rename = "customresourcedefinitions")]
        pub custom_resource_definitions: Option<CustomResourceDefinitions>,
        /// Aggregated APIs the operator brings or needs.
        #[serde(rename = "apiservicedefinitions")]
        pub api_service_definitions: Option<ApiServiceDefinitions>,
        /// APIs of Kubernetes itself, or of aggregated servers, that have to be there.
        pub native_apis: List<GroupVersionKind>,
        /// Oldest Kubernetes version the operator works on.
        pub min_kube_version: Option<String>,
        /// Images the operator uses.
        pub related_images: List<String>,
    }
}
