//! Preview of the changes of a plan that waits for approval, read once, after the plan is made.
//!
//! # Guarantees
//! - It has names of objects and fields, rules of RBAC, and images of ClusterServiceVersions, but no other values.
//! - For Secrets, for objects that are not OLM's, and for all steps if the OperatorGroup names a ServiceAccount, it does not even say
//!   whether a value changes. OLM may read these values; users who make plans may not, and could guess them. A
//!   ClusterServiceVersion and its RBAC are always compared with those of the one that it replaces in the same namespace.
//! - Custom resources that do not fit a changed definition are named as in the plan's condition.
//! - Facts that cannot be read are listed as unknown. No plan waits for its preview.

pub(crate) mod reconciler;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::plan_preview::{
    DefinitionChange, ObjectChange, OperatorChange, PERMISSIONS, PlanPreview, VERSION, Verb,
};
use olm_api::rights;
use olm_api::schema_changes::SchemaChanges;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, Step};
use olm_runtime::error::ObserveError;
use olm_runtime::isolation;
use olm_runtime::plan::{Target, merge_patch};
use serde_json::Value;

use super::crd_upgrade;
use super::custom_resources::CheckState;
use super::execution::{check_crd, encode_string_data, shows_fields};
use super::observe::{
    Horizon, KnownStep, NoObject, Observed, Reads, StepState, observe_definitions, observe_steps,
    replaced_by, steps,
};
use super::restoration::restorer;
use super::step_rbac::rbac_objects;
use super::step_write::{DATA, Write, dropped_keys, write_for};
use crate::manifest::Manifest;
use crate::object;
use crate::step_kind::StepKind;

/// Longest time for reading what there is, and then for checking custom resources.
const TIME: Duration = Duration::from_secs(5);
/// Maximum parts of a field's path in a preview.
const DEPTH: usize = 3;
/// Maximum fields of one object in a preview.
const FIELDS: usize = 200;

/// Returns the text of the annotation; `None` while a bundle of the plan is being fetched. `observed` has the plan and what is in its
/// namespace, without the states of steps, and `plans` are all plans there.
async fn preview(
    reads: &impl Reads,
    observed: Observed,
    plans: &[Arc<InstallPlan>],
    now: Timestamp,
) -> Option<String> {
    let read = async {
        let states = observe_steps(reads, &observed, Horizon::Plan).await?;
        let mut unknown = Vec::new();
        let mut before = Before::default();
        for replaced in replaced_csvs(&observed) {
            let target = Target::of::<ClusterServiceVersion>(&observed.namespace(), &replaced);
            let found = reads.get(&target).await.map_err(|error| error.to_string());
            let found = found.and_then(|found| found.ok_or_else(|| "it was deleted".to_owned()));
            match rbac_of_installed(reads, &observed, (replaced.as_str(), found.as_ref()), plans).await {
                Ok(objects) => before.rbac.extend(objects),
                Err(text) => unknown.push(text),
            }
            match found {
                Ok(csv) => drop(before.csvs.insert(replaced, csv)),
                Err(cause) => unknown.push(format!("Deployments of {replaced}: {cause}")),
            }
        }
        Ok::<_, ObserveError>((states, before, unknown))
    };
    let (observed, before, unknown) = match tokio::time::timeout(TIME, read).await {
        Ok(Ok((states, before, mut unknown))) => {
            let mut observed = Observed {
                steps: states,
                ..observed
            };
            // Where a ServiceAccount is named, definitions are not compared.
            if !observed.is_limited() {
                let check = observe_definitions(reads, &mut observed);
                if tokio::time::timeout(TIME, check).await.is_err() {
                    let text = format!(
                        "whether custom resources fit changed definitions: not known after {} s",
                        TIME.as_secs()
                    );
                    unknown.push(text);
                }
            }
            (observed, before, unknown)
        }
        Ok(Err(error)) => (observed, Before::default(), vec![error.to_string()]),
        Err(_) => {
            let text = format!("reading the cluster timed out after {} s", TIME.as_secs());
            (observed, Before::default(), vec![text])
        }
    };
    let is_fetched = |state: &StepState| matches!(state, StepState::Missing(NoObject::Fetching { .. }));
    if observed.steps.iter().any(is_fetched) {
        return None;
    }
    let compose = move || {
        let preview = PlanPreview {
            made_at: now.to_string(),
            ..compose(&observed, &before, unknown)
        };
        preview.to_annotation()
    };
    // A catalog may bring as many rules and schemas as fit into a plan.
    Some(isolation::blocking_in_round(compose).await)
}

