//! Polls of registries: the current digest behind the tag of a catalog's image.
//!
//! # Expected flow
//! The reconciler calls [`ImagePolls::look`] with the due time of a catalog's poll and gets the last result.
//! A due poll runs in its own task, and its result triggers the catalog.
//!
//! # Guarantees
//! - A catalog has at most one running poll, and a poll ends within [`DEADLINE`], whatever the registry does.
//! - Namespaces take turns, and none uses more than its share of the running polls.
//! - Only the catalog's own pull secrets are sent to its registry.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use olm_runtime::condition::whole_seconds;
use olm_runtime::sync::Mutex;
use olm_runtime::{NamespacedName, clock};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::polling::{Check, Poll};
use crate::fair_permits::FairPermits;

/// Maximum number of running polls; at most half of them are for one namespace.
const PARALLEL: usize = 4;
/// Time limit of a poll: secrets, tokens and the response itself.
const DEADLINE: Duration = Duration::from_secs(60);

/// Source of the digests behind tags.
#[async_trait]
pub trait ImageTags: Send + Sync {
    /// Returns the digest behind the tag of `image`, with the pull secrets of `catalog`.
    async fn digest(&self, image: &str, catalog: &NamespacedName) -> Result<String, String>;
}

type Wake = Arc<dyn Fn(&NamespacedName) + Send + Sync>;

/// The polls of all catalogs; clones share the state.
#[derive(Clone)]
pub struct ImagePolls {
    entries: Arc<Mutex<BTreeMap<NamespacedName, Entry>>>,
    permits: FairPermits,
    tags: Arc<dyn ImageTags>,
    wake: Wake,
    started: Timestamp,
}

/// Poll state of a catalog.
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
    /// Creates an empty set; `wake` is called with the key of a catalog after a poll.
    pub fn new(tags: Arc<dyn ImageTags>, wake: impl Fn(&NamespacedName) + Send + Sync + 'static) -> Self {
        Self {
            entries: Arc::default(),
            permits: FairPermits::new(PARALLEL),
            tags,
            wake: Arc::new(wake),
            started: clock::now(),
        }
    }

    /// Start time of this process.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// Returns the last poll result of the catalog for this image; starts a poll that is due.
    ///
    /// Must be called within a tokio runtime. Does not wait.
    pub(crate) fn look(&self, key: &NamespacedName, poll: &Poll, now: Timestamp) -> Option<Check> {
        let mut entries = self.lock();
        let entry = entries
            .entry(key.clone())
            .or_insert_with(|| Entry::of(&poll.image));
        if entry.image != poll.image {
            *entry = Entry::of(&poll.image);
        }
        // A result in the future was stored by a wrong clock.
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

    /// Forgets a catalog that was deleted, or is not polled any more.
    pub(crate) fn forget(&self, key: &NamespacedName) {
        self.lock().remove(key);
    }

    async fn ask(self, key: NamespacedName, image: String) {
        let permit = self.permits.acquire(&key.namespace).await;
        let answer = timeout(DEADLINE, self.tags.digest(&image, &key)).await;
        drop(permit);
        let digest = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", DEADLINE.as_secs())));
        if let Err(error) = &digest {
            tracing::debug!(catalog = %key, image, error, "cannot read the digest of the catalog image");
        }
        let check = Check {
            at: whole_seconds(clock::now()),
            digest: digest.ok(),
        };
        // Forgetting the catalog, or a change of its image, has aborted this task.
        if let Some(entry) = self.lock().get_mut(&key).filter(|entry| entry.image == image) {
            entry.last = Some(check);
            entry.under_way = None;
        }
        (self.wake)(&key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Entry>> {
        self.entries.lock()
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
