//! One read of one catalog, from the first request until the next read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use olm_resolver::Snapshot;
use olm_runtime::NamespacedName;
use olm_runtime::driver::backoff;
use olm_runtime::isolation::isolated;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{
    Bounds, Content, Entry, FIRST_RETRY, Failure, LONGEST_RETRY, READ_AGAIN, READ_AGAIN_WHEN_FULL, Shared,
};

/// One read of one catalog.
pub(super) struct Read {
    pub(super) shared: Arc<Shared>,
    pub(super) key: NamespacedName,
    pub(super) generation: u64,
    pub(super) may_change: bool,
}

impl Read {
    pub(super) async fn run(self, channel: Channel) {
        let started = Instant::now();
        let read = match self.read(channel).await {
            Ok((snapshot, bytes)) => {
                let entries = snapshot.entries().len();
                tracing::info!(catalog = %self.key, entries, bytes, elapsed_ms = millis(started), "catalog read");
                self.keep(snapshot, bytes).map_err(|text| (text, true))
            }
            Err(text) => Err((text, false)),
        };
        let Err((text, refused)) = read else { return };
        tracing::warn!(catalog = %self.key, error = %text, "cannot read catalog");
        let Some(pause) = self.note_failure(text, refused) else {
            return;
        };
        sleep(pause).await;
        let users = self
            .shared
            .entries
            .lock()
            .get(&self.key)
            .map(|entry| entry.users.clone());
        self.shared.wake_users(&users.unwrap_or_default());
    }

    /// Returns the content, and its size in memory.
    async fn read(&self, channel: Channel) -> Result<(Arc<Snapshot>, usize), String> {
        // Waiting for a permit does not count towards the reader's deadline: other namespaces must not cause a
        // failure.
        let _permit = self.shared.permits.acquire(&self.key.namespace).await;
        // A panic in reading one catalog must not leave it in state loading forever.
        let reading = isolated(self.shared.reader.read(channel));
        let (listed, bytes) = match reading.await {
            Ok(listed) => listed?,
            Err(panicked) => {
                tracing::error!(catalog = %self.key, %panicked, "reading a catalog panicked");
                return Err("failed to list bundles: catalog-operator panicked; this is a bug".to_owned());
            }
        };
        let index = move || (Arc::new(Snapshot::from(&listed)), bytes);
        tokio::task::spawn_blocking(index)
            .await
            .map_err(|error| format!("failed to index bundles: {error}"))
    }

    /// Stores the content, unless it is outdated.
    ///
    /// # Errors
    /// It does not fit.
    fn keep(&self, snapshot: Arc<Snapshot>, bytes: usize) -> Result<(), String> {
        let mut entries = self.shared.entries.lock();
        if self.own_entry(&mut entries).is_none() {
            return Ok(());
        }
        let (bounds, global) = (self.shared.bounds, &self.shared.global_namespace);
        check_bounds(&self.key, bytes, &entries, bounds, global)
            .map_err(|text| format!("failed to list bundles: {text}"))?;
        let Some(entry) = self.own_entry(&mut entries) else {
            return Ok(());
        };
        let now = Instant::now();
        entry.again = self.may_change.then(|| self.timer(now));
        entry.loading = None;
        let failed = entry.failure.take().is_some();
        entry.read = Some(self.generation);
        entry.read_at = Some(now);
        let known = entry.content.as_ref();
        let same = known.is_some_and(|known| is_same(&known.snapshot, &snapshot));
        if !same {
            let id = self.shared.ids.fetch_add(1, Ordering::Relaxed);
            entry.content = Some(Content { id, snapshot });
            entry.bytes = bytes;
        }
        let users = entry.users.clone();
        drop(entries);
        // Unchanged content triggers nothing, unless another state was reported meanwhile.
        if !same || failed {
            self.shared.wake_users(&users);
        }
        Ok(())
    }

    fn timer(&self, read_at: Instant) -> JoinSet<()> {
        let (shared, key, generation) = (Arc::downgrade(&self.shared), self.key.clone(), self.generation);
        let mut timer = JoinSet::new();
        timer.spawn(async move {
            sleep(READ_AGAIN).await;
            if let Some(shared) = shared.upgrade()
                && let Some(link) = shared.connections.link(&key)
            {
                // It may have been read since then.
                shared.read_again(&key, &link, |entry| {
                    entry.read == Some(generation) && entry.read_at == Some(read_at)
                });
            }
        });
        timer
    }

    /// Reports the failure, and returns the time to the next try. `refused` is true when the content did not fit.
    fn note_failure(&self, text: String, refused: bool) -> Option<Duration> {
        // Other contents do not become smaller within a moment.
        let least = if refused {
            READ_AGAIN_WHEN_FULL
        } else {
            FIRST_RETRY
        };
        let mut entries = self.shared.entries.lock();
        let entry = self.own_entry(&mut entries)?;
        entry.loading = None;
        let attempts = entry.failure.as_ref().map_or(0, |failure| failure.attempts);
        let pause = backoff(FIRST_RETRY, LONGEST_RETRY, attempts).max(least);
        let retry_at = Instant::now() + pause;
        entry.failure = Some(Failure {
            generation: self.generation,
            text,
            attempts: attempts.saturating_add(1),
            retry_at,
            refused,
        });
        let users = entry.users.clone();
        drop(entries);
        self.shared.wake_users(&users);
        Some(pause)
    }

    /// Returns the entry, if it still waits for this read.
    fn own_entry<'a>(&self, entries: &'a mut BTreeMap<NamespacedName, Entry>) -> Option<&'a mut Entry> {
        let entry = entries.get_mut(&self.key)?;
        entry
            .loading
            .is_some_and(|loading| loading.generation == self.generation)
            .then_some(entry)
    }
}

/// Checks whether a content of `key` fits into memory beside those of the other catalogs. Those of the global
/// namespace are bounded for themselves: however much tenants use, there is memory for them.
///
/// # Errors
/// It does not, with the figures.
fn check_bounds(
    key: &NamespacedName,
    bytes: usize,
    entries: &BTreeMap<NamespacedName, Entry>,
    bounds: Bounds,
    global_namespace: &str,
) -> Result<(), String> {
    let others = entries
        .iter()
        .filter(|(other, entry)| entry.content.is_some() && *other != key);
    let (mut of_namespace, mut of_all) = (0_usize, 0_usize);
    for (other, entry) in others {
        if other.namespace != global_namespace {
            of_all = of_all.saturating_add(entry.bytes);
        }
        if other.namespace == key.namespace {
            of_namespace = of_namespace.saturating_add(entry.bytes);
        }
    }
    let needs = bytes >> 20;
    if of_namespace.saturating_add(bytes) > bounds.namespace {
        return Err(format!(
            "out of memory for catalogs: this one needs {needs} MiB, others of its namespace use {} MiB, the limit of a namespace is {} MiB",
            of_namespace >> 20,
            bounds.namespace >> 20
        ));
    }
    if key.namespace != global_namespace && of_all.saturating_add(bytes) > bounds.total {
        return Err(format!(
            "out of memory for catalogs: this one needs {needs} MiB, all others outside of the global namespace use {} MiB, their limit together is {} MiB",
            of_all >> 20,
            bounds.total >> 20
        ));
    }
    Ok(())
}

fn is_same(one: &Snapshot, other: &Snapshot) -> bool {
    one.entries().len() == other.entries().len()
        && one
            .entries()
            .iter()
            .zip(other.entries())
            .all(|(one, other)| ***one == ***other)
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
