//! Bundles from image registries, with the credentials of a catalog.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::Client;
use olm_api::v1alpha1::CatalogSource;
use olm_oci::{
    Digest, ImageContent, Limits, PullError, PullErrorClass, Puller, Reference, RegistryConfig, Spool,
};
use olm_runtime::NamespacedName;
use olm_runtime::isolation;
use olm_runtime::store::Store;

use super::access::{FRESH, KNOWN, Keys, PullGrants};
use super::bundle_cache::BundleCache;
use super::content::{UnpackedBundle, VIEW, read_image};
use super::error::{UnpackClass, UnpackError};
use super::pull_secrets::PullSecrets;
use super::unpacker::BundleSource;

/// Default limit of bundle content on disk, in bytes: a few hundred bundles.
pub(crate) const DEFAULT_CACHE_BYTES: u64 = 256 << 20;
/// Limit of layers on disk during a pull, in bytes: four of the largest layers of a bundle image.
pub(crate) const SPOOL_BYTES: u64 = 4 * Limits::BUNDLE.layer;

/// Pulls bundle images and reads them.
///
/// Secrets are read for every bundle that is not in memory, because content on disk is only returned for
/// secrets with access to it.
pub(crate) struct ImageBundleSource {
    secrets: PullSecrets,
    puller: Puller,
    cache: Option<Arc<BundleCache>>,
    consents: PullGrants,
}

impl ImageBundleSource {
    /// Creates a source that finds registries with `config` and stores content in `cache_dir`, up to
    /// [`DEFAULT_CACHE_BYTES`]. During a pull, layers too large for memory are stored in the same folder,
    /// else in the system's temporary folder, up to [`SPOOL_BYTES`].
    pub(crate) fn new(
        client: Client,
        catalogs: Store<CatalogSource>,
        config: RegistryConfig,
        cache_dir: Option<PathBuf>,
    ) -> Self {
        let spool = cache_dir.clone().unwrap_or_else(std::env::temp_dir);
        Self {
            secrets: PullSecrets::new(client, catalogs),
            puller: Puller::new(config).with_spool(Spool::new(spool, SPOOL_BYTES)),
            cache: cache_dir.map(|dir| Arc::new(BundleCache::new(dir, DEFAULT_CACHE_BYTES))),
            consents: PullGrants::default(),
        }
    }

    /// Stores layers in another folder, if one is given.
    #[must_use]
    pub(crate) fn with_spool(self, folder: Option<PathBuf>) -> Self {
        match folder {
            Some(folder) => Self {
                puller: self.puller.with_spool(Spool::new(folder, SPOOL_BYTES)),
                ..self
            },
            None => self,
        }
    }

    async fn content(
        &self,
        image: &Reference,
        catalog: &NamespacedName,
    ) -> Result<ImageContent, UnpackError> {
        let keys = self.secrets.of_catalog(catalog).await?;
        let refused = match self.content_for(image, &catalog.namespace, &keys).await {
            Ok(content) => return Ok(content),
            Err(error) => error,
        };
        // The ServiceAccount of the catalog's pod may have more secrets; it is only read when the catalog's
        // own do not suffice.
        let class = refused.class();
        if class != PullErrorClass::Unauthorized && !is_silent(class) {
            return Err(UnpackError::new(class.into(), refused));
        }
        let more = self.secrets.of_service_account(catalog).await?;
        if more.is_empty() {
            return Err(UnpackError::new(class.into(), refused));
        }
        let mut all = keys;
        all.merge(more);
        let content = if class == PullErrorClass::Unauthorized {
            self.content_for(image, &catalog.namespace, &all).await
        } else {
            // A registry without a response just now is not contacted again, but it may have accepted these
            // credentials before.
            self.without_registry(image, &catalog.namespace, &all, refused)
                .await
        };
        content.map_err(|error| UnpackError::new(error.class().into(), error))
    }

