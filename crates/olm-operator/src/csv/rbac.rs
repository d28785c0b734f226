//! The Roles and ClusterRoles of a ClusterServiceVersion: whether they exist, and where they must apply.
//!
//! An InstallPlan or a user creates them in the namespace of the ClusterServiceVersion; nothing here does.
//! This module writes only their [`counterparts`] in other namespaces, for Roles with the owner labels. An
//! admission policy restricts these labels to OLM and to users who may grant any right
//! (decision record 0044).

pub(crate) mod counterparts;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::ResourceExt;
use olm_api::rights::coverage::Granted;
use olm_runtime::plan::{Action, Identity, Target, to_value};
use serde::Serialize;

use crate::csv::{
    FIELD_MANAGER, coverage,
    observed::{Observed, Rbac},
    strategy::{Scope, WantedRole},
};

pub(crate) use counterparts::{grants, revocations, withdrawals};

/// The account of every namespace and of pods that name none; it is never created and never waited for.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// Time for which rights beyond the own namespace remain while no group targets other namespaces.
pub(crate) const REVOCATION_GRACE: Duration = Duration::from_secs(10 * 60);

/// Place beyond the own namespace in which the rights of a namespaced permission must apply: a namespace, or
/// `None` for all of them.
pub(crate) type Place = Option<String>;

/// Describes the places for users: `in all namespaces`, or `in namespaces a, b`.
pub(crate) fn describe_places<'a>(places: impl IntoIterator<Item = &'a Place>) -> String {
    let places: BTreeSet<&Place> = places.into_iter().collect();
    if places.iter().any(|place| place.is_none()) {
        return "in all namespaces".to_owned();
    }
    let names: Vec<&str> = places.iter().filter_map(|place| place.as_deref()).collect();
    let noun = if names.len() == 1 {
        "namespace"
    } else {
        "namespaces"
    };
    format!("in {noun} {}", names.join(", "))
}

/// Applies `object` with the identity for this ClusterServiceVersion.
pub(crate) fn apply(observed: &Observed, target: Target, object: &impl Serialize) -> Action {
    Action::apply(target, to_value(object), FIELD_MANAGER).by(identity(observed))
}

/// Returns the identity for writes of an operator's objects: the account its OperatorGroup names, else OLM's
/// own.
///
/// The account of the group's spec counts even before its status names it; the preconditions block every
/// write until then.
pub(crate) fn identity(observed: &Observed) -> Identity {
    let account = observed.group().and_then(|group| group.service_account.clone());
    match account {
        Some(name) => Identity::ServiceAccount {
            namespace: observed.namespace().to_owned(),
            name,
        },
        None => Identity::Operator,
    }
}

/// Returns the places beyond its namespace where a permission of the strategy must apply.
pub(crate) fn places(observed: &Observed) -> Vec<Place> {
    match observed.group() {
        None => Vec::new(),
        Some(group) if group.targets_all() => vec![None],
        Some(_) => observed.open_targets.iter().cloned().map(Some).collect(),
    }
}

/// Returns the places where a permission does not apply and will not. No Role with the owner labels grants it
/// in the own namespace, so there is nothing to replicate. Grants of others do not reach there.
pub(crate) fn uncarried(observed: &Observed, role: &WantedRole) -> Vec<Place> {
    if role.scope == Scope::Cluster || is_held(role, observed.namespace(), &observed.rbac) {
        return Vec::new();
    }
    let lacks = |place: &Place| {
        let granted = granted(observed, place.as_deref(), &role.service_account);
        !granted.is_some_and(|granted| role.rules.iter().all(|rule| granted.covers(rule)))
    };
    places(observed).into_iter().filter(lacks).collect()
}

/// Returns the rights of the account from RBAC that was read from the API server, in the scope of a
/// permission; `None` when none was read.
pub(crate) fn granted_by_others<'a>(
    observed: &'a Observed,
    scope: Scope,
    account: &'a str,
) -> Option<Granted<'a>> {
    let namespace = (scope == Scope::Namespace).then(|| observed.namespace());
    granted(observed, namespace, account)
}

