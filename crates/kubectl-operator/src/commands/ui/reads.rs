//! Reads of the cluster, shared by all pages that show the same data.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// Maximum age of shown data. Pages refresh every 3 s.
pub(super) const FRESH: Duration = Duration::from_secs(2);
/// Maximum age of data that requires reading whole catalogs.
pub(super) const CATALOG_FRESH: Duration = Duration::from_secs(60);

/// A shared value, or the error of its read.
pub(super) type Read<V> = Result<Arc<V>, String>;

/// An answer and its time. The lock is held during the read, so that concurrent requests share it. If the read is dropped, the next
/// request reads.
type Slot<V> = Rc<Mutex<Option<(Instant, Read<V>)>>>;

/// Answers by key. Data is only read for a request.
pub(super) struct Reads<K, V> {
    fresh: Duration,
    kept: RefCell<BTreeMap<K, Slot<V>>>,
}

impl<K: Ord + Clone, V> Reads<K, V> {
    pub(super) fn new(fresh: Duration) -> Self {
        Self {
            fresh,
            kept: RefCell::new(BTreeMap::new()),
        }
    }

    /// Returns the kept answer if it is fresh, else reads it.
    pub(super) async fn get(&self, key: &K, read: impl AsyncFnOnce() -> anyhow::Result<V>) -> Read<V> {
        self.sweep();
        let slot = Rc::clone(self.kept.borrow_mut().entry(key.clone()).or_default());
        let mut answer = slot.lock().await;
        if let Some((at, known)) = &*answer
            && at.elapsed() < self.fresh
        {
            return known.clone();
        }
        let found = read().await.map(Arc::new).map_err(|error| format!("{error:#}"));
        *answer = Some((Instant::now(), found.clone()));
        found
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.kept.borrow().len()
    }

    /// Drops all answers after a write, so that the next read sees it.
    pub(super) fn forget(&self) {
        self.kept.borrow_mut().clear();
    }

    /// Drops expired answers.
    pub(super) fn sweep(&self) {
        let is_used = |slot: &Slot<V>| match slot.try_lock() {
            Ok(answer) => matches!(&*answer, Some((at, _)) if at.elapsed() < self.fresh),
            // A locked answer is being read.
            Err(_) => true,
        };
        self.kept.borrow_mut().retain(|_, slot| is_used(slot));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anyhow::bail;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tabs_share_a_read_and_no_tab_none() {
        let (reads, count) = (Reads::<&str, u32>::new(FRESH), Cell::new(0));
        let slow = async || {
            count.set(count.get() + 1);
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(count.get())
        };
        let (a, b, c) = tokio::join!(
            reads.get(&"a", slow),
            reads.get(&"a", slow),
            reads.get(&"b", slow)
        );
        assert_eq!((*a.unwrap(), *b.unwrap()), (2, 2));
        c.unwrap();
        assert_eq!(count.get(), 2, "one for each thing");
        reads.get(&"a", slow).await.unwrap();
        assert_eq!(count.get(), 2);
        tokio::time::sleep(10 * FRESH).await;
        assert_eq!(count.get(), 2, "nobody looks");
        reads.get(&"a", slow).await.unwrap();
        assert_eq!(count.get(), 3);
        reads.forget();
        reads.get(&"a", slow).await.unwrap();
        assert_eq!(count.get(), 4, "what was written is seen");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_delays_no_other_and_an_error_is_an_answer() {
        let (reads, count) = (Reads::<&str, u32>::new(FRESH), Cell::new(0));
        let never = reads.get(&"a", async || std::future::pending().await);
        assert!(tokio::time::timeout(Duration::from_secs(1), never).await.is_err());
        let failed = async || {
            count.set(count.get() + 1);
            bail!("no route")
        };
        for _ in 0..3 {
            assert_eq!(reads.get(&"a", failed).await.unwrap_err(), "no route");
        }
        assert_eq!(count.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_is_not_kept() {
        let reads = Reads::<usize, usize>::new(CATALOG_FRESH);
        for number in 0..10 {
            reads.get(&number, async || Ok(number)).await.unwrap();
        }
        assert_eq!(reads.count(), 10);
        tokio::time::sleep(CATALOG_FRESH).await;
        reads.get(&0, async || Ok(0)).await.unwrap();
        assert_eq!(reads.count(), 1);
        let never = reads.get(&1, async || std::future::pending().await);
        let look = async {
            reads.sweep();
            assert_eq!(reads.count(), 2, "what is being read is waited for");
        };
        tokio::select! {
            biased;
            _ = never => panic!("it never comes"),
            () = look => {}
        }
        tokio::time::sleep(CATALOG_FRESH).await;
        reads.sweep();
        assert_eq!(reads.count(), 0, "whoever asked has left");
    }
}