    /// Returns the content for catalogs of a namespace with these keys: from disk if a registry has shown the
    /// image for them.
    async fn content_for(
        &self,
        image: &Reference,
        namespace: &str,
        keys: &Keys,
    ) -> Result<ImageContent, PullError> {
        if let Some(content) = self.permitted(image, namespace, keys, FRESH).await {
            return Ok(content);
        }
        let mut opened = match self.puller.open(image, &keys.credentials).await {
            Ok(opened) => opened,
            Err(error) => return self.without_registry(image, namespace, keys, error).await,
        };
        // Access to the manifest includes access to the layers in it.
        let digest = opened.digest().clone();
        self.consents.note(&digest, namespace, keys);
        if let Some(content) = self.cached(namespace, &digest).await {
            return Ok(content);
        }
        let folders = VIEW.folders(opened.labels());
        let files = opened.files(&folders).await?;
        let labels = opened.labels().clone();
        let content = ImageContent {
            digest,
            labels,
            files,
        };
        self.keep(image, namespace, &content).await;
        Ok(content)
    }

    /// While the registry does not respond, content on disk is returned for keys that had access before. A
    /// refusal counts.
    async fn without_registry(
        &self,
        image: &Reference,
        namespace: &str,
        keys: &Keys,
        error: PullError,
    ) -> Result<ImageContent, PullError> {
        if is_silent(error.class()) {
            return self.permitted(image, namespace, keys, KNOWN).await.ok_or(error);
        }
        if let Some(digest) = image.digest() {
            self.consents.withdraw(digest, namespace, keys);
        }
        Err(error)
    }

    async fn permitted(
        &self,
        image: &Reference,
        namespace: &str,
        keys: &Keys,
        age: Duration,
    ) -> Option<ImageContent> {
        let digest = image.digest()?;
        if !self.consents.was_given(digest, namespace, keys, age) {
            return None;
        }
        self.cached(namespace, digest).await
    }

    /// Returns the content on disk. Reading and hashing a bundle must not run on the thread of watches.
    async fn cached(&self, namespace: &str, digest: &Digest) -> Option<ImageContent> {
        let cache = Arc::clone(self.cache.as_ref()?);
        let (namespace, digest) = (namespace.to_owned(), digest.clone());
        let read = isolation::blocking(move || cache.get(&namespace, &digest, VIEW)).await;
        read.unwrap_or_else(|panicked| {
            tracing::error!(message = panicked.message, "reading the bundle cache panicked");
            None
        })
    }

    /// Stores pulled content on disk. If that fails, it is pulled again next time.
    async fn keep(&self, image: &Reference, namespace: &str, content: &ImageContent) {
        let Some(cache) = self.cache.clone() else {
            return;
        };
        let (namespace, content) = (namespace.to_owned(), content.clone());
        let trouble = match isolation::blocking(move || cache.put(&namespace, &content, VIEW)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panicked) => panicked.message,
        };
        tracing::warn!(%image, error = trouble, "cannot cache pulled content");
    }
}

#[async_trait]
impl BundleSource for ImageBundleSource {
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        let reference: Reference = image
            .parse()
            .map_err(|error| UnpackError::new(UnpackClass::Malformed, error))?;
        let content = Box::pin(self.content(&reference, catalog)).await?;
        // Parsing some megabytes of YAML must not run on the threads of watches.
        let pinned = pinned(&reference, &content.digest);
        let read = tokio::task::spawn_blocking(move || read_image(&pinned, &content));
        read.await.map_err(|error| {
            UnpackError::new(
                UnpackClass::InvalidManifest,
                format!("image `{image}`: reading was interrupted: {error}"),
            )
        })?
    }
}

/// True when no registry has responded.
fn is_silent(class: PullErrorClass) -> bool {
    matches!(
        class,
        PullErrorClass::UnknownHost | PullErrorClass::Unreachable | PullErrorClass::Untrusted
    )
}

fn pinned(image: &Reference, digest: &Digest) -> String {
    image.pinned(digest.clone()).to_string()
}

#[cfg(test)]
mod sharing;

#[cfg(test)]
mod tests {
    use super::*;

    /// The volume must have space for the cache, the layers being pulled, and one more write before an
    /// eviction.
    #[test]
    fn the_volume_of_the_deployment_has_room_for_everything() {
        let manifest = include_str!("../../../../manifests/olm/20-catalog-operator.yaml");
        let size = manifest
            .split_once("sizeLimit: ")
            .and_then(|(_, rest)| rest.lines().next()?.strip_suffix("Gi"))
            .and_then(|gibibytes| gibibytes.parse::<u64>().ok())
            .unwrap();
        let written = 4 * Limits::BUNDLE.content;
        assert!(DEFAULT_CACHE_BYTES + SPOOL_BYTES + written <= size << 30);
        assert!(manifest.contains("--unpack-cache=/cache") && manifest.contains("mountPath: /cache"));
    }
}
