//! Chooses the bundle of a ClusterExtension. No I/O.
//!
//! A candidate is a bundle of the package in a selected catalog. It must be in a wanted channel and in the wanted range, and follow the
//! installed bundle by one edge of the catalog unless the policy is SelfCertified. The newest candidate of each catalog remains, and of
//! those the one from the catalog with the highest priority. There is no search for a path of several edges.

use std::collections::BTreeMap;
use std::sync::Arc;

use go_compat::masterminds::Range;
use go_compat::semver::Version;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::SelectorExt as _;
use olm_api::extension_v1::{BundleMetadata, CatalogFilter};
use olm_fbc::release::VersionRelease;
use olm_fbc::schema::DeprecationEntry;

mod deprecation;
mod error;
mod openshift;
mod package;
mod requirements;
mod selector;

pub use deprecation::{DeprecationCondition, deprecation_conditions};
pub use error::{NoBundle, ResolveError};
pub use package::{CatalogBundle, PackageContent, ReadError, parse_version, version_text};

use requirements::Requirements;

/// A ClusterCatalog as resolution sees it.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Name of the ClusterCatalog.
    pub name: String,
    /// Labels of the ClusterCatalog.
    pub labels: BTreeMap<String, String>,
    /// Rank among catalogs; the higher number is preferred.
    pub priority: i32,
    /// The wanted package.
    pub package: PackageResult,
}

/// A package of a catalog, or why it cannot be read.
#[derive(Clone, Debug, Default)]
pub enum PackageResult {
    /// The catalog does not have the package, or is not to be used.
    #[default]
    Absent,
    /// The package.
    Found(Arc<PackageContent>),
    /// Why the catalog cannot be read: the text behind `error getting package … from catalog …`, for example `catalog "a" is not being
    /// served`.
    Unreadable(String),
}

/// Input of a resolution, besides the catalogs.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Package and wanted versions.
    pub filter: &'a CatalogFilter,
    /// The installed bundle, if there is one.
    pub installed: Option<&'a BundleMetadata>,
    /// Version of OpenShift that the cluster runs; `None` elsewhere.
    pub openshift: Option<&'a Version>,
}

/// Result of a resolution.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// The chosen bundle, or the error to report.
    pub outcome: Result<Resolved, ResolveError>,
    /// Deprecations of the package where the chosen bundle comes from. Without a chosen bundle, those of the catalog with the highest
    /// priority that has the package; `None` if no catalog has it.
    pub deprecations: Option<Vec<DeprecationEntry>>,
}

/// The chosen bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Catalog that offers it.
    pub catalog: String,
    /// The bundle.
    pub bundle: CatalogBundle,
    /// Its version and release; [`version_text`] is the form for the status.
    pub version: VersionRelease,
}

/// Chooses a bundle. The result does not depend on the order of the catalogs.
pub fn resolve(request: &Request<'_>, catalogs: &[Catalog]) -> Resolution {
    let mut used = Vec::new();
    let outcome = choose(request, catalogs, &mut used);
    let chosen = outcome.as_ref().ok().map(|resolved| resolved.catalog.as_str());
    Resolution {
        deprecations: deprecations(&used, chosen),
        outcome,
    }
}

/// Returns whether the installed bundle is kept although resolution failed: it fits the wanted range, and no ClusterCatalog matches the
/// selector that could offer another.
///
/// Upstream compares the wanted version with the installed one as text, so a range never keeps the bundle.
pub fn keeps_installed(
    filter: &CatalogFilter,
    installed: &BundleMetadata,
    has_matching_catalog: bool,
) -> bool {
    !has_matching_catalog && is_in_range(filter, installed)
}

/// Returns whether a bundle has a wanted version.
pub fn is_in_range(filter: &CatalogFilter, bundle: &BundleMetadata) -> bool {
    let Ok(range) = Requirements::range(filter) else {
        return false;
    };
    let is_in = |range: Range| parse_version(&bundle.version).is_ok_and(|it| range.contains(&it.version));
    range.is_none_or(is_in)
}

/// Returns whether a selector matches the labels of a ClusterCatalog; without a selector every catalog matches.
///
/// # Errors
/// The selector is invalid; the text is that of Kubernetes.
pub fn selects(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    Ok(selector::parse(selector)?.matches(labels))
}

/// Newest candidate of a catalog.
struct Finalist<'a> {
    catalog: &'a Catalog,
    bundle: &'a CatalogBundle,
    is_deprecated: bool,
}

