//! Keeps the stored contents as they are requested: pulls images, follows their tags, and stores what they have.
//!
//! # Expected flow
//! [`Unpacking::want`] requests a content of a catalog. A task of the catalog pulls the image, stores it and reports through `wake`. It
//! repeats failed attempts, and looks at the tag again in the interval that the catalog names. Another request ends the task.
//!
//! # Guarantees
//! - A catalog has at most one task, and at most [`PARALLEL`] images are pulled at a time.
//! - A content that is stored already is not pulled again.
//! - Once [`Unpacking::remove`] has returned, no task stores a content of this catalog.

mod image_source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use olm_oci::{Digest, Reference};
use olm_runtime::driver::backoff;
use olm_runtime::sync::Mutex;
use olm_runtime::{clock, isolation};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::store::{Content, ContentStore};

/// Images that are pulled at a time.
const PARALLEL: usize = 2;
/// Delay after a first failure; it doubles up to [`LONGEST_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest delay between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// Polls are delayed by up to this share of the interval, so that catalogs with equal intervals spread.
const JITTER: f64 = 0.01;

/// Where the images of catalogs come from.
#[async_trait]
pub trait CatalogImages: Send + Sync {
    /// Returns the image by digest.
    async fn resolve(&self, image: &Reference) -> Result<Reference, UnpackError>;
    /// Writes the file-based catalog of an image, given by digest, into a folder. `as_requested` is the image in the request.
    async fn fetch(
        &self,
        image: &Reference,
        as_requested: &Reference,
        folder: &Path,
    ) -> Result<(), UnpackError>;
}

/// The requested content of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Reference of the image as it is written.
    pub image: String,
    /// Interval of looking at the tag; `None` to look once.
    pub poll: Option<Duration>,
}

/// A content that is stored as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// The image by digest.
    pub image: String,
    /// When the content was stored.
    pub stored: Timestamp,
}

/// A content could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct UnpackError {
    /// Text for the status.
    pub text: String,
    /// True if the same request would always fail.
    pub is_terminal: bool,
}

impl UnpackError {
    /// Returns an error that another attempt may not have.
    pub fn retried(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_terminal: false,
        }
    }

    /// Returns an error that every attempt will have.
    pub fn terminal(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_terminal: true,
        }
    }
}

/// Result of the last attempt.
pub type Attempt = Result<Unpacked, UnpackError>;

/// The tasks of all catalogs. Clones share the same tasks, which end with the last of them.
#[derive(Clone)]
pub struct Unpacking {
    tasks: Arc<Tasks>,
}

struct Tasks {
    shared: Arc<Shared>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.shared.entries.lock().clear();
    }
}

struct Shared {
    store: ContentStore,
    images: Arc<dyn CatalogImages>,
    entries: Mutex<BTreeMap<String, Entry>>,
    slots: Semaphore,
    wake: Box<dyn Fn(&str) + Send + Sync>,
}

struct Entry {
    request: Request,
    last: Option<Attempt>,
    task: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Unpacking {
    /// Stores contents of `images` in `store`. `wake` is called with the name of a catalog after each attempt.
    pub fn new(
        store: ContentStore,
        images: Arc<dyn CatalogImages>,
        wake: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            store,
            images,
            entries: Mutex::default(),
            slots: Semaphore::new(PARALLEL),
            wake: Box::new(wake),
        });
        Self {
            tasks: Arc::new(Tasks { shared }),
        }
    }

    /// Requests a content, and returns the result of the last attempt for the same request. Must be called within a runtime. Does not
    /// wait.
    pub fn want(&self, catalog: &str, request: &Request) -> Option<Attempt> {
        let shared = &self.tasks.shared;
        let mut entries = shared.entries.lock();
        if let Some(entry) = entries.get(catalog).filter(|entry| entry.request == *request) {
            return entry.last.clone();
        }
        let task = tokio::spawn(Arc::clone(shared).keep(catalog.to_owned(), request.clone()));
        let entry = Entry {
            request: request.clone(),
            last: None,
            task: task.abort_handle(),
        };
        entries.insert(catalog.to_owned(), entry);
        None
    }

    /// Ends the task of a catalog, and removes its content.
    pub fn remove(&self, catalog: &str) {
        // Held throughout, so that no task installs a content in between.
        let shared = &self.tasks.shared;
        let mut entries = shared.entries.lock();
        entries.remove(catalog);
        if let Err(error) = shared.store.remove(catalog) {
            tracing::warn!(catalog, %error, "the content of a catalog was not removed; the next start removes it");
        }
    }

    /// Removes the contents of all catalogs for which `is_known` is false.
    pub fn retain(&self, is_known: impl Fn(&str) -> bool) {
        for catalog in self.tasks.shared.store.names() {
            if !is_known(&catalog) {
                tracing::info!(catalog, "removing the content of a catalog that does not exist");
                self.remove(&catalog);
            }
        }
    }

    /// Returns true if a content of the catalog is stored, whichever its image is.
    pub(crate) fn has_content(&self, catalog: &str) -> bool {
        self.tasks.shared.store.get(catalog).is_some()
    }

    /// Removes a content with another digest than that of the requested image: clients keep what they read by the digest in the status.
    pub(crate) fn remove_other(&self, catalog: &str, request: &Request) {
        let store = &self.tasks.shared.store;
        let reference = request.image.parse::<Reference>().ok();
        let digest = reference.as_ref().and_then(Reference::digest);
        let is_other = store
            .get(catalog)
            .is_some_and(|content| Some(&content.digest) != digest);
        if is_other && let Err(error) = store.remove(catalog) {
            tracing::warn!(catalog, %error, "the older content of a catalog was not removed");
        }
    }
}

