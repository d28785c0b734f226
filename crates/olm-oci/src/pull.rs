//! Pulling: a reference becomes a digest, the digest a manifest, the manifest's layers the files that are wanted.
//!
//! # Guarantees
//! - Every byte that is used was verified: manifests against the digest asked for, configuration and layers against
//!   the manifest. A tag is resolved once; everything after that goes by digest.
//! - A tag's digest is computed from the manifest itself, never taken from a registry's word.
//! - Nothing is larger than [`Limits`] allow, compressed or not.
//! - Hosts are tried in the order of the registry configuration, for every object anew, the registry itself last.

use std::collections::BTreeMap;

use oci_client::manifest::{OciImageIndex, OciImageManifest};
use serde::Deserialize;

use crate::auth::Credentials;
use crate::cache::ContentCache;
use crate::config::ImageConfig;
use crate::content::{ImageContent, View};
use crate::digest::Digest;
use crate::error::{PullError, PullErrorClass};
use crate::layer::Flattened;
use crate::limits::Limits;
use crate::reference::Reference;
use crate::registry_config::RegistryConfig;
use crate::transport::{Object, Source};

/// Media types of manifests and indexes, OCI's and Docker's.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// Pulls images; cheap to keep, holds no connection between pulls.
#[derive(Debug, Clone, Default)]
pub struct Puller {
    config: RegistryConfig,
    limits: Limits,
    cache: Option<ContentCache>,
}

impl Puller {
    /// A puller that finds hosts through `config`, with the limits for bundle images and without a cache.
    pub fn new(config: RegistryConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Keeps what [`Puller::content`] pulls.
    #[must_use]
    pub fn with_cache(self, cache: ContentCache) -> Self {
        Self {
            cache: Some(cache),
            ..self
        }
    }

    /// The image by digest alone. A reference that has a digest is returned without asking anybody.
    ///
    /// # Errors
    /// [`PullError`], its class telling what kind.
    pub async fn resolve(
        &self,
        image: &Reference,
        credentials: &Credentials,
    ) -> Result<Reference, PullError> {
        if let Some(digest) = image.digest() {
            return Ok(image.pinned(digest.clone()));
        }
        let mut source = Source::new(image, &self.config, credentials)?;
        let bytes = self.top_manifest(&mut source).await?;
        Ok(image.pinned(Digest::sha256(&bytes)))
    }

    /// Manifest and configuration of an image; layers are read when [`Image::files`] asks for them.
    ///
    /// An index is followed to this machine's architecture, else to amd64, else to its first image: what is read here
    /// are files, which rarely differ.
    ///
    /// # Errors
    /// [`PullError`], its class telling what kind.
    pub async fn open(&self, image: &Reference, credentials: &Credentials) -> Result<Image, PullError> {
        let mut source = Source::new(image, &self.config, credentials)?;
        let top = self.top_manifest(&mut source).await?;
        let digest = image.digest().cloned().unwrap_or_else(|| Digest::sha256(&top));
        let malformed = |detail: String| PullError::of_content(image, PullErrorClass::Malformed, detail);
        let manifest = match parse_manifest(&top).map_err(malformed)? {
            Manifest::Image(manifest) => *manifest,
            Manifest::Index(index) => {
                let chosen = choose_platform(&index).map_err(malformed)?;
                let object = Object::Manifest {
                    selector: chosen.as_str(),
                    accept: ACCEPT,
                };
                let bytes = source
                    .document(object, Some(&chosen), self.limits.document, check_manifest)
                    .await?;
                match parse_manifest(&bytes).map_err(malformed)? {
                    Manifest::Image(manifest) => *manifest,
                    Manifest::Index(_) => return Err(malformed("the index leads to another index".into())),
                }
            }
        };
        if manifest.layers.len() > self.limits.layers {
            let detail = format!(
                "{} layers, {} are allowed",
                manifest.layers.len(),
                self.limits.layers
            );
            return Err(PullError::of_content(image, PullErrorClass::TooLarge, detail));
        }
        let config_digest: Digest = manifest
            .config
            .digest
            .parse()
            .map_err(|error| malformed(format!("configuration: {error}")))?;
        let bytes = source
            .document(
                Object::Blob(&config_digest),
                Some(&config_digest),
                self.limits.document,
                check_config,
            )
            .await?;
        let config = parse_config(&bytes).map_err(malformed)?;
        Ok(Image {
            digest,
            config,
            manifest,
            source,
            limits: self.limits,
        })
    }

    /// The wanted part of an image, from the cache if it has it.
    ///
    /// The cache is asked by digest, so a reference by digest that is in it needs no registry and no credentials. Who
    /// knows a digest may read what another user of this process could pull, as on any node that shares images.
    ///
    /// # Errors
    /// [`PullError`], its class telling what kind. A cache that cannot be used is logged and otherwise ignored.
    pub async fn content(
        &self,
        image: &Reference,
        credentials: &Credentials,
        view: View,
    ) -> Result<ImageContent, PullError> {
        if let (Some(cache), Some(digest)) = (&self.cache, image.digest())
            && let Some(content) = cache.get(digest, view)
        {
            return Ok(content);
        }
        let mut opened = self.open(image, credentials).await?;
        if let (Some(cache), None) = (&self.cache, image.digest())
            && let Some(content) = cache.get(opened.digest(), view)
        {
            return Ok(content);
        }
        let folders = view.folders(opened.labels());
        let files = opened.files(&folders).await?;
        let content = ImageContent {
            digest: opened.digest.clone(),
            labels: opened.config.config.labels,
            files,
        };
        if let Some(cache) = &self.cache
            && let Err(error) = cache.put(&content, view)
        {
            tracing::warn!(%image, %error, "pulled content is not cached");
        }
        Ok(content)
    }

    async fn top_manifest(&self, source: &mut Source) -> Result<bytes::Bytes, PullError> {
        let image = source.image().clone();
        let object = Object::Manifest {
            selector: image.selector(),
            accept: ACCEPT,
        };
        source
            .document(object, image.digest(), self.limits.document, check_manifest)
            .await
    }
}

/// An image whose manifest and configuration are known.
#[derive(Debug)]
pub struct Image {
    digest: Digest,
    config: ImageConfig,
    manifest: OciImageManifest,
    source: Source,
    limits: Limits,
}

impl Image {
    /// The digest that the reference means: of the index if there is one, else of the manifest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The image's configuration.
    pub fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// The labels of the image's configuration.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.config.config.labels
    }

