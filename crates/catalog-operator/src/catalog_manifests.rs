//! Manifests that catalogs carry themselves, fetched when a plan is to be made of them.
//!
//! Of such a bundle resolution keeps a hash alone. What the catalog's server sends for it must have that hash: a plan is made of
//! what was resolved, or not at all.

use std::sync::Arc;

use async_trait::async_trait;
use olm_runtime::NamespacedName;
use olm_runtime::isolation;

use crate::bundle_unpack::content::read_files;
use crate::bundle_unpack::error::UnpackClass;
use crate::bundle_unpack::{BundleSource, InlineBundle, UnpackError, UnpackedBundle};
use crate::manifest::Manifest;
use crate::object;
use crate::snapshots::Snapshots;

/// Bundles from wherever they are: from images, or from the catalogs that carry them.
pub(crate) struct BundleSources {
    /// For those with an image.
    pub(crate) images: Arc<dyn BundleSource>,
    /// For those without.
    pub(crate) catalogs: Snapshots,
}

#[async_trait]
impl BundleSource for BundleSources {
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        self.images.fetch(image, catalog).await
    }

    async fn fetch_inline(
        &self,
        bundle: &InlineBundle,
        catalog: &NamespacedName,
    ) -> Result<UnpackedBundle, UnpackError> {
        let objects = self.catalogs.manifests(catalog, bundle).await;
        // The catalog's server may come back, and what has changed is read again meanwhile.
        let objects = objects.map_err(|cause| UnpackError::new(UnpackClass::Unreachable, cause))?;
        // Parsing some megabytes is no work for the threads that serve watches.
        let read = isolation::blocking(move || read_manifests(&objects)).await;
        read.unwrap_or_else(|panicked| Err(UnpackError::new(UnpackClass::InvalidManifest, panicked)))
    }
}

/// The objects as a bundle.
pub(crate) fn read_manifests(objects: &[String]) -> Result<UnpackedBundle, UnpackError> {
    let names: Vec<String> = (0..objects.len())
        .map(|index| format!("object {index:04}.json"))
        .collect();
    let files = names
        .iter()
        .zip(objects)
        .map(|(name, object)| (name.as_str(), object.as_bytes()));
    read_files("", files).and_then(without_references)
}

/// An object's text becomes the manifest of its step, which may be a reference as well: a catalog does not get to name things
/// that OLM then reads.
fn without_references(bundle: UnpackedBundle) -> Result<UnpackedBundle, UnpackError> {
    match bundle
        .objects
        .iter()
        .find(|file| Manifest::is_posing(&file.object))
    {
        None => Ok(bundle),
        Some(file) => {
            let (kind, name) = (object::kind(&file.object), object::name(&file.object));
            let cause = format!(
                "{}: {kind} {name} has the form of a reference that only an InstallPlan may contain",
                file.name
            );
            Err(UnpackError::new(UnpackClass::InvalidManifest, cause))
        }
    }
}
