//! Chooses the bundle of an extension: of the revision that is being rolled out, of the catalogs, or the installed one. Pure.

use std::sync::Arc;

use go_compat::quote;
use kube::ResourceExt as _;
use olm_api::extension_v1::{BundleMetadata, CatalogFilter, ClusterExtension, ClusterObjectSet};
use olm_api::labels;

use crate::apply::revisions::{ActiveRevisions, active_revisions, is_stuck};
use crate::resolve::{Catalog, Chosen, Request, Resolution, is_in_range, keeps_installed, resolve, selects};

/// Longest name of an extension, in bytes: values of labels have 63, of which revisions take a dash and four digits.
pub const LONGEST_NAME: usize = 58;

impl Chosen {
    /// Returns the bundle of a revision.
    pub fn of_revision(revision: &ClusterObjectSet) -> Self {
        let annotation = |key: &str| revision.annotations().get(key).cloned().unwrap_or_default();
        Self {
            name: annotation(labels::EXTENSION_BUNDLE_NAME),
            version: annotation(labels::EXTENSION_BUNDLE_VERSION),
            catalog: String::new(),
            image: annotation(labels::EXTENSION_BUNDLE_REFERENCE),
            package: annotation(labels::EXTENSION_PACKAGE_NAME),
        }
    }

    /// Returns the text about an error of the bundle.
    pub fn refusal(&self, error: &str) -> String {
        let (name, version) = (quote(&self.name), quote(&self.version));
        format!("error for resolved bundle {name} with version {version}: {error}")
    }

    /// Returns name and version, as in the status.
    pub(super) fn metadata(&self) -> BundleMetadata {
        BundleMetadata {
            name: self.name.clone(),
            version: self.version.clone(),
            ..BundleMetadata::default()
        }
    }
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
    fn wanted_rollout(&self, filter: &CatalogFilter) -> Option<(&ClusterObjectSet, Chosen)> {
        let newest: &ClusterObjectSet = self.rolling_out.last()?;
        let chosen = Chosen::of_revision(newest);
        is_in_range(filter, &chosen).then_some((newest, chosen))
    }

    /// Returns the bundle of the rollout to finish before anything else; `None` if the catalogs decide.
    pub fn rollout(&self, filter: &CatalogFilter) -> Option<Resolution> {
        let (newest, chosen) = self.wanted_rollout(filter)?;
        (!is_stuck(newest)).then(|| Resolution {
            outcome: Ok(chosen),
            candidates: Vec::new(),
            unused_catalogs: Vec::new(),
            deprecations: None,
        })
    }

    /// Chooses among the bundles of the catalogs. If none fits, the rollout goes on, or the installed bundle is kept without catalogs.
    pub fn choose(&self, request: &Request<'_>, catalogs: &[Catalog]) -> Resolution {
        let mut resolution = resolve(request, catalogs);
        if resolution.outcome.is_err() {
            let filter = request.filter;
            let is_selected =
                |catalog: &Catalog| selects(filter.selector.as_ref(), &catalog.labels).unwrap_or(true);
            let has_catalog = catalogs.iter().any(is_selected);
            let rollout = self.wanted_rollout(filter).map(|(_, chosen)| chosen);
            let kept = request.installed.cloned();
            let kept = kept.filter(|installed| keeps_installed(filter, installed, has_catalog));
            if let Some(kept) = rollout.or(kept) {
                resolution.outcome = Ok(kept);
            }
        }
        resolution
    }
}
