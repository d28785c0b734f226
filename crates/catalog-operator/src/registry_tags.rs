//! Digests behind tags, from image registries, with the credentials a catalog brings.

use async_trait::async_trait;
use kube::Client;
use olm_api::v1alpha1::CatalogSource;
use olm_oci::{PullError, Puller, Reference, RegistryConfig};
use olm_runtime::NamespacedName;
use olm_runtime::store::Store;

use crate::bundle_unpack::pull_secrets::PullSecrets;

/// Source of the digests behind tags.
#[async_trait]
pub trait ImageTags: Send + Sync {
    /// Returns the digest behind the tag of `image`, with the pull secrets of `catalog`.
    async fn digest(&self, image: &str, catalog: &NamespacedName) -> Result<String, String>;
}

/// Reads digests from image registries.
pub(crate) struct RegistryTags {
    secrets: PullSecrets,
    puller: Puller,
}

impl RegistryTags {
    /// Creates a reader for registries found with `config`.
    pub(crate) fn new(client: Client, catalogs: Store<CatalogSource>, config: RegistryConfig) -> Self {
        Self {
            secrets: PullSecrets::new(client, catalogs),
            puller: Puller::new(config),
        }
    }
}

#[async_trait]
impl ImageTags for RegistryTags {
    async fn digest(&self, image: &str, catalog: &NamespacedName) -> Result<String, String> {
        let image: Reference = image.parse().map_err(text)?;
        let mut credentials = self.secrets.of_catalog(catalog).await.map_err(text)?;
        let mut digest = self.puller.reported_digest(&image, &credentials).await;
        let refused = digest.as_ref().err().map(PullError::class);
        let more = self.secrets.add_more(catalog, &mut credentials, refused).await;
        if more.map_err(text)? {
            digest = self.puller.reported_digest(&image, &credentials).await;
        }
        digest.map(|digest| digest.to_string()).map_err(text)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
