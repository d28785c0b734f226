//! ServiceAccounts and RBAC that a ClusterServiceVersion describes and nobody has made.
//!
//! An InstallPlan makes them within a second or two of the ClusterServiceVersion, so nothing is done while that may
//! still be coming; a ClusterServiceVersion applied by hand, or an object somebody deleted, is served after that.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use olm_api::{labels, v1alpha1::ClusterServiceVersion};
use olm_runtime::plan::{Action, Exists, Guard, Identity, Target, to_value};
use serde::Serialize;
use serde_json::json;

use crate::{
    csv::{
        FIELD_MANAGER,
        observe::Observed,
        rbac::{self, Scope, WantedRole, coverage},
        replacement,
        strategy::Strategy,
    },
    owner,
};

/// How long the steps of an InstallPlan get.
const PLAN_GRACE: Duration = Duration::from_secs(15);
/// How long a ClusterServiceVersion gets that no Subscription names (yet).
const HAND_GRACE: Duration = Duration::from_secs(2);
/// The account every namespace has; it is never made here.
pub const DEFAULT_ACCOUNT: &str = "default";

/// What to do about missing permissions.
#[derive(Debug, PartialEq)]
pub enum Repair {
    /// Somebody else may be about to make them.
    Wait(Duration),
    /// Make these; empty when there is nothing we could make.
    Make(Vec<Action>),
}

/// How long to leave missing permissions alone, counted from now; `None` when it is time to make them.
pub fn grace(created: Timestamp, has_subscription: bool, now: Timestamp) -> Option<Duration> {
    let grace = if has_subscription { PLAN_GRACE } else { HAND_GRACE };
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    grace.checked_sub(age).filter(|left| !left.is_zero())
}

/// What is missing of the strategy's accounts and roles.
pub fn repair(observed: &Observed, strategy: &Strategy, now: Timestamp) -> Repair {
    let mut actions = accounts(observed, strategy);
    for wanted in &strategy.roles {
        let held = rbac::is_held(wanted, observed.namespace(), &observed.rbac);
        if !held && !is_granted_by_others(observed, wanted) {
            actions.extend(make(observed, wanted));
        }
    }
    match grace(observed.created(), observed.subscription.is_some(), now) {
        Some(left) if !actions.is_empty() => Repair::Wait(left),
        _ => Repair::Make(actions),
    }
}

/// True when the account may do it all through RBAC that somebody made by hand.
pub fn is_granted_by_others(observed: &Observed, wanted: &WantedRole) -> bool {
    wanted
        .rules
        .iter()
        .all(|rule| covers_by_others(observed, wanted.scope, &wanted.service_account, rule))
}

/// True when RBAC that was read from the API server allows `rule` to the account.
pub fn covers_by_others(observed: &Observed, scope: Scope, account: &str, rule: &PolicyRule) -> bool {
    let Some(grants) = &observed.rbac.granted_by_others else {
        return false;
    };
    let namespace = observed.namespace();
    let account = coverage::Account {
        namespace,
        name: account,
    };
    let scope = (scope == Scope::Namespace).then_some(namespace);
    coverage::covers(
        &coverage::granted(account, scope, &grants.bindings, &grants.roles),
        rule,
    )
}

fn accounts(observed: &Observed, strategy: &Strategy) -> Vec<Action> {
    let permissions = strategy.permissions.iter().chain(&strategy.cluster_permissions);
    let named: BTreeSet<&str> = permissions
        .map(|permission| permission.service_account.as_str())
        .collect();
    named
        .into_iter()
        .filter(|name| *name != DEFAULT_ACCOUNT)
        .filter_map(|name| match observed.accounts.get(name) {
            None => Some(create_account(observed, name)),
            Some(account) => share_account(observed, name, account),
        })
        .collect()
}

fn create_account(observed: &Observed, name: &str) -> Action {
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(observed.namespace().to_owned()),
            labels: Some([(labels::MANAGED.to_owned(), labels::TRUE.to_owned())].into()),
            owner_references: Some(vec![owner::reference(&observed.csv)]),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    Action::Create {
        target: Target::of::<ServiceAccount>(observed.namespace(), name),
        object: to_value(&account),
        exists: Exists::Keep,
        identity: identity(observed),
    }
}

