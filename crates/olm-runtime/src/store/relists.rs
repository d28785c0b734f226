//! Requested relists: afterwards a store is no older than the request, however late its watch is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Relists of one store.
#[derive(Debug, Default)]
pub(super) struct Relists {
    /// Number of requested relists.
    asked: AtomicU64,
    /// Value of `asked` when the last list started.
    begun: AtomicU64,
    /// Value of `begun` when the last list ended.
    ended: watch::Sender<u64>,
    progress: Mutex<Progress>,
    news: Notify,
}

/// Progress of lists since the last request.
#[derive(Debug, Default)]
struct Progress {
    /// Number of objects of the list in progress.
    objects: u64,
    /// Number of objects of the longest list so far.
    most: u64,
    /// Time at which a list got further than all before. A list that breaks at the same page every time makes no progress.
    at: Option<Instant>,
}

impl Relists {
    /// Requests a relist. The returned future ends when a list that started after this call has ended.
    pub(super) fn ask(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        *self.lock() = Progress::default();
        self.news.notify_one();
        let relists = Arc::clone(self);
        async move {
            let mut ended = relists.ended.subscribe();
            // The sender lives as long as `relists`.
            let _ = ended.wait_for(|ended| *ended >= number).await;
        }
    }

    /// True until the last requested list is in the store.
    pub(super) fn is_wanted(&self) -> bool {
        *self.ended.borrow() < self.asked.load(Ordering::SeqCst)
    }

    /// Waits until a list is requested.
    pub(super) async fn asked(&self) {
        self.news.notified().await;
    }

    /// Records the start of a list; call it before its request is sent.
    pub(super) fn begins(&self) {
        let asked = self.asked.load(Ordering::SeqCst);
        self.begun.store(asked, Ordering::SeqCst);
        self.lock().objects = 0;
    }

    /// Records one object of the list.
    pub(super) fn goes_on(&self) {
        let mut progress = self.lock();
        progress.objects += 1;
        if progress.objects > progress.most {
            progress.most = progress.objects;
            progress.at = Some(Instant::now());
        }
    }

    /// Returns the time at which a list last got further than all before, since the last request.
    pub(super) fn progress(&self) -> Option<Instant> {
        self.lock().at
    }

    /// Records that the list is in the store. A list that was not requested is no progress.
    pub(super) fn ends(&self) {
        let begun = self.begun.load(Ordering::SeqCst);
        if self.ended.send_replace(begun) < begun {
            self.lock().at = Some(Instant::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_list_that_began_before_the_question_is_no_answer() {
        let relists = Arc::new(Relists::default());
        relists.begins();
        assert!(!relists.is_wanted());
        let mut asked = Box::pin(relists.ask());
        assert!(relists.asked().now_or_never().is_some());
        relists.ends();
        assert!(asked.as_mut().now_or_never().is_none());
        relists.begins();
        assert!(asked.as_mut().now_or_never().is_none());
        assert!(relists.is_wanted());
        relists.ends();
        assert!(!relists.is_wanted());
        assert!(asked.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_breaks_at_the_same_object_again_comes_no_further() {
        let relists = Arc::new(Relists::default());
        let second = || tokio::time::advance(std::time::Duration::from_secs(1));
        let list = |objects: u64| {
            relists.begins();
            (0..objects).for_each(|_| relists.goes_on());
            relists.progress()
        };
        let _asked = relists.ask();
        assert_eq!(relists.progress(), None);
        let first = list(100);
        assert_eq!(first, Some(Instant::now()));
        second().await;
        assert_eq!(list(100), first);
        let further = list(101);
        assert_eq!(further, Some(Instant::now()));
        second().await;
        relists.ends();
        assert!(relists.progress() > further);
        let ended = relists.progress();
        second().await;
        relists.begins();
        relists.ends();
        assert_eq!(relists.progress(), ended, "it was asked for once");
        let _again = relists.ask();
        assert_eq!(relists.progress(), None);
    }
}