impl<'a> Finalist<'a> {
    /// Returns a value that is greater for a better candidate: deprecated bundles are last, and versions that cannot be read are the
    /// lowest.
    fn rank(&self) -> (bool, Option<&'a VersionRelease>) {
        (!self.is_deprecated, self.bundle.version.as_ref().ok())
    }
}

/// A catalog and its package.
type UsedCatalog<'a> = (&'a Catalog, &'a PackageContent);

/// Chooses a bundle, and adds the catalogs with the package to `used`, by name.
fn choose<'a>(
    request: &Request<'_>,
    catalogs: &'a [Catalog],
    used: &mut Vec<UsedCatalog<'a>>,
) -> Result<Resolved, ResolveError> {
    let filter = request.filter;
    let selector = selector::parse(filter.selector.as_ref()).map_err(ResolveError::Selector)?;
    let range = Requirements::range(filter)?;
    let mut selected: Vec<&'a Catalog> = catalogs
        .iter()
        .filter(|catalog| selector.matches(&catalog.labels))
        .collect();
    selected.sort_by(|a, b| a.name.cmp(&b.name));
    let mut finalists = Vec::new();
    for catalog in selected {
        match &catalog.package {
            PackageResult::Found(package) => {
                let package: &'a PackageContent = package;
                let requirements = Requirements::new(request, range.as_ref(), package)?;
                used.push((catalog, package));
                finalists.extend(finalist(&requirements, catalog, package));
            }
            PackageResult::Absent => {}
            PackageResult::Unreadable(reason) => {
                return Err(ResolveError::Catalog {
                    package: filter.package_name.clone(),
                    catalog: catalog.name.clone(),
                    reason: reason.clone(),
                });
            }
        }
    }
    checked(&winner(request, finalists)?)
}

/// Returns the newest bundle of a package that meets the requirements; a deprecated one only if there is no other.
fn finalist<'a>(
    requirements: &Requirements<'_>,
    catalog: &'a Catalog,
    package: &'a PackageContent,
) -> Option<Finalist<'a>> {
    let candidates = package
        .bundles
        .iter()
        .filter(|bundle| requirements.are_met_by(bundle));
    let finalists = candidates.map(|bundle| Finalist {
        catalog,
        bundle,
        is_deprecated: package.is_deprecated(bundle.name()),
    });
    // The first of equals, in the order of the catalog.
    finalists.rev().max_by_key(Finalist::rank)
}

/// Chooses among the catalogs.
fn winner<'a>(request: &Request<'_>, mut finalists: Vec<Finalist<'a>>) -> Result<Finalist<'a>, ResolveError> {
    if finalists.iter().any(|finalist| !finalist.is_deprecated) {
        finalists.retain(|finalist| !finalist.is_deprecated);
    }
    let names = finalists.iter().map(|finalist| finalist.catalog.name.clone());
    let error = NoBundle::new(request, names.collect());
    let highest = finalists.iter().map(|finalist| finalist.catalog.priority).max();
    finalists.retain(|finalist| Some(finalist.catalog.priority) == highest);
    match (finalists.pop(), finalists.is_empty()) {
        (Some(winner), true) => Ok(winner),
        _ => Err(ResolveError::NoBundle(Box::new(error))),
    }
}

/// Checks the winner. There is no second choice: it would depend on a rule that users do not see.
fn checked(winner: &Finalist<'_>) -> Result<Resolved, ResolveError> {
    let bundle = winner.bundle;
    let name = bundle.name().to_owned();
    let version = match &bundle.version {
        Ok(version) => version.clone(),
        Err(reason) => {
            return Err(ResolveError::BundleVersion {
                bundle: name,
                reason: reason.clone(),
            });
        }
    };
    if let Some(property) = bundle.unsupported_property() {
        return Err(ResolveError::Dependency {
            bundle: name,
            property: property.to_owned(),
        });
    }
    Ok(Resolved {
        catalog: winner.catalog.name.clone(),
        bundle: bundle.clone(),
        version,
    })
}

/// Returns the deprecations of the catalog with the chosen bundle, else of that with the highest priority.
fn deprecations(used: &[UsedCatalog<'_>], chosen: Option<&str>) -> Option<Vec<DeprecationEntry>> {
    let rank = |catalog: &Catalog| (chosen == Some(catalog.name.as_str()), catalog.priority);
    // The first of equals, by name.
    let (_, package) = used.iter().rev().max_by_key(|(catalog, _)| rank(catalog))?;
    Some(package.deprecations.clone())
}

#[cfg(test)]
mod tests;
