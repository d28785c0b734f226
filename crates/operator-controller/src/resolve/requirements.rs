//! Requirements for a candidate bundle: channel, range, successor, version of OpenShift.

use std::collections::BTreeSet;

use go_compat::masterminds::Range;
use go_compat::{quote, semver};
use olm_api::cluster_operator::{MAX_OPENSHIFT_VERSION, Minor};
use olm_api::extension_v1::{CatalogFilter, UpgradeConstraintPolicy};
use olm_fbc::release::VersionRelease;
use olm_fbc::schema::{Bundle, Channel, ChannelEntry};
use serde_json::Value;

use super::package::parse_version;
use super::{CatalogBundle, Chosen, PackageContent, Request, without_version};

/// Requirements of a request on the bundles of one catalog.
pub(super) struct Requirements<'a> {
    /// Bundles in a wanted channel; `None` if any will do.
    in_channels: Option<BTreeSet<&'a str>>,
    range: Option<&'a Range>,
    installed: Option<Installed<'a>>,
    openshift: Option<Minor>,
}

/// The installed bundle.
struct Installed<'a> {
    bundle: &'a Chosen,
    /// `None` if any version may follow.
    constraint: Option<Successors<'a>>,
}

/// Bundles that may follow the installed one.
struct Successors<'a> {
    installed: VersionRelease,
    /// Bundles with an edge of the catalog from the installed one.
    names: BTreeSet<&'a str>,
    is_by_semver: bool,
}

impl<'a> Requirements<'a> {
    /// Returns the wanted range; `None` for any version.
    pub(super) fn range(filter: &CatalogFilter) -> Result<Option<Range>, String> {
        let Some(text) = filter.version.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let range = Range::parse(text).map_err(|reason| {
            let text = quote(text);
            format!("desired version range {text} is invalid: {reason}")
        })?;
        Ok(Some(range))
    }

    pub(super) fn new(
        request: &Request<'a>,
        range: Option<&'a Range>,
        package: &'a PackageContent,
    ) -> Result<Self, String> {
        let filter = request.filter;
        let wanted: Vec<&'a Channel> = package
            .channels
            .iter()
            .filter(|channel| filter.channels.is_empty() || filter.channels.contains(&channel.name))
            .collect();
        let entries = || wanted.iter().copied().flat_map(|channel| &channel.entries);
        let is_free = filter.upgrade_constraint_policy == Some(UpgradeConstraintPolicy::SelfCertified);
        let installed = match request.installed {
            None => None,
            Some(bundle) if is_free => Some(Installed {
                bundle,
                constraint: None,
            }),
            Some(bundle) => {
                let installed = parse_version(&bundle.version).map_err(|error| {
                    format!(
                        "error walking catalogs: error finding upgrade edges: failed to get version and release of installed bundle: {error}"
                    )
                })?;
                let names = entries()
                    .filter(|entry| follows(entry, &bundle.name, &installed.version))
                    .map(|entry| entry.name.as_str())
                    .collect();
                Some(Installed {
                    bundle,
                    constraint: Some(Successors {
                        installed,
                        names,
                        is_by_semver: request.is_by_semver,
                    }),
                })
            }
        };
        Ok(Self {
            in_channels: (!filter.channels.is_empty())
                .then(|| entries().map(|entry| entry.name.as_str()).collect()),
            range,
            installed,
            openshift: request.openshift.map(|version| Minor::of(version).normalised()),
        })
    }

    /// Returns everything that rules the bundle out; empty for a candidate.
    pub(super) fn unmet_by(&self, bundle: &CatalogBundle) -> Vec<String> {
        let unmet = [
            self.outside_channels(bundle),
            self.outside_range(bundle),
            self.not_a_successor(bundle),
            self.too_old_for_cluster(bundle),
        ];
        unmet.into_iter().flatten().collect()
    }

    fn outside_channels(&self, bundle: &CatalogBundle) -> Option<String> {
        let names = self.in_channels.as_ref()?;
        (!names.contains(bundle.name())).then(|| "is in none of the requested channels".to_owned())
    }

    /// Only the version counts, not the release.
    fn outside_range(&self, bundle: &CatalogBundle) -> Option<String> {
        let range = self.range?;
        match &bundle.version {
            Ok(version) if range.contains(&version.version) => None,
            Ok(_) => Some(format!("is outside of the requested range {}", range.as_str())),
            Err(reason) => Some(without_version(reason)),
        }
    }

    fn not_a_successor(&self, bundle: &CatalogBundle) -> Option<String> {
        let successors = self.installed.as_ref()?.constraint.as_ref()?;
        let installed = &successors.installed;
        let version = bundle.version.as_ref().ok();
        let has_edge = successors.names.contains(bundle.name());
        let follows = if successors.is_by_semver {
            version.is_some_and(|version| is_compatible(installed, version, has_edge))
        } else {
            has_edge
        };
        if follows || version == Some(installed) {
            return None;
        }
        let reason = match version {
            Some(version) if version < installed => "is older than the installed version",
            _ if successors.is_by_semver => {
                "is not compatible with the installed version by semantic versioning"
            }
            _ => "is not a successor of the installed version",
        };
        Some(reason.to_owned())
    }

    /// The installed bundle stays a candidate: that it is outdated is no reason to fail.
    fn too_old_for_cluster(&self, bundle: &CatalogBundle) -> Option<String> {
        let cluster = self.openshift?;
        let is_installed = self
            .installed
            .as_ref()
            .is_some_and(|installed| installed.bundle.name == bundle.name());
        let last = last_supported(&bundle.bundle)?;
        (!is_installed && last < cluster)
            .then(|| format!("supports OpenShift up to {last}, and the cluster runs {cluster}"))
    }
}

/// Returns the last version of OpenShift that a bundle works with; `None` if it names none, or not a version.
fn last_supported(bundle: &Bundle) -> Option<Minor> {
    let mut properties = bundle.properties.iter();
    let property = properties.find(|property| property.kind == MAX_OPENSHIFT_VERSION)?;
    let text = match &property.value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let version = semver::Version::parse_tolerant(&text).ok()?;
    Some(Minor::of(&version).normalised())
}

/// Returns true if a newer version is compatible with the installed one: it has the same major version, or the same minor version of
/// major version 0. Nothing is compatible with a version 0.0.x. A pre-release follows a release only by an edge of the catalog.
fn is_compatible(installed: &VersionRelease, newer: &VersionRelease, has_edge: bool) -> bool {
    let (from, to) = (&installed.version, &newer.version);
    let has_same_numbers = match (from.major, from.minor) {
        (0, 0) => to.patch == from.patch && to.minor == 0,
        (0, minor) => to.minor == minor,
        _ => true,
    };
    let is_wanted = !to.is_prerelease() || from.is_prerelease() || has_edge;
    newer > installed && to.major == from.major && has_same_numbers && is_wanted
}

/// Returns true if the entry may follow the installed bundle. Its `skipRange` has the grammar of OLM Classic, and counts as absent if
/// it is broken.
fn follows(entry: &ChannelEntry, installed: &str, version: &semver::Version) -> bool {
    entry.replaces == installed
        || entry.skips.iter().any(|skipped| skipped == installed)
        || semver::Range::parse(&entry.skip_range).is_ok_and(|range| range.contains(version))
}
