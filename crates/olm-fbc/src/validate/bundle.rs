//! Data of a bundle blob that the rules need, extracted when the blob is read.

use go_compat::semver::Version;

use super::{BundleSummary, CsvCheck};
use crate::manifest::CSV_KIND;
use crate::property::{self, PropertyError, Typed, kinds};
use crate::release::{Release, VersionRelease};
use crate::schema::Bundle;
use crate::{bundle_object, image_ref};

/// A bundle without its manifests.
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) package: String,
    pub(super) summary: BundleSummary,
    /// Faults of the blob alone, in upstream's words.
    pub(super) faults: Vec<String>,
    /// Valid parts of the blob that have no effect.
    pub(super) warnings: Vec<String>,
    /// True if its `olm.package` property has a release.
    pub(super) has_release: bool,
}

impl Facts {
    pub(super) fn of(bundle: &Bundle, csv_check: Option<CsvCheck>) -> Self {
        let mut facts = Self {
            name: bundle.name.clone(),
            package: bundle.package.clone(),
            summary: BundleSummary {
                image: bundle.image.clone(),
                ..BundleSummary::default()
            },
            faults: Vec::new(),
            warnings: Vec::new(),
            has_release: false,
        };
        let packages = facts.read_properties(bundle, csv_check);
        match packages.as_slice() {
            [package] => facts.check_package(package),
            several => facts.faults.push(format!(
                "package {:?} bundle {:?} must have exactly 1 {:?} property, found {}",
                bundle.package,
                bundle.name,
                kinds::PACKAGE,
                several.len()
            )),
        }
        facts.check_images(bundle);
        facts
    }

    fn read_properties(
        &mut self,
        bundle: &Bundle,
        csv_check: Option<CsvCheck>,
    ) -> Vec<property::PackageProperty> {
        let mut packages = Vec::new();
        let mut metadata = 0;
        for (index, property) in bundle.properties.iter().enumerate() {
            let parsed = match property.parse() {
                Ok(parsed) => parsed,
                // Upstream checks these types only during resolution, so it serves the bundle.
                Err(error) if matches!(property.kind.as_str(), kinds::LABEL | kinds::LABEL_REQUIRED) => {
                    self.warn(&format!("property[{index}]: {error}, so nothing can match it"));
                    continue;
                }
                Err(PropertyError { kind, reason }) => {
                    self.faults.push(format!(
                        "parse properties for bundle {:?}: parse property[{index}] of type {kind:?}: {reason}",
                        bundle.name
                    ));
                    continue;
                }
            };
            match parsed {
                Typed::Package(package) => packages.push(package),
                Typed::BundleObject(data) => {
                    self.summary.has_objects = true;
                    match bundle_object::decode(&data) {
                        Err(reason) => self.faults.push(object_fault(bundle, index, &reason)),
                        Ok(object) => {
                            let check = csv_check.filter(|_| object.text.contains(CSV_KIND));
                            if let Some(problem) = check.and_then(|check| check(&object.text)) {
                                self.warn(&problem);
                            }
                            if let Some(found) = object.no_object {
                                self.warn(&format!(
                                    "property[{index}] of type {:?} is not an object but {found}, so the bundle cannot be \
                                     installed",
                                    kinds::BUNDLE_OBJECT
                                ));
                            }
                        }
                    }
                }
                Typed::CsvMetadata(_) => metadata += 1,
                _ => {}
            }
        }
        if metadata > 1 {
            self.warn(&format!(
                "it has {metadata} properties of type {:?}, of which only the first is used",
                kinds::CSV_METADATA
            ));
        }
        packages
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(format!(
            "package {:?} bundle {:?}: {text}",
            self.package, self.name
        ));
    }

    fn check_package(&mut self, package: &property::PackageProperty) {
        if package.package_name != self.package {
            self.faults.push(format!(
                "package {:?} does not match {:?} property {:?}",
                self.package,
                kinds::PACKAGE,
                package.package_name
            ));
        }
        self.has_release = !package.release.is_empty();
        let version = Version::parse(&package.version);
        let release = Release::parse(&package.release);
        if let Err(error) = &version {
            self.faults.push(format!(
                "error parsing bundle {:?} version {:?}: {error}",
                self.name, package.version
            ));
        }
        if let Err(error) = &release {
            self.faults.push(format!(
                "error parsing bundle {:?} release version {:?}: {error}",
                self.name, package.release
            ));
        }
        if let (Ok(version), Ok(release)) = (version, release) {
            self.summary.version = Some(VersionRelease { version, release });
        }
    }

    fn check_images(&mut self, bundle: &Bundle) {
        let images = std::iter::once(("image".to_owned(), &bundle.image)).chain(
            bundle
                .related_images
                .iter()
                .enumerate()
                .map(|(index, related)| (format!("relatedImages[{index}].image"), &related.image)),
        );
        for (field, image) in images.filter(|(_, image)| !image.is_empty()) {
            if let Err(error) = image_ref::check(image) {
                self.faults.push(format!(
                    "package {:?} bundle {:?} {field}: invalid image pull spec {image:?}: {error}",
                    bundle.package, bundle.name
                ));
            }
        }
    }
}

/// Checks that the `olm.bundle.object` properties of a bundle contain manifests. All readers of a catalog except validation need
/// this and stop at the first fault.
///
/// # Errors
/// The first property that fails, with its name.
pub fn check_objects(bundle: &Bundle) -> Result<(), String> {
    let objects = bundle
        .properties
        .iter()
        .enumerate()
        .filter(|(_, property)| property.kind == kinds::BUNDLE_OBJECT);
    for (index, property) in objects {
        let checked = match property.parse() {
            Ok(Typed::BundleObject(data)) => bundle_object::decode(&data).map(drop),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        checked.map_err(|reason| object_fault(bundle, index, &reason))?;
    }
    Ok(())
}

fn object_fault(bundle: &Bundle, index: usize, reason: &str) -> String {
    format!(
        "read bundle objects: package {:?}, bundle {:?}: parse property at index {index} as bundle object: {reason}",
        bundle.package, bundle.name
    )
}
