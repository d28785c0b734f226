//! Decides what is written for a revision. Pure.

use olm_api::extension_v1::{ClusterObjectSet, LifecycleState};
use olm_api::labels;
use olm_runtime::plan::{Action, Guard, Identity, Plan, SecretData, Target};
use serde_json::{Value, json};

use super::{
    Conclusion, Content, FINALIZER, Known, Memory, Observed, ReadObject, ReadPhase, State, Verdict,
    definitions, has_succeeded, identity, teardown,
};
use crate::apply::collision::{Claimant, Treatment, treatment};
use crate::apply::digest::check_digests;
use crate::apply::managed::OTHERS;
use crate::apply::object::{contains, is_definition, is_deleting, metadata_text, owners, replace_finalizers};
use crate::apply::probe::{is_probed, probe};
use crate::apply::validation::{Manifests, revision_error};

/// Returns the writes of a reconcile, and what its status is about.
pub(super) fn decide(observed: &Observed, memory: Option<&Memory>) -> (Plan, Verdict) {
    let memory = memory.cloned().unwrap_or_default();
    let mut plan = Plan::default();
    let conclusion = match &observed.content {
        Content::Unread(conclusion) => conclusion.clone(),
        Content::Deleted(found) => {
            definitions::remove(&observed.set, found, observed.anchor.as_deref(), &mut plan);
            // Afterwards the garbage collector deletes the other objects.
            plan.actions.extend(finalizer_patch(&observed.set, false));
            Conclusion::Nothing
        }
        Content::Read(phases) => {
            let stored = observed.set.status.as_ref().map(|status| &status.observed_phases);
            let stored = stored.filter(|stored| !stored.is_empty());
            let current: Vec<_> = phases.iter().map(|phase| phase.observed.clone()).collect();
            match stored.map_or(Ok(()), |stored| check_digests(stored, &current)) {
                Err(message) => Conclusion::Blocked(message),
                Ok(()) if observed.set.spec.lifecycle_state == LifecycleState::Archived => {
                    archive(observed, phases, &mut plan)
                }
                Ok(()) => roll_out(observed, phases, &memory, &mut plan),
            }
        }
    };
    (plan, Verdict { conclusion, memory })
}

/// Returns the patch that adds or removes the finalizer, if it changes anything.
fn finalizer_patch(set: &ClusterObjectSet, is_wanted: bool) -> Option<Action> {
    let mut finalizers = set.metadata.finalizers.clone().unwrap_or_default();
    if finalizers.iter().any(|finalizer| finalizer == FINALIZER) == is_wanted {
        return None;
    }
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    finalizers.extend(is_wanted.then(|| FINALIZER.to_owned()));
    Some(replace_finalizers(
        Target::of_object(set),
        &set.metadata,
        &finalizers,
    ))
}

/// Tears an archived revision down. Its finalizer is removed after its status reports the teardown.
fn archive(observed: &Observed, phases: &[ReadPhase], plan: &mut Plan) -> Conclusion {
    let set = &observed.set;
    let (actions, is_done) = teardown::actions(set, phases, observed.anchor.as_deref());
    if is_done && actions.is_empty() && super::is_reported_archived(set) {
        plan.actions.extend(finalizer_patch(set, false));
        return Conclusion::Nothing;
    }
    plan.actions = actions;
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    let kept = objects.filter(|object| object.is_kept);
    plan.events.extend(definitions::event(
        set,
        kept.map(|object| object.id.name.as_str()),
    ));
    Conclusion::Archived { is_done }
}

