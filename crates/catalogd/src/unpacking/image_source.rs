//! Catalogs from image registries.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use olm_api::labels::INDEX_CONFIGS;
use olm_oci::{ContainerTools, Limits, PullError, PullErrorClass, Puller, Reference, RegistryConfig, Spool};

use super::pull_secrets::PullSecrets;
use super::{CatalogImages, UnpackError};

/// Bytes of layers on disk during pulls: two of the largest.
const SPOOL_BYTES: u64 = 2 * Limits::CATALOG.layer;

/// Pulls catalog images.
pub(crate) struct RegistryImages {
    secrets: PullSecrets,
    /// Folder with certificates of authorities, as PEM.
    authorities: Option<PathBuf>,
    spool: Spool,
}

impl RegistryImages {
    /// Pulls with the credentials in `secrets`. Registries may be signed by the `authorities` in a folder. Large layers are kept in the
    /// folder `spool` while they are pulled.
    pub(crate) fn new(secrets: PullSecrets, authorities: Option<PathBuf>, spool: PathBuf) -> Self {
        Self {
            secrets,
            authorities,
            spool: Spool::new(spool, SPOOL_BYTES),
        }
    }

    /// Returns a puller that trusts the authorities that are in the folder now.
    fn puller(&self) -> Result<Puller, UnpackError> {
        let mut config = RegistryConfig::default().with_tools(ContainerTools::new(None));
        for file in certificates(self.authorities.as_deref())? {
            config = config.with_root_ca(file);
        }
        let puller = Puller::new(config).with_limits(Limits::CATALOG);
        Ok(puller.with_spool(self.spool.clone()))
    }
}

/// Returns the files of a folder of certificates. Kubernetes keeps the content of mounted volumes in names with two dots.
fn certificates(folder: Option<&Path>) -> Result<Vec<PathBuf>, UnpackError> {
    let Some(folder) = folder else {
        return Ok(Vec::new());
    };
    let unread =
        |error: std::io::Error| UnpackError::retried(format!("cannot read {}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let path = entry.path();
        if path.is_file() && !entry.file_name().as_encoded_bytes().starts_with(b"..") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[async_trait]
impl CatalogImages for RegistryImages {
    async fn resolve(&self, image: &Reference) -> Result<Reference, UnpackError> {
        let credentials = self.secrets.credentials().await.map_err(UnpackError::retried)?;
        let resolved = self.puller()?.resolve(image, &credentials).await;
        resolved.map_err(|error| unresolved(image, &error))
    }

    async fn fetch(
        &self,
        image: &Reference,
        as_requested: &Reference,
        folder: &Path,
    ) -> Result<(), UnpackError> {
        let credentials = self.secrets.credentials().await.map_err(UnpackError::retried)?;
        let failed = |error: PullError| UnpackError::retried(error.to_string());
        let mut opened = self.puller()?.open(image, &credentials).await.map_err(failed)?;
        let configs = configs(opened.labels(), as_requested)?;
        let count = opened.write_below(&configs, folder).await.map_err(failed)?;
        tracing::debug!(%image, count, "files of the catalog written");
        Ok(())
    }
}

/// Returns the folder of the catalog in an image with these labels.
fn configs(labels: &BTreeMap<String, String>, as_requested: &Reference) -> Result<String, UnpackError> {
    if let Some(folder) = labels.get(INDEX_CONFIGS) {
        return Ok(folder.clone());
    }
    let text = format!("catalog image is missing the required label {INDEX_CONFIGS:?}");
    // A tag may lead to another image later, which has it.
    Err(match as_requested.digest() {
        Some(_) => UnpackError::terminal(format!("error applying image: terminal error: {text}")),
        None => UnpackError::retried(format!("error applying image: {text}")),
    })
}

/// Returns upstream's text for an image that does not exist, and our own otherwise.
fn unresolved(image: &Reference, error: &PullError) -> UnpackError {
    if error.class() == PullErrorClass::NotFound {
        return UnpackError::retried(format!(
            "error creating image source: reading manifest {} in {}/{}: manifest unknown",
            image.selector(),
            image.registry(),
            image.repository(),
        ));
    }
    UnpackError::retried(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_label_is_final_only_for_a_digest() {
        let digest = format!("quay.io/a/b@sha256:{}", "0".repeat(64));
        for (image, is_terminal, text) in [
            (
                "quay.io/a/b:v1",
                false,
                "error applying image: catalog image is missing the required label \"operators.operatorframework.io.index.configs.v1\"",
            ),
            (
                &digest,
                true,
                "error applying image: terminal error: catalog image is missing the required label \"operators.operatorframework.io.index.configs.v1\"",
            ),
        ] {
            let error = configs(&BTreeMap::new(), &image.parse().unwrap()).unwrap_err();
            assert_eq!((error.is_terminal, error.text.as_str()), (is_terminal, text));
        }
        let labels = [(INDEX_CONFIGS.to_owned(), "/configs".to_owned())].into();
        assert_eq!(configs(&labels, &digest.parse().unwrap()).unwrap(), "/configs");
    }

    #[test]
    fn authorities_are_the_files_of_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("..data")).unwrap();
        for name in ["b.pem", "a.crt", "..hidden"] {
            fs::write(path.join(name), "").unwrap();
        }
        let found = certificates(Some(path)).unwrap();
        assert_eq!(found, [path.join("a.crt"), path.join("b.pem")]);
        assert_eq!(certificates(None).unwrap(), [""; 0].map(PathBuf::from));
        assert!(certificates(Some(&path.join("gone"))).is_err());
    }
}
