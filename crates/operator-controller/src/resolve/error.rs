//! Errors of a resolution, in upstream's words: they are messages of the condition Progressing.

use std::fmt;

use go_compat::masterminds::RangeError;
use go_compat::quote;
use go_compat::semver::VersionError;

use super::Request;

/// Error: no bundle can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The selector of the extension is invalid.
    #[error("desired catalog selector is invalid: {0}")]
    Selector(String),
    /// The wanted version is no range.
    #[error("desired version range {} is invalid: {reason}", quote(range))]
    Range {
        /// The wanted version.
        range: String,
        /// Cause.
        reason: RangeError,
    },
    /// A selected catalog cannot be read. Its content could change the choice, so none is made.
    #[error(
        "error walking catalogs: error getting package {} from catalog {}: {reason}",
        quote(package),
        quote(catalog)
    )]
    Catalog {
        /// Name of the package.
        package: String,
        /// Name of the ClusterCatalog.
        catalog: String,
        /// Cause.
        reason: String,
    },
    /// The version of the installed bundle cannot be read, so its successors are unknown.
    #[error(
        "error walking catalogs: error finding upgrade edges: failed to get version and release of installed bundle: {0}"
    )]
    InstalledVersion(VersionError),
    /// No bundle fits, or several catalogs of the same priority have one.
    #[error(transparent)]
    NoBundle(Box<NoBundle>),
    /// The version of the chosen bundle cannot be read.
    #[error(
        "error getting resolved bundle version for bundle {}: {reason}",
        quote(bundle)
    )]
    BundleVersion {
        /// Name of the bundle.
        bundle: String,
        /// Cause.
        reason: String,
    },
    /// The chosen bundle depends on others.
    #[error(
        "validating bundle {0}: bundle {0} has a dependency declared via property {1} which is currently not supported",
        quote(bundle),
        quote(property)
    )]
    Dependency {
        /// Name of the bundle.
        bundle: String,
        /// Type of the property.
        property: String,
    },
}

/// Error: no bundle fits, or several catalogs of the same priority have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoBundle {
    /// Name of the package.
    pub package: String,
    /// Wanted version; empty for any.
    pub version: String,
    /// Wanted channels; empty for all.
    pub channels: Vec<String>,
    /// Version of the installed bundle.
    pub installed: Option<String>,
    /// Names of the catalogs between which the choice is ambiguous, sorted; empty if no bundle fits. Like upstream it includes
    /// catalogs of lower priority.
    pub catalogs: Vec<String>,
}

impl NoBundle {
    /// Returns the error of a request; `catalogs` are sorted names.
    pub(super) fn new(request: &Request<'_>, catalogs: Vec<String>) -> Self {
        let filter = request.filter;
        Self {
            package: filter.package_name.clone(),
            version: filter.version.clone().unwrap_or_default(),
            channels: filter.channels.to_vec(),
            installed: request.installed.map(|installed| installed.version.clone()),
            catalogs,
        }
    }
}

impl fmt::Display for NoBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(installed) = &self.installed {
            let installed = quote(installed);
            write!(
                f,
                "error upgrading from currently installed version {installed}: "
            )?;
        }
        let found = if self.catalogs.is_empty() {
            "no bundles found"
        } else {
            "found bundles"
        };
        write!(f, "{found} for package {}", quote(&self.package))?;
        if !self.version.is_empty() {
            write!(f, " matching version {}", quote(&self.version))?;
        }
        if !self.channels.is_empty() {
            write!(f, " in channels [{}]", self.channels.join(" "))?;
        }
        if !self.catalogs.is_empty() {
            let catalogs = self.catalogs.join(" ");
            write!(f, " in multiple catalogs with the same priority [{catalogs}]")?;
        }
        Ok(())
    }
}

impl std::error::Error for NoBundle {}
