//! Watches, which stream the history of a kind as lines.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::read::shown;
use super::request::Request;
use super::state::Change;
use super::status::{Refusal, expired};
use super::{FakeCluster, Link};

/// Interval of bookmarks of a watch without events.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// An open watch.
pub(super) struct Watch {
    cluster: FakeCluster,
    link: Link,
    request: Request,
    /// Changes up to this version were sent.
    seen: u64,
    /// Generation of watches in which it was opened; a later one ends it.
    opened: u64,
    ends: Instant,
    bookmark: Instant,
    ready: VecDeque<Value>,
}

impl Watch {
    /// Opens a watch; `410 Expired` if its start version is discarded.
    pub fn open(cluster: &FakeCluster, link: &Link, request: Request) -> Result<Self, Refusal> {
        let state = cluster.lock();
        let mut ready = VecDeque::new();
        let initial = request.param("sendInitialEvents") == "true";
        let from = request.param("resourceVersion").parse::<u64>().unwrap_or(0);
        let seen = if initial || from == 0 {
            for object in state.selected(&request) {
                ready.push_back(event("ADDED", &shown(&request, &object)));
            }
            if initial {
                let mut object = bookmark(&request, state.version);
                object["object"]["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
                ready.push_back(object);
            }
            state.version
        } else if from < state.compacted {
            return Err(expired(&format!(
                "too old resource version: {from} ({})",
                state.compacted
            )));
        } else {
            from
        };
        drop(state);
        let seconds = request.param("timeoutSeconds").parse().unwrap_or(300);
        let watching = cluster.watching();
        Ok(Self {
            opened: watching.generation(&request.kind.kind),
            cluster: cluster.clone(),
            link: link.clone(),
            seen,
            ends: Instant::now() + Duration::from_secs(seconds),
            bookmark: Instant::now() + BOOKMARKS,
            ready,
            request,
        })
    }

    /// Returns its lines as a stream.
    pub fn lines(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            watch.next().await.map(|line| (line, watch))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut changed = self.cluster.changes();
            self.link.while_alive().await;
            if let Some(event) = self.ready.pop_front() {
                let mut line = event.to_string();
                line.push('\n');
                return Some(Bytes::from(line));
            }
            if self.cluster.watching().generation(&self.request.kind.kind) != self.opened {
                return None;
            }
            self.collect();
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(self.ends) => return None,
                () = tokio::time::sleep_until(self.bookmark) => {
                    self.bookmark = Instant::now() + BOOKMARKS;
                    if self.request.param("allowWatchBookmarks") == "true" && !self.is_held() {
                        self.ready.push_back(bookmark(&self.request, self.seen));
                    }
                }
            }
        }
    }

    fn is_held(&self) -> bool {
        self.cluster.watching().is_held(&self.request.kind.kind)
    }

    /// Collects the changes since the last call.
    fn collect(&mut self) {
        if self.is_held() {
            return;
        }
        let mut state = self.cluster.lock();
        if self.seen < state.compacted {
            let gone = expired(&format!(
                "too old resource version: {} ({})",
                self.seen, state.compacted
            ));
            self.ready.push_back(event("ERROR", &gone.body()));
            self.seen = state.version;
            return;
        }
        let start = state
            .history
            .partition_point(|change| change.version <= self.seen);
        let fresh: Vec<Value> = state.history[start..]
            .iter()
            .filter_map(|change| told(&self.request, change))
            .collect();
        self.seen = state.version;
        state.activity += fresh.len() as u64;
        self.ready.extend(fresh);
    }
}

/// Returns the event of a change; `None` if the object was and is not selected.
fn told(request: &Request, change: &Change) -> Option<Value> {
    if change.key.kind != request.kind.kind || change.key.group != request.kind.group {
        return None;
    }
    let selected = |object: &Option<Arc<Value>>| object.clone().filter(|object| request.selects(object));
    let (kind, object) = match (selected(&change.old), selected(&change.new)) {
        (None, None) => return None,
        (None, Some(new)) => ("ADDED", new),
        (Some(_), Some(new)) => ("MODIFIED", new),
        (Some(old), None) => ("DELETED", old),
    };
    let mut object = shown(request, &object);
    if kind == "DELETED" {
        object["metadata"]["resourceVersion"] = json!(change.version.to_string());
    }
    Some(event(kind, &object))
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(request: &Request, version: u64) -> Value {
    let (api_version, kind) = match request.metadata_only {
        true => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata".to_owned()),
        false => (request.api_version(), request.kind.kind.clone()),
    };
    event(
        "BOOKMARK",
        &json!({"apiVersion": api_version, "kind": kind, "metadata": {"resourceVersion": version.to_string()}}),
    )
}
