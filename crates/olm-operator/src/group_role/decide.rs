//! Decides which ClusterRoles of an OperatorGroup are written or deleted. No I/O.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{
    api::rbac::v1::{AggregationRule, ClusterRole},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{Resource, ResourceExt};
use olm_api::{condition::operator_group::NAME_TOO_LONG, labels, user_role::Level, v1::OperatorGroup};
use olm_runtime::{
    Timestamp,
    plan::{Action, EventDraft, Plan, Requeue, Target},
};

use crate::{
    group_role::Observed,
    owner,
    user_role::{self, Sent, Verdict},
};

/// Time that a new group without APIs has no ClusterRoles. An operator is mostly installed right after its
/// group, and each ClusterRole is then written once instead of twice.
pub(crate) const FIRST_API_DEBOUNCE: Duration = Duration::from_secs(30);

/// Returns writes for missing or outdated ClusterRoles, and deletions when the group was deleted.
pub(crate) fn decide(observed: &Observed, sent: Option<&Sent>, now: Timestamp) -> (Plan, Verdict) {
    let none = || user_role::plan(Vec::new(), BTreeSet::new(), sent);
    let Some(group) = &observed.group else {
        let left = observed.found.values();
        let deletions =
            left.map(|role| Action::delete(Target::cluster::<ClusterRole>(&role.name_any()), role.uid()));
        return user_role::plan(deletions.collect(), BTreeSet::new(), sent);
    };
    if group.metadata.deletion_timestamp.is_some() {
        return none();
    }
    if is_too_long(observed) {
        let (mut plan, verdict) = none();
        let is_sent = sent.is_some_and(|sent| sent.contains(&observed.key.name));
        plan.events.extend((!is_sent).then(|| too_long(group)));
        return (plan, verdict);
    }
    let delay = first_api_due_in(group, now);
    if observed.apis.is_empty() && observed.found.is_empty() && !delay.is_zero() {
        let (mut plan, verdict) = none();
        plan.requeue = Requeue::after(delay, "first operator of the group");
        return (plan, verdict);
    }
    let wanted = Level::ALL.map(|level| cluster_role(observed, level));
    let writes = wanted.iter().filter_map(|wanted| {
        let found = observed.found.get(&wanted.name_any());
        user_role::upkeep(wanted, found.map(AsRef::as_ref))
    });
    user_role::plan(writes.collect(), BTreeSet::new(), sent)
}

/// Returns the remaining time in which a group counts as new. A creation time in the future, by a fast clock,
/// is no reason to wait.
fn first_api_due_in(group: &OperatorGroup, now: Timestamp) -> Duration {
    let created = group.metadata.creation_timestamp.as_ref();
    let age = created.and_then(|time| Duration::try_from(now.duration_since(time.0)).ok());
    age.map_or(Duration::ZERO, |age| FIRST_API_DEBOUNCE.saturating_sub(age))
}

/// A ClusterRole aggregates the same ClusterRoles as Kubernetes' own of the same level, for these APIs.
fn cluster_role(observed: &Observed, level: Level) -> ClusterRole {
    let keys: BTreeSet<String> = observed.apis.iter().map(|api| level.api_label(api)).collect();
    let selectors: Vec<LabelSelector> = keys
        .into_iter()
        .map(|key| LabelSelector {
            match_labels: Some([(key, labels::TRUE.to_owned())].into()),
            match_expressions: None,
        })
        .collect();
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(level.group_role_name(&observed.key.namespace, &observed.key.name)),
            labels: Some(owner::labels_as(labels::OWNER_KIND_OPERATOR_GROUP, &observed.key)),
            ..ObjectMeta::default()
        },
        aggregation_rule: (!selectors.is_empty()).then_some(AggregationRule {
            cluster_role_selectors: Some(selectors),
        }),
        rules: None,
    }
}

/// True when the group's name is too long for a label. A truncated name would not identify the group.
pub(crate) fn is_too_long(observed: &Observed) -> bool {
    observed.key.name.len() > owner::MAX_LABEL_BYTES
}

fn too_long(group: &OperatorGroup) -> EventDraft {
    let message = format!(
        "Cannot create the ClusterRoles of this group: its name has {} characters, but a label value is limited to {}. Use a shorter name.",
        group.name_any().len(),
        owner::MAX_LABEL_BYTES
    );
    EventDraft::warning(group.object_ref(&()), NAME_TOO_LONG, message)
}
