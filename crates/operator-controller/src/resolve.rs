//! Chooses the bundle of a ClusterExtension. No I/O.
//!
//! A candidate is a bundle of the package in a selected catalog. It must be in a wanted channel and in the wanted range, and follow the
//! installed bundle by one edge of the catalog, or by semantic versions, unless the policy is SelfCertified. The newest candidate of each catalog remains, and of
//! those the one from the catalog with the highest priority. There is no search for a path of several edges.

use std::collections::BTreeMap;
use std::sync::Arc;

use go_compat::masterminds::Range;
use go_compat::quote;
use go_compat::semver::Version;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube_core::SelectorExt as _;
use olm_api::extension_v1::{BundleMetadata, CatalogFilter, ClusterCatalog};
use olm_fbc::release::VersionRelease;
use olm_fbc::schema::DeprecationEntry;

mod deprecation;
mod error;
mod openshift;
mod package;
mod requirements;
mod ruled_out;
mod selector;

pub use deprecation::{DeprecationCondition, deprecation_conditions};
pub use error::ResolveError;
pub use package::{CatalogBundle, PackageContent, ReadError, parse_version, version_text};
pub use ruled_out::RuledOut;

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
    /// True if its availability mode is Unavailable.
    pub is_switched_off: bool,
    /// The wanted package; `None` if the catalog does not have it. The error is the text behind `error getting package … from catalog
    /// …`, for example `catalog "a" is not being served`.
    pub package: PackageResult,
}

impl Catalog {
    /// Returns a ClusterCatalog without its package, and whether the filter needs that.
    pub fn of(catalog: &ClusterCatalog, filter: &CatalogFilter) -> (Self, bool) {
        let labels = catalog.labels().clone();
        let is_switched_off = catalog.spec.is_switched_off();
        let is_used = !is_switched_off && selects(filter.selector.as_ref(), &labels).unwrap_or(false);
        let found = Self {
            name: catalog.name_any(),
            labels,
            priority: catalog.spec.priority.unwrap_or_default(),
            is_switched_off,
            package: PackageResult::Absent,
        };
        (found, is_used)
    }
}

/// A package of a catalog, or why it cannot be read.
#[derive(Clone, Debug, Default)]
pub enum PackageResult {
    /// The catalog can be read and does not have the package.
    #[default]
    Absent,
    /// The package.
    Found(Arc<PackageContent>),
    /// Why the catalog cannot be read.
    Unreadable(String),
}

impl PackageResult {
    /// Returns the package of a catalog that is not being served. It has none if it `had_none` before.
    pub fn unserved(catalog: &str, had_none: bool) -> Self {
        match had_none {
            true => Self::Absent,
            false => Self::Unreadable(format!("catalog {} is not being served", quote(catalog))),
        }
    }
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
    /// True if upgrades follow semantic versions, not the edges of the catalog.
    pub is_by_semver: bool,
}

/// Result of a resolution.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// The chosen bundle, or the error to report.
    pub outcome: Result<Resolved, ResolveError>,
    /// Every bundle of the package in the catalogs that were used, by catalog name, then in the order of the catalog.
    pub candidates: Vec<Candidate>,
    /// Catalogs that were not used, by name.
    pub unused_catalogs: Vec<UnusedCatalog>,
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

/// A bundle of the package, and why it was not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Catalog that offers it.
    pub catalog: String,
    /// Name of the bundle.
    pub bundle: String,
    /// Its version; `None` if it cannot be read.
    pub version: Option<String>,
    /// Everything that rules it out; empty for the chosen bundle.
    pub ruled_out: Vec<RuledOut>,
}

/// A catalog that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedCatalog {
    /// Name of the ClusterCatalog.
    pub name: String,
    /// Why it was not used.
    pub reason: UnusedReason,
}

/// Why a catalog was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusedReason {
    /// Its availability mode is Unavailable.
    SwitchedOff,
    /// The selector of the extension does not match its labels.
    NotSelected,
    /// It does not have the package.
    WithoutPackage,
}

/// Chooses a bundle. The result does not depend on the order of the catalogs.
pub fn resolve(request: &Request<'_>, catalogs: &[Catalog]) -> Resolution {
    let mut walk = Walk::default();
    let outcome = walk.resolve(request, catalogs);
    let chosen = outcome.as_ref().ok().map(|resolved| resolved.catalog.as_str());
    Resolution {
        deprecations: walk.deprecations(chosen),
        outcome,
        candidates: walk.candidates,
        unused_catalogs: walk.unused_catalogs,
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
    /// Position among the candidates.
    position: usize,
}

impl<'a> Finalist<'a> {
    /// Returns a value that is greater for a better candidate: deprecated bundles are last, and versions that cannot be read are the
    /// lowest.
    fn rank(&self) -> (bool, Option<&'a VersionRelease>) {
        (!self.is_deprecated, self.bundle.version.as_ref().ok())
    }
}

/// What a resolution has found so far.
#[derive(Default)]
struct Walk<'a> {
    candidates: Vec<Candidate>,
    unused_catalogs: Vec<UnusedCatalog>,
    packages: Vec<(&'a Catalog, &'a PackageContent)>,
}