/// What the ClusterServiceVersions that a plan replaces have.
#[derive(Default)]
struct Before {
    /// ServiceAccounts and RBAC.
    rbac: Vec<Value>,
    /// They themselves, by name, as far as they could be read.
    csvs: BTreeMap<String, Value>,
}

impl Before {
    /// Returns whether a ClusterServiceVersion that is replaced has the account, role or binding of a step. While its own plan runs the
    /// object may be missing; it exists before this plan begins.
    fn has(&self, step: &Step) -> bool {
        let resource = &step.resource;
        self.rbac.iter().any(|known| {
            known["kind"].as_str() == Some(resource.kind.as_str()) && object::name(known) == resource.name
        })
    }
}

/// ClusterServiceVersions of the namespace that the plan's replace.
fn replaced_csvs(observed: &Observed) -> Vec<String> {
    let steps = steps(&observed.install_plan).iter();
    let csvs =
        steps.filter(|step| StepKind::of(&step.resource.kind) == Some(StepKind::ClusterServiceVersion));
    let replaced = csvs.filter_map(|step| replaced_by(&observed.install_plan, step));
    replaced
        .filter(|name| observed.find_csv(name).is_some())
        .collect()
}

/// ServiceAccounts and RBAC of an installed ClusterServiceVersion: from the plan that made them, else as its permissions say.
async fn rbac_of_installed(
    reads: &impl Reads,
    observed: &Observed,
    (csv, found): (&str, Result<&Value, &String>),
    plans: &[Arc<InstallPlan>],
) -> Result<Vec<Value>, String> {
    let namespace = observed.namespace();
    let unknown = |what: &str| format!("{PERMISSIONS} of {csv}: {what}");
    if let Some(plan) = restorer(csv, plans) {
        // The store keeps no manifests of plans that are over.
        let target = Target::of::<InstallPlan>(&namespace, &plan.name_any());
        let whole = reads
            .get(&target)
            .await
            .map_err(|error| unknown(&error.to_string()))?;
        let plan: Option<InstallPlan> = whole.and_then(|whole| serde_json::from_value(whole).ok());
        let steps = plan.iter().flat_map(steps);
        let objects: Vec<Value> = steps
            .filter(|step| step.resolving == csv)
            .filter_map(inline_rbac)
            .collect();
        if !objects.is_empty() {
            return Ok(objects);
        }
    }
    let found = found.map_err(|cause| unknown(cause.as_str()))?;
    rbac_objects(found, &namespace).map_err(|error| unknown(&error))
}

fn inline_rbac(step: &Step) -> Option<Value> {
    StepKind::of(&step.resource.kind).filter(|kind| kind.is_account_or_rbac())?;
    match Manifest::parse(step.resource.manifest.as_deref()?) {
        Ok(Manifest::Inline(object)) => Some(object),
        _ => None,
    }
}

/// Composes the document from what was read. Pure. Without states of steps it has only operators and permissions.
fn compose(observed: &Observed, before: &Before, unknown: Vec<String>) -> PlanPreview {
    let mut preview = PlanPreview {
        version: VERSION,
        unknown,
        ..PlanPreview::default()
    };
    let last = last_of_each(observed);
    let mut after = Vec::new();
    for (index, step) in steps(&observed.install_plan).iter().enumerate() {
        let Some(kind) = StepKind::of(&step.resource.kind) else {
            continue;
        };
        if kind == StepKind::ClusterServiceVersion {
            let operator = operator(observed, step);
            let replaced = before.csvs.get(&operator.replaces);
            if let Some(StepState::Known(known)) = observed.steps.get(index)
                && (replaced.is_some() || operator.replaces.is_empty())
            {
                workloads::add(&mut preview, &observed.namespace(), replaced, &known.object);
            }
            preview.operators.push(operator);
            continue;
        }
        if last.get(&object_id(step)) != Some(&index) {
            continue;
        }
        after.extend(inline_rbac(step));
        let resource = format!("{} {}", step.resource.kind, step.resource.name);
        match observed.steps.get(index) {
            Some(StepState::Known(known)) if known.current.is_none() && before.has(step) => {}
            Some(StepState::Known(known)) => add_object(&mut preview, observed, kind, (index, step), known),
            Some(StepState::Missing(NoObject::Broken(error))) => {
                preview.unknown.push(format!("{resource}: {error}"));
            }
            Some(StepState::NotServed(_)) => {
                preview.unknown.push(format!("{resource}: API not served"));
            }
            Some(
                StepState::Done | StepState::OwnerPending | StepState::Missing(NoObject::Fetching { .. }),
            )
            | None => {}
        }
    }
    let namespace = observed.namespace();
    let targets = rights::Targets::of(&observed.operator_groups, &namespace);
    let (permissions, trouble) = rights::changes(&before.rbac, &after, &namespace, &targets);
    preview.permissions = permissions;
    preview.unknown.extend(trouble);
    preview
}

