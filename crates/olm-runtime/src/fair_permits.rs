//! Permits for slow work that tenants cause: fetching bundles, reading catalogs.
//!
//! A namespace first acquires one of its own permits, and only then waits for one of the common ones. So only its share of requests
//! is in the common queue, which is first come, first served, and no request waits behind all work of another namespace. A
//! namespace never holds more than its share, so that one tenant's slow servers leave the rest to others.
//! A namespace whose work all others need can be preferred: then those together leave one permit to it.
//! Dropping a permit frees it, and dropping the future of [`FairPermits::acquire`] leaves the queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sync::Mutex;

/// A number of permits; clones share them.
#[derive(Clone)]
pub struct FairPermits {
    common: Arc<Semaphore>,
    /// Maximum number of permits of one namespace.
    share: usize,
    preferred: Option<Preferred>,
    /// Permits of the namespaces that use or wait for any.
    namespaces: Arc<Mutex<BTreeMap<String, Weak<Semaphore>>>>,
}

/// A namespace whose work all others need.
#[derive(Clone)]
struct Preferred {
    namespace: String,
    /// Maximum number of its permits.
    share: usize,
    /// Permits of all other namespaces together.
    others: Arc<Semaphore>,
}

/// The right to do one piece of work, until it is dropped.
pub struct Permit {
    _held: [Option<OwnedSemaphorePermit>; 3],
}

impl FairPermits {
    /// Creates this many permits, of which one namespace holds at most half.
    pub fn new(permits: usize) -> Self {
        Self {
            common: Arc::new(Semaphore::new(permits.max(1))),
            share: (permits / 2).max(1),
            preferred: None,
            namespaces: Arc::default(),
        }
    }

    /// Limits the permits that one namespace holds.
    #[must_use]
    pub fn with_share(mut self, share: usize) -> Self {
        self.share = share;
        self
    }

    /// Prefers a namespace: it holds at most all permits but one, and so do the others together.
    #[must_use]
    pub fn with_preferred(mut self, namespace: &str) -> Self {
        let share = self.common.available_permits().saturating_sub(1).max(1);
        self.preferred = Some(Preferred {
            namespace: namespace.to_owned(),
            share,
            others: Arc::new(Semaphore::new(share)),
        });
        self
    }

    /// Waits for a permit for a namespace.
    pub async fn acquire(&self, namespace: &str) -> Permit {
        let of_namespace = self.of_namespace(namespace);
        // Acquiring only fails for a closed semaphore, and these are never closed.
        let own = of_namespace.acquire_owned().await.ok();
        let preferred = self.preferred.as_ref();
        let others = match preferred.filter(|preferred| preferred.namespace != namespace) {
            Some(preferred) => Arc::clone(&preferred.others).acquire_owned().await.ok(),
            None => None,
        };
        let common = Arc::clone(&self.common).acquire_owned().await.ok();
        Permit {
            _held: [common, others, own],
        }
    }

    fn of_namespace(&self, namespace: &str) -> Arc<Semaphore> {
        let mut namespaces = self.namespaces.lock();
        namespaces.retain(|_, permits| permits.strong_count() > 0);
        if let Some(known) = namespaces.get(namespace).and_then(Weak::upgrade) {
            return known;
        }
        let preferred = self.preferred.as_ref();
        let own = preferred.filter(|preferred| preferred.namespace == namespace);
        let permits = Arc::new(Semaphore::new(own.map_or(self.share, |own| own.share)));
        namespaces.insert(namespace.to_owned(), Arc::downgrade(&permits));
        permits
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    /// Runs a piece of work of a second for each name and returns them in the order in which they began.
    async fn order(permits: usize, names: &[&str]) -> Vec<String> {
        let pool = FairPermits::new(permits);
        let begun: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut work = tokio::task::JoinSet::new();
        for name in names {
            let (pool, begun) = (pool.clone(), Arc::clone(&begun));
            let name = (*name).to_owned();
            work.spawn(async move {
                let _permit = pool.acquire(&name).await;
                begun.lock().push(name);
                sleep(Duration::from_secs(1)).await;
            });
        }
        work.join_all().await;
        let begun = begun.lock();
        begun.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_one_piece_of_work_of_each_other_namespace() {
        let mut names = vec!["noisy"; 200];
        names.extend(["a", "b", "a", "c"]);
        let begun = order(1, &names).await;
        assert_eq!(begun.len(), 204);
        assert_eq!(begun[..6], ["noisy", "a", "b", "c", "noisy", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_never_holds_more_than_half() {
        let pool = FairPermits::new(4);
        let dripping = [pool.acquire("noisy").await, pool.acquire("noisy").await];
        let soon = Duration::from_secs(3600);
        assert!(timeout(soon, pool.acquire("noisy")).await.is_err());
        let quiet = timeout(Duration::ZERO, pool.acquire("quiet")).await;
        assert!(quiet.is_ok(), "the other half is free");
        drop(quiet);
        // A cancelled wait holds no permit.
        let others = [pool.acquire("a").await, pool.acquire("b").await];
        assert_eq!(pool.common.available_permits(), 0);
        drop((dripping, others));
        assert_eq!(pool.common.available_permits(), 4);
        drop(pool.acquire("last").await);
        assert_eq!(pool.namespaces.lock().len(), 1, "the others are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_preferred_namespace_and_the_others_leave_each_other_one_permit() {
        let pool = FairPermits::new(4).with_preferred("all");
        let soon = Duration::from_secs(3600);
        for (first, then, none) in [(["a", "a", "b"], "all", "c"), (["all", "all", "all"], "a", "all")] {
            let mut held = Vec::new();
            for namespace in first {
                held.push(timeout(Duration::ZERO, pool.acquire(namespace)).await.unwrap());
            }
            assert!(timeout(soon, pool.acquire(none)).await.is_err(), "{none}");
            let last = timeout(Duration::ZERO, pool.acquire(then)).await;
            assert!(last.is_ok(), "{then}");
        }
    }
}
