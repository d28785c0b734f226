//! Checks blobs and builds a model of the catalog.
//!
//! Rules (`docs/reference/catalog-files.md`) and texts are upstream's, with two differences for authors. All faults are reported
//! at once, each with its document, and siblings have a fixed order. Data of a bundle that the rules do not need is dropped when
//! it is read, so memory does not grow with the size of manifests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::load::{self, LoadError, Origin};
use crate::misspelling::{Misspelling, misspellings};
use crate::release::VersionRelease;
use crate::schema::{Blob, Channel, Deprecations, Package};
use crate::schema_name;

mod bundle;
mod fault;
mod graph;
mod names;

pub use bundle::check_objects;
pub use fault::{Fault, Faults};

/// A catalog without faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Packages by name.
    pub packages: BTreeMap<String, PackageModel>,
}

/// A package with its channels and bundles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackageModel {
    /// The package blob.
    pub package: Package,
    /// Channels by name.
    pub channels: BTreeMap<String, Channel>,
    /// Bundles by name.
    pub bundles: BTreeMap<String, BundleSummary>,
    /// Deprecation messages.
    pub deprecations: DeprecationModel,
}

/// Data of a bundle that the rules need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BundleSummary {
    /// Version and release of its `olm.package` property; `None` if they cannot be parsed.
    pub version: Option<VersionRelease>,
    /// Image; may be empty.
    pub image: String,
    /// True if the bundle contains its manifests itself.
    pub has_objects: bool,
}

/// Deprecation messages of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeprecationModel {
    /// Message for the package itself.
    pub package: Option<String>,
    /// Messages for channels, by name.
    pub channels: BTreeMap<String, String>,
    /// Messages for bundles, by name.
    pub bundles: BTreeMap<String, String>,
}

/// Result of checking a catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The catalog, without the parts that could not be read.
    pub model: Model,
    /// Faults that make the catalog invalid.
    pub faults: Faults,
    /// Unknown names that resemble known ones, with their origin; the first [`MAX_MISSPELLINGS`].
    pub misspellings: Vec<(Misspelling, Origin)>,
    /// Valid data that has no effect, with its origin; the first [`MAX_WARNINGS`].
    pub warnings: Vec<(String, Origin)>,
}

impl Report {
    /// Returns the verdict. Misspelt names are reported with the faults, because they may be the cause.
    ///
    /// # Errors
    /// All faults.
    pub fn into_result(mut self) -> Result<Model, Faults> {
        if self.faults.is_empty() {
            return Ok(self.model);
        }
        self.faults.misspellings = self.misspellings;
        Err(self.faults)
    }
}

/// Returns why clusters cannot read an object that may be a ClusterServiceVersion, in JSON; `None` if they can, or for another object.
pub type CsvCheck = fn(&str) -> Option<String>;

/// Maximum number of misspelt names that are kept for a catalog.
pub const MAX_MISSPELLINGS: usize = 100;
/// Maximum number of warnings that are kept for a catalog.
pub const MAX_WARNINGS: usize = 100;

/// Collects blobs; [`Checker::report`] and [`Checker::finish`] check them together.
#[derive(Default)]
pub struct Checker {
    csv_check: Option<CsvCheck>,
    packages: Vec<(Package, Origin)>,
    channels: Vec<(Channel, Origin)>,
    bundles: Vec<(bundle::Facts, Origin)>,
    deprecations: Vec<(Deprecations, Origin)>,
    faults: Faults,
    misspellings: Vec<(Misspelling, Origin)>,
    warnings: Vec<(String, Origin)>,
}

/// Reads and checks the catalog below `root`.
///
/// # Errors
/// All faults; an unreadable `root` is a fault.
pub fn validate(root: &Path) -> Result<Model, Faults> {
    report(root, None).into_result()
}

/// Reads and checks the catalog below `root`; an unreadable `root` is reported as a fault. With `csv_check` there are warnings about
/// ClusterServiceVersions in `olm.bundle.object` properties.
pub fn report(root: &Path, csv_check: Option<CsvCheck>) -> Report {
    let mut checker = Checker {
        csv_check,
        ..Checker::default()
    };
    let result = load::read(root, |blob, origin| -> Result<(), LoadError> {
        match blob {
            Ok(blob) => checker.add(&blob, origin),
            Err(error) => checker.add_error(&error),
        }
        Ok(())
    });
    if let Err(error) = result {
        checker.add_error(&error);
    }
    checker.report()
}

/// Checks blobs that were read already; `file` names their origin.
///
/// # Errors
/// All faults.
pub fn check(blobs: &[Blob], file: &str) -> Result<Model, Faults> {
    let mut checker = Checker::default();
    let file: Arc<str> = file.into();
    for (index, blob) in blobs.iter().enumerate() {
        let origin = Origin {
            file: Arc::clone(&file),
            document: index + 1,
        };
        checker.add(blob, &origin);
    }
    checker.finish()
}

impl Checker {
    /// Adds a blob. A bundle's properties are checked and not kept.
    pub fn add(&mut self, blob: &Blob, origin: &Origin) {
        keep(
            &mut self.misspellings,
            MAX_MISSPELLINGS,
            misspellings(blob),
            origin,
        );
        match blob {
            Blob::Package(package) => self.packages.push((package.clone(), origin.clone())),
            Blob::Channel(channel) => self.channels.push((channel.clone(), origin.clone())),
            Blob::Deprecations(deprecations) => {
                self.deprecations.push((deprecations.clone(), origin.clone()));
            }
            Blob::Bundle(bundle) => {
                let mut facts = bundle::Facts::of(bundle, self.csv_check);
                let warnings = std::mem::take(&mut facts.warnings);
                keep(&mut self.warnings, MAX_WARNINGS, warnings, origin);
                self.bundles.push((facts, origin.clone()));
            }
            Blob::Other(other) => {
                if let Err(error) = schema_name::check(&other.schema, &other.package) {
                    let text = format!("{error}: it is not served, because no client can request it");
                    keep(&mut self.warnings, MAX_WARNINGS, vec![text], origin);
                }
            }
        }
    }

    /// Adds the error of a document that could not be read.
    pub fn add_error(&mut self, error: &LoadError) {
        self.faults.add_error(error);
    }

    /// Checks all added blobs.
    ///
    /// # Errors
    /// All faults.
    pub fn finish(self) -> Result<Model, Faults> {
        self.report().into_result()
    }

    /// Checks all added blobs and returns the report, with or without faults.
    pub fn report(self) -> Report {
        let mut model = Model::default();
        let mut faults = self.faults;
        let mut origins = names::Origins::default();
        names::add_packages(&mut model, self.packages, &mut origins, &mut faults);
        names::add_channels(&mut model, self.channels, &mut origins, &mut faults);
        names::add_bundles(&mut model, self.bundles, &mut origins, &mut faults);
        names::check_entries(&model, &origins, &mut faults);
        names::add_deprecations(&mut model, self.deprecations, &mut origins, &mut faults);
        graph::check(&model, &origins, &mut faults);
        Report {
            model,
            faults,
            misspellings: self.misspellings,
            warnings: self.warnings,
        }
    }
}

/// Adds what was found at an origin, until `max` are kept.
fn keep<T>(kept: &mut Vec<(T, Origin)>, max: usize, found: Vec<T>, origin: &Origin) {
    let room = max.saturating_sub(kept.len());
    kept.extend(found.into_iter().take(room).map(|one| (one, origin.clone())));
}

#[cfg(test)]
mod tests;
