//! Lists that are asked for: afterwards a store is no older than the question, however late its watch is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Those of one store.
#[derive(Debug, Default)]
pub(super) struct Relists {
    /// How many were asked for.
    asked: AtomicU64,
    /// How many of them had been, when the last list began.
    begun: AtomicU64,
    /// The same of the last list that ended.
    ended: watch::Sender<u64>,
    progress: Mutex<Progress>,
    news: Notify,
}

/// How far lists came since the last one was asked for.
#[derive(Debug, Default)]
struct Progress {
    /// Objects of the list that is on its way.
    objects: u64,
    /// Objects of the list that came furthest.
    most: u64,
    /// When a list came further than any before. One that breaks at the same page again and again does not.
    at: Option<Instant>,
}

impl Relists {
    /// Asks for a list; what is given back comes to its end when one has that began after this.
    pub(super) fn ask(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        *self.lock() = Progress::default();
        self.news.notify_one();
        let relists = Arc::clone(self);
        async move {
            let mut ended = relists.ended.subscribe();
            // The sender lives as long as this.
            let _ = ended.wait_for(|ended| *ended >= number).await;
        }
    }

    /// True until the last list that was asked for is in the store.
    pub(super) fn is_wanted(&self) -> bool {
        *self.ended.borrow() < self.asked.load(Ordering::SeqCst)
    }

    /// Comes back when a list was asked for.
    pub(super) async fn asked(&self) {
        self.news.notified().await;
    }

    /// A list begins; to be called before its request is sent.
    pub(super) fn begins(&self) {
        let asked = self.asked.load(Ordering::SeqCst);
        self.begun.store(asked, Ordering::SeqCst);
        self.lock().objects = 0;
    }

    /// One object of the list has come.
    pub(super) fn goes_on(&self) {
        let mut progress = self.lock();
        progress.objects += 1;
        if progress.objects > progress.most {
            progress.most = progress.objects;
            progress.at = Some(Instant::now());
        }
    }

    /// When a list came further than all before it, since the last one was asked for.
    pub(super) fn progress(&self) -> Option<Instant> {
        self.lock().at
    }

    /// The list is in the store. One that was not asked for comes no further than the one before.
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