fn granted<'a>(observed: &'a Observed, namespace: Option<&'a str>, account: &'a str) -> Option<Granted<'a>> {
    let grants = observed.rbac.granted_by_others.as_ref()?;
    let account = coverage::AccountName {
        namespace: observed.namespace(),
        name: account,
    };
    Some(coverage::granted(
        account,
        namespace,
        &grants.bindings,
        &grants.roles,
    ))
}

/// Returns the roles of namespaced permissions; none while the strategy is invalid.
fn namespaced(observed: &Observed) -> impl Iterator<Item = &WantedRole> {
    let roles = observed
        .strategy
        .as_ref()
        .map(|strategy| strategy.roles.as_slice());
    roles
        .unwrap_or_default()
        .iter()
        .filter(|role| role.scope == Scope::Namespace)
}

/// True when role and binding exist, have the owner labels, and grant the account exactly the wanted rules.
///
/// The rules themselves are compared, not the hash label. So a Role that a user narrowed does not match.
pub(crate) fn is_held(wanted: &WantedRole, namespace: &str, rbac: &Rbac) -> bool {
    match wanted.scope {
        Scope::Namespace => is_bound(wanted, namespace, &rbac.roles, &rbac.role_bindings),
        Scope::Cluster => rbac.cluster_roles.iter().any(|role| {
            same_rules(role.rules.as_deref(), &wanted.rules)
                && rbac.cluster_role_bindings.iter().any(|binding| {
                    points_to(&binding.role_ref, "ClusterRole", &role.name_any())
                        && names_account(binding.subjects.as_deref(), wanted, namespace, None)
                })
        }),
    }
}

/// True when one of these Roles allows exactly the wanted rules, and one of the bindings grants it to the
/// account. All are of one namespace.
fn is_bound(
    wanted: &WantedRole,
    namespace: &str,
    roles: &[Arc<Role>],
    bindings: &[Arc<RoleBinding>],
) -> bool {
    roles.iter().any(|role| {
        same_rules(role.rules.as_deref(), &wanted.rules)
            && bindings.iter().any(|binding| {
                let within = binding.metadata.namespace.as_deref();
                points_to(&binding.role_ref, "Role", &role.name_any())
                    && names_account(binding.subjects.as_deref(), wanted, namespace, within)
            })
    })
}

/// True when both allow the same, rule by rule; empty and absent lists are equal.
pub(crate) fn same_rules(live: Option<&[PolicyRule]>, wanted: &[PolicyRule]) -> bool {
    let live = live.unwrap_or_default();
    live.len() == wanted.len()
        && live
            .iter()
            .zip(wanted)
            .all(|(live, wanted)| same_rule(live, wanted))
}

fn same_rule(a: &PolicyRule, b: &PolicyRule) -> bool {
    let same = |a: &Option<Vec<String>>, b: &Option<Vec<String>>| {
        a.as_deref().unwrap_or_default() == b.as_deref().unwrap_or_default()
    };
    a.verbs == b.verbs
        && same(&a.api_groups, &b.api_groups)
        && same(&a.resources, &b.resources)
        && same(&a.resource_names, &b.resource_names)
        && same(&a.non_resource_urls, &b.non_resource_urls)
}

fn points_to(reference: &RoleRef, kind: &str, name: &str) -> bool {
    reference.kind == kind && reference.name == name
}

fn names_account(
    subjects: Option<&[Subject]>,
    wanted: &WantedRole,
    namespace: &str,
    binding_namespace: Option<&str>,
) -> bool {
    let account = coverage::AccountName {
        namespace,
        name: &wanted.service_account,
    };
    let mut subjects = subjects.unwrap_or_default().iter();
    subjects.any(|subject| coverage::is_account(subject, account, binding_namespace))
}
