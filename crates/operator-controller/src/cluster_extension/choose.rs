//! Chooses the bundle of an extension: of the revision that is being rolled out, of the catalogs, or the installed one. Pure.

use std::sync::Arc;

use go_compat::semver::Version;
use kube::ResourceExt as _;
use olm_api::extension_v1::{BundleMetadata, CatalogFilter, ClusterExtension, ClusterObjectSet};
use olm_api::labels;
use olm_fbc::schema::DeprecationEntry;

use crate::apply::revisions::{ActiveRevisions, active_revisions, is_stuck};
use crate::resolve::{
    Candidate, Catalog, Request, ResolveError, Resolved, UnusedCatalog, is_in_range, keeps_installed,
    resolve, selects, version_text,
};

/// Longest name of an extension, in bytes: values of labels have 63, of which revisions take a dash and four digits.
pub const LONGEST_NAME: usize = 58;

/// A bundle to install or to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Name of the bundle.
    pub name: String,
    /// Version and release.
    pub version: String,
    /// Image of the bundle.
    pub image: String,
    /// Name of the package.
    pub package: String,
}

impl Chosen {
    /// Returns the bundle of a revision.
    pub fn of_revision(revision: &ClusterObjectSet) -> Self {
        let annotation = |key: &str| revision.annotations().get(key).cloned().unwrap_or_default();
        Self {
            name: annotation(labels::EXTENSION_BUNDLE_NAME),
            version: annotation(labels::EXTENSION_BUNDLE_VERSION),
            image: annotation(labels::EXTENSION_BUNDLE_REFERENCE),
            package: annotation(labels::EXTENSION_PACKAGE_NAME),
        }
    }

    fn of_catalog(resolved: &Resolved, package: &str) -> Self {
        Self {
            name: resolved.bundle.name().to_owned(),
            version: version_text(&resolved.version),
            image: resolved.bundle.bundle.image.clone(),
            package: package.to_owned(),
        }
    }

    /// Returns name and version, as in the status.
    pub fn metadata(&self) -> BundleMetadata {
        BundleMetadata {
            name: self.name.clone(),
            version: self.version.clone(),
            ..BundleMetadata::default()
        }
    }
}

/// The chosen bundle, or the error to report.
#[derive(Debug)]
pub struct Choice {
    /// The bundle.
    pub bundle: Result<Chosen, ResolveError>,
    /// Deprecations of the package; `None` if no catalog was read.
    pub deprecations: Option<Vec<DeprecationEntry>>,
    /// Bundles of the package in the catalogs that were read, and why the others were not chosen.
    pub candidates: Vec<Candidate>,
    /// Catalogs that were not used.
    pub unused_catalogs: Vec<UnusedCatalog>,
}

/// Returns the active revisions of an extension among those with its label.
pub fn active<'a>(
    extension: &ClusterExtension,
    revisions: &'a [Arc<ClusterObjectSet>],
) -> ActiveRevisions<'a> {
    let is_own = |set: &ClusterObjectSet| {
        let mut owners = set
            .owner_references()
            .iter()
            .filter(|owner| owner.kind == "ClusterExtension");
        set.metadata.deletion_timestamp.is_none()
            && set.annotations().contains_key(labels::EXTENSION_BUNDLE_NAME)
            && owners.all(|owner| Some(&owner.uid) == extension.metadata.uid.as_ref())
    };
    active_revisions(revisions.iter().filter(|set| is_own(set)))
}

impl ActiveRevisions<'_> {
    /// Returns the newest revision that is being rolled out, if its version is wanted.
    fn wanted_rollout(&self, filter: &CatalogFilter) -> Option<&ClusterObjectSet> {
        let newest = self.rolling_out.last()?;
        is_in_range(filter, &Chosen::of_revision(newest).metadata()).then_some(newest)
    }

    /// Returns the bundle of the rollout to finish before anything else; `None` if the catalogs decide.
    pub fn rollout(&self, filter: &CatalogFilter) -> Option<Choice> {
        let newest = self.wanted_rollout(filter)?;
        (!is_stuck(newest)).then(|| Choice {
            bundle: Ok(Chosen::of_revision(newest)),
            deprecations: None,
            candidates: Vec::new(),
            unused_catalogs: Vec::new(),
        })
    }

    /// Chooses among the bundles of the catalogs. If none fits, the rollout goes on, or the installed bundle is kept without catalogs.
    pub fn choose(
        &self,
        filter: &CatalogFilter,
        openshift: Option<&Version>,
        is_by_semver: bool,
        catalogs: &[Catalog],
    ) -> Choice {
        let installed = self.installed.map(|set| Chosen::of_revision(set));
        let rollout = self.wanted_rollout(filter).map(Chosen::of_revision);
        choose(installed, rollout, filter, openshift, is_by_semver, catalogs)
    }
}

/// Chooses among the bundles of the catalogs. If none fits, `rollout` goes on, or the installed bundle is kept without catalogs.
pub fn choose(
    installed: Option<Chosen>,
    rollout: Option<Chosen>,
    filter: &CatalogFilter,
    openshift: Option<&Version>,
    is_by_semver: bool,
    catalogs: &[Catalog],
) -> Choice {
    let metadata = installed.as_ref().map(Chosen::metadata);
    let request = Request {
        filter,
        installed: metadata.as_ref(),
        openshift,
        is_by_semver,
    };
    let resolution = resolve(&request, catalogs);
    let bundle = match resolution.outcome {
        Ok(resolved) => Ok(Chosen::of_catalog(&resolved, &filter.package_name)),
        Err(error) => {
            let selector = filter.selector.as_ref();
            let is_selected = |catalog: &Catalog| selects(selector, &catalog.labels).unwrap_or(true);
            let has_catalog = catalogs.iter().any(is_selected);
            let kept = installed.filter(|_| {
                metadata
                    .as_ref()
                    .is_some_and(|it| keeps_installed(filter, it, has_catalog))
            });
            rollout.or(kept).ok_or(error)
        }
    };
    Choice {
        bundle,
        deprecations: resolution.deprecations,
        candidates: resolution.candidates,
        unused_catalogs: resolution.unused_catalogs,
    }
}