impl<'a> Walk<'a> {
    fn resolve(&mut self, request: &Request<'_>, catalogs: &'a [Catalog]) -> Result<Resolved, ResolveError> {
        let filter = request.filter;
        let selector = selector::parse(filter.selector.as_ref()).map_err(ResolveError::Selector)?;
        let range = Requirements::range(filter)?;
        let mut sorted: Vec<&Catalog> = catalogs.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let mut finalists = Vec::new();
        for catalog in sorted {
            let unused = if catalog.is_switched_off {
                UnusedReason::SwitchedOff
            } else if !selector.matches(&catalog.labels) {
                UnusedReason::NotSelected
            } else {
                match &catalog.package {
                    PackageResult::Found(package) => {
                        let package: &'a PackageContent = package;
                        let requirements = Requirements::new(request, range.as_ref(), package)?;
                        self.packages.push((catalog, package));
                        finalists.extend(self.finalist(&requirements, catalog, package));
                        continue;
                    }
                    PackageResult::Absent => UnusedReason::WithoutPackage,
                    PackageResult::Unreadable(reason) => {
                        return Err(ResolveError::Catalog {
                            package: filter.package_name.clone(),
                            catalog: catalog.name.clone(),
                            reason: reason.clone(),
                        });
                    }
                }
            };
            self.unused_catalogs.push(UnusedCatalog {
                name: catalog.name.clone(),
                reason: unused,
            });
        }
        self.winner(request, finalists)
    }

    /// Records every bundle of a package, and returns the newest that meets the requirements. A deprecated bundle is behind the others.
    fn finalist(
        &mut self,
        requirements: &Requirements<'_>,
        catalog: &'a Catalog,
        package: &'a PackageContent,
    ) -> Option<Finalist<'a>> {
        let mut found: Vec<Finalist<'a>> = Vec::new();
        for bundle in &package.bundles {
            let ruled_out = requirements.unmet_by(bundle);
            if ruled_out.is_empty() {
                found.push(Finalist {
                    catalog,
                    bundle,
                    is_deprecated: package.is_deprecated(bundle.name()),
                    position: self.candidates.len(),
                });
            }
            self.candidates.push(Candidate {
                catalog: catalog.name.clone(),
                bundle: bundle.name().to_owned(),
                version: bundle.version.as_ref().ok().map(version_text),
                ruled_out,
            });
        }
        found.sort_by(|a, b| b.rank().cmp(&a.rank()));
        let mut found = found.into_iter();
        let best = found.next()?;
        for other in found {
            let name = best.bundle.name().to_owned();
            let reason = if other.is_deprecated == best.is_deprecated {
                RuledOut::NotNewest { newest: name }
            } else {
                RuledOut::Deprecated { instead: name }
            };
            self.rule_out(other.position, reason);
        }
        Some(best)
    }

    /// Chooses among the catalogs.
    fn winner(
        &mut self,
        request: &Request<'_>,
        mut finalists: Vec<Finalist<'a>>,
    ) -> Result<Resolved, ResolveError> {
        if let Some(supported) = finalists.iter().find(|finalist| !finalist.is_deprecated) {
            let instead = supported.bundle.name().to_owned();
            for deprecated in finalists.iter().filter(|finalist| finalist.is_deprecated) {
                let instead = instead.clone();
                self.rule_out(deprecated.position, RuledOut::Deprecated { instead });
            }
            finalists.retain(|finalist| !finalist.is_deprecated);
        }
        let highest = finalists.iter().map(|finalist| finalist.catalog.priority).max();
        let (first, others): (Vec<_>, Vec<_>) = finalists
            .iter()
            .partition(|finalist| Some(finalist.catalog.priority) == highest);
        let [winner] = first.as_slice() else {
            let catalogs: Vec<String> = finalists
                .iter()
                .map(|finalist| finalist.catalog.name.clone())
                .collect();
            for finalist in &finalists {
                self.rule_out(finalist.position, RuledOut::Ambiguous);
            }
            return Err(ResolveError::no_bundle(request, &catalogs));
        };
        for other in others {
            let catalog = winner.catalog.name.clone();
            self.rule_out(other.position, RuledOut::LowerPriority { catalog });
        }
        self.checked(winner)
    }

    /// Checks the winner. There is no second choice: it would depend on a rule that users do not see.
    fn checked(&mut self, winner: &Finalist<'a>) -> Result<Resolved, ResolveError> {
        let bundle = winner.bundle;
        let name = bundle.name().to_owned();
        let version = match &bundle.version {
            Ok(version) => version.clone(),
            Err(reason) => {
                self.rule_out(winner.position, RuledOut::NoVersion(reason.clone()));
                return Err(ResolveError::BundleVersion {
                    bundle: name,
                    reason: reason.clone(),
                });
            }
        };
        if let Some(property) = bundle.unsupported_property() {
            let property = property.to_owned();
            self.rule_out(winner.position, RuledOut::Dependency(property.clone()));
            return Err(ResolveError::Dependency {
                bundle: name,
                property,
            });
        }
        Ok(Resolved {
            catalog: winner.catalog.name.clone(),
            bundle: bundle.clone(),
            version,
        })
    }

    fn rule_out(&mut self, position: usize, reason: RuledOut) {
        if let Some(candidate) = self.candidates.get_mut(position) {
            candidate.ruled_out.push(reason);
        }
    }

    fn deprecations(&self, chosen: Option<&str>) -> Option<Vec<DeprecationEntry>> {
        let rank = |catalog: &Catalog| (chosen == Some(catalog.name.as_str()), catalog.priority);
        // The first of equals, by name.
        let (_, package) = self
            .packages
            .iter()
            .rev()
            .max_by_key(|(catalog, _)| rank(catalog))?;
        Some(package.deprecations.clone())
    }
}

#[cfg(test)]
mod tests;
