//! Pulling: resolves a reference to a digest, fetches its manifest, and reads the wanted files of its layers.
//!
//! # Guarantees
//! - Every byte that is used was verified: manifests against the requested digest, configuration and layers
//!   against the manifest. A tag is resolved once; everything after that goes by digest.
//! - A tag's digest is computed from the manifest itself, not taken from the registry's header.
//!   ([`Puller::reported_digest`] does take the header, but nothing is pulled by it.)
//! - Nothing is larger than [`Limits`] allow, compressed or not.
//! - Hosts are tried in the order of the registry configuration, again for each object, the registry itself last.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::auth::Credentials;
use crate::config::ImageConfig;
use crate::content::{ImageContent, View};
use crate::digest::Digest;
use crate::error::{PullError, PullErrorClass};
use crate::layer::{FileStore, Flattened};
use crate::limits::{self, LAYER_DECODERS, Limits};
use crate::manifest::{ImageManifest, Manifest, choose_platform, parse_manifest};
use crate::reference::Reference;
use crate::registry_config::RegistryConfig;
use crate::spool::Spool;
use crate::transport::{Object, Source};

/// Slots for the layers that all pulls together decompress at a time.
static DECODERS: Semaphore = Semaphore::const_new(LAYER_DECODERS);

/// Pulls images; cheap to keep, holds no connection between pulls.
#[derive(Debug, Clone, Default)]
pub struct Puller {
    config: RegistryConfig,
    limits: Limits,
    spool: Spool,
}

impl Puller {
    /// Returns a puller that finds hosts through `config`, with the limits for bundle images. Large layers
    /// are kept in the system's folder for temporary files.
    pub fn new(config: RegistryConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Keeps large layers in `spool` while they are pulled.
    #[must_use]
    pub fn with_spool(self, spool: Spool) -> Self {
        Self { spool, ..self }
    }

    /// Returns the image by digest alone. A reference that has a digest is returned without a request.
    ///
    /// # Errors
    /// [`PullError`] with the class of the failure.
    pub async fn resolve(
        &self,
        image: &Reference,
        credentials: &Credentials,
    ) -> Result<Reference, PullError> {
        if let Some(digest) = image.digest() {
            return Ok(image.pinned(digest.clone()));
        }
        let mut source = Source::new(image, &self.config, credentials, self.limits)?;
        let end = End::after(self.limits.time);
        let (bytes, _) = end.bound(image, self.top_manifest(&mut source)).await?;
        Ok(image.pinned(Digest::sha256(&bytes)))
    }

    /// Returns the digest that the registry reports for a tag, to check whether the tag has moved. The
    /// manifest is fetched only if the registry reports no digest without it. A reference with a digest needs
    /// no request.
    ///
    /// # Errors
    /// [`PullError`] with the class of the failure.
    pub async fn reported_digest(
        &self,
        image: &Reference,
        credentials: &Credentials,
    ) -> Result<Digest, PullError> {
        if let Some(digest) = image.digest() {
            return Ok(digest.clone());
        }
        let mut source = Source::new(image, &self.config, credentials, self.limits)?;
        let object = Object::Manifest(image.selector());
        let asked = async {
            match source.reported_digest(object).await? {
                Some(digest) => Ok(digest),
                None => Ok(Digest::sha256(&self.top_manifest(&mut source).await?.0)),
            }
        };
        End::after(self.limits.time).bound(image, asked).await
    }

    /// Fetches manifest and configuration of an image. Layers are read by [`Image::content`].
    ///
    /// An index is followed to this machine's architecture, else to amd64, else to its first image: only
    /// files are read here, which rarely differ.
    ///
    /// # Errors
    /// [`PullError`] with the class of the failure.
    pub async fn open(&self, image: &Reference, credentials: &Credentials) -> Result<Image, PullError> {
        let end = End::after(self.limits.time);
        end.bound(image, self.open_until(image, credentials, end)).await
    }

    async fn open_until(
        &self,
        image: &Reference,
        credentials: &Credentials,
        end: End,
    ) -> Result<Image, PullError> {
        let mut source = Source::new(image, &self.config, credentials, self.limits)?;
        let (top, parsed) = self.top_manifest(&mut source).await?;
        let digest = image.digest().cloned().unwrap_or_else(|| Digest::sha256(&top));
        let malformed = |detail: String| PullError::of_content(image, PullErrorClass::Malformed, detail);
        let manifest = match parsed {
            Manifest::Image(manifest) => *manifest,
            Manifest::Index(index) => {
                let chosen = choose_platform(&index).map_err(malformed)?;
                let object = Object::Manifest(chosen.as_str());
                let (_, parsed) = source
                    .document(object, Some(&chosen), self.limits.document, parse_manifest)
                    .await?;
                match parsed {
                    Manifest::Image(manifest) => *manifest,
                    Manifest::Index(_) => return Err(malformed("the index refers to another index".into())),
                }
            }
        };
        if let Some(detail) = self.limits.excess_of_layers(manifest.layers.len()) {
            return Err(PullError::of_content(image, PullErrorClass::TooLarge, detail));
        }
        let config_digest: Digest = manifest
            .config
            .digest
            .parse()
            .map_err(|error| malformed(format!("configuration: {error}")))?;
        let (_, config) = source
            .document(
                Object::Blob(&config_digest),
                Some(&config_digest),
                self.limits.document,
                parse_config,
            )
            .await?;
        Ok(Image {
            digest,
            config,
            manifest,
            source,
            limits: self.limits,
            spool: self.spool.clone(),
            end,
        })
    }

    /// Returns the wanted part of an image.
    ///
    /// # Errors
    /// [`PullError`] with the class of the failure.
    pub async fn content(
        &self,
        image: &Reference,
        credentials: &Credentials,
        view: View,
    ) -> Result<ImageContent, PullError> {
        let mut opened = self.open(image, credentials).await?;
        let folders = view(opened.labels());
        opened.content(&folders).await
    }

    async fn top_manifest(&self, source: &mut Source) -> Result<(bytes::Bytes, Manifest), PullError> {
        let image = source.image().clone();
        let object = Object::Manifest(image.selector());
        source
            .document(object, image.digest(), self.limits.document, parse_manifest)
            .await
    }
}

/// An image with known manifest and configuration.
#[derive(Debug)]
pub struct Image {
    digest: Digest,
    config: ImageConfig,
    manifest: ImageManifest,
    source: Source,
    limits: Limits,
    spool: Spool,
    end: End,
}

/// Deadline of a pull.
#[derive(Debug, Clone, Copy)]
struct End {
    at: Instant,
    time: Duration,
}

impl End {
    fn after(time: Duration) -> Self {
        Self {
            at: limits::end(Instant::now(), time),
            time,
        }
    }

