//! Polls of registries: which digest is behind the tag of a catalog's image now.
//!
//! # Expected flow
//! The reconciler says with [`ImagePolls::look`] when a catalog's poll is due and gets what the last one found. One that is due
//! is asked in a task of its own; the answer wakes the catalog.
//!
//! # Guarantees
//! - Of one catalog one poll is under way at a time, and a poll ends within [`DEADLINE`], whatever the registry does.
//! - Namespaces take turns, and one has no more than its share of the polls that are under way.
//! - What a catalog's registry is shown are the catalog's own pull secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use olm_runtime::condition::whole_seconds;
use olm_runtime::{NamespacedName, clock};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::polling::{Check, Poll};
use crate::fair_permits::FairPermits;

/// Polls at a time, half of them of one namespace.
const PARALLEL: usize = 4;
/// How long a poll may take: secrets, tokens and the answer itself.
const DEADLINE: Duration = Duration::from_secs(60);

/// Who knows what is behind a tag.
#[async_trait]
pub trait ImageTags: Send + Sync {
    /// The digest behind the tag of `image`, as the registry tells it to those who have the pull secrets of `catalog`.
    async fn digest(&self, image: &str, catalog: &NamespacedName) -> Result<String, String>;
}

type Wake = Arc<dyn Fn(&NamespacedName) + Send + Sync>;

/// The polls of all catalogs. A clone is a handle.
#[derive(Clone)]
pub struct ImagePolls {
    entries: Arc<Mutex<BTreeMap<NamespacedName, Entry>>>,
    permits: FairPermits,
    tags: Arc<dyn ImageTags>,
    wake: Wake,
    started: Timestamp,
}

/// What is known of a catalog.
struct Entry {
    image: String,
    last: Option<Check>,
    under_way: Option<AbortHandle>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(task) = &self.under_way {
            task.abort();
        }
    }
}

impl ImagePolls {
    /// No polls; `wake` is called with the key of a catalog that was polled.
    pub fn new(tags: Arc<dyn ImageTags>, wake: impl Fn(&NamespacedName) + Send + Sync + 'static) -> Self {
        Self {
            entries: Arc::default(),
            permits: FairPermits::new(PARALLEL),
            tags,
            wake: Arc::new(wake),
            started: clock::now(),
        }
    }

    /// When this process began.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// What the last poll of the catalog found, of this image; begins one that is due.
    ///
    /// Must be called within a tokio runtime. Nothing is awaited.
    pub(crate) fn look(&self, key: &NamespacedName, poll: &Poll, now: Timestamp) -> Option<Check> {
        let mut entries = self.lock();
        let entry = entries
            .entry(key.clone())
            .or_insert_with(|| Entry::of(&poll.image));
        if entry.image != poll.image {
            *entry = Entry::of(&poll.image);
        }
        // One in the future was made by a clock that was wrong.
        let was_made = entry
            .last
            .as_ref()
            .is_some_and(|last| last.at >= poll.due && last.at <= now);
        let is_under_way = entry.under_way.as_ref().is_some_and(|task| !task.is_finished());
        if poll.is_due(now) && !was_made && !is_under_way {
            let asking = self.clone().ask(key.clone(), poll.image.clone());
            entry.under_way = Some(tokio::spawn(asking).abort_handle());
        }
        entry.last.clone()
    }

    /// The catalog is gone, or is not polled any more.
    pub(crate) fn forget(&self, key: &NamespacedName) {
        self.lock().remove(key);
    }

    async fn ask(self, key: NamespacedName, image: String) {
        let permit = self.permits.acquire(&key.namespace).await;
        let answer = timeout(DEADLINE, self.tags.digest(&image, &key)).await;
        drop(permit);
        let digest = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", DEADLINE.as_secs())));
        if let Err(error) = &digest {
            tracing::debug!(catalog = %key, image, error, "the registry does not tell the digest of a catalog's image");
        }
        let check = Check {
            at: whole_seconds(clock::now()),
            digest: digest.ok(),
        };
        // Who has been forgotten meanwhile, or has another image, has ended this task.
        if let Some(entry) = self.lock().get_mut(&key).filter(|entry| entry.image == image) {
            entry.last = Some(check);
            entry.under_way = None;
        }
        (self.wake)(&key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn of(image: &str) -> Self {
        Self {
            image: image.to_owned(),
            last: None,
            under_way: None,
        }
    }
}

#[cfg(test)]
mod tests;
