//! What a bundle must meet to be a candidate: channel, range, successor, version of OpenShift.

use std::collections::BTreeSet;

use go_compat::masterminds::Range;
use go_compat::semver;
use olm_api::extension_v1::{BundleMetadata, CatalogFilter, UpgradeConstraintPolicy};
use olm_fbc::release::VersionRelease;
use olm_fbc::schema::{Channel, ChannelEntry};

use super::openshift::{self, Minor};
use super::package::parse_version;
use super::{CatalogBundle, PackageContent, Request, ResolveError};

/// Requirements of a request on the bundles of one catalog.
pub(super) struct Requirements<'a> {
    /// Bundles in a wanted channel; `None` if any will do.
    in_channels: Option<BTreeSet<&'a str>>,
    range: Option<&'a Range>,
    /// Name of the installed bundle.
    installed: Option<&'a str>,
    /// `None` if any version may follow.
    successors: Option<Successors<'a>>,
    openshift: Option<Minor>,
}

/// Bundles that may follow the installed one.
struct Successors<'a> {
    installed: VersionRelease,
    names: BTreeSet<&'a str>,
}

impl<'a> Requirements<'a> {
    /// Returns the wanted range; `None` for any version.
    pub(super) fn range(filter: &CatalogFilter) -> Result<Option<Range>, ResolveError> {
        let Some(text) = filter.version.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let range = Range::parse(text).map_err(|reason| ResolveError::Range {
            range: text.to_owned(),
            reason,
        })?;
        Ok(Some(range))
    }

    pub(super) fn new(
        request: &Request<'a>,
        range: Option<&'a Range>,
        package: &'a PackageContent,
    ) -> Result<Self, ResolveError> {
        let filter = request.filter;
        let wanted: Vec<&'a Channel> = package
            .channels
            .iter()
            .filter(|channel| filter.channels.is_empty() || filter.channels.contains(&channel.name))
            .collect();
        let entries = || wanted.iter().copied().flat_map(|channel| &channel.entries);
        let is_free = filter.upgrade_constraint_policy == Some(UpgradeConstraintPolicy::SelfCertified);
        let successors = match request.installed {
            Some(installed) if !is_free => {
                let version = parse_version(&installed.version).map_err(ResolveError::InstalledVersion)?;
                let names = entries()
                    .filter(|entry| follows(entry, installed, &version.version))
                    .map(|entry| entry.name.as_str())
                    .collect();
                Some(Successors {
                    installed: version,
                    names,
                })
            }
            _ => None,
        };
        Ok(Self {
            in_channels: (!filter.channels.is_empty())
                .then(|| entries().map(|entry| entry.name.as_str()).collect()),
            range,
            installed: request.installed.map(|installed| installed.name.as_str()),
            successors,
            openshift: request.openshift.map(Minor::of),
        })
    }

    /// Returns true if the bundle is a candidate.
    pub(super) fn are_met_by(&self, bundle: &CatalogBundle) -> bool {
        self.is_in_channels(bundle)
            && self.is_in_range(bundle)
            && self.may_follow(bundle)
            && self.supports_cluster(bundle)
    }

    fn is_in_channels(&self, bundle: &CatalogBundle) -> bool {
        let names = self.in_channels.as_ref();
        names.is_none_or(|names| names.contains(bundle.name()))
    }

    /// Only the version counts, not the release.
    fn is_in_range(&self, bundle: &CatalogBundle) -> bool {
        let version = bundle.version.as_ref();
        self.range
            .is_none_or(|range| version.is_ok_and(|found| range.contains(&found.version)))
    }

    fn may_follow(&self, bundle: &CatalogBundle) -> bool {
        let Some(Successors { installed, names }) = &self.successors else {
            return true;
        };
        names.contains(bundle.name()) || bundle.version.as_ref().is_ok_and(|found| found == installed)
    }

    /// The installed bundle stays a candidate: that it is outdated is no reason to fail.
    fn supports_cluster(&self, bundle: &CatalogBundle) -> bool {
        let Some(cluster) = self.openshift else {
            return true;
        };
        let last = openshift::last_supported(&bundle.bundle);
        self.installed == Some(bundle.name()) || last.is_none_or(|last| last >= cluster)
    }
}

/// Returns true if the entry may follow the installed bundle. Its `skipRange` has the grammar of OLM Classic, and counts as absent if
/// it is broken.
fn follows(entry: &ChannelEntry, installed: &BundleMetadata, version: &semver::Version) -> bool {
    entry.replaces == installed.name
        || entry.skips.contains(&installed.name)
        || semver::Range::parse(&entry.skip_range).is_ok_and(|range| range.contains(version))
}
