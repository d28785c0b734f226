//! Bundles from image registries, with the credentials a catalog brings.

use std::path::PathBuf;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client};
use olm_api::v1alpha1::CatalogSource;
use olm_oci::{
    ContentCache, Credentials, CredentialsError, Digest, ImageContent, PullErrorClass, Puller, Reference,
    RegistryConfig,
};
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::store::Store;

use super::content::{UnpackedBundle, VIEW, read_image};
use super::error::{UnpackClass, UnpackError};
use super::unpacker::BundleSource;

/// Bytes of bundle content kept on disk when nothing else is said: a few hundred bundles.
pub const DEFAULT_CACHE_BYTES: u64 = 256 << 20;

/// Pulls bundle images and reads them.
///
/// Secrets are read live, and only when an image really has to be pulled: a cache of them would hold every Secret of the
/// cluster.
pub struct RegistrySource {
    client: Client,
    catalogs: Store<CatalogSource>,
    puller: Puller,
    cache: Option<ContentCache>,
}

impl RegistrySource {
    /// A source that finds registries through `config` and keeps content in `cache_dir`, up to [`DEFAULT_CACHE_BYTES`].
    pub fn new(
        client: Client,
        catalogs: Store<CatalogSource>,
        config: RegistryConfig,
        cache_dir: Option<PathBuf>,
    ) -> Self {
        let cache = cache_dir.map(|dir| ContentCache::new(dir, DEFAULT_CACHE_BYTES));
        let puller = Puller::new(config);
        let puller = match &cache {
            Some(cache) => puller.with_cache(cache.clone()),
            None => puller,
        };
        Self {
            client,
            catalogs,
            puller,
            cache,
        }
    }

    async fn pull(&self, image: &Reference, catalog: &NamespacedName) -> Result<ImageContent, UnpackError> {
        let credentials = self.catalog_credentials(catalog).await?;
        let refused = match self.puller.content(image, &credentials, VIEW).await {
            Ok(content) => return Ok(content),
            Err(error) => error,
        };
        // The ServiceAccount of the catalog's pod may know more; it is only asked when the catalog's own secrets do not suffice.
        if refused.class() == PullErrorClass::Unauthorized {
            let more = self.service_account_credentials(catalog).await?;
            if !more.is_empty() {
                let mut all = credentials;
                all.merge(more);
                let content = self.puller.content(image, &all, VIEW).await;
                return content.map_err(|error| UnpackError::new(error.class().into(), error));
            }
        }
        Err(UnpackError::new(refused.class().into(), refused))
    }

    /// Pull secrets named by the CatalogSource. A catalog that is gone brings none.
    async fn catalog_credentials(&self, catalog: &NamespacedName) -> Result<Credentials, UnpackError> {
        let found = self.catalogs.get_key(catalog);
        let names = found
            .map(|catalog| catalog.spec.secrets.to_vec())
            .unwrap_or_default();
        self.read_secrets(&catalog.namespace, &names).await
    }

    /// Pull secrets of the ServiceAccount of the catalog's pod, which has the catalog's name.
    async fn service_account_credentials(
        &self,
        catalog: &NamespacedName,
    ) -> Result<Credentials, UnpackError> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &catalog.namespace);
        let account = deadline(&format!("ServiceAccount {catalog}"), api.get_opt(&catalog.name))
            .await
            .map_err(unreadable)?;
        let secrets = account
            .and_then(|account| account.image_pull_secrets)
            .unwrap_or_default();
        let names: Vec<String> = secrets.into_iter().map(|secret| secret.name).collect();
        self.read_secrets(&catalog.namespace, &names).await
    }

    async fn read_secrets(&self, namespace: &str, names: &[String]) -> Result<Credentials, UnpackError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let mut credentials = Credentials::anonymous();
        for name in names.iter().filter(|name| !name.is_empty()) {
            let what = format!("Secret {namespace}/{name}");
            // A secret that is not there is passed over, as kubelets do: another one may suffice.
            if let Some(secret) = deadline(&what, api.get_opt(name)).await.map_err(unreadable)? {
                let read = read_secret(&secret, &what);
                credentials.merge(read.map_err(|error| UnpackError::new(UnpackClass::Unauthorized, error))?);
            }
        }
        Ok(credentials)
    }
}

#[async_trait]
impl BundleSource for RegistrySource {
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        let reference: Reference = image
            .parse()
            .map_err(|error| UnpackError::new(UnpackClass::Malformed, error))?;
        let cached = reference
            .digest()
            .and_then(|digest| self.cache.as_ref()?.get(digest, VIEW));
        let content = match cached {
            Some(content) => content,
            None => self.pull(&reference, catalog).await?,
        };
        // Parsing some megabytes of YAML is no work for the threads that serve watches.
        let pinned = pinned(&reference, &content.digest);
        let read = tokio::task::spawn_blocking(move || read_image(&pinned, &content));
        read.await.map_err(|error| {
            UnpackError::new(
                UnpackClass::InvalidManifest,
                format!("image `{image}`: reading ended early: {error}"),
            )
        })?
    }
}

fn pinned(image: &Reference, digest: &Digest) -> String {
    image.pinned(digest.clone()).to_string()
}

/// Credentials in a pull secret of either type.
fn read_secret(secret: &Secret, origin: &str) -> Result<Credentials, CredentialsError> {
    let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key));
    if let Some(text) = data(".dockerconfigjson") {
        return Credentials::from_docker_config(&text.0, origin);
    }
    match data(".dockercfg") {
        Some(text) => Credentials::from_dockercfg(&text.0, origin),
        None => Ok(Credentials::anonymous()),
    }
}

/// The API server did not answer: as passing as a registry that does not.
fn unreadable(error: ObserveError) -> UnpackError {
    UnpackError::new(UnpackClass::Unreachable, error)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(key: &str, text: &str) -> Secret {
        Secret {
            data: Some([(key.to_owned(), ByteString(text.as_bytes().to_vec()))].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn both_types_of_pull_secret_are_read() {
        let auth = r#"{"quay.io": {"username": "u", "password": "p"}}"#;
        let rows = [
            (secret(".dockerconfigjson", &format!("{{\"auths\": {auth}}}")), 1),
            (secret(".dockercfg", auth), 1),
            (secret("other", "x"), 0),
        ];
        for (secret, expected) in rows {
            let credentials = read_secret(&secret, "Secret olm/s").unwrap();
            assert_eq!(credentials.for_repository("quay.io", "a/b").len(), expected);
        }
    }

    #[test]
    fn a_broken_pull_secret_is_named_without_its_content() {
        let error = read_secret(
            &secret(".dockerconfigjson", "{\"auths\": hunter2}"),
            "Secret olm/s",
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("Secret olm/s") && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
}
