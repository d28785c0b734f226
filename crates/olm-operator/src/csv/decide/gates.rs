//! Preconditions of every phase: the ClusterServiceVersion is an active member of exactly one OperatorGroup
//! that it supports (`docs/reference/lifecycle.md`, `docs/reference/operator-groups.md`).
//!
//! Phases Replacing and Deleting are exempt: losing the group in the middle of an upgrade must not break the
//! chain.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use kube::ResourceExt;
use olm_api::{
    api_key::{self, ApiKey},
    condition::csv as reason,
    install_mode::{InstallModeError, check_install_modes},
    labels,
    v1::OperatorGroup,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::plan::{Action, Guard, Target};
use serde_json::{Value, json};

use crate::{
    csv::{
        decide::transitions::{PhaseStep, Position, Stage},
        install,
        observed::Observed,
    },
    operator_group::{
        Group, Targets,
        intersection::{ApiIntersection, reconcile_apis},
    },
};

/// Maximum number of OperatorGroups in a message about a namespace with several.
const SHOWN_GROUPS: usize = 5;

/// Checks the preconditions. Returns the step to make instead of that of the phase; `None` when all hold.
///
/// The finalizer is always written first, because objects outside the namespace must be deleted one day, even if the
/// group is lost meanwhile. If membership is written as well, both are one write.
pub(super) fn check(observed: &Observed, position: &Position) -> Option<PhaseStep> {
    let closed = of_group(observed, position);
    let Some(finalizers) = missing_finalizer(observed) else {
        return closed;
    };
    let write = patch(observed, &json!({ "finalizers": finalizers }));
    let Some(mut step) = closed else {
        return Some(membership_step(vec![write]));
    };
    // Writes of the membership include the finalizer. A group that is about to change is waited for: membership follows
    // as soon as its status is set, and until then nothing is created.
    if step.go.is_some() && step.actions.is_empty() {
        step.actions.push(write);
    }
    Some(step)
}

fn of_group(observed: &Observed, position: &Position) -> Option<PhaseStep> {
    if matches!(position.phase, Phase::Replacing | Phase::Deleting) {
        return None;
    }
    match observed.groups.as_slice() {
        [] => fail(
            reason::NO_OPERATOR_GROUP,
            format!(
                "csv in namespace with no operatorgroups: namespace {} has none",
                observed.namespace()
            ),
            Vec::new(),
        ),
        [group] if group.awaits_service_account => Some(awaits_account(group, position)),
        [group] => member(observed, group),
        several => fail(
            reason::TOO_MANY_OPERATOR_GROUPS,
            format!(
                "csv created in namespace with multiple operatorgroups, can't pick one automatically: {}",
                and_more(
                    several
                        .iter()
                        .map(|group| &group.name)
                        .collect::<BTreeSet<_>>()
                        .into_iter(),
                    SHOWN_GROUPS,
                )
            ),
            Vec::new(),
        ),
    }
}

/// Returns a step that writes the membership before anything else.
fn membership_step(actions: Vec<Action>) -> PhaseStep {
    PhaseStep::act(Stage::Membership, actions, None)
}

/// Returns a step for a ClusterServiceVersion that must not run here, with additional writes.
fn fail(reason: &'static str, message: impl Into<String>, actions: Vec<Action>) -> Option<PhaseStep> {
    Some(PhaseStep {
        actions,
        ..PhaseStep::to(Phase::Failed, reason, message)
    })
}

/// Waits until the status of the group names the account of its spec. Until then nothing is written for its
/// members. OLM's own account may have more rights, and the named account may not exist.
fn awaits_account(group: &Group, position: &Position) -> PhaseStep {
    if !matches!(position.phase, Phase::None | Phase::Pending) {
        return PhaseStep::stay();
    }
    let account = group.service_account.as_deref().unwrap_or_default();
    let message = format!(
        "please make sure the service account exists. sa={account} operatorgroup={}/{}",
        group.namespace, group.name
    );
    PhaseStep::to(Phase::Pending, reason::REQUIREMENTS_UNKNOWN, message)
}

fn member(observed: &Observed, group: &Group) -> Option<PhaseStep> {
    const NOTHING: &str = "no targetNamespaces are matched operatorgroups namespace selection";
    let targets = match &group.targets {
        Targets::Unresolved => return Some(PhaseStep::stay()),
        Targets::Invalid(text) => {
            return fail(
                reason::NO_TARGET_NAMESPACES,
                format!("{NOTHING}: {text}"),
                Vec::new(),
            );
        }
        Targets::Namespaces(targets) if targets.is_empty() => {
            return fail(
                reason::NO_TARGET_NAMESPACES,
                NOTHING,
                membership(observed, group, None),
            );
        }
        Targets::Namespaces(targets) => targets,
    };
    let membership = membership(observed, group, Some(targets));
    let list: Vec<String> = targets.iter().cloned().collect();
    match check_install_modes(&observed.csv.spec.install_modes, observed.namespace(), &list) {
        Ok(()) => {}
        Err(error @ InstallModeError::Duplicate { .. }) => {
            return fail(reason::INVALID_INSTALL_MODES, error.to_string(), membership);
        }
        Err(error) => return fail(reason::UNSUPPORTED_OPERATOR_GROUP, error.to_string(), membership),
    }
    apis(observed, group, membership)
}

/// Returns one write of annotations and finalizer, if any of them is missing.
fn membership(observed: &Observed, group: &Group, targets: Option<&BTreeSet<String>>) -> Vec<Action> {
    let mut wanted = BTreeMap::from([
        (labels::OPERATOR_GROUP, group.name.clone()),
        (labels::OPERATOR_NAMESPACE, observed.namespace().to_owned()),
    ]);
    if let Some(targets) = targets {
        let list: Vec<&str> = targets.iter().map(String::as_str).collect();
        wanted.insert(labels::TARGET_NAMESPACES, list.join(","));
    }
    let present = observed.csv.annotations();
    wanted.retain(|key, value| present.get(*key) != Some(value));
    let mut metadata = serde_json::Map::new();
    if !wanted.is_empty() {
        metadata.insert("annotations".to_owned(), json!(wanted));
    }
    if let Some(finalizers) = missing_finalizer(observed) {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if metadata.is_empty() {
        return Vec::new();
    }
    vec![patch(observed, &metadata.into())]
}

/// Returns the finalizers with OLM's added; `None` when it already exists.
fn missing_finalizer(observed: &Observed) -> Option<Vec<String>> {
    if observed.csv.has_cleanup_finalizer() {
        return None;
    }
    let mut finalizers = observed.csv.finalizers().to_vec();
    finalizers.push(labels::FINALIZER_CSV_CLEANUP.to_owned());
    Some(finalizers)
}

fn patch(observed: &Observed, metadata: &Value) -> Action {
    // A merge patch replaces the whole list, so a finalizer that was added meanwhile must not be lost.
    let resource_version = metadata
        .get("finalizers")
        .and_then(|_| observed.csv.resource_version());
    let target = Target::of::<ClusterServiceVersion>(observed.namespace(), observed.name());
    let guard = Guard {
        uid: Some(observed.uid().to_owned()),
        resource_version,
    };
    Action::patch(target, json!({ "metadata": metadata }), guard)
}

fn apis(observed: &Observed, group: &Group, membership: Vec<Action>) -> Option<PhaseStep> {
    let own = match api_key::provided_apis(&observed.csv.spec) {
        Ok(own) => own,
        Err(error) => {
            let message = format!("install strategy invalid: {error}");
            return fail(reason::INVALID_INSTALL_STRATEGY, message, membership);
        }
    };
    let ours = group.intersection();
    let intersecting = observed
        .foreign_groups
        .iter()
        .filter(|other| ours.intersects(&other.targets));
    let others: BTreeSet<ApiKey> = intersecting
        .clone()
        .flat_map(|other| other.provided.iter().cloned())
        .collect();
    let provided_elsewhere = || {
        let shared = intersecting.clone().flat_map(|other| {
            let apis = other.provided.intersection(&own);
            apis.map(|api| format!("{api} is provided by OperatorGroup {}", other.id))
        });
        // Sorted by name, so that the same conflict always has the same message.
        and_more(shared.collect::<BTreeSet<String>>().into_iter(), 1)
    };
    let unlisted = || {
        let (namespace, name) = (&group.namespace, &group.name);
        let unlisted = own.difference(&group.provided);
        and_more(
            unlisted.map(|api| format!("OperatorGroup {namespace}/{name} does not list {api}")),
            1,
        )
    };
    let answer = reconcile_apis(&own, &group.provided, &others);
    match answer {
        ApiIntersection::NoConflict => (!membership.is_empty()).then(|| membership_step(membership)),
        ApiIntersection::Add | ApiIntersection::Remove if group.static_apis => {
            let why = if answer == ApiIntersection::Add {
                unlisted()
            } else {
                provided_elsewhere()
            };
            fail(
                reason::CANNOT_MODIFY_STATIC_OPERATOR_GROUP_PROVIDED_APIS,
                format!("static provided api operatorgroup cannot be modified by these apis: {why}"),
                [membership, install::withdraw(observed)].concat(),
            )
        }
        ApiIntersection::Conflict => fail(
            reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT,
            format!(
                "intersecting operatorgroups provide the same apis: {}",
                provided_elsewhere()
            ),
            [membership, install::withdraw(observed)].concat(),
        ),
        ApiIntersection::Add => {
            let union = group.provided.union(&own).cloned().collect();
            Some(membership_step(
                [membership, vec![write_provided(group, &union)]].concat(),
            ))
        }
        ApiIntersection::Remove => {
            let rest = group.provided.difference(&own).cloned().collect();
            Some(membership_step(
                [membership, vec![write_provided(group, &rest)]].concat(),
            ))
        }
    }
}

/// Returns the first `shown` of `texts`, and the number of the others.
fn and_more<T: Display>(mut texts: impl Iterator<Item = T>, shown: usize) -> String {
    let named: Vec<String> = texts.by_ref().take(shown).map(|text| text.to_string()).collect();
    let named = named.join(", ");
    match texts.count() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Writes a group's list of provided APIs, guarded by the version that was read. Two ClusterServiceVersions
/// of the group may write at the same time, and the second one must see the write of the first.
fn write_provided(group: &Group, apis: &BTreeSet<ApiKey>) -> Action {
    Action::patch(
        Target::of::<OperatorGroup>(&group.namespace, &group.name),
        json!({"metadata": {"annotations": {labels::PROVIDED_APIS: api_key::print_api_set(apis)}}}),
        Guard {
            uid: Some(group.uid.clone()),
            resource_version: group.resource_version.clone(),
        },
    )
}
