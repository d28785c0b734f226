//! Lists that are asked for: afterwards a store is no older than the question, however late its watch is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

/// Those of one store.
#[derive(Debug, Default)]
pub(super) struct Relists {
    /// How many were asked for.
    asked: AtomicU64,
    /// How many of them had been, when the last list began.
    begun: AtomicU64,
    /// The same of the last list that ended.
    ended: watch::Sender<u64>,
    news: Notify,
}

impl Relists {
    /// Asks for a list; what is given back comes to its end when one has that began after this.
    pub(super) fn ask(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
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
    }

    /// The list is in the store.
    pub(super) fn ends(&self) {
        self.ended.send_replace(self.begun.load(Ordering::SeqCst));
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
}