impl Shared {
    /// Attempts the request until it is fulfilled, and again in each interval.
    async fn keep(self: Arc<Self>, catalog: String, request: Request) {
        let mut failures = 0_u32;
        loop {
            let attempt = isolation::isolated(self.attempt(&catalog, &request)).await;
            let attempt = attempt.unwrap_or_else(|panicked| {
                tracing::error!(
                    catalog,
                    message = panicked.message,
                    "unpacking panicked; this is a bug, please report it"
                );
                Err(UnpackError::retried(format!(
                    "source catalog content: {panicked}"
                )))
            });
            let delay = match &attempt {
                Ok(unpacked) => {
                    failures = 0;
                    tracing::debug!(catalog, image = unpacked.image, "content is as requested");
                    request.poll.map(jittered)
                }
                Err(error) => {
                    tracing::warn!(catalog, %error, error.is_terminal, "content cannot be unpacked");
                    let delay = backoff(FIRST_BACKOFF, LONGEST_BACKOFF, failures);
                    failures = failures.saturating_add(1);
                    (!error.is_terminal).then_some(delay)
                }
            };
            if let Some(entry) = self
                .entries
                .lock()
                .get_mut(&catalog)
                .filter(|entry| entry.request == request)
            {
                entry.last = Some(attempt);
            }
            (self.wake)(&catalog);
            match delay {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return,
            }
        }
    }

    async fn attempt(&self, catalog: &str, request: &Request) -> Attempt {
        let image: Reference = request.image.parse().map_err(|error| {
            let text = format!(
                "terminal error: error parsing image reference {:?}: {error}",
                request.image
            );
            sourcing(UnpackError::terminal(text))
        })?;
        let pinned = self.images.resolve(&image).await.map_err(sourcing)?;
        let digest = pinned.digest().ok_or_else(|| {
            sourcing(UnpackError::retried(
                "the image reference did not resolve to a digest",
            ))
        })?;
        let is_current = |content: &Arc<Content>| content.digest == *digest;
        let content = match self.store.get(catalog).filter(is_current) {
            Some(content) => content,
            None => {
                let unpacked = self.unpack(catalog, request, &pinned, digest, &image);
                unpacked.await?
            }
        };
        Ok(Unpacked {
            image: pinned.to_string(),
            stored: content.about.stored,
        })
    }

    async fn unpack(
        &self,
        catalog: &str,
        request: &Request,
        pinned: &Reference,
        digest: &Digest,
        as_requested: &Reference,
    ) -> Result<Arc<Content>, UnpackError> {
        let storing = |error: &dyn Display| UnpackError::retried(format!("error storing fbc: {error}"));
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        let folder = self.store.temporary_folder().map_err(|error| storing(&error))?;
        let fetched = self.images.fetch(pinned, as_requested, folder.path()).await;
        fetched.map_err(sourcing)?;
        let (store, digest, now) = (self.store.clone(), digest.clone(), clock::now());
        let staged = isolation::blocking(move || {
            let staged = store.stage(&digest, folder.path(), now);
            staged.map_err(|error| error.to_string())
        });
        let staged = staged.await.map_err(|panicked| storing(&panicked))?;
        let staged = staged.map_err(|error| storing(&error))?;
        let entries = self.entries.lock();
        let is_wanted = entries
            .get(catalog)
            .is_some_and(|entry| entry.request == *request);
        if !is_wanted {
            return Err(storing(&"the content is no longer requested"));
        }
        let installed = self.store.install(catalog, staged);
        let content = installed.map_err(|error| storing(&error))?;
        drop(entries);
        tracing::info!(catalog, image = %pinned, bytes = content.about.size, "content stored");
        Ok(content)
    }
}

fn sourcing(mut error: UnpackError) -> UnpackError {
    error.text.insert_str(0, "source catalog content: ");
    error
}

fn jittered(interval: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) as f64 / u64::MAX as f64;
    interval.saturating_add(interval.mul_f64(JITTER * random.clamp(0.0, 1.0)))
}
