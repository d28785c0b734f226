//! When the preview of a plan that waits for approval is not so any more. Pure.
//!
//! A plan is marked once, by an annotation and an Event; what changes after that is left alone, so that whoever makes and removes an
//! object again and again costs one write for each plan.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use olm_api::condition::install_plan as reasons;
use olm_api::labels;
use olm_api::plan_preview::VERSION;
use olm_api::preview_outdated::{ObjectFate, OutdatedObject, PreviewOutdated};
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::plan::{Action, EventDraft, Guard, Target};
use serde_json::json;

use super::observe::steps;
use crate::previewed::{self, Look, PreviewedObject};
use crate::step_kind::StepKind;

/// The objects to follow of a plan as the store has it: those its preview is about, as long as it waits and is not marked. `plans` are
/// those of its namespace.
///
/// An object has to be one of a step, as anybody who may write plans may write an annotation. What a plan before this one brings that
/// was not over when this one was made is left out: it comes because that one was approved.
pub(crate) fn followed(plan: &InstallPlan, plans: &[Arc<InstallPlan>]) -> Vec<PreviewedObject> {
    if !waits(plan) || plan.annotations().contains_key(labels::PLAN_PREVIEW_OUTDATED) {
        return Vec::new();
    }
    let Some(kept) = plan.annotations().get(labels::PLAN_PREVIEW) else {
        return Vec::new();
    };
    let mut objects = previewed::objects(kept);
    let before: Vec<&Arc<InstallPlan>> = plans.iter().filter(|other| was_under_way(other, plan)).collect();
    objects.retain(|object| has_step(plan, object) && !before.iter().any(|other| has_step(other, object)));
    objects
}

/// Whether somebody has yet to approve it, so that its preview matters. What waits by policy approves itself, and is not looked at before.
fn waits(plan: &InstallPlan) -> bool {
    plan.phase() == InstallPlanPhase::RequiresApproval
        && !plan.spec.approved
        && !plan.annotations().contains_key(labels::UPGRADE_WAITS)
        && plan.metadata.deletion_timestamp.is_none()
}

fn has_step(plan: &InstallPlan, object: &PreviewedObject) -> bool {
    steps(plan).iter().any(|step| {
        step.resource.name == object.name && StepKind::of(&step.resource.kind) == Some(object.kind)
    })
}

/// Whether `other`, of an earlier generation, is carried out, or was when `plan` was made, or since.
fn was_under_way(other: &InstallPlan, plan: &InstallPlan) -> bool {
    if other.spec.generation.unwrap_or_default() >= plan.spec.generation.unwrap_or_default() {
        return false;
    }
    if !other.is_over() {
        return other.spec.approved;
    }
    let conditions = other.status.iter().flat_map(|status| status.conditions.iter());
    let ended = conditions
        .filter_map(|condition| condition.last_update_time.as_ref())
        .map(|time| time.0)
        .max();
    let made = plan.creation_timestamp().map(|time| time.0);
    ended.zip(made).is_some_and(|(ended, made)| ended >= made)
}

/// What is not as the preview says; of an object in the plan's `namespace` with it. Where plans have the rights of a ServiceAccount only
/// (`is_limited`), and of what no ClusterServiceVersion has, nothing that is told depends on what stands there: who makes plans could guess.
/// Of the latter is told that it was made anew, or was or is one's: whatever its contents, which are not told.
pub(crate) fn changes(looks: &[Look], namespace: &str, is_limited: bool) -> Vec<OutdatedObject> {
    looks
        .iter()
        .filter_map(|look| change(look, namespace, is_limited))
        .collect()
}

fn change(look: &Look, namespace: &str, is_limited: bool) -> Option<OutdatedObject> {
    let kind = look.object.kind;
    let (change, fields) = match (look.object.was_there, &look.first, &look.now) {
        (false, _, Some(_)) => (ObjectFate::Came, Vec::new()),
        (true, _, None) => (ObjectFate::Gone, Vec::new()),
        (true, Some(first), Some(now)) => {
            let is_ours = !kind.has_owner() || (first.is_of_a_csv && now.is_of_a_csv);
            // Who takes the owner away, or makes it anew, may have changed anything.
            let is_another =
                first.is_another(now) || (kind.has_owner() && first.is_of_a_csv != now.is_of_a_csv);
            let fields = if is_ours && !is_limited {
                first.changed_fields(now)
            } else {
                Vec::new()
            };
            let is_changed = !fields.is_empty() || (is_another && !is_limited);
            is_changed.then_some((ObjectFate::Changed, fields))?
        }
        (true, None, Some(_)) | (false, _, None) => return None,
    };
    let namespace = match kind.is_cluster_scoped() {
        Some(false) => namespace.to_owned(),
        Some(true) | None => String::new(),
    };
    Some(OutdatedObject {
        change,
        kind: kind.api_resource().map(|api| api.kind).unwrap_or_default(),
        name: look.object.name.clone(),
        namespace,
        fields,
    })
}

/// The write that marks the plan as it was looked at: who has approved it since, or has made it anything else, is heard first.
pub(crate) fn mark(plan: &InstallPlan, objects: &[OutdatedObject], now: Timestamp) -> Action {
    let outdated = PreviewOutdated {
        version: VERSION,
        since: now.to_string(),
        objects: objects.to_vec(),
        omitted: 0,
    };
    let annotations = json!({labels::PLAN_PREVIEW_OUTDATED: outdated.to_annotation()});
    let target = Target::of::<InstallPlan>(&plan.namespace().unwrap_or_default(), &plan.name_any());
    let guard = Guard {
        uid: plan.uid(),
        resource_version: plan.resource_version(),
    };
    Action::patch(target, json!({"metadata": {"annotations": annotations}}), guard)
}

/// The event beside the mark.
pub(crate) fn event(plan: &InstallPlan, objects: &[OutdatedObject]) -> EventDraft {
    let texts: Vec<String> = objects.iter().map(OutdatedObject::to_string).collect();
    let message = format!(
        "what this plan will change is not what its preview says; look before you approve it (kubectl operator approve installplan/{} -n {}): {}",
        plan.name_any(),
        plan.namespace().unwrap_or_default(),
        texts.join("; ")
    );
    let message = cut(&message, EVENT_LIMIT);
    EventDraft::warning(plan.object_ref(&()), reasons::PREVIEW_OUTDATED, message)
}

#[cfg(test)]
mod tests;
