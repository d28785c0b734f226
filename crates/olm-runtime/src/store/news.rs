//! Change notifications for objects that are not stored.
//!
//! A controller may need a few objects of a kind that is numerous, without a label to select them. It reads these when needed, and only
//! has to be notified of changes. That costs a watch and no memory.

use std::sync::{Arc, OnceLock};

use futures::{Stream, StreamExt};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{mpsc, watch};

use super::watch::resource_name;
use super::{Change, Stored, listener_failed, stamp_of};
use crate::error::with_causes;
use crate::key::kind_of;
use crate::metrics::Metrics;
use crate::plan::EventDraft;
use crate::sync::RwLock;
use crate::{isolation, wake};

/// Notification about a kind.
#[derive(Debug, Clone)]
pub enum NewsItem<K> {
    /// This object changed, or exists in a list. Its previous state is unknown.
    Changed(Change<PartialObjectMeta<K>>),
    /// A list is complete: objects that it did not report do not exist, although they may have before.
    Listed,
}

type Listener<K> = Box<dyn Fn(&NewsItem<K>) + Send + Sync>;

/// Notifications of one kind. Clones share the same listeners.
pub struct News<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    listeners: RwLock<Vec<Listener<K>>>,
    events: OnceLock<mpsc::Sender<EventDraft>>,
    ready: watch::Sender<bool>,
}

impl<K> Clone for News<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> Default for News<K> {
    /// Creates notifications without a watch, for models of a cluster.
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                listeners: RwLock::default(),
                events: OnceLock::new(),
                ready: watch::Sender::new(false),
            }),
        }
    }
}

impl<K> News<K> {
    /// Calls `listener` with every later notification. It must be fast. A panic in it is logged and reported by an Event on the object,
    /// as with [`super::Store::on_change`].
    pub fn on_news(&self, listener: impl Fn(&NewsItem<K>) + Send + Sync + 'static) {
        self.shared.listeners.write().push(Box::new(listener));
    }

    pub(super) fn sends_events_to(&self, events: mpsc::Sender<EventDraft>) {
        // This is set once, because the notifications are new.
        let _ = self.shared.events.set(events);
    }

    pub(super) fn readiness(&self) -> watch::Receiver<bool> {
        self.shared.ready.subscribe()
    }
}

impl<K: Stored> News<K> {
    /// Passes on the events of the watch that `start` returns, forever.
    pub(super) async fn run<W>(self, metrics: Metrics, start: impl Fn() -> W + Send)
    where
        W: Stream<Item = watcher::Result<watcher::Event<PartialObjectMeta<K>>>> + Send,
    {
        loop {
            let mut events = std::pin::pin!(start().default_backoff());
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => self.take(event),
                    Err(error) => {
                        tracing::warn!(kind = %K::kind(&()), error = with_causes(&error), "watch interrupted, retrying");
                        metrics.watch_restarted(&resource_name::<K>());
                    }
                }
            }
        }
    }

    fn take(&self, event: watcher::Event<PartialObjectMeta<K>>) {
        let applied = |object| Change::Applied {
            old: None,
            new: Arc::new(object),
        };
        match event {
            watcher::Event::Init => {}
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                self.tell(&NewsItem::Changed(applied(object)));
            }
            watcher::Event::Delete(object) => {
                let old = Arc::new(object);
                self.tell(&NewsItem::Changed(Change::Deleted { old }));
            }
            watcher::Event::InitDone => {
                self.tell(&NewsItem::Listed);
                self.shared.ready.send_replace(true);
            }
        }
    }

    fn tell(&self, heard: &NewsItem<K>) {
        let listeners = self.shared.listeners.read();
        let change = match heard {
            NewsItem::Changed(change) => Some(change),
            NewsItem::Listed => None,
        };
        let kind = kind_of::<K>();
        let _cause = change.map(|change| wake::because_of(&kind, change));
        for listener in listeners.iter() {
            if let Err(panicked) = isolation::catch(|| listener(heard)) {
                let object = change.map(|change| stamp_of(change.object().as_ref()));
                listener_failed(self.shared.events.get(), &kind, object, &panicked);
            }
        }
    }
}