/// Identity of an object in the cluster.
fn object_id(step: &Step) -> (&str, &str, &str) {
    let resource = &step.resource;
    (&resource.group, &resource.kind, &resource.name)
}

/// If several steps write one object, the last one determines the result.
fn last_of_each(observed: &Observed) -> BTreeMap<(&str, &str, &str), usize> {
    let steps = steps(&observed.install_plan).iter().enumerate();
    steps.map(|(index, step)| (object_id(step), index)).collect()
}

fn operator(observed: &Observed, step: &Step) -> OperatorChange {
    OperatorChange {
        name: step.resource.name.clone(),
        // A channel head that is installed first replaces a version that was never installed.
        replaces: replaced_by(&observed.install_plan, step)
            .filter(|name| observed.find_csv(name).is_some())
            .unwrap_or_default(),
    }
}

fn add_object(
    preview: &mut PlanPreview,
    observed: &Observed,
    kind: StepKind,
    (index, step): (usize, &Step),
    known: &KnownStep,
) {
    let mut change = ObjectChange {
        verb: Verb::Create,
        kind: known.api.kind.clone(),
        name: step.resource.name.clone(),
        namespace: if known.namespaced {
            observed.namespace()
        } else {
            String::new()
        },
        ..ObjectChange::default()
    };
    let Some(current) = &known.current else {
        return preview.objects.push(change);
    };
    let mut wanted = known.object.clone();
    object::strip_server_fields(&mut wanted);
    if kind == StepKind::CustomResourceDefinition {
        let name = &step.resource.name;
        let definition = if observed.is_limited() {
            Some(brought_definition(name, &wanted))
        } else {
            definition_change(observed, name, current, &wanted).map(|change| {
                let (refused, unknown) = refusal(observed, index, step, known);
                preview.unknown.extend(unknown);
                DefinitionChange { refused, ..change }
            })
        };
        return preview.definitions.extend(definition);
    }
    change.verb = Verb::Change;
    change.foreign = kind.has_owner() && !object::is_of_a_csv(current);
    change.not_compared = match kind {
        StepKind::BundleSecret => true,
        _ => change.foreign || observed.is_limited(),
    };
    match change.not_compared {
        // Those are never changed.
        true if !kind.has_owner() => return,
        true => add_brought(&mut change, current, wanted),
        false => change.fields = changed_fields(kind, current, wanted),
    }
    if !change.fields.is_empty() {
        preview.objects.push(change);
    }
}

/// The fields that the write of a step changes.
fn changed_fields(kind: StepKind, current: &Value, wanted: Value) -> Vec<String> {
    let mut fields = BTreeSet::new();
    match write_for(kind, Some(current), wanted) {
        Write::Nothing | Write::Create(_) => {}
        Write::Patch(patch) => add_paths(&patch, &mut Vec::new(), &mut fields),
    }
    fields.into_iter().take(FIELDS).collect()
}

/// All fields of the bundle's object, which its author knows, and the number of the old bundle's keys that are removed. Whether a
/// value changes is not reported.
fn add_brought(change: &mut ObjectChange, current: &Value, mut wanted: Value) {
    encode_string_data(&mut wanted);
    let dropped = dropped_keys(current, &wanted).into_iter();
    change.keys_removed = dropped.filter(|(field, _)| DATA.contains(field)).count();
    if let Value::Object(fields) = &mut wanted {
        for field in ["apiVersion", "kind", "metadata"] {
            fields.remove(field);
        }
    }
    let mut fields = BTreeSet::new();
    add_paths(&wanted, &mut Vec::new(), &mut fields);
    // An object with nothing but metadata removes nothing.
    change.fields = fields
        .into_iter()
        .filter(|field| !field.is_empty())
        .take(FIELDS)
        .collect();
}

