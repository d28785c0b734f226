//! Catalog data that resolution reads: compact, immutable, shared.
//!
//! A [`BundleEntry`] is a bundle in one channel. Entries share their data, so a bundle in five channels stores its properties,
//! APIs and texts once. Rules: `docs/reference/catalog-files.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use go_compat::semver::{Range, Version};

use crate::property::{self, Gvk, PropertyError, Typed};

/// A bundle as one channel of a package offers it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BundleEntry {
    /// Name of the CSV.
    pub name: Arc<str>,
    /// Package the channel belongs to.
    pub package: Arc<str>,
    /// Channel that lists the bundle.
    pub channel: Arc<str>,
    /// True if that channel is the package's default.
    pub default_channel: bool,
    /// Version; `None` if its text cannot be parsed even tolerantly.
    pub version: Option<Version>,
    /// Name of the CSV this one replaces.
    pub replaces: Option<Arc<str>>,
    /// Names of the CSVs this one skips.
    pub skips: Arc<[Arc<str>]>,
    /// Versions this one may replace; an empty or invalid range counts as none.
    pub skip_range: Option<Arc<Range>>,
    /// Properties, with dependencies appended as requirements. They alone define matches and requirements.
    pub properties: Arc<[EntryProperty]>,
    /// APIs the bundle provides, sorted.
    pub provided_apis: Arc<[Gvk]>,
    /// APIs the bundle requires, sorted.
    pub required_apis: Arc<[Gvk]>,
    /// Image with the bundle's content; `None` if the catalog contains the content itself.
    pub bundle_path: Option<Arc<str>>,
    /// Digest of the manifests of a bundle without an image. They are fetched from the catalog when they are needed.
    pub inline: Option<Arc<ManifestDigest>>,
    /// Deprecation messages for this entry.
    pub deprecation: Option<Arc<Deprecation>>,
}

/// A property as raw text, the form that annotations and matching constraints need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryProperty {
    /// Type, for example `olm.gvk`.
    pub kind: Arc<str>,
    /// The value as JSON text, byte for byte as the catalog sent it.
    pub value: Arc<str>,
}

impl EntryProperty {
    /// Creates a property of the given type and JSON text.
    pub fn new(kind: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        Self {
            kind: kind.into(),
            value: value.into(),
        }
    }

    /// Reads the value by the property's type.
    ///
    /// # Errors
    /// The value is not JSON, or does not have the shape its type needs.
    pub fn parse(&self) -> Result<Typed, PropertyError> {
        let value = serde_json::from_str(&self.value).map_err(|error| PropertyError {
            kind: self.kind.to_string(),
            reason: error.to_string(),
        })?;
        property::parse(&self.kind, &value)
    }
}

/// Hash of the manifests that a catalog contains itself.
pub type ManifestDigest = [u8; 32];

/// Deprecation messages by subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deprecation {
    /// Message for the package.
    pub package: Option<Arc<str>>,
    /// Message for the channel.
    pub channel: Option<Arc<str>>,
    /// Message for the bundle.
    pub bundle: Option<Arc<str>>,
}

/// A package of a catalog, without its bundles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageEntry {
    /// Name of the package.
    pub name: Arc<str>,
    /// Channel used by Subscriptions that name none.
    pub default_channel: Arc<str>,
    /// Channel name to its head's CSV name.
    pub channels: BTreeMap<Arc<str>, Arc<str>>,
}

/// Catalog data for resolution, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogSnapshot {
    /// Packages by name.
    pub packages: BTreeMap<Arc<str>, PackageEntry>,
    /// Entries sorted by package, channel and name.
    pub entries: Arc<[BundleEntry]>,
}

impl CatalogSnapshot {
    /// Creates a snapshot; sorts the entries.
    pub fn new(packages: BTreeMap<Arc<str>, PackageEntry>, mut entries: Vec<BundleEntry>) -> Self {
        entries.sort_by(|a, b| (&a.package, &a.channel, &a.name).cmp(&(&b.package, &b.channel, &b.name)));
        Self {
            packages,
            entries: entries.into(),
        }
    }
}
