//! Events on objects, sent beside the reconcilers so that no round waits for one.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder as KubeRecorder, Reporter},
};
use tokio::sync::mpsc;

use crate::{key::NamespacedName, plan::EventDraft, store::Store};

/// The component users know from upstream's events.
pub const COMPONENT: &str = "operator-lifecycle-manager";
/// Longest text an Event takes.
const NOTE_LIMIT: usize = 1024;
/// Events that are remembered at most, so that repetitions become series. kube's recorder remembers all of the last six
/// minutes, and forgets only while it sends another.
const REMEMBERED_EVENTS: usize = 128;
/// Events that may wait to be sent; more are dropped, since events are a courtesy.
const WAITING_LIMIT: usize = 256;

/// What an Event about an object refers to. Without `uid` the Event is found by name alone.
pub fn reference<K: Resource<DynamicType = ()>>(
    key: &NamespacedName,
    uid: Option<String>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: Some(key.name.clone()),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
        uid,
        ..ObjectReference::default()
    }
}

/// [`reference`] to an object of a store; `None` when it is not there.
pub fn regarding<K: Resource<DynamicType = ()>>(
    store: &Store<K>,
    key: &NamespacedName,
) -> Option<ObjectReference> {
    let object = store.get_key(key)?;
    Some(reference::<K>(key, object.meta().uid.clone()))
}

/// Where reconcilers leave their events.
#[derive(Debug, Clone)]
pub struct Recorder {
    sender: mpsc::Sender<EventDraft>,
}

impl Recorder {
    /// A recorder and the task that sends what it is given. Repetitions of an event become a series.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, mut receiver) = mpsc::channel::<EventDraft>(WAITING_LIMIT);
        let reporter = Reporter {
            controller: COMPONENT.to_owned(),
            instance: std::env::var("HOSTNAME").ok(),
        };
        let sending = async move {
            let anew = || KubeRecorder::new(client.clone(), reporter.clone());
            let (mut recorder, mut known) = (anew(), 0);
            while let Some(draft) = receiver.recv().await {
                if known == REMEMBERED_EVENTS {
                    (recorder, known) = (anew(), 0);
                }
                known += 1;
                let (event, regarding) = event_of(draft);
                if let Err(error) = recorder.publish(&event, &regarding).await {
                    tracing::debug!(%error, reason = %event.reason, "event not sent");
                }
            }
        };
        (Self { sender }, sending)
    }

    /// Sends `draft` soon.
    pub fn publish(&self, draft: EventDraft) {
        if self.sender.try_send(draft).is_err() {
            tracing::debug!("event dropped: too many are waiting");
        }
    }
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

/// `text` cut at a character boundary to what an Event takes.
fn shortened(mut text: String) -> String {
    if text.len() > NOTE_LIMIT {
        let mut end = NOTE_LIMIT - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = shortened("ä".repeat(2000));
        assert!(text.len() <= NOTE_LIMIT);
        assert!(text.ends_with("ä…"));
        assert_eq!(shortened("short".into()), "short");
    }
}