    async fn bound<T>(
        self,
        image: &Reference,
        work: impl Future<Output = Result<T, PullError>>,
    ) -> Result<T, PullError> {
        timeout_at(self.at, work).await.unwrap_or_else(|_| {
            let detail = format!("timed out after {} s", self.time.as_secs_f32());
            Err(PullError::of_content(image, PullErrorClass::Unreachable, detail))
        })
    }
}

impl Image {
    /// Returns the digest of the reference: of the index if there is one, else of the manifest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the image's configuration.
    pub fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// Returns the labels of the image's configuration.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.config.config.labels
    }

    /// Returns labels and the files in some folders (paths from the root), all layers considered. The time of the pull counts from [`Puller::open`].
    ///
    /// # Errors
    /// [`PullError`] with the class of the failure.
    pub async fn content(&mut self, folders: &[String]) -> Result<ImageContent, PullError> {
        let (image, end) = (self.source.image().clone(), self.end);
        let flattened = Flattened::new(folders, self.limits);
        let flattened = end.bound(&image, self.read_layers(&image, flattened)).await?;
        let files = flattened
            .into_files()
            .map_err(|error| PullError::of_content(&image, error.class(), error))?;
        Ok(ImageContent {
            digest: self.digest.clone(),
            labels: self.labels().clone(),
            files,
        })
    }

    /// Writes the files below a folder (a path from the root) into `destination`, all layers considered.
    /// Returns their number. Only the destination, which must exist, holds the files: memory does not grow
    /// with them. The time of the pull counts from [`Puller::open`]. A call that is cancelled leaves no
    /// destination behind.
    ///
    /// # Errors
    /// [`PullError`] with the class of the failure.
    pub async fn write_below(&mut self, folder: &str, destination: &Path) -> Result<usize, PullError> {
        let (image, end) = (self.source.image().clone(), self.end);
        let store = FileStore::on_disk(destination).map_err(|error| {
            let detail = format!("cannot write in {}: {error}", destination.display());
            PullError::of_content(&image, PullErrorClass::Storage, detail)
        })?;
        let flattened = Flattened::new(&[folder.to_owned()], self.limits).kept_in(store);
        let flattened = end.bound(&image, self.read_layers(&image, flattened)).await?;
        let (folder, destination) = (folder.to_owned(), destination.to_owned());
        // The thread goes on after a cancellation, and could write into a folder that was just removed.
        let caller = Arc::new(());
        let waiting = Arc::downgrade(&caller);
        let written = tokio::task::spawn_blocking(move || {
            flattened.write_below(&folder, &destination, || waiting.strong_count() > 0)
        });
        let written = written
            .await
            .map_err(|error| PullError::of_content(&image, PullErrorClass::Storage, error))?;
        drop(caller);
        written.map_err(|error| PullError::of_content(&image, error.class(), error))
    }

    async fn read_layers(
        &mut self,
        image: &Reference,
        mut flattened: Flattened,
    ) -> Result<Flattened, PullError> {
        let failed = |class, detail: String| PullError::of_content(image, class, detail);
        let mut transfer = 0_u64;
        for layer in &self.manifest.layers {
            let digest: Digest = layer
                .digest
                .parse()
                .map_err(|error| failed(PullErrorClass::Malformed, format!("layer: {error}")))?;
            let of_layer =
                |class, detail: &dyn std::fmt::Display| failed(class, format!("layer {digest}: {detail}"));
            transfer = transfer.saturating_add(layer.size);
            if let Some(detail) = self.limits.excess(layer.size, transfer) {
                return Err(of_layer(PullErrorClass::TooLarge, &detail));
            }
            let blob = self.source.blob(&digest, layer.size, &self.spool).await?;
            // Waiting for a decoder is waiting for processors, not for a registry.
            let permit = DECODERS.acquire().await;
            let unpack = tokio::task::spawn_blocking(move || {
                // The layer keeps its room until it is read.
                let mut blob = blob;
                let result = flattened.add_layer(&mut blob.content);
                drop(permit);
                (flattened, result)
            });
            let (next, result) = unpack
                .await
                .map_err(|error| of_layer(PullErrorClass::Malformed, &error))?;
            flattened = next;
            result.map_err(|error| of_layer(error.class(), &error))?;
        }
        Ok(flattened)
    }
}

fn parse_config(bytes: &[u8]) -> Result<ImageConfig, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("cannot read the image configuration: {error}"))
}
