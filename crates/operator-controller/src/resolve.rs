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
use olm_api::extension_v1::{CatalogFilter, ClusterCatalog};
use olm_fbc::release::VersionRelease;
use olm_fbc::schema::DeprecationEntry;
use serde::Serialize;

mod deprecation;
mod package;
mod requirements;
mod selector;

pub use deprecation::deprecation_conditions;
pub use package::{CatalogBundle, PackageContent, parse_version, version_text};

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
    pub installed: Option<&'a Chosen>,
    /// Version of OpenShift that the cluster runs; `None` elsewhere.
    pub openshift: Option<&'a Version>,
    /// True if upgrades follow semantic versions, not the edges of the catalog.
    pub is_by_semver: bool,
}

/// Result of a resolution.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// The chosen bundle, or the error in upstream's words: it is the message of the condition Progressing.
    pub outcome: Result<Chosen, String>,
    /// Every bundle of the package in the catalogs that were used, by catalog name, then in the order of the catalog.
    pub candidates: Vec<Candidate>,
    /// Catalogs that were not used, by name.
    pub unused_catalogs: Vec<UnusedCatalog>,
    /// Deprecations of the package where the chosen bundle comes from. Without a chosen bundle, those of the catalog with the highest
    /// priority that has the package; `None` if no catalog has it.
    pub deprecations: Option<Vec<DeprecationEntry>>,
}

/// A bundle to install or to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chosen {
    /// Name of the bundle.
    pub name: String,
    /// Version and release.
    pub version: String,
    /// Catalog that offers it; empty if it was not asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub catalog: String,
    /// Image of the bundle; empty if it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Name of the package.
    #[serde(skip)]
    pub package: String,
}

/// A bundle of the package, and why it was not chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Name of the bundle.
    pub bundle: String,
    /// Version and release; empty if it cannot be read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Catalog that offers it.
    pub catalog: String,
    /// True if it is chosen.
    pub is_chosen: bool,
    /// Everything that rules it out, each as the end of a sentence whose subject is the bundle.
    pub ruled_out: Vec<String>,
}

/// A catalog that was not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnusedCatalog {
    /// Name of the ClusterCatalog.
    pub name: String,
    /// Why it was not used, as the end of a sentence whose subject is the catalog.
    pub reason: &'static str,
}

/// Chooses a bundle. The result does not depend on the order of the catalogs.
pub fn resolve(request: &Request<'_>, catalogs: &[Catalog]) -> Resolution {
    let mut walk = Walk::default();
    let outcome = walk.resolve(request, catalogs);
    let chosen = outcome.as_ref().ok().map(|chosen| chosen.catalog.as_str());
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
pub fn keeps_installed(filter: &CatalogFilter, installed: &Chosen, has_matching_catalog: bool) -> bool {
    !has_matching_catalog && is_in_range(filter, installed)
}

/// Returns whether a bundle has a wanted version.
pub fn is_in_range(filter: &CatalogFilter, bundle: &Chosen) -> bool {
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
    fn resolve(&mut self, request: &Request<'_>, catalogs: &'a [Catalog]) -> Result<Chosen, String> {
        let filter = request.filter;
        let selector = selector::parse(filter.selector.as_ref())
            .map_err(|error| format!("desired catalog selector is invalid: {error}"))?;
        let range = Requirements::range(filter)?;
        let mut sorted: Vec<&Catalog> = catalogs.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let mut finalists = Vec::new();
        for catalog in sorted {
            let unused = if catalog.is_switched_off {
                "is switched off"
            } else if !selector.matches(&catalog.labels) {
                "does not match the selector"
            } else {
                match &catalog.package {
                    PackageResult::Found(package) => {
                        let package: &'a PackageContent = package;
                        let requirements = Requirements::new(request, range.as_ref(), package)?;
                        self.packages.push((catalog, package));
                        finalists.extend(self.finalist(&requirements, catalog, package));
                        continue;
                    }
                    PackageResult::Absent => "does not have the package",
                    // Its content could change the choice.
                    PackageResult::Unreadable(reason) => {
                        let (package, name) = (quote(&filter.package_name), quote(&catalog.name));
                        return Err(format!(
                            "error walking catalogs: error getting package {package} from catalog {name}: {reason}"
                        ));
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
                bundle: bundle.name().to_owned(),
                version: bundle.version.as_ref().map(version_text).unwrap_or_default(),
                catalog: catalog.name.clone(),
                is_chosen: false,
                ruled_out,
            });
        }
        found.sort_by(|a, b| b.rank().cmp(&a.rank()));
        let mut found = found.into_iter();
        let best = found.next()?;
        for other in found {
            let name = best.bundle.name();
            let reason = if other.is_deprecated == best.is_deprecated {
                format!("is not the newest candidate, which is {name}")
            } else {
                behind_deprecated(name)
            };
            self.rule_out(other.position, reason);
        }
        Some(best)
    }

    /// Chooses among the catalogs.
    fn winner(&mut self, request: &Request<'_>, mut finalists: Vec<Finalist<'a>>) -> Result<Chosen, String> {
        if let Some(supported) = finalists.iter().find(|finalist| !finalist.is_deprecated) {
            for deprecated in finalists.iter().filter(|finalist| finalist.is_deprecated) {
                self.rule_out(deprecated.position, behind_deprecated(supported.bundle.name()));
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
                let reason = "is offered by several catalogs of the same priority";
                self.rule_out(finalist.position, reason.to_owned());
            }
            return Err(no_bundle(request, &catalogs));
        };
        for other in others {
            let reason = format!("is in a catalog of lower priority than {}", winner.catalog.name);
            self.rule_out(other.position, reason);
        }
        self.checked(winner, &request.filter.package_name)
    }

    /// Checks the winner. There is no second choice: it would depend on a rule that users do not see.
    fn checked(&mut self, winner: &Finalist<'a>, package: &str) -> Result<Chosen, String> {
        let bundle = winner.bundle;
        let name = quote(bundle.name());
        let version = match &bundle.version {
            Ok(version) => version_text(version),
            Err(reason) => {
                self.rule_out(winner.position, without_version(reason));
                return Err(format!(
                    "error getting resolved bundle version for bundle {name}: {reason}"
                ));
            }
        };
        if let Some(property) = bundle.unsupported_property() {
            self.rule_out(
                winner.position,
                format!("depends on other bundles through property {property}, which is not supported"),
            );
            let property = quote(property);
            return Err(format!(
                "validating bundle {name}: bundle {name} has a dependency declared via property {property} which is currently not supported"
            ));
        }
        if let Some(candidate) = self.candidates.get_mut(winner.position) {
            candidate.is_chosen = true;
        }
        Ok(Chosen {
            name: bundle.name().to_owned(),
            version,
            catalog: winner.catalog.name.clone(),
            image: bundle.bundle.image.clone(),
            package: package.to_owned(),
        })
    }

    fn rule_out(&mut self, position: usize, reason: String) {
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

/// Returns the error of a request for which no bundle fits, or one in each of several catalogs, whose sorted names are `catalogs`. Like
/// upstream these include catalogs of lower priority.
fn no_bundle(request: &Request<'_>, catalogs: &[String]) -> String {
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
    text
}

/// Returns the reason against a deprecated bundle, where `instead` is not deprecated.
fn behind_deprecated(instead: &str) -> String {
    format!("is deprecated, and {instead} is not")
}

/// Returns the reason against a bundle whose version cannot be read.
fn without_version(reason: &str) -> String {
    format!("has no readable version: {reason}")
}

#[cfg(test)]
mod tests;