fn add_paths<'a>(patch: &'a Value, path: &mut Vec<&'a str>, fields: &mut BTreeSet<String>) {
    match patch {
        Value::Object(inner) if path.len() < DEPTH && !inner.is_empty() => {
            for (name, value) in inner {
                path.push(name);
                add_paths(value, path, fields);
                path.pop();
            }
        }
        _ => {
            fields.insert(path.join("."));
        }
    }
}

/// Returns why OLM will not change a definition, empty for no reason, and what is unknown about that.
fn refusal(observed: &Observed, index: usize, step: &Step, known: &KnownStep) -> (String, Option<String>) {
    if let Some(CheckState::Unread(cause)) = observed.custom_resources.get(&index) {
        let name = &step.resource.name;
        let unknown = format!("whether custom resources fit {name}: {cause}");
        return (String::new(), Some(unknown));
    }
    let others = match observed.custom_resources.get(&index) {
        Some(CheckState::Misfit(misfit)) => misfit.others.as_slice(),
        _ => &[],
    };
    let others = others.iter().filter(|other| shows_fields(observed, other));
    let others = others.map(|other| match other.namespace.as_str() {
        "" => format!("; {}: {}", other.name, other.fields),
        namespace => format!("; {namespace}/{}: {}", other.name, other.fields),
    });
    match check_crd(observed, index, step, known) {
        Err(error) => (format!("{error}{}", others.collect::<String>()), None),
        Ok(_) => (String::new(), None),
    }
}

/// The fields of a definition that the bundle's author knows, regardless of the existing definition.
fn brought_definition(name: &str, wanted: &Value) -> DefinitionChange {
    let served = crd_upgrade::schemas(wanted).into_iter();
    DefinitionChange {
        name: name.to_owned(),
        versions_added: served.map(|(version, _)| version.to_owned()).collect(),
        not_compared: true,
        ..DefinitionChange::default()
    }
}

fn definition_change(
    observed: &Observed,
    name: &str,
    current: &Value,
    wanted: &Value,
) -> Option<DefinitionChange> {
    let converted = observed.converted_crds.contains(name);
    let merged = crd_upgrade::merged(current, wanted, |_| true, converted);
    let patch = merge_patch(current, &merged)?;
    let (before, after) = (crd_upgrade::schemas(current), crd_upgrade::schemas(&merged));
    let missing = |from: &[(&str, &Value)], of: &[(&str, &Value)]| -> Vec<String> {
        let names = of.iter().map(|(name, _)| *name);
        names
            .filter(|name| !from.iter().any(|(other, _)| other == name))
            .map(str::to_owned)
            .collect()
    };
    let mut schemas = SchemaChanges::default();
    for (version, old) in &before {
        if let Some((_, new)) = after.iter().find(|(other, _)| other == version) {
            schemas.add(old, new, &format!("{version}: "));
        }
    }
    let mut fields = BTreeSet::new();
    add_paths(&patch, &mut Vec::new(), &mut fields);
    let (versions_added, versions_removed) = (missing(&before, &after), missing(&after, &before));
    let is_something_named = [
        &versions_added,
        &versions_removed,
        &schemas.added,
        &schemas.removed,
        &schemas.required,
    ]
    .iter()
    .any(|names| !names.is_empty());
    let is_all_named = !schemas.has_more
        && is_something_named
        && crd_upgrade::differ_in_schemas_only(current, &merged, |version| {
            let mut versions = versions_added.iter().chain(&versions_removed);
            versions.any(|named| named == version)
        });
    if is_all_named {
        fields.remove("spec.versions");
    }
    Some(DefinitionChange {
        name: name.to_owned(),
        versions_added,
        versions_removed,
        fields_added: schemas.added,
        fields_removed: schemas.removed,
        fields_required: schemas.required,
        fields: fields.into_iter().take(FIELDS).collect(),
        ..DefinitionChange::default()
    })
}

#[cfg(test)]
mod tests;
