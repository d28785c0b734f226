//! Feeds a store from a watch.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use http::{Request, Uri};
use kube::client::Body;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};

use super::contents::Revision;
use super::watch::{Requirement, selected};
use super::{Store, stamp_of};
use crate::change::Object;
use crate::client::is_watch;
use crate::error::with_causes;
use crate::metrics::Metrics;
use crate::reason;

/// Maximum bytes kept of a decoder's message, which quotes its input.
const ERROR_LIMIT: usize = 500;

/// A store with the settings of its watch.
pub(super) struct Feed<S> {
    pub(super) store: Store<S>,
    /// Plural and group of the kind, for the log.
    pub(super) name: String,
    /// Requirements that an object has to meet to be stored.
    pub(super) requirements: Arc<[Requirement]>,
    pub(super) metrics: Metrics,
}

impl<S: Object + Send + Sync + 'static> Feed<S> {
    /// Creates the feed of `store`, without metrics.
    pub(super) fn new(store: &Store<S>, name: String, requirements: Arc<[Requirement]>) -> Self {
        Self {
            store: store.clone(),
            name,
            requirements,
            metrics: Metrics::default(),
        }
    }

    /// Registers metrics for interruptions of the watch and for the number of objects.
    pub(super) fn count_in(&mut self, metrics: &Metrics) {
        self.metrics = metrics.clone();
        let shared = Arc::downgrade(&self.store.shared);
        metrics.sample_store(&self.name, move || {
            let shared = shared.upgrade()?;
            Some(Store { shared }.len())
        });
    }

    /// Feeds the store forever with the events of the watch that `start` returns.
    pub(super) async fn run<E, W>(
        self,
        start: impl Fn() -> W + Send,
        decode: impl Fn(E) -> Result<S, String> + Send,
    ) where
        E: Resource + Send,
        W: Stream<Item = watcher::Result<watcher::Event<E>>> + Send,
    {
        loop {
            let mut events = std::pin::pin!(start().default_backoff());
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = self.store.shared.history_restarted.notified() => {
                        tracing::warn!(kind = %self.name, "resource versions of the API server were reset, listing again");
                        self.metrics.watch_restarted(&self.name);
                        None
                    }
                };
                match event {
                    Some(Ok(event)) => self.take(event, &decode),
                    Some(Err(error)) => {
                        tracing::warn!(kind = %self.name, error = with_causes(&error), "watch interrupted, retrying");
                        self.metrics.watch_restarted(&self.name);
                    }
                    None => break,
                }
            }
        }
    }

    fn take<E: Resource>(&self, event: watcher::Event<E>, decode: impl Fn(E) -> Result<S, String>) {
        let store = &self.store;
        match event {
            watcher::Event::Init => store.relist_begins(),
            // The server selects by labels only.
            watcher::Event::InitApply(object) if !selected(&self.requirements, object.meta()) => {}
            watcher::Event::Apply(object) if !selected(&self.requirements, object.meta()) => {
                store.on_deleted(&stamp_of(&object));
            }
            watcher::Event::InitApply(object) => {
                let revision = stamp_of(&object);
                match decode(object) {
                    Ok(object) => store.listed(object),
                    Err(error) => self.unreadable(&revision, true, error),
                }
            }
            watcher::Event::InitDone => store.relist_ends(),
            watcher::Event::Apply(object) => {
                let revision = stamp_of(&object);
                match decode(object) {
                    Ok(object) => store.on_applied(object),
                    Err(error) => self.unreadable(&revision, false, error),
                }
            }
            watcher::Event::Delete(object) => store.on_deleted(&stamp_of(&object)),
        }
    }

    /// Reports each object and error once, in the log and by an Event.
    fn unreadable(&self, revision: &Revision, is_listed: bool, mut error: String) {
        let end = error.floor_char_boundary(ERROR_LIMIT);
        error.truncate(end);
        if !self.store.mark_unreadable(revision, is_listed, &error) {
            return;
        }
        tracing::warn!(kind = %self.name, object = %revision.key, %error, "cannot decode object");
        let message =
            format!("This object cannot be decoded; its last valid version, if any, stays in use: {error}");
        self.store.warn_about(revision, reason::UNREADABLE, message);
    }
}

/// Wraps `client` to report to `store` the version from which each watch starts. kube's watcher does not expose the list's version, but
/// its next watch request contains it.
#[expect(clippy::disallowed_methods, reason = "passes on what a watch asks")]
pub(super) fn noting_versions<S>(client: &Client, store: &Store<S>) -> Client
where
    S: Object + Send + Sync + 'static,
{
    let (inner, store) = (client.clone(), store.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        if let Some(version) = watched_from(request.uri()) {
            store.watching_from(version);
        }
        let client = inner.clone();
        async move { client.send(request).await }
    });
    Client::new(service, client.default_namespace())
}

/// Returns the version after which the request watches; `None` for other requests.
fn watched_from(uri: &Uri) -> Option<u64> {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    let version = parameters.find_map(|parameter| parameter.strip_prefix("resourceVersion="));
    version.filter(|_| is_watch(uri))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_watch_says_where_it_begins() {
        let from = |query: &str| watched_from(&format!("/api/v1/pods?{query}").parse().unwrap());
        assert_eq!(
            from("&watch=true&timeoutSeconds=290&resourceVersion=17"),
            Some(17)
        );
        assert_eq!(from("limit=100&resourceVersion=17"), None);
        assert_eq!(from("watch=true"), None);
        assert_eq!(watched_from(&"/api/v1/pods".parse().unwrap()), None);
    }
}
