//! The Roles and ClusterRoles that a ClusterServiceVersion describes: what they are called, whether they are held, and where they
//! have to hold.
//!
//! An InstallPlan makes them in the namespace of the ClusterServiceVersion, and makes them again; nothing here does. What is
//! written here are their counterparts for an operator that works elsewhere, too: [`promotion`] to ClusterRoles and
//! [`replication`] to other namespaces, both only with a [`proof`] that somebody who may has granted the rights to this operator.

pub(crate) mod objects;
pub(crate) mod promotion;
pub(crate) mod proof;
pub(crate) mod replication;
#[cfg(test)]
mod rows;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::ResourceExt;

use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};

use olm_runtime::plan::Action;

use crate::csv::{
    failure_cause::FailureCause,
    observed::{Observed, Rbac},
    strategy::{Scope, WantedRole},
};

/// The account every namespace has, that of pods that name none; nothing is ever made or awaited of it.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// Where rights of a namespaced permission have to hold beyond the namespace of the ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In every namespace.
    Everywhere,
    /// In this one.
    Namespace(String),
}

/// A write that gives rights at a place. A refusal at one place stops no other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    pub(crate) place: Place,
    pub(crate) action: Action,
}

/// The places for people: `in all namespaces`, or `in namespaces a, b`.
pub(crate) fn describe_places<'a>(places: impl IntoIterator<Item = &'a Place>) -> String {
    let places: BTreeSet<&Place> = places.into_iter().collect();
    if places.contains(&Place::Everywhere) {
        return "in all namespaces".to_owned();
    }
    let names: Vec<&str> = places
        .iter()
        .filter_map(|place| match place {
            Place::Namespace(name) => Some(name.as_str()),
            Place::Everywhere => None,
        })
        .collect();
    let noun = if names.len() == 1 {
        "namespace"
    } else {
        "namespaces"
    };
    format!("in {noun} {}", names.join(", "))
}

/// What has to be written so that an operator has its rights wherever its group sends it, beyond its own namespace.
pub(crate) fn grants(observed: &Observed) -> Vec<Grant> {
    namespaced(observed)
        .filter(|role| proof::find(observed, role).is_some())
        .flat_map(|role| {
            lacking(observed, role)
                .into_iter()
                .flat_map(move |place| match &place {
                    Place::Everywhere => promotion::promote_to_cluster_role(observed, role),
                    Place::Namespace(namespace) => {
                        replication::replicate_to_target(observed, role, namespace)
                    }
                })
        })
        .collect()
}

/// How long rights that a group no longer covers wait for those that are to replace them, and rights beyond the own namespace for
/// the group to come back.
pub(crate) const REVOCATION_GRACE: Duration = Duration::from_secs(10 * 60);

/// True when an install has waited so long that rights its group no longer covers go, whatever is lacking. Else who has writes
/// refused in one target of a narrowed group keeps what the operator had everywhere.
pub(crate) fn is_overdue(observed: &Observed, now: Timestamp) -> bool {
    let reason = observed.csv.reason();
    let is_refused = match observed.csv.phase() {
        Phase::InstallReady => reason == reason::INSTALL_WAITING,
        Phase::Failed => FailureCause::parse(reason).is_refusal(),
        _ => false,
    };
    is_refused && observed.waited(now) >= REVOCATION_GRACE
}

/// Everything that was carried beyond the own namespace: of an operator that no group sends anywhere.
pub(crate) fn withdrawals(observed: &Observed) -> Vec<Action> {
    let mut actions = promotion::withdraw(observed);
    actions.extend(replication::withdraw(observed));
    actions
}

/// Counterparts that are no longer wanted. None as long as rights are lacking anywhere: what an operator has is taken away only
/// after what it is to have instead has been seen, or has been refused for long.
pub(crate) fn revocations(observed: &Observed) -> Vec<Action> {
    let narrowed = observed.group().is_some_and(|group| !group.targets_all());
    if observed.is_overdue && narrowed && observed.strategy.is_ok() {
        let mut actions = promotion::revoke(observed);
        actions.extend(replication::revoke_outside(observed));
        return actions;
    }
    let complete = observed.group().is_some()
        && observed.strategy.is_ok()
        && namespaced(observed).all(|role| lacking(observed, role).is_empty());
    if !complete {
        return Vec::new();
    }
    let mut actions = promotion::revoke(observed);
    actions.extend(replication::revoke(observed));
    actions
}

/// The places where the rights of a namespaced permission have to hold and do not.
pub(crate) fn lacking(observed: &Observed, role: &WantedRole) -> Vec<Place> {
    let Some(group) = observed.group() else {
        return Vec::new();
    };
    // What others granted is read only for want of a proof, and must not make a difference while there is one.
    let by_others = proof::find(observed, role).is_none();
    if promotion::holds_everywhere(observed, role)
        || by_others && proof::is_granted_by_others(observed, role, None)
    {
        return Vec::new();
    }
    if group.targets_all() {
        return vec![Place::Everywhere];
    }
    observed
        .open_targets
        .iter()
        .filter(|namespace| {
            !(replication::holds_in(observed, role, namespace)
                || by_others && proof::is_granted_by_others(observed, role, Some(namespace)))
        })
        .map(|namespace| Place::Namespace(namespace.clone()))
        .collect()
}

/// The places where a permission has to hold, does not, and will not be made to: nobody who may has granted it there.
pub(crate) fn unproven(observed: &Observed, role: &WantedRole) -> Vec<Place> {
    if role.scope == Scope::Cluster || proof::find(observed, role).is_some() {
        return Vec::new();
    }
    lacking(observed, role)
}

/// The roles of namespaced permissions; none while the strategy cannot be used.
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

/// True when role and binding exist, carry the owner labels, and allow exactly the wanted rules to the account.
///
/// The rules themselves are compared, not the hash label: a Role that somebody narrowed by hand does not hold.
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

/// True when one of these Roles allows exactly the wanted rules, and one of the bindings gives it to the account. All of them are
/// of one namespace.
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

/// True when both allow the same, rule by rule; empty and absent lists mean the same.
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
    subjects.unwrap_or_default().iter().any(|subject| {
        let bound = subject
            .namespace
            .as_deref()
            .filter(|ns| !ns.is_empty())
            .or(binding_namespace);
        subject.kind == "ServiceAccount" && subject.name == wanted.service_account && bound == Some(namespace)
    })
}
