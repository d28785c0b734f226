//! Newer content behind a catalog's tag: a pod that looks for it, and its promotion or removal. No I/O.
//!
//! The pod has the catalog's own spec, and labels that keep it out of the Service. It pulls the tag again.
//! When it is ready and has another image than the serving pod, the labels are exchanged, and the old pod is
//! deleted. Otherwise the new pod is deleted.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use olm_api::labels;
use olm_runtime::plan::{Action, Guard, Target};
use serde_json::json;

use super::decide::{Draft, Purpose, creation};
use super::objects::name;
use super::observed::Observed;
use super::pod_state;
use super::polling::Poll;

/// Time that a pod gets to start before a problem is reported: its probe allows 150 s after its images are
/// pulled.
const LONG_START: Duration = Duration::from_secs(300);

impl Draft {
    /// Decides about newer content. `wanted` is the pod of the current spec, and `serving` the one that serves or
    /// should.
    pub(super) fn settle_update(
        &mut self,
        observed: &Observed,
        wanted: &Pod,
        serving: Option<&Arc<Pod>>,
        now: Timestamp,
    ) {
        let living = observed.update_pods.iter();
        let living = living.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        // Without a serving pod the next one pulls the tag anyway.
        let (Some(poll), Some(serving)) = (&observed.poll, serving) else {
            return living.for_each(|pod| self.delete_pod(pod, 1));
        };
        let (mut looking, useless): (Vec<_>, Vec<_>) =
            living.partition(|pod| pod_state::matches(pod, wanted) && is_useful(pod, poll, serving));
        looking.sort_by_key(|pod| (!pod_state::is_ready(pod), pod_state::created(pod)));
        let mut looking = looking.into_iter();
        let first = looking.next();
        for pod in useless.into_iter().chain(looking) {
            self.delete_pod(pod, 1);
        }
        match first {
            Some(pod) if pod_state::is_ready(pod) => self.compare(observed, pod, serving),
            // A catalog may take minutes to start; a longer start is reported.
            Some(pod) => {
                let patience = (LONG_START, "pod with newer content is starting");
                self.update_trouble = self.start_trouble(pod, pod_state::created(pod), patience, now);
            }
            None => self.look(observed, poll, wanted, serving),
        }
    }

    /// Compares a ready pod that has pulled the tag: its content is the current one.
    fn compare(&mut self, observed: &Observed, ready: &Arc<Pod>, serving: &Arc<Pod>) {
        let images = pod_state::image_id(ready).zip(pod_state::image_id(serving));
        let is_other = images.is_some_and(|(new, old)| new != old);
        if is_other || !pod_state::is_ready(serving) {
            let labels =
                json!({labels::CATALOG_SOURCE: name(&observed.source), labels::CATALOG_UPDATE: null});
            let promote = patch(ready, json!({"metadata": {"labels": labels}}));
            self.actions.push((Purpose::UpdatePod, promote));
            return self.delete_pod(serving, 1);
        }
        // Nodes may report another digest for an image than the registry does; this avoids another search.
        if let Some(digest) = pod_state::made_for(ready) {
            let annotations = json!({labels::IMAGE_DIGEST: digest});
            let note = patch(serving, json!({"metadata": {"annotations": annotations}}));
            self.actions.push((Purpose::UpdatePod, note));
        }
        self.delete_pod(ready, 1);
    }

    /// Creates a pod if a poll has just found another digest, or none.
    fn look(&mut self, observed: &Observed, poll: &Poll, wanted: &Pod, serving: &Pod) {
        let Some(check) = &poll.check else { return };
        let digest = check.digest.as_deref();
        if digest.is_some_and(|digest| pod_state::has_digest(serving, digest)) {
            return;
        }
        let mut pod = wanted.clone();
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(labels::CATALOG_SOURCE.to_owned(), String::new());
        labels.insert(labels::CATALOG_UPDATE.to_owned(), name(&observed.source));
        if let Some(digest) = digest {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::IMAGE_DIGEST.to_owned(), digest.to_owned());
        }
        self.actions.push((Purpose::UpdatePod, creation(&pod)));
    }
}

/// True for a pod that may start, and was not made for outdated content. A ready one is compared in any case.
fn is_useful(pod: &Pod, poll: &Poll, serving: &Pod) -> bool {
    let is_dead = pod_state::is_dead(pod);
    if is_dead || pod_state::is_ready(pod) {
        return !is_dead;
    }
    let behind_tag = poll.check.as_ref().and_then(|check| check.digest.as_deref());
    let made_for = pod_state::made_for(pod);
    let is_outdated = made_for
        .zip(behind_tag)
        .is_some_and(|(made_for, now)| made_for != now);
    // The tag has moved back to the served content.
    let is_served = behind_tag.is_some_and(|digest| pod_state::has_digest(serving, digest));
    // A restarted server serves what was copied before: only another pod gets what a later poll finds.
    let is_stuck = pod_state::is_extracted(pod) && pod_state::trouble(pod).is_some();
    let is_polled_since = poll
        .check
        .as_ref()
        .is_some_and(|check| pod_state::created(pod).is_some_and(|created| created < check.at));
    let is_hopeless = is_stuck && is_polled_since;
    !(is_outdated || is_served || is_hopeless)
}

fn patch(pod: &Pod, patch: serde_json::Value) -> Action {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let guard = Guard::of_uid(pod.metadata.uid.clone());
    Action::patch(Target::of::<Pod>(namespace, pod_state::name(pod)), patch, guard)
}

/// Time of the catalog's poll, for its status; `None` unless it was made just now.
pub(crate) fn polled_at(observed: &Observed) -> Option<Timestamp> {
    let check = observed.poll.as_ref()?.check.as_ref()?;
    Some(check.at)
}
