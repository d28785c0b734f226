//! Events on objects. They are sent in the background, so that no reconcile waits for them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder as KubeRecorder, Reporter},
};
use tokio::sync::mpsc;

use crate::{
    gate::WriteGate,
    key::{NamespacedName, reference},
    metrics::Metrics,
    plan::EventDraft,
    store::Store,
};

/// Component name of upstream's events, which users know.
pub const COMPONENT: &str = "operator-lifecycle-manager";
/// Maximum bytes of an Event's text.
const NOTE_LIMIT: usize = 1024;
/// Maximum number of remembered events; repetitions of these become series. kube's recorder remembers all events of the last six minutes,
/// and removes old ones only when it sends another.
const REMEMBERED_EVENTS: usize = 64;
/// Timeout for sending one event. The others wait for it.
const SEND_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of events that wait to be sent. More are dropped, since events are best effort.
const WAITING_LIMIT: usize = 256;

/// Returns a [`reference()`] to an object of a store; `None` if the store does not have it.
pub fn regarding<K: Resource<DynamicType = ()>>(
    store: &Store<K>,
    key: &NamespacedName,
) -> Option<ObjectReference> {
    let object = store.get_key(key)?;
    Some(reference::<K>(key, object.meta().uid.clone()))
}

/// Handle that reconcilers use to send events.
#[derive(Debug, Clone)]
pub struct Recorder {
    sender: mpsc::Sender<EventDraft>,
}

impl Recorder {
    /// Returns a recorder and the task that sends its events while `gate` is open. Repetitions of an event become a series.
    #[expect(clippy::disallowed_methods, reason = "the one place that sends events")]
    pub fn new(client: Client, gate: WriteGate, metrics: Metrics) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, mut receiver) = mpsc::channel::<EventDraft>(WAITING_LIMIT);
        let reporter = Reporter {
            controller: COMPONENT.to_owned(),
            instance: std::env::var("HOSTNAME").ok(),
        };
        let sending = async move {
            // kube's recorder merges two events with the same reason on the same object, even if their texts differ, and shows the text
            // of the first. So each text has its own recorder.
            let mut recorders = HashMap::new();
            let mut known = 0;
            while let Some(draft) = receiver.recv().await {
                if !gate.is_open() {
                    metrics.held_back("event");
                    tracing::debug!(reason = %draft.reason, "event dropped: writes are suspended");
                    continue;
                }
                if known == REMEMBERED_EVENTS {
                    (recorders, known) = (HashMap::new(), 0);
                }
                known += 1;
                let (event, regarding) = event_of(draft);
                let recorder = recorders
                    .entry(text_hash(&event))
                    .or_insert_with(|| KubeRecorder::new(client.clone(), reporter.clone()));
                let sent = tokio::time::timeout(SEND_DEADLINE, recorder.publish(&event, &regarding));
                match sent.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, reason = %event.reason, "event not sent"),
                    Err(_) => tracing::debug!(reason = %event.reason, "event not sent: request timed out"),
                }
            }
        };
        (Self { sender }, sending)
    }

    /// Queues `draft` to be sent.
    pub fn publish(&self, draft: EventDraft) {
        if self.sender.try_send(draft).is_err() {
            tracing::debug!("event dropped: queue is full");
        }
    }
}

fn text_hash(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    event.note.hash(&mut hasher);
    hasher.finish()
}

fn event_of(draft: EventDraft) -> (Event, ObjectReference) {
    let event = Event {
        type_: if draft.warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        action: draft.reason.clone(),
        reason: draft.reason,
        note: Some(shortened(draft.message)),
        secondary: None,
    };
    (event, draft.regarding)
}

/// Cuts `text` at a character boundary to the maximum length of an Event.
fn shortened(mut text: String) -> String {
    if text.len() > NOTE_LIMIT {
        text.truncate(text.floor_char_boundary(NOTE_LIMIT - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// Sends events about the objects `names`, each with its text. The server never answers request number `silent`. Returns the methods
    /// of all requests.
    async fn methods(names: &[(&str, &str)], silent: usize) -> Vec<http::Method> {
        methods_through(WriteGate::default(), names, silent).await
    }

    async fn methods_through(gate: WriteGate, names: &[(&str, &str)], silent: usize) -> Vec<http::Method> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let mut requests = requests.lock().unwrap();
            requests.push(request.method().clone());
            let is_silent = requests.len() == silent;
            async move {
                if is_silent {
                    std::future::pending::<()>().await;
                }
                let event = request.into_body().collect_bytes().await?;
                Ok::<_, kube::Error>(http::Response::new(kube::client::Body::from(event.to_vec())))
            }
        });
        let (recorder, sending) = Recorder::new(Client::new(service, "default"), gate, Metrics::default());
        let sending = tokio::spawn(sending);
        for (name, text) in names {
            recorder.publish(EventDraft {
                regarding: reference::<ConfigMap>(&NamespacedName::new("ns", *name), None),
                warning: false,
                reason: "Tested".to_owned(),
                message: (*text).to_owned(),
            });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!sending.is_finished());
        sending.abort();
        let methods = seen.lock().unwrap();
        methods.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_without_an_answer_does_not_keep_others_waiting() {
        let names = ["a", "b", "b"].map(|name| (name, "text"));
        let (post, patch) = (http::Method::POST, http::Method::PATCH);
        assert_eq!(methods(&names, 1).await, [post.clone(), post, patch]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_event_is_sent_through_a_shut_gate() {
        let gate = WriteGate::default();
        gate.shut();
        let names = ["a", "b"].map(|name| (name, "text"));
        assert!(methods_through(gate.clone(), &names, 0).await.is_empty());
        gate.open_until(tokio::time::Instant::now() + Duration::from_secs(3600));
        assert_eq!(methods_through(gate, &names, 0).await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bounded_number_of_events_is_remembered() {
        let others: Vec<String> = (0..REMEMBERED_EVENTS - 2)
            .map(|number| number.to_string())
            .collect();
        let names = ["a", "a"].into_iter().chain(others.iter().map(String::as_str));
        let names: Vec<_> = names.chain(["a"]).map(|name| (name, "text")).collect();
        let methods = methods(&names, 0).await;
        assert_eq!(methods.len(), names.len());
        assert_eq!(methods[1], http::Method::PATCH);
        assert_eq!(methods.last(), Some(&http::Method::POST), "a new series");
    }

    /// Two annotations out of bounds are two separate messages, although the reason is the same.
    #[tokio::test(start_paused = true)]
    async fn another_text_is_another_event_and_the_same_text_a_series() {
        let texts = ["first", "second", "first", "second"].map(|text| ("a", text));
        let (post, patch) = (http::Method::POST, http::Method::PATCH);
        let expected = [post.clone(), post, patch.clone(), patch];
        assert_eq!(methods(&texts, 0).await, expected);
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = shortened("ä".repeat(2000));
        assert!(text.len() <= NOTE_LIMIT);
        assert!(text.ends_with("ä…"));
        assert_eq!(shortened("short".into()), "short");
    }
}
