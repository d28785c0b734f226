//! Results of reads that take long, such as pulls of images. They run in the background, so that no reconcile waits for a registry.
//!
//! # Guarantees
//! - A result is read once for all requesters, and at most [`PARALLEL`] are read at a time.
//! - All requesters of a result are woken once it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use olm_runtime::sync::Mutex;
use olm_runtime::{NamespacedName, isolation};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Reads at a time.
const PARALLEL: usize = 4;
/// Time after which a failed read may be repeated.
pub(crate) const FAILURE_LASTS: Duration = Duration::from_secs(5);

/// Results by key.
pub(crate) struct Reads<K, V> {
    shared: Arc<Shared<K, V>>,
}

struct Shared<K, V> {
    slots: Semaphore,
    entries: Mutex<BTreeMap<K, Entry<V>>>,
    wake: Box<dyn Fn(&NamespacedName) + Send + Sync>,
}

struct Entry<V> {
    /// Version of what is read, for example a digest.
    version: String,
    state: State<V>,
}

enum State<V> {
    Running { waiting: BTreeSet<NamespacedName> },
    Done { result: Result<V, String>, at: Instant },
}

impl<K, V> Reads<K, V>
where
    K: Clone + Ord + Send + 'static,
    V: Clone + Send + 'static,
{
    /// Calls `wake` with each requester of a result.
    pub(crate) fn new(wake: impl Fn(&NamespacedName) + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                slots: Semaphore::new(PARALLEL),
                entries: Mutex::default(),
                wake: Box::new(wake),
            }),
        }
    }

    /// Returns the result for a key in this version. Without one it starts `read`, wakes the requester afterwards, and returns `None`. Must
    /// be called within a runtime.
    pub(crate) fn get_or_start<F>(
        &self,
        key: &K,
        version: &str,
        requester: &NamespacedName,
        read: F,
    ) -> Option<Result<V, String>>
    where
        F: Future<Output = Result<V, String>> + Send + 'static,
    {
        let mut entries = self.shared.entries.lock();
        let mut waiting = BTreeSet::from([requester.clone()]);
        if let Some(entry) = entries.get_mut(key) {
            let is_same = entry.version == version;
            match &mut entry.state {
                State::Running { waiting } if is_same => {
                    waiting.insert(requester.clone());
                    return None;
                }
                State::Running { waiting: others } => waiting.append(others),
                State::Done { result, at } => {
                    if is_same && (result.is_ok() || at.elapsed() < FAILURE_LASTS) {
                        return Some(result.clone());
                    }
                }
            }
        }
        let entry = Entry {
            version: version.to_owned(),
            state: State::Running { waiting },
        };
        entries.insert(key.clone(), entry);
        drop(entries);
        let (shared, key, version) = (Arc::clone(&self.shared), key.clone(), version.to_owned());
        tokio::spawn(async move {
            // The semaphore is never closed.
            let slot = shared.slots.acquire().await;
            let result = isolation::isolated(read).await;
            drop(slot);
            shared.finish(
                &key,
                &version,
                result.unwrap_or_else(|panicked| Err(panicked.to_string())),
            );
        });
        None
    }

    /// Returns the last result of a key, of any version; `None` without a success.
    pub(crate) fn last(&self, key: &K) -> Option<V> {
        match &self.shared.entries.lock().get(key)?.state {
            State::Done {
                result: Ok(value), ..
            } => Some(value.clone()),
            _ => None,
        }
    }

    /// Drops the results of keys for which `is_wanted` is false.
    pub(crate) fn retain(&self, is_wanted: impl Fn(&K) -> bool) {
        let mut entries = self.shared.entries.lock();
        entries.retain(|key, entry| matches!(entry.state, State::Running { .. }) || is_wanted(key));
    }
}

impl<K: Ord, V> Shared<K, V> {
    /// Stores a result unless another version is wanted by now, and wakes the requesters.
    fn finish(&self, key: &K, version: &str, result: Result<V, String>) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(key).filter(|entry| entry.version == version) else {
            return;
        };
        let done = State::Done {
            result,
            at: Instant::now(),
        };
        let State::Running { waiting } = std::mem::replace(&mut entry.state, done) else {
            return;
        };
        drop(entries);
        waiting.iter().for_each(&self.wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Env {
        reads: Reads<&'static str, usize>,
        woken: Arc<Mutex<Vec<String>>>,
        count: Arc<AtomicUsize>,
    }

    impl Env {
        fn new() -> Self {
            let woken: Arc<Mutex<Vec<String>>> = Arc::default();
            let seen = Arc::clone(&woken);
            Self {
                reads: Reads::new(move |who| seen.lock().push(who.name.clone())),
                woken,
                count: Arc::default(),
            }
        }

        /// Wants version `version`; the read takes a second, and fails in version `bad`.
        fn want(&self, version: &'static str, who: &str) -> Option<Result<usize, String>> {
            let count = Arc::clone(&self.count);
            self.reads
                .get_or_start(&"key", version, &NamespacedName::cluster(who), async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let number = count.fetch_add(1, Ordering::SeqCst);
                    (version != "bad")
                        .then_some(number)
                        .ok_or_else(|| "bad".to_owned())
                })
        }

        async fn pass(&self, seconds: u64) -> Vec<String> {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            std::mem::take(&mut self.woken.lock())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_read_once_for_all() {
        let env = Env::new();
        assert_eq!((env.want("1", "a"), env.want("1", "b")), (None, None));
        assert_eq!(env.pass(2).await, ["a", "b"]);
        assert_eq!(env.want("1", "c"), Some(Ok(0)));
        assert_eq!(env.reads.last(&"key"), Some(0));
        env.reads.retain(|_| false);
        assert_eq!((env.reads.last(&"key"), env.want("1", "c")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn another_version_is_read_again_for_its_subscribers() {
        let env = Env::new();
        assert_eq!((env.want("1", "a"), env.want("2", "b")), (None, None));
        assert_eq!(env.pass(2).await, ["a", "b"]);
        assert_eq!(env.want("2", "a"), Some(Ok(1)));
        assert_eq!(env.want("1", "a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_repeated_after_some_time() {
        let env = Env::new();
        assert_eq!(env.want("bad", "a"), None);
        env.pass(2).await;
        assert_eq!(env.want("bad", "a"), Some(Err("bad".to_owned())));
        assert_eq!(env.reads.last(&"key"), None);
        env.pass(5).await;
        assert_eq!(env.want("bad", "a"), None);
        assert_eq!(env.pass(2).await, ["a"]);
    }
}
