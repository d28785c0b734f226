//! Newer content behind a catalog's tag: a pod that looks for it, and what becomes of that pod. Pure.
//!
//! The pod has the catalog's own spec, and labels that keep it out of the Service. It pulls the tag anew. When it is ready and has
//! another image than the pod that serves, the labels are exchanged, and the old pod goes; else it goes itself.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use olm_api::labels;
use olm_runtime::plan::{Action, Exists, Guard, Identity, Target, to_value};
use serde_json::json;

use super::objects::name;
use super::observed::Observed;
use super::pod_state;
use super::polling::Poll;

/// Time that a pod has to come up before it is told: its probe gives it 150 s after its images are there.
const LONG_START: Duration = Duration::from_secs(300);

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
    /// Look again whether the pod has started.
    Wait(Duration),
}

/// Decides about newer content. `wanted` is the pod that the spec asks for, `serving` the one that serves or is to.
pub(crate) fn decide(
    observed: &Observed,
    wanted: &Pod,
    serving: Option<&Arc<Pod>>,
    now: Timestamp,
) -> Vec<Step> {
    let living = observed.update_pods.iter();
    let living = living.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    // Without a pod that serves the next one pulls the tag anyway.
    let (Some(poll), Some(serving)) = (&observed.poll, serving) else {
        return living.cloned().map(Step::Remove).collect();
    };
    let (mut looking, useless): (Vec<_>, Vec<_>) =
        living.partition(|pod| pod_state::matches(pod, wanted) && is_useful(observed, pod, poll, serving));
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
        Some(pod) => steps.extend(wait(pod, now)),
        None => steps.extend(look(observed, poll, wanted, serving)),
    }
    steps.extend(forget_note(poll, serving));
    steps
}

/// A note about another digest than is behind the tag, at a pod whose node has pulled what is: it was made for a tag that moved while
/// a pod pulled it, and would hide that content when it comes again.
fn forget_note(poll: &Poll, serving: &Pod) -> Option<Step> {
    let behind_tag = poll.check.as_ref()?.digest.as_deref()?;
    let noted = pod_state::made_for(serving)?;
    let is_wrong = noted != behind_tag && pod_state::pulled_digest(serving) == Some(behind_tag);
    is_wrong.then(|| {
        let annotations = json!({labels::IMAGE_DIGEST: null});
        Step::Note(patch(serving, json!({"metadata": {"annotations": annotations}})))
    })
}

/// A catalog may take minutes to come up; what takes longer is told.
fn wait(pod: &Pod, now: Timestamp) -> Option<Step> {
    if let Some(trouble) = pod_state::trouble(pod) {
        return Some(Step::Trouble(trouble));
    }
    let since = pod_state::created(pod)?;
    let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match LONG_START.checked_sub(age).filter(|left| !left.is_zero()) {
        Some(left) => Some(Step::Wait(left)),
        None => {
            let name = pod_state::name(pod);
            Some(Step::Trouble(format!("pod {name} is not ready since {since:.0}")))
        }
    }
}

/// One that may come up, and was not made for what is outdated by now. A ready one is compared in any case.
fn is_useful(observed: &Observed, pod: &Pod, poll: &Poll, serving: &Pod) -> bool {
    let is_dead = pod_state::is_dead(pod);
    if is_dead || pod_state::is_ready(pod) {
        return !is_dead;
    }
    let behind_tag = poll.check.as_ref().and_then(|check| check.digest.as_deref());
    let made_for = pod_state::made_for(pod);
    let is_outdated = made_for
        .zip(behind_tag)
        .is_some_and(|(made_for, now)| made_for != now);
    // The tag has come back to what is served.
    let is_served = behind_tag.is_some_and(|digest| pod_state::has_digest(serving, digest));
    // A server that is started again serves what was copied before: only another pod has what a poll finds later.
    let is_stuck = pod_state::is_extracted(pod) && pod_state::trouble(pod).is_some();
    let is_polled_since = poll
        .news(&observed.source)
        .is_some_and(|check| pod_state::created(pod).is_some_and(|created| created < check.at));
    let is_hopeless = is_stuck && is_polled_since;
    !(is_outdated || is_served || is_hopeless)
}

/// The ready pod has pulled the tag: what it has is what there is.
fn compare(observed: &Observed, ready: &Arc<Pod>, serving: &Arc<Pod>) -> Vec<Step> {
    let images = pod_state::image_id(ready).zip(pod_state::image_id(serving));
    let is_other = images.is_some_and(|(new, old)| new != old);
    if is_other || !pod_state::is_ready(serving) {
        let labels = json!({labels::CATALOG_SOURCE: name(&observed.source), labels::CATALOG_UPDATE: null});
        let mut metadata = json!({"labels": labels});
        // The tag may have moved on before the node pulled it: then the pod has something else than it was made for.
        if pod_state::made_for(ready).is_some()
            && pod_state::made_for(ready) != pod_state::pulled_digest(ready)
        {
            metadata["annotations"] = json!({labels::IMAGE_DIGEST: null});
        }
        let promote = patch(ready, json!({"metadata": metadata}));
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