/// An account of the version that is being replaced gets this one as a further owner; an account of anybody else is
/// left to its owner.
fn share_account(observed: &Observed, name: &str, account: &crate::csv::observe::Account) -> Option<Action> {
    let owners = &account.csv_owners;
    if owners.is_empty() || owners.contains_key(observed.uid()) {
        return None;
    }
    let ancestors = replacement::ancestors(observed.name(), observed.replaces(), &observed.siblings);
    if !owners
        .values()
        .all(|owner| ancestors.contains(owner.as_str()) || owner == observed.name())
    {
        return None;
    }
    let mut references = account.owner_references.clone();
    references.push(owner::reference(&observed.csv));
    Some(Action::Patch {
        target: Target::of::<ServiceAccount>(observed.namespace(), name),
        patch: json!({"metadata": {"ownerReferences": references}}),
        subresource: None,
        guard: Guard {
            uid: None,
            resource_version: account.resource_version.clone(),
        },
        identity: identity(observed),
    })
}

fn make(observed: &Observed, wanted: &WantedRole) -> [Action; 2] {
    let csv = &observed.csv;
    let namespace = observed.namespace();
    let name = wanted.name.as_str();
    match wanted.scope {
        Scope::Namespace => {
            let (role, binding) = self::role(csv, wanted);
            [
                apply(observed, Target::of::<Role>(namespace, name), &role),
                apply(observed, Target::of::<RoleBinding>(namespace, name), &binding),
            ]
        }
        Scope::Cluster => {
            let subjects = vec![subject(&wanted.service_account, namespace)];
            cluster_role(csv, wanted, wanted.rules.clone(), subjects)
                .map(|(target, object)| apply(observed, target, &object))
        }
    }
}

/// A Role and its binding in the namespace of the ClusterServiceVersion.
pub(super) fn role(csv: &ClusterServiceVersion, wanted: &WantedRole) -> (Role, RoleBinding) {
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let role_ref = role_ref("Role", &wanted.name);
    let subjects = vec![subject(&wanted.service_account, namespace)];
    let binding_hash = binding_hash(&role_ref, &subjects);
    let role = Role {
        metadata: namespaced(csv, &wanted.name, &wanted.rules_hash),
        rules: Some(wanted.rules.clone()),
    };
    let binding = RoleBinding {
        metadata: namespaced(csv, &wanted.name, &binding_hash),
        role_ref,
        subjects: Some(subjects),
    };
    (role, binding)
}

/// A ClusterRole and its binding for the accounts of a ClusterServiceVersion.
pub(super) fn cluster_role(
    csv: &ClusterServiceVersion,
    wanted: &WantedRole,
    rules: Vec<PolicyRule>,
    subjects: Vec<Subject>,
) -> [(Target, serde_json::Value); 2] {
    let name = wanted.name.as_str();
    let role_ref = role_ref("ClusterRole", name);
    let binding_hash = binding_hash(&role_ref, &subjects);
    let role = ClusterRole {
        metadata: cluster(csv, name, &wanted.rules_hash),
        rules: Some(rules),
        aggregation_rule: None,
    };
    let binding = ClusterRoleBinding {
        metadata: cluster(csv, name, &binding_hash),
        role_ref,
        subjects: Some(subjects),
    };
    [
        (Target::cluster::<ClusterRole>(name), to_value(&role)),
        (Target::cluster::<ClusterRoleBinding>(name), to_value(&binding)),
    ]
}

/// The account as the subject of a binding.
pub(super) fn subject(account: &str, namespace: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    }
}

/// The hash label of a binding. A binding always has a JSON form, so there always is one.
fn binding_hash(role_ref: &RoleRef, subjects: &[Subject]) -> String {
    olm_api::permission::binding_hash(role_ref, subjects).unwrap_or_default()
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: rbac::GROUP.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn namespaced(csv: &ClusterServiceVersion, name: &str, hash: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: csv.metadata.namespace.clone(),
        owner_references: Some(vec![owner::reference(csv)]),
        ..cluster(csv, name, hash)
    }
}

/// A cluster-scoped object cannot have a namespaced owner, so the finalizer finds it by its labels.
fn cluster(csv: &ClusterServiceVersion, name: &str, hash: &str) -> ObjectMeta {
    let mut marks = owner::labels(csv);
    marks.insert(labels::PERMISSIONS_HASH.to_owned(), hash.to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(marks),
        ..ObjectMeta::default()
    }
}

/// Writes `object` with the rights that count for this ClusterServiceVersion.
pub(super) fn apply(observed: &Observed, target: Target, object: &impl Serialize) -> Action {
    Action::Apply {
        target,
        object: to_value(object),
        manager: FIELD_MANAGER,
        identity: identity(observed),
    }
}

/// In whose name the parts of an operator are written: the account its OperatorGroup names, else our own.
pub fn identity(observed: &Observed) -> Identity {
    let account = observed.group().and_then(|group| group.service_account.clone());
    match account {
        Some(name) => Identity::ServiceAccount {
            namespace: observed.namespace().to_owned(),
            name,
        },
        None => Identity::Operator,
    }
}
