//! Bundles from image registries, with the credentials of a catalog.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use kube::Client;
use olm_api::v1alpha1::CatalogSource;
use olm_oci::{Credentials, Limits, PullError, Puller, Reference, RegistryConfig, Spool};
use olm_runtime::NamespacedName;
use olm_runtime::isolation;
use olm_runtime::store::Store;

use super::bundle_store::BundleStore;
use super::content::{UnpackedBundle, VIEW, read_image};
use super::error::{UnpackClass, UnpackError};
use super::pull_secrets::PullSecrets;
use super::unpacker::BundleSource;

/// Limit of layers on disk during a pull, in bytes: four of the largest layers of a bundle image.
pub(crate) const SPOOL_BYTES: u64 = 4 * Limits::BUNDLE.layer;

/// A bundle whose image was readable, or the fault of its content.
type Read = Result<UnpackedBundle, UnpackError>;

/// Pulls bundle images and reads them.
///
/// Secrets are read for every fetch, because content on disk is only returned for secrets with access to it.
pub(crate) struct ImageBundleSource {
    secrets: PullSecrets,
    puller: Puller,
    store: Arc<BundleStore>,
}

impl ImageBundleSource {
    /// Creates a source that finds registries with `config`, and first looks in `store`. During a pull, layers
    /// too large for memory are stored in the folder `spool`, else in the system's temporary folder, up to
    /// [`SPOOL_BYTES`].
    pub(crate) fn new(
        client: Client,
        catalogs: Store<CatalogSource>,
        config: RegistryConfig,
        spool: Option<PathBuf>,
        store: Arc<BundleStore>,
    ) -> Self {
        let spool = spool.unwrap_or_else(std::env::temp_dir);
        Self {
            secrets: PullSecrets::new(client, catalogs),
            puller: Puller::new(config).with_spool(Spool::new(spool, SPOOL_BYTES)),
            store,
        }
    }

    async fn bundle(&self, image: &Reference, catalog: &NamespacedName) -> Read {
        let mut credentials = self.secrets.of_catalog(catalog).await?;
        let mut read = self.bundle_for(image, &catalog.namespace, &credentials).await;
        let refused = read.as_ref().err().map(PullError::class);
        if self.secrets.add_more(catalog, &mut credentials, refused).await? {
            read = self.bundle_for(image, &catalog.namespace, &credentials).await;
        }
        read.unwrap_or_else(|error| Err(UnpackError::new(error.class().into(), error)))
    }

    /// Returns the bundle for catalogs of a namespace with these credentials, to which the registry has to show
    /// the image: that its content is on disk grants no access to it.
    async fn bundle_for(
        &self,
        image: &Reference,
        namespace: &str,
        credentials: &Credentials,
    ) -> Result<Read, PullError> {
        // Access to the manifest includes access to the layers in it.
        let mut opened = self.puller.open(image, credentials).await?;
        let pinned = image.pinned(opened.digest().clone()).to_string();
        if let Some(bundle) = self.stored(namespace, &pinned).await {
            return Ok(Ok(bundle));
        }
        let folders = VIEW(opened.labels());
        let content = opened.content(&folders).await?;
        // Parsing some megabytes of YAML must not run on the threads of watches.
        let read = isolation::blocking(move || read_image(&pinned, &content)).await;
        Ok(read.unwrap_or_else(|panicked| {
            let cause = format!("image `{image}`: reading was interrupted: {panicked}");
            Err(UnpackError::new(UnpackClass::InvalidManifest, cause))
        }))
    }

    /// Returns the bundle on disk. Reading a large one must not run on the thread of watches.
    async fn stored(&self, namespace: &str, pinned: &str) -> Option<UnpackedBundle> {
        let stored = self.store.image(namespace, pinned);
        let read = isolation::blocking(move || stored.read()).await;
        read.unwrap_or_else(|panicked| {
            tracing::error!(message = panicked.message, "reading a stored bundle panicked");
            None
        })
    }
}

#[async_trait]
impl BundleSource for ImageBundleSource {
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        let reference: Reference = image
            .parse()
            .map_err(|error| UnpackError::new(UnpackClass::Malformed, error))?;
        Box::pin(self.bundle(&reference, catalog)).await
    }
}

#[cfg(test)]
mod tests {
    mod sharing;

    use super::super::bundle_store::{BUNDLE_BYTES, STORE_BYTES};
    use super::*;

    /// The volume must have space for the store, the layers being pulled, and the bundle that is written before
    /// others are removed.
    #[test]
    fn the_volume_of_the_deployment_has_room_for_everything() {
        let manifest = include_str!("../../../../manifests/olm/20-catalog-operator.yaml");
        let size = manifest
            .split_once("sizeLimit: ")
            .and_then(|(_, rest)| rest.lines().next()?.strip_suffix("Gi"))
            .and_then(|gibibytes| gibibytes.parse::<u64>().ok())
            .unwrap();
        let written = BUNDLE_BYTES as u64;
        assert!(STORE_BYTES + SPOOL_BYTES + written <= size << 30);
        assert!(manifest.contains("--unpack-cache=/cache") && manifest.contains("mountPath: /cache"));
    }
}