/// Applies the phases up to the first one that is not ready.
fn roll_out(observed: &Observed, phases: &[ReadPhase], memory: &Memory, plan: &mut Plan) -> Conclusion {
    let set = &observed.set;
    let manifests: Vec<Manifests<'_>> = phases
        .iter()
        .map(|phase| {
            let objects = phase.objects.iter().map(|object| &object.manifest);
            (phase.observed.name.as_str(), objects.collect())
        })
        .collect();
    let name = set.metadata.name.as_deref().unwrap_or_default();
    if let Some(error) = revision_error(name, set.spec.revision, &manifests) {
        return Conclusion::Retrying(format!("revision validation error: {error}"));
    }
    plan.actions.extend(finalizer_patch(set, true));
    let siblings: Vec<&str> = observed
        .siblings
        .iter()
        .filter_map(|sibling| sibling.metadata.uid.as_deref())
        .collect();
    let claimant = Claimant {
        uid: set.metadata.uid.as_deref().unwrap_or_default(),
        number: set.spec.revision,
        siblings: &siblings,
        extension: extension_of(set),
    };
    let mut reached = Vec::new();
    let mut is_complete = true;
    for phase in phases {
        let before = plan.actions.len();
        let mut states = Vec::with_capacity(phase.objects.len());
        for object in &phase.objects {
            let (state, action) = state(observed, &claimant, memory, object, plan.actions.len());
            states.push(state);
            plan.actions.extend(action);
        }
        if states.contains(&State::Unserved) {
            // Upstream checks a phase before it applies anything of it.
            plan.actions.truncate(before);
        }
        let mut pairs = phase.objects.iter().zip(&states);
        let goes_on = pairs.all(|(object, state)| is_passable(set, object, *state));
        is_complete &= goes_on && plan.actions.len() == before;
        reached.push(states);
        if !goes_on {
            break;
        }
    }
    // Objects that a newer revision has taken over do not count for this one, unless it was complete before.
    is_complete &= has_succeeded(set) || !reached.iter().flatten().any(|state| *state == State::Left);
    if is_complete {
        plan.actions.extend(archive_older(observed));
    }
    Conclusion::Rollout {
        phases: reached,
        is_complete,
    }
}

/// True if an object has probes and does not pass them as it was read. The objects of later phases are not read then.
pub(super) fn is_awaited(set: &ClusterObjectSet, object: &ReadObject) -> bool {
    let probes = &set.spec.progression_probes;
    let current = object.current.as_ref();
    is_probed(probes, &object.id, &object.manifest)
        && current.is_none_or(|current| !probe(probes, &object.id, &current.object).is_passed())
}

/// True if the next phase may be applied in the same reconcile. An object that is about to be applied and has probes is awaited.
fn is_passable(set: &ClusterObjectSet, object: &ReadObject, state: State) -> bool {
    if is_awaited(set, object) {
        return false;
    }
    let probes = &set.spec.progression_probes;
    match (state, &object.current) {
        (State::Settled | State::Left, Some(current)) => {
            probe(probes, &object.id, &current.object).is_passed()
        }
        (State::Applied(_), _) => !is_probed(probes, &object.id, &object.manifest),
        _ => false,
    }
}

/// Returns the name of the extension that a revision belongs to; empty if it has none.
pub(super) fn extension_of(set: &ClusterObjectSet) -> &str {
    let labels = set.metadata.labels.as_ref();
    let extension = labels.and_then(|found| found.get(labels::EXTENSION_OWNER_NAME));
    extension.map(String::as_str).unwrap_or_default()
}

/// Returns the state of an object, and the action with the index `next` that applies it.
fn state(
    observed: &Observed,
    claimant: &Claimant<'_>,
    memory: &Memory,
    object: &ReadObject,
    next: usize,
) -> (State, Option<Action>) {
    let Some(target) = &object.target else {
        return (State::Unserved, None);
    };
    let (set, anchor) = (&observed.set, observed.anchor.as_deref());
    let apply = |wanted: Value| apply(target, wanted).by(identity(set));
    let Some(current) = &object.current else {
        let wanted = wanted(set, object, None, anchor);
        return (State::Applied(next), Some(apply(wanted)));
    };
    let live = &current.object;
    // Definitions that were applied before there was a second owner get it now.
    let has_anchor =
        || !is_definition(&object.id) || anchor.is_none_or(|anchor| definitions::has_anchor(live, anchor));
    match treatment(claimant, &object.protection, &object.id, live) {
        Treatment::Refuse => (State::Collision, None),
        Treatment::Leave => (State::Left, None),
        Treatment::Keep if is_deleting(live) || (is_known(set, memory, object) && has_anchor()) => {
            (State::Settled, None)
        }
        Treatment::Keep => {
            let mut wanted = wanted(set, object, None, anchor);
            wanted["metadata"]["uid"] = json!(metadata_text(live, "uid"));
            (State::Applied(next), Some(apply(wanted)))
        }
        Treatment::Adopt => {
            let mut wanted = wanted(set, object, Some(live), anchor);
            // The decision depends on the controller, which must still be the same.
            for field in ["uid", "resourceVersion"] {
                wanted["metadata"][field] = json!(metadata_text(live, field));
            }
            (State::Applied(next), Some(apply(wanted)))
        }
    }
}

