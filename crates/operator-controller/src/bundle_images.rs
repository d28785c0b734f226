//! Reads bundles from their images.

use async_trait::async_trait;
use catalogd::registry::{Registry, pull_error};
use olm_api::labels::bundle;
use olm_oci::{ImageContent, Reference, View};
use olm_runtime::isolation;

use crate::render::Bundle;

/// Folder of the manifests without a label.
const MANIFESTS: &str = "manifests";
/// Folder of the metadata without a label.
const METADATA: &str = "metadata";

/// The files of a bundle image that are read.
pub const VIEW: View = |labels| folders(labels).map(str::to_owned).to_vec();

/// Where bundles come from.
#[async_trait]
pub trait BundleImages: Send + Sync {
    /// Returns the bundle in an image.
    ///
    /// # Errors
    /// The image cannot be pulled, or is no bundle.
    async fn bundle(&self, image: &str) -> Result<Bundle, String>;
}

#[async_trait]
impl BundleImages for Registry {
    async fn bundle(&self, image: &str) -> Result<Bundle, String> {
        let reference: Reference = image
            .parse()
            .map_err(|error| format!("error parsing image reference {image:?}: {error}"))?;
        let credentials = self.credentials().await?;
        let pulled = self.puller()?.content(&reference, &credentials, VIEW).await;
        let content = pulled.map_err(|error| pull_error(&reference, &error))?;
        tracing::info!(image, "bundle pulled");
        let read = isolation::blocking(move || read(&content)).await;
        read.map_err(|panicked| panicked.to_string())?
    }
}

/// Returns the folders of manifests and metadata of an image with these labels.
fn folders(labels: &std::collections::BTreeMap<String, String>) -> [&str; 2] {
    let folder = |label: &str, default| labels.get(label).map_or(default, String::as_str);
    [
        folder(bundle::MANIFESTS, MANIFESTS),
        folder(bundle::METADATA, METADATA),
    ]
}

/// Reads the bundle in an image. Its labels may name other folders than the usual ones.
///
/// # Errors
/// The files are no bundle.
pub fn read(content: &ImageContent) -> Result<Bundle, String> {
    let usual = folders(&content.labels).into_iter().zip([MANIFESTS, METADATA]);
    let files: Vec<(String, &[u8])> = usual
        .flat_map(|(folder, usual)| {
            let files = content.below(folder);
            files.map(move |(path, bytes)| (format!("{usual}/{path}"), bytes.as_ref()))
        })
        .collect();
    Bundle::read(files.iter().map(|(path, bytes)| (path.as_str(), *bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_that_the_labels_name() {
        let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\nspec: {}\n";
        for (folder, labels) in [
            ("manifests", Vec::new()),
            ("deploy", vec![(bundle::MANIFESTS, "deploy/")]),
        ] {
            let content = ImageContent {
                digest: olm_oci::Digest::sha256(b""),
                labels: labels
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
                files: [(format!("{folder}/csv.yaml"), csv.as_bytes().into())].into(),
            };
            assert_eq!(
                read(&content).unwrap().csv.metadata.name.as_deref(),
                Some("a.v1"),
                "{folder}"
            );
        }
    }
}
