//! Catalogs from image registries.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use olm_api::labels::INDEX_CONFIGS;
use olm_oci::{PullError, Reference};

use super::{CatalogImages, UnpackError};
use crate::registry::{Registry, pull_error, with_way_out};

#[async_trait]
impl CatalogImages for Registry {
    async fn resolve(&self, image: &Reference) -> Result<Reference, UnpackError> {
        let credentials = self.credentials().await.map_err(UnpackError::retried)?;
        let puller = self.puller().map_err(UnpackError::retried)?;
        let resolved = puller.resolve(image, &credentials).await;
        resolved.map_err(|error| UnpackError::retried(pull_error(image, &error)))
    }

    async fn fetch(
        &self,
        image: &Reference,
        as_requested: &Reference,
        folder: &Path,
    ) -> Result<(), UnpackError> {
        let credentials = self.credentials().await.map_err(UnpackError::retried)?;
        let puller = self.puller().map_err(UnpackError::retried)?;
        let failed = |error: PullError| UnpackError::retried(with_way_out(&error));
        let mut opened = puller.open(image, &credentials).await.map_err(failed)?;
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
}