    /// The files in some folders (paths from the root), by path without leading slash, all layers considered.
    ///
    /// # Errors
    /// [`PullError`], its class telling what kind.
    pub async fn files(&mut self, folders: &[String]) -> Result<BTreeMap<String, bytes::Bytes>, PullError> {
        let image = self.source.image().clone();
        let mut flattened = Flattened::new(folders, self.limits);
        for layer in &self.manifest.layers {
            let digest: Digest = layer.digest.parse().map_err(|error| {
                PullError::of_content(&image, PullErrorClass::Malformed, format!("layer: {error}"))
            })?;
            let blob = self.source.blob(&digest, self.limits.layer).await?;
            let unpack = tokio::task::spawn_blocking(move || {
                let result = flattened.add_layer(blob);
                (flattened, result)
            });
            let (next, result) = unpack.await.map_err(|error| {
                PullError::of_content(
                    &image,
                    PullErrorClass::Malformed,
                    format!("layer {digest}: {error}"),
                )
            })?;
            flattened = next;
            result.map_err(|error| {
                PullError::of_content(&image, error.class(), format!("layer {digest}: {error}"))
            })?;
        }
        flattened
            .into_files()
            .map_err(|error| PullError::of_content(&image, error.class(), error))
    }
}

pub(crate) enum Manifest {
    Image(Box<OciImageManifest>),
    Index(Box<OciImageIndex>),
}

