//! Errors of a resolution, in upstream's words: they are messages of the condition Progressing.

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
    #[error("{0}")]
    NoBundle(String),
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

impl ResolveError {
    /// Returns the error of a request for which no bundle fits, or one in each of several catalogs, whose sorted names are `catalogs`. Like
    /// upstream these include catalogs of lower priority.
    pub(super) fn no_bundle(request: &Request<'_>, catalogs: &[String]) -> Self {
        let filter = request.filter;
        let mut text = String::new();
        if let Some(installed) = request.installed {
            let installed = quote(&installed.version);
            text = format!("error upgrading from currently installed version {installed}: ");
        }
        text += match catalogs {
            [] => "no bundles found",
            _ => "found bundles",
        };
        text += &format!(" for package {}", quote(&filter.package_name));
        if let Some(version) = filter.version.as_ref().filter(|version| !version.is_empty()) {
            text += &format!(" matching version {}", quote(version));
        }
        if !filter.channels.is_empty() {
            text += &format!(" in channels [{}]", filter.channels.join(" "));
        }
        if !catalogs.is_empty() {
            let catalogs = catalogs.join(" ");
            text += &format!(" in multiple catalogs with the same priority [{catalogs}]");
        }
        Self::NoBundle(text)
    }
}