/// True if an object is as it was applied. Without memory, defaults and normalized values cannot be told apart from changes; then only
/// the fields of the manifest are compared.
pub(super) fn is_known(set: &ClusterObjectSet, memory: &Memory, object: &ReadObject) -> bool {
    let Some(current) = &object.current else {
        return false;
    };
    let live = &current.object;
    // Others may add labels and annotations. They may also drop ours at once, as policies do; then a repetition does not help.
    let has_metadata = || contains(&live["metadata"], &wanted_metadata(set, object));
    match memory.0.get(&object.id) {
        Some(Known::Seen(seen)) => {
            let now = &current.fingerprint;
            seen.fields == now.fields && (seen.metadata == now.metadata || has_metadata())
        }
        Some(Known::Applied { version, generation }) => {
            let is_same_generation =
                generation.is_some() && *generation == live["metadata"]["generation"].as_i64();
            *version == metadata_text(live, "resourceVersion") || (is_same_generation && has_metadata())
        }
        None => {
            let mut fields = object.manifest.as_object().into_iter().flatten();
            has_metadata()
                && fields
                    .all(|(field, value)| OTHERS.contains(&field.as_str()) || contains(&live[field], value))
        }
    }
}

/// Returns the object to apply. Owners of the `adopted` object stay, but none of them is the controller any more. A definition has the
/// `anchor` as a second owner.
fn wanted(
    set: &ClusterObjectSet,
    object: &ReadObject,
    adopted: Option<&Value>,
    anchor: Option<&str>,
) -> Value {
    let mut wanted = object.manifest.clone();
    if let Some(fields) = wanted.as_object_mut() {
        fields.remove("status");
    }
    let own = json!({
        "apiVersion": olm_api::extension_v1::API_VERSION,
        "kind": "ClusterObjectSet",
        "name": set.metadata.name,
        "uid": set.metadata.uid,
        "controller": true,
        // Some clusters ask for a right on the owner, which only OLM has.
        "blockOwnerDeletion": identity(set) == Identity::Operator,
    });
    let others = adopted.map(owners).unwrap_or_default().into_iter();
    let others = others.filter(|owner| Some(owner.uid.as_str()) != anchor);
    let others = others.map(|mut owner| {
        owner.controller = Some(false);
        json!(owner)
    });
    let anchor = anchor.filter(|_| is_definition(&object.id));
    let anchor = anchor.map(definitions::anchor_reference);
    let mut metadata = wanted_metadata(set, object);
    metadata["ownerReferences"] = others.chain(anchor).chain([own]).collect();
    wanted["metadata"] = metadata;
    wanted
}

/// Returns the metadata to apply, without owners.
fn wanted_metadata(set: &ClusterObjectSet, object: &ReadObject) -> Value {
    let mut metadata = object.manifest["metadata"].clone();
    // The label is there even if its value is empty: the watches select by it.
    metadata["labels"][labels::EXTENSION_OWNER_NAME] = json!(extension_of(set));
    metadata["labels"][labels::MANAGED_BY] = json!(labels::EXTENSION_MANAGER);
    metadata["annotations"][labels::REVISION] = json!(set.spec.revision.to_string());
    metadata
}

/// Returns the action that applies an object. The data of a Secret is kept out of the texts of plans.
fn apply(target: &Target, mut object: Value) -> Action {
    let is_secret = target.api.group.is_empty() && target.api.kind == "Secret";
    let data = if is_secret { secret_data(&object) } else { None };
    if data.is_some()
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("data");
    }
    Action::Apply {
        target: target.clone(),
        object,
        data,
        manager: labels::EXTENSION_MANAGER,
        identity: Identity::Operator,
    }
}

/// Returns the data of a Secret; `None` if it has none, or if it is not base64, which the API server refuses.
fn secret_data(object: &Value) -> Option<SecretData> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let data = object["data"].as_object()?;
    let decoded = data.iter().map(|(key, value)| {
        let bytes = STANDARD.decode(value.as_str()?).ok()?;
        Some((key.clone(), bytes))
    });
    Some(SecretData::new(decoded.collect::<Option<Vec<_>>>()?))
}

