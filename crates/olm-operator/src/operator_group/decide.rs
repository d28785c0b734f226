//! Decides writes and status of an OperatorGroup. No I/O.

use std::collections::BTreeSet;

use kube::{Resource, ResourceExt};
use olm_api::{
    api_key::{ApiSet, has_malformed, print_api_set},
    condition::operator_group as reason,
    labels,
    v1::OperatorGroup,
    v1alpha1::ClusterServiceVersionPhase as Phase,
};
use olm_runtime::plan::{Action, EventDraft, Guard, Plan, Target};
use serde_json::json;

use crate::operator_group::{observe::Observed, provided_apis, targets::Selection};

/// The targets, or the error in the selector: then the current targets stay.
pub(crate) type Verdict = Result<BTreeSet<String>, String>;

/// Returns the targets for the status, and removes APIs without a provider from the list. `told` is
/// the error reported last: every created or deleted namespace triggers a group with a selector.
pub(crate) fn decide(observed: &Observed, told: Option<&str>) -> (Plan, Verdict) {
    let selection = Selection::read(&observed.group.spec);
    let namespaces = observed.namespaces.iter().map(AsRef::as_ref);
    let selected = selection.map(|selection| selection.names(namespaces));
    let mistake = selected.as_ref().err();
    let news = mistake.filter(|mistake| told != Some(mistake.as_str()));
    let event = news.map(|mistake| {
        let message = format!("{mistake}; the group keeps its previous target namespaces");
        EventDraft::warning(observed.group.object_ref(&()), reason::INVALID_SELECTOR, message)
    });
    let plan = Plan {
        actions: prune(observed).into_iter().collect(),
        events: event.into_iter().collect(),
        ..Plan::default()
    };
    (plan, selected)
}

/// Removes invalid entries from the list, and APIs that no member provides. If a new member is about to add
/// its own, nothing is removed.
fn prune(observed: &Observed) -> Option<Action> {
    let group = &observed.group;
    if group.spec.static_provided_apis == Some(true) || observed.ambiguous {
        return None;
    }
    let listed = provided_apis(group);
    let members = observed.members.iter().filter(|member| !member.deleting);
    let provided: ApiSet = members
        .clone()
        .flat_map(|member| member.provides.iter().cloned())
        .collect();
    let arriving = members
        .filter(|member| matches!(member.phase, Phase::None | Phase::Pending))
        .any(|member| !member.provides.is_subset(&listed));
    let kept: ApiSet = listed.intersection(&provided).cloned().collect();
    let text = group.annotations().get(labels::PROVIDED_APIS);
    let tidy = kept == listed && !text.is_some_and(|text| has_malformed(text));
    if arriving || tidy {
        return None;
    }
    let target = Target::of::<OperatorGroup>(&group.namespace().unwrap_or_default(), &group.name_any());
    let patch = json!({"metadata": {"annotations": {labels::PROVIDED_APIS: print_api_set(&kept)}}});
    Some(Action::patch(target, patch, Guard::of(&group.metadata)))
}
