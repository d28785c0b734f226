//! One package of one catalog.

use go_compat::quote;
use go_compat::semver::{Version, VersionError};
use olm_api::cluster_operator::MAX_OPENSHIFT_VERSION;
use olm_fbc::property::{Typed, kinds};
use olm_fbc::release::{Release, VersionRelease};
use olm_fbc::schema::{Blob, Bundle, Channel, DeprecationEntry, schemas};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Properties of bundles that depend on others. OLM v1 installs one bundle at a time and refuses these.
const DEPENDENCIES: [&str; 3] = [kinds::PACKAGE_REQUIRED, kinds::GVK_REQUIRED, kinds::CONSTRAINT];

/// A package as a catalog has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackageContent {
    /// Channels with their edges.
    pub channels: Vec<Channel>,
    /// Bundles, in the order of the catalog.
    pub bundles: Vec<CatalogBundle>,
    /// Deprecated package, channels and bundles.
    pub deprecations: Vec<DeprecationEntry>,
}

/// A bundle as a catalog has it.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogBundle {
    /// The document of the catalog: name, image and properties.
    pub bundle: Bundle,
    /// Version and release, or why they cannot be read.
    pub version: Result<VersionRelease, String>,
}

/// Fields that say whether a document belongs to a package.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    package: Option<String>,
    name: Option<String>,
}

impl Head {
    /// A package has its name as `name`; everything else names its package.
    fn belongs_to(&self, package: &str) -> bool {
        let name = match self.schema.as_deref() {
            Some(schemas::PACKAGE) => &self.name,
            _ => &self.package,
        };
        name.as_deref() == Some(package)
    }
}

impl PackageContent {
    /// Reads a package from the documents of a catalog, as catalogd serves them: JSON documents one after another. Documents of other
    /// packages are skipped, whatever is in them. Returns `None` if there is no document of the package.
    ///
    /// # Errors
    /// The bytes are not JSON documents, or one of the package has the wrong shape.
    pub fn read(catalog: &[u8], package: &str) -> Result<Option<Self>, String> {
        let mut heads = serde_json::Deserializer::from_slice(catalog).into_iter::<Head>();
        let mut blobs = Vec::new();
        loop {
            let start = heads.byte_offset();
            let Some(head) = heads.next() else {
                return Ok(Self::from_blobs(blobs));
            };
            let head = head.map_err(|error| error.to_string())?;
            if head.belongs_to(package) {
                let document = catalog.get(start..heads.byte_offset()).unwrap_or_default();
                let value: Value = serde_json::from_slice(document).map_err(|error| error.to_string())?;
                blobs.push(Blob::from_value(value).map_err(|error| error.to_string())?);
            }
        }
    }

    /// Returns the package of documents that all belong to it; `None` if there are none.
    pub fn from_blobs(blobs: impl IntoIterator<Item = Blob>) -> Option<Self> {
        let mut content = Self::default();
        let mut is_empty = true;
        for blob in blobs {
            is_empty = false;
            match blob {
                Blob::Channel(channel) => content.channels.push(channel),
                Blob::Bundle(bundle) => content.bundles.push(CatalogBundle::new(bundle)),
                Blob::Deprecations(mut more) => content.deprecations.append(&mut more.entries),
                Blob::Package(_) | Blob::Other(_) => {}
            }
        }
        (!is_empty).then_some(content)
    }

    /// Returns the package without the properties that resolution does not read, some of which are large.
    #[must_use]
    pub fn without_unused_properties(mut self) -> Self {
        for bundle in &mut self.bundles {
            let bundle = &mut bundle.bundle;
            bundle.properties.retain(|property| {
                let kind = property.kind.as_str();
                kind == kinds::PACKAGE || kind == MAX_OPENSHIFT_VERSION || DEPENDENCIES.contains(&kind)
            });
            bundle.related_images = Vec::new();
            bundle.extra = Map::new();
        }
        self
    }

    /// Returns true if the bundle itself is deprecated. Such a bundle is chosen last.
    pub fn is_deprecated(&self, bundle: &str) -> bool {
        self.deprecations
            .iter()
            .any(|entry| entry.reference.schema == schemas::BUNDLE && entry.reference.name == bundle)
    }
}

impl CatalogBundle {
    /// Reads the version of a bundle.
    pub fn new(bundle: Bundle) -> Self {
        let version = version_of(&bundle);
        Self { bundle, version }
    }

    /// Returns the name of the bundle.
    pub fn name(&self) -> &str {
        &self.bundle.name
    }

    /// Returns the type of the first property that makes the bundle depend on others.
    pub(super) fn unsupported_property(&self) -> Option<&str> {
        let mut kinds = self
            .bundle
            .properties
            .iter()
            .map(|property| property.kind.as_str());
        kinds.find(|kind| DEPENDENCIES.contains(kind))
    }
}

fn version_of(bundle: &Bundle) -> Result<VersionRelease, String> {
    for property in &bundle.properties {
        if property.kind == kinds::PACKAGE
            && let Typed::Package(package) = property.parse().map_err(|error| error.to_string())?
        {
            return parse_version(&package.version).map_err(|error| error.to_string());
        }
    }
    Err(format!(
        "no package property found in bundle {}",
        quote(&bundle.name)
    ))
}

/// Parses the version of a bundle. Build metadata that is a valid release is the release, because bundles have nowhere else to put it;
/// other build metadata stays with the version.
///
/// # Errors
/// The text is no strict semantic version.
pub fn parse_version(text: &str) -> Result<VersionRelease, VersionError> {
    let mut version = Version::parse(text)?;
    let release = Release::parse(&version.build).unwrap_or_default();
    if !release.is_empty() {
        version.build = Box::default();
    }
    Ok(VersionRelease { version, release })
}

/// Returns the text that [`parse_version`] reads, for the status: `1.0.0+2`.
pub fn version_text(version: &VersionRelease) -> String {
    let VersionRelease { version, release } = version;
    if release.is_empty() {
        version.to_string()
    } else {
        format!("{version}+{release}")
    }
}