/// Returns the patches that archive older revisions, which this one has replaced.
fn archive_older(observed: &Observed) -> impl Iterator<Item = Action> + '_ {
    let number = observed.set.spec.revision;
    let older = observed
        .siblings
        .iter()
        .filter(move |sibling| sibling.spec.revision < number);
    older.map(|sibling| {
        let guard = Guard {
            uid: sibling.metadata.uid.clone(),
            resource_version: None,
        };
        let patch = json!({"spec": {"lifecycleState": LifecycleState::Archived}});
        Action::patch(Target::of_object(&**sibling), patch, guard)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::DynamicObject;
    use olm_api::extension_v1::{API_VERSION, CollisionProtection};
    use olm_runtime::store::Projected;

    use super::*;
    use crate::apply::managed::Fingerprint;
    use crate::apply::object::ObjectId;

    fn set() -> ClusterObjectSet {
        serde_json::from_value(json!({
            "apiVersion": API_VERSION, "kind": "ClusterObjectSet",
            "metadata": {"name": "e-1", "uid": "own", "labels": {labels::EXTENSION_OWNER_NAME: "e"}},
            "spec": {"revision": 1},
        }))
        .unwrap()
    }

    /// A ConfigMap that was applied, after a merge patch of it.
    fn after(patch: &Value) -> ReadObject {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "a"}, "data": {"a": "1"},
        });
        let mut object = ReadObject {
            id: ObjectId::of(&manifest),
            manifest,
            protection: CollisionProtection::Prevent,
            target: Some(Target::of::<ConfigMap>("ns", "a")),
            current: None,
            is_kept: false,
        };
        let mut live = wanted(&set(), &object, None, None);
        live["metadata"]["resourceVersion"] = json!("7");
        olm_testing::patch::merge(&mut live, patch);
        let live: DynamicObject = serde_json::from_value(live).unwrap();
        object.current = Some(Arc::new(Projected::from_object(live)));
        object
    }

    fn fingerprint(patch: &Value) -> Fingerprint {
        after(patch).current.unwrap().fingerprint.clone()
    }

    /// One row per change: the patch, and whether the object is as applied if it was seen before, if it was just applied, and after a
    /// restart.
    #[test]
    fn only_changes_that_matter_are_noticed() {
        let label = |label: &str, value: Value| json!({"metadata": {"labels": {label: value}}});
        let rows = [
            (json!({}), [true, true, true]),
            (json!({"metadata": {"resourceVersion": "8"}}), [true, false, true]),
            (
                json!({"status": {"a": 1}, "metadata": {"resourceVersion": "8"}}),
                [true, false, true],
            ),
            (label("mine", json!("1")), [true, true, true]),
            (label(labels::MANAGED_BY, Value::Null), [false, true, false]),
            (
                json!({"data": {"a": "2"}, "metadata": {"resourceVersion": "8"}}),
                [false, false, false],
            ),
            // Fields of others survive an apply, so that it does no harm.
            (
                json!({"data": {"b": "2"}, "metadata": {"resourceVersion": "8"}}),
                [false, false, true],
            ),
        ];
        for (patch, expected) in rows {
            let object = after(&patch);
            let known = |known: Known| Memory([(object.id.clone(), known)].into());
            let applied = Known::Applied {
                version: Some("7".to_owned()),
                generation: None,
            };
            let memories = [
                known(Known::Seen(fingerprint(&json!({})))),
                known(applied),
                Memory::default(),
            ];
            let found = memories.map(|memory| is_known(&set(), &memory, &object));
            assert_eq!(found, expected, "{patch}");
        }
    }

    /// A policy may drop the labels of everything that is applied.
    #[test]
    fn metadata_that_is_dropped_at_once_is_accepted() {
        let dropped = json!({"metadata": {"labels": {labels::MANAGED_BY: null}}});
        let object = after(&dropped);
        let memory = Memory([(object.id.clone(), Known::Seen(fingerprint(&dropped)))].into());
        assert!(is_known(&set(), &memory, &object));
    }

    #[test]
    fn the_data_of_a_secret_is_in_no_text_of_a_plan() {
        let target = Target::of::<k8s_openapi::api::core::v1::Secret>("ns", "s");
        let action = apply(&target, json!({"kind": "Secret", "data": {"k": "c2VjcmV0"}}));
        assert_eq!(action.to_string(), "apply Secret ns/s");
        assert!(!format!("{action:?}").contains("c2VjcmV0"), "{action:?}");
    }
}
