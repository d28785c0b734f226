//! The Roles and ClusterRoles that a ClusterServiceVersion describes: what they are called, and whether they are held.
//!
//! An InstallPlan makes them as steps; [`repair`] makes those that are missing. Both use the same names, so that they
//! find each other's objects.

pub mod coverage;
pub mod lift;
pub mod repair;
pub mod spread;

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use kube::ResourceExt;

use olm_api::{permission as recipe, v1alpha1::ClusterServiceVersion};

use olm_runtime::plan::Action;

use crate::csv::{
    observe::{Observed, Rbac},
    strategy::Permission,
};

/// API group of all RBAC kinds.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Where rights count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In the namespace of the ClusterServiceVersion.
    Namespace,
    /// In the whole cluster.
    Cluster,
}

/// A role and its binding, which have the same name.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedRole {
    /// Name of role and binding.
    pub name: String,
    /// Where it counts.
    pub scope: Scope,
    /// Who gets it.
    pub service_account: String,
    /// What it allows.
    pub rules: Vec<PolicyRule>,
    /// Hash of what it allows, for the label.
    pub rules_hash: String,
}

/// What has to be written so that an operator has its rights wherever its group sends it, beyond its own namespace.
pub fn reach(observed: &Observed) -> Vec<Action> {
    let mut actions = lift::actions(observed);
    actions.extend(spread::actions(observed));
    actions
}

/// The roles for these permissions, each once.
///
/// # Errors
/// None in practice: names and hashes are made from the JSON of plain values.
pub fn wanted_roles(
    csv: &ClusterServiceVersion,
    permissions: &[Permission],
    cluster_permissions: &[Permission],
) -> Result<Vec<WantedRole>, serde_json::Error> {
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let scoped = |scope| move |permission| (scope, permission);
    let all = permissions
        .iter()
        .map(scoped(Scope::Namespace))
        .chain(cluster_permissions.iter().map(scoped(Scope::Cluster)));
    let mut seen = BTreeSet::new();
    let mut roles = Vec::new();
    for (
        scope,
        Permission {
            service_account,
            rules,
        },
    ) in all
    {
        let role = match scope {
            Scope::Namespace => recipe::role_name(name, service_account, rules)?,
            Scope::Cluster => recipe::cluster_role_name(name, namespace, service_account, rules)?,
        };
        if seen.insert((scope, role.clone())) {
            roles.push(WantedRole {
                name: role,
                scope,
                service_account: service_account.clone(),
                rules: rules.clone(),
                rules_hash: recipe::rules_hash(rules)?,
            });
        }
    }
    Ok(roles)
}

/// True when role and binding exist, carry the owner labels, and allow exactly the wanted rules to the account.
///
/// The rules themselves are compared, not the hash label: a Role that somebody narrowed by hand does not hold.
pub fn is_held(wanted: &WantedRole, namespace: &str, rbac: &Rbac) -> bool {
    match wanted.scope {
        Scope::Namespace => rbac.roles.iter().any(|role| {
            same_rules(role.rules.as_deref(), &wanted.rules)
                && rbac.role_bindings.iter().any(|binding| {
                    points_to(&binding.role_ref, "Role", &role.name_any())
                        && names_account(binding.subjects.as_deref(), wanted, namespace, Some(namespace))
                })
        }),
        Scope::Cluster => rbac.cluster_roles.iter().any(|role| {
            same_rules(role.rules.as_deref(), &wanted.rules)
                && rbac.cluster_role_bindings.iter().any(|binding| {
                    points_to(&binding.role_ref, "ClusterRole", &role.name_any())
                        && names_account(binding.subjects.as_deref(), wanted, namespace, None)
                })
        }),
    }
}

/// True when both allow the same, rule by rule; empty and absent lists mean the same.
pub fn same_rules(live: Option<&[PolicyRule]>, wanted: &[PolicyRule]) -> bool {
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
    subjects.unwrap_or_default().iter().any(|subject| {
        let bound = subject
            .namespace
            .as_deref()
            .filter(|ns| !ns.is_empty())
            .or(binding_namespace);
        subject.kind == "ServiceAccount" && subject.name == wanted.service_account && bound == Some(namespace)
    })
}