/// A manifest or an index; told apart by content, because the media type inside is optional.
pub(crate) fn parse_manifest(bytes: &[u8]) -> Result<Manifest, String> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "schemaVersion", default)]
        schema_version: u32,
        #[serde(default)]
        manifests: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        config: Option<serde::de::IgnoredAny>,
    }
    let unreadable = |error: serde_json::Error| format!("the manifest is not readable: {error}");
    let shape: Shape = serde_json::from_slice(bytes).map_err(unreadable)?;
    match shape {
        Shape {
            schema_version: 2,
            manifests: None,
            config: Some(_),
        } => Ok(Manifest::Image(Box::new(
            serde_json::from_slice(bytes).map_err(unreadable)?,
        ))),
        Shape {
            schema_version: 2,
            manifests: Some(_),
            config: None,
        } => Ok(Manifest::Index(Box::new(
            serde_json::from_slice(bytes).map_err(unreadable)?,
        ))),
        Shape {
            schema_version: 2, ..
        } => Err("the manifest is neither of an image (`config`) nor an index (`manifests`)".to_owned()),
        Shape { schema_version, .. } => Err(format!(
            "manifests of schema version {schema_version} are not supported, only 2"
        )),
    }
}

fn check_manifest(bytes: &[u8]) -> Result<(), String> {
    parse_manifest(bytes).map(drop)
}

fn check_config(bytes: &[u8]) -> Result<(), String> {
    parse_config(bytes).map(drop)
}

fn parse_config(bytes: &[u8]) -> Result<ImageConfig, String> {
    serde_json::from_slice(bytes)
        .map_err(|error| format!("the image's configuration is not readable: {error}"))
}

/// The architecture of this machine in Go's words, which image indexes use.
pub(crate) fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

pub(crate) fn choose_platform(index: &OciImageIndex) -> Result<Digest, String> {
    let for_linux = |architecture: &str| {
        index.manifests.iter().find(|entry| {
            entry.platform.as_ref().is_some_and(|platform| {
                platform.os.to_string() == "linux" && platform.architecture.to_string() == architecture
            })
        })
    };
    // Attestations are listed with an unknown platform; they are no images.
    let first_image = || {
        index.manifests.iter().find(|entry| {
            entry
                .platform
                .as_ref()
                .is_none_or(|platform| platform.os.to_string() == "linux")
        })
    };
    let entry = for_linux(host_architecture())
        .or_else(|| for_linux("amd64"))
        .or_else(first_image)
        .ok_or_else(|| "the index has no image for linux".to_owned())?;
    entry.digest.parse().map_err(|error| format!("index: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &[(&str, &str)]) -> OciImageIndex {
        let entries: Vec<_> = entries
            .iter()
            .enumerate()
            .map(|(at, (os, architecture))| {
                serde_json::json!({"mediaType": OCI_MANIFEST, "size": 1, "digest": format!("sha256:{at:064}"),
                    "platform": {"os": os, "architecture": architecture}})
            })
            .collect();
        serde_json::from_value(serde_json::json!({"schemaVersion": 2, "manifests": entries})).expect("index")
    }

    #[test]
    fn the_machines_platform_is_chosen_then_amd64_then_any_linux() {
        let here = host_architecture();
        for (entries, expected) in [
            (
                &[("windows", here), ("linux", "s390x"), ("linux", here)][..],
                Some(2),
            ),
            (&[("linux", "s390x"), ("linux", "amd64")], Some(1)),
            (&[("unknown", "unknown"), ("linux", "s390x")], Some(1)),
            (&[("windows", "amd64")], None),
        ] {
            let chosen = choose_platform(&index(entries))
                .ok()
                .map(|digest| digest.hex().parse::<u32>());
            assert_eq!(chosen.map(|at| at.expect("number")), expected, "{entries:?}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_told() {
        for (text, expected) in [
            ("<html>", "the manifest is not readable"),
            ("{}", "schema version 0 are not supported"),
            (
                r#"{"schemaVersion":1,"fsLayers":[]}"#,
                "schema version 1 are not supported",
            ),
            (r#"{"schemaVersion":2}"#, "neither of an image"),
            (
                r#"{"schemaVersion":2,"config":{}}"#,
                "the manifest is not readable",
            ),
        ] {
            let error = parse_manifest(text.as_bytes()).err().expect(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
