//! Decides which ClusterRoles of APIs are written or deleted. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, PolicyRule},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt};
use olm_api::{
    labels,
    user_role::{Level, crd_view_name},
};
use olm_runtime::plan::{Action, Plan, Target};

use crate::{
    api_role::{Observed, ProvidedApi, ServedBy},
    stores::CustomResourceDefinition,
    user_role::{self, Sent, Verdict},
};

/// Returns writes for ClusterRoles that are missing, outdated or no longer needed. A ClusterRole with another
/// owner is skipped.
pub(crate) fn decide(observed: &Observed, sent: Option<&Sent>) -> (Plan, Verdict) {
    let mut taken = BTreeSet::new();
    let mut actions: Vec<Action> = Vec::new();
    for wanted in observed.apis.iter().flat_map(|api| cluster_roles(observed, api)) {
        let found = observed.found.get(&wanted.name_any()).map(AsRef::as_ref);
        if found.is_some_and(|found| !is_ours(observed, found)) {
            taken.insert(wanted.name_any());
        } else {
            actions.extend(user_role::upkeep(&wanted, found));
        }
    }
    actions.extend(observed.former.iter().map(|role| {
        let target = Target::cluster::<ClusterRole>(&role.name_any());
        Action::delete(target, role.uid())
    }));
    user_role::plan(actions, taken, sent)
}

/// True when the owner reference names the object that serves the API, regardless of its uid, because that
/// object may have been recreated.
fn is_ours(observed: &Observed, found: &ClusterRole) -> bool {
    let mut owners = found.owner_references().iter();
    owners.any(|owner| ServedBy::referred_to(owner).as_ref() == Some(&observed.served_by))
}

fn cluster_roles(observed: &Observed, api: &ProvidedApi) -> Vec<ClusterRole> {
    let version = &api.key.version;
    let of_objects = |level: Level| {
        let name = level.api_role_name(&api.name, version);
        let rule = rule(level.verbs(), &api.key.group, &api.resource);
        cluster_role(observed, api, level, name, rule)
    };
    let mut all: Vec<ClusterRole> = Level::ALL.map(of_objects).into();
    if let ServedBy::CustomResourceDefinition(crd) = &observed.served_by {
        let group = CustomResourceDefinition::group(&());
        let mut rule = rule(&["get"], &group, &CustomResourceDefinition::plural(&()));
        rule.resource_names = Some(vec![crd.clone()]);
        all.push(cluster_role(
            observed,
            api,
            Level::View,
            crd_view_name(crd, version),
            rule,
        ));
    }
    all
}

fn cluster_role(
    observed: &Observed,
    api: &ProvidedApi,
    level: Level,
    name: String,
    rule: PolicyRule,
) -> ClusterRole {
    let taken_up_by = [
        level.kubernetes_label(),
        level.api_label(&api.key),
        labels::MANAGED.to_owned(),
    ];
    let marks: BTreeMap<String, String> = taken_up_by.map(|key| (key, labels::TRUE.to_owned())).into();
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(marks),
            owner_references: Some(vec![observed.served_by.reference(observed.uid.clone())]),
            ..ObjectMeta::default()
        },
        aggregation_rule: None,
        rules: Some(vec![rule]),
    }
}

fn rule(verbs: &[&str], group: &str, resource: &str) -> PolicyRule {
    PolicyRule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        ..PolicyRule::default()
    }
}
