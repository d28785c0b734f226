//! Rows about ServiceAccounts and their rights.

use std::collections::BTreeMap;

use go_compat::json::{self, Html};
use k8s_openapi::api::{core::v1::ServiceAccount, rbac::v1::PolicyRule};
use olm_api::{
    condition::requirement,
    permission,
    v1alpha1::{DependentStatus, RequirementStatus},
};

use super::{Row, missing_rights, row_of};
use crate::csv::{
    observed::Observed,
    rbac::{self, counterparts},
    strategy::{Scope, Strategy, WantedRole},
};

const POLICY_RULE: &str = "PolicyRule";
const RULE_NOT_SATISFIED: &str = "Policy rule not satisfied for service account";
/// Maximum length of a rule in the message of its account, in characters; the dependents below contain all of
/// it.
const SHOWN_RULE: usize = 300;

/// Returns one row per account, sorted by name; the rules of all its permissions are its dependents.
pub(super) fn rows(observed: &Observed, strategy: &Strategy) -> Vec<Row> {
    let mut rows: BTreeMap<&str, RequirementStatus> = BTreeMap::new();
    for role in &strategy.roles {
        let account = rows
            .entry(&role.service_account)
            .or_insert_with(|| RequirementStatus {
                status: requirement::PRESENT.to_owned(),
                ..row_of::<ServiceAccount>(&role.service_account)
            });
        add_role(observed, role, account);
    }
    let row = |mut status: RequirementStatus| {
        if status.message == RULE_NOT_SATISFIED {
            status.message.push_str(&lacking_rules(&status.dependents));
        }
        Row {
            unknown: false,
            status,
        }
    };
    rows.into_values().map(row).collect()
}

fn add_role(observed: &Observed, role: &WantedRole, status: &mut RequirementStatus) {
    let Some(owners) = observed.accounts.get(&role.service_account) else {
        set(status, requirement::NOT_PRESENT, "Service account does not exist");
        return;
    };
    if !owners.is_empty() && !owners.contains(observed.uid()) {
        set(
            status,
            requirement::PRESENT_NOT_SATISFIED,
            "Service account is owned by another ClusterServiceVersion",
        );
        return;
    }
    let held = rbac::is_held(role, observed.namespace(), &observed.rbac);
    let by_others = rbac::granted_by_others(observed, role.scope, &role.service_account);
    for rule in &role.rules {
        let satisfied = held || by_others.as_ref().is_some_and(|granted| granted.covers(rule));
        if !satisfied {
            set(status, requirement::PRESENT_NOT_SATISFIED, RULE_NOT_SATISFIED);
        }
        status.dependents.push(dependent(role.scope, rule, satisfied));
    }
}

/// Returns rows for rights that an operator lacks beyond its own namespace, where its group targets. Upstream
/// does not report them, so they do not affect readiness. Rights that OLM is about to write are not reported.
pub(super) fn missing_in_targets(observed: &Observed, strategy: &Strategy) -> Vec<Row> {
    let row = |status| Row {
        unknown: false,
        status,
    };
    let others_were_read = observed.rbac.granted_by_others.is_some();
    let uncarried = strategy.roles.iter().filter(|_| others_were_read);
    let uncarried = uncarried.filter_map(|role| {
        let places = rbac::uncarried(observed, role);
        let cause = format!(
            "service account {} has no permissions there, and no Role with the owner labels of this ClusterServiceVersion grants any here that could be copied",
            role.service_account
        );
        (!places.is_empty()).then(|| missing_rights(&role.name, &rbac::describe_places(&places), &cause))
    });
    let blocked = counterparts::blocked(observed).into_iter().map(|role| {
        let place = Some(role.namespace.clone());
        let cause = format!(
            "a RoleBinding that does not belong to OLM already refers to Role {}",
            role.name
        );
        missing_rights(&role.name, &rbac::describe_places([&place]), &cause)
    });
    uncarried.chain(blocked).map(row).collect()
}

fn set(status: &mut RequirementStatus, word: &str, message: &str) {
    status.status = word.to_owned();
    status.message = message.to_owned();
}

/// Returns the first rule that is not satisfied, and the number of the others.
fn lacking_rules(dependents: &[DependentStatus]) -> String {
    let mut lacking = dependents
        .iter()
        .filter(|dependent| dependent.kind == POLICY_RULE && dependent.status == requirement::NOT_SATISFIED);
    let Some(first) = lacking.next().and_then(|first| first.message.as_deref()) else {
        return String::new();
    };
    let mut shown: String = first.chars().take(SHOWN_RULE).collect();
    if shown.len() < first.len() {
        shown.push('…');
    }
    match lacking.count() {
        0 => format!(": {shown}"),
        more => format!(": {shown} and {more} more"),
    }
}

fn dependent(scope: Scope, rule: &PolicyRule, satisfied: bool) -> DependentStatus {
    let place = match scope {
        Scope::Namespace => "namespaced",
        Scope::Cluster => "cluster",
    };
    let word = if satisfied {
        requirement::SATISFIED
    } else {
        requirement::NOT_SATISFIED
    };
    DependentStatus {
        group: permission::API_GROUP.to_owned(),
        version: "v1".to_owned(),
        kind: POLICY_RULE.to_owned(),
        status: word.to_owned(),
        message: Some(format!("{place} rule:{}", rule_json(rule))),
        ..DependentStatus::default()
    }
}

/// Prints a rule as users know it from this message: fields in the order of the API's own source, without
/// empty ones.
fn rule_json(rule: &PolicyRule) -> String {
    // Lists of text always serialize.
    json::encode(&permission::Rule::from(rule), Html::Escaped).unwrap_or_default()
}
