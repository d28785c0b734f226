//! Newer content behind a catalog's tag: a pod that looks for it, and what becomes of that pod. Pure.
//!
//! The pod has the catalog's own spec, and labels that keep it out of the Service. It pulls the tag anew. When it is ready and has
//! another image than the pod that serves, the labels are exchanged, and the old pod goes; else it goes itself.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use olm_api::labels;
use olm_runtime::plan::{Action, Exists, Guard, Identity, Target, to_value};
use serde_json::json;

use super::objects::name;
use super::observed::Observed;
use super::pod_state;
use super::polling::{Check, Poll};

/// What to do about newer content.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Make a pod that looks for it.
    Look(Action),
    /// Let this pod serve from now on.
    Promote(Action),
    /// Note at the pod that serves which digest it has.
    Note(Action),
    /// Remove this pod.
    Remove(Arc<Pod>),
    /// Wait for a pod that cannot start, for this reason.
    Trouble(String),
}

/// Decides about newer content. `wanted` is the pod that the spec asks for, `serving` the one that serves or is to.
pub(crate) fn decide(observed: &Observed, wanted: &Pod, serving: Option<&Arc<Pod>>) -> Vec<Step> {
    let living = observed.update_pods.iter();
    let living = living.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    // Without a pod that serves the next one pulls the tag anyway.
    let (Some(poll), Some(serving)) = (&observed.poll, serving) else {
        return living.cloned().map(Step::Remove).collect();
    };
    let (mut looking, useless): (Vec<_>, Vec<_>) =
        living.partition(|pod| is_useful(pod, wanted, poll.check.as_ref()));
    looking.sort_by_key(|pod| (!pod_state::is_ready(pod), pod_state::created(pod)));
    let mut looking = looking.into_iter();
    let first = looking.next();
    let mut steps: Vec<Step> = useless
        .into_iter()
        .chain(looking)
        .cloned()
        .map(Step::Remove)
        .collect();
    match first {
        Some(pod) if pod_state::is_ready(pod) => steps.extend(compare(observed, pod, serving)),
        Some(pod) => steps.extend(pod_state::trouble(pod).map(Step::Trouble)),
        None => steps.extend(look(observed, poll, wanted, serving)),
    }
    steps
}

/// One that the spec still asks for, that may come up, and that was not made for what is outdated by now.
fn is_useful(pod: &Pod, wanted: &Pod, check: Option<&Check>) -> bool {
    let behind_tag = check.and_then(|check| check.digest.as_deref());
    let is_outdated = pod_state::made_for(pod)
        .zip(behind_tag)
        .is_some_and(|(made_for, behind_tag)| made_for != behind_tag && !pod_state::is_ready(pod));
    pod_state::matches(pod, wanted) && !pod_state::is_dead(pod) && !is_outdated
}

/// The ready pod has pulled the tag: what it has is what there is.
fn compare(observed: &Observed, ready: &Arc<Pod>, serving: &Arc<Pod>) -> Vec<Step> {
    let images = pod_state::image_id(ready).zip(pod_state::image_id(serving));
    let is_other = images.is_some_and(|(new, old)| new != old);
    if is_other || !pod_state::is_ready(serving) {
        let labels = json!({labels::CATALOG_SOURCE: name(&observed.source), labels::CATALOG_UPDATE: null});
        let promote = patch(ready, json!({"metadata": {"labels": labels}}));
        return vec![Step::Promote(promote), Step::Remove(Arc::clone(serving))];
    }
    // Nodes may call an image by another digest than the registry does; it is not looked for again.
    let note = pod_state::made_for(ready).map(|digest| {
        let annotations = json!({labels::IMAGE_DIGEST: digest});
        Step::Note(patch(serving, json!({"metadata": {"annotations": annotations}})))
    });
    note.into_iter()
        .chain([Step::Remove(Arc::clone(ready))])
        .collect()
}

/// A pod where the last poll, if nothing was done about it yet, has found another digest, or could not find any.
fn look(observed: &Observed, poll: &Poll, wanted: &Pod, serving: &Pod) -> Option<Step> {
    let check = poll.news(&observed.source)?;
    let digest = check.digest.as_deref();
    if digest.is_some_and(|digest| pod_state::has_digest(serving, digest)) {
        return None;
    }
    let mut pod = wanted.clone();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(labels::CATALOG_SOURCE.to_owned(), String::new());
    labels.insert(labels::CATALOG_UPDATE.to_owned(), name(&observed.source));
    if let Some(digest) = digest {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::IMAGE_DIGEST.to_owned(), digest.to_owned());
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(Step::Look(Action::Create {
        target: Target::of::<Pod>(namespace, ""),
        object: to_value(&pod),
        exists: Exists::Fail,
        identity: Identity::Operator,
    }))
}

fn patch(pod: &Pod, patch: serde_json::Value) -> Action {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Action::Patch {
        target: Target::of::<Pod>(namespace, pod_state::name(pod)),
        patch,
        subresource: None,
        guard: Guard {
            uid: pod.metadata.uid.clone(),
            resource_version: None,
        },
        identity: Identity::Operator,
    }
}

/// When a catalog was polled last, for its status.
pub(crate) fn polled_at(observed: &Observed) -> Option<Timestamp> {
    let check = observed.poll.as_ref()?.check.as_ref()?;
    Some(check.at)
}
