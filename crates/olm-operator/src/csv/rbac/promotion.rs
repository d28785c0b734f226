//! Operators of an all-namespaces group need their namespaced permissions everywhere: each Role is promoted to a ClusterRole,
//! with the right to see namespaces besides (`docs/reference/lifecycle.md`).
//!
//! What was promoted for rules that are no longer asked for, or for a group that no longer targets all namespaces, is taken back,
//! which upstream leaves behind.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use kube::ResourceExt;
use olm_api::{labels, permission};
use olm_runtime::plan::{Action, Target};

use crate::csv::{
    coverage::{self, Binding},
    observed::Observed,
    rbac::{Grant, Place, namespaced, objects},
    strategy::{Scope, WantedRole},
};

/// True when ClusterRoles of this ClusterServiceVersion that are to stay allow all of it in every namespace.
pub(super) fn holds_everywhere(observed: &Observed, role: &WantedRole) -> bool {
    let staying: Vec<Arc<ClusterRole>> = observed
        .rbac
        .cluster_roles
        .iter()
        .filter(|found| !is_unwanted(observed, found))
        .cloned()
        .collect();
    is_held_by(observed, role, &staying)
}

/// True when these ClusterRoles, bound to the account by ClusterRoleBindings of this ClusterServiceVersion, allow all of it.
pub(super) fn is_held_by(observed: &Observed, role: &WantedRole, cluster_roles: &[Arc<ClusterRole>]) -> bool {
    let bindings: Vec<Binding> = observed
        .rbac
        .cluster_role_bindings
        .iter()
        .map(|binding| Binding {
            namespace: None,
            role: binding.role_ref.clone(),
            subjects: binding.subjects.clone().unwrap_or_default(),
        })
        .collect();
    let account = coverage::AccountName {
        namespace: observed.namespace(),
        name: &role.service_account,
    };
    let roles = cluster_roles
        .iter()
        .map(|role| ((None, role.name_any()), role.rules.clone().unwrap_or_default()))
        .collect();
    let granted = coverage::granted(account, None, &bindings, &roles);
    role.rules.iter().all(|rule| granted.covers(rule))
}

/// The writes that make the rights of a role hold everywhere.
pub(super) fn promote_to_cluster_role(observed: &Observed, role: &WantedRole) -> Vec<Grant> {
    let mut rules = role.rules.clone();
    rules.push(see_namespaces());
    let (cluster_role, binding) = objects::cluster_role(observed, role, rules);
    let name = role.promoted_name.as_str();
    let bindings = observed.rbac.cluster_role_bindings.iter();
    let misled = bindings
        .filter(|live| live.name_any() == name && live.role_ref != binding.role_ref)
        .map(|live| Action::delete(Target::cluster::<ClusterRoleBinding>(name), live.uid()));
    let role = objects::apply(observed, Target::cluster::<ClusterRole>(name), &cluster_role);
    let bind = objects::apply(observed, Target::cluster::<ClusterRoleBinding>(name), &binding);
    let actions = [role].into_iter().chain(misled).chain([bind]);
    let grant = |action| Grant {
        place: Place::Everywhere,
        action,
    };
    actions.map(grant).collect()
}

fn see_namespaces() -> PolicyRule {
    PolicyRule {
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["namespaces".to_owned()]),
        ..PolicyRule::default()
    }
}

/// True for a ClusterRole that was promoted from a Role, here or by upstream: its hash label is that of its rules without the one
/// that promotion adds. One that came with an InstallPlan has the hash of all its rules, or none.
fn is_promoted(role: &ClusterRole) -> bool {
    let Some((last, rules)) = role.rules.as_deref().and_then(<[PolicyRule]>::split_last) else {
        return false;
    };
    let hash = role.labels().get(labels::PERMISSIONS_HASH);
    super::same_rules(Some(std::slice::from_ref(last)), &[see_namespaces()])
        && permission::rules_hash(rules).ok().as_ref() == hash
}

/// True for a promoted ClusterRole that nothing asks for any more.
fn is_unwanted(observed: &Observed, role: &ClusterRole) -> bool {
    if observed.strategy.is_err() {
        return false;
    }
    let name = role.name_any();
    let everywhere = observed.group().is_some_and(|group| group.targets_all());
    let is_wanted =
        everywhere && namespaced(observed).any(|wanted| wanted.promoted_name == name || wanted.name == name);
    !is_of_plan(observed, role) && !is_wanted && is_promoted(role)
}

/// True for a ClusterRole that the strategy asks for itself.
fn is_of_plan(observed: &Observed, role: &ClusterRole) -> bool {
    let roles = observed.strategy.iter().flat_map(|strategy| &strategy.roles);
    let mut of_cluster = roles.filter(|wanted| wanted.scope == Scope::Cluster);
    of_cluster.any(|wanted| Some(&wanted.name) == role.metadata.name.as_ref())
}

/// Takes back what was promoted and is no longer wanted.
pub(super) fn revoke(observed: &Observed) -> Vec<Action> {
    revoke_where(observed, |role| is_unwanted(observed, role))
}

/// Takes back all that was promoted.
pub(super) fn withdraw(observed: &Observed) -> Vec<Action> {
    revoke_where(observed, |role| !is_of_plan(observed, role) && is_promoted(role))
}

/// First goes the binding, without which the ClusterRole grants nothing.
fn revoke_where(observed: &Observed, goes: impl Fn(&ClusterRole) -> bool) -> Vec<Action> {
    let going = observed.rbac.cluster_roles.iter().filter(|role| goes(role));
    going
        .flat_map(|role| {
            let name = role.name_any();
            let binding = observed
                .rbac
                .cluster_role_bindings
                .iter()
                .find(|binding| binding.name_any() == name)
                .map(|binding| Action::delete(Target::cluster::<ClusterRoleBinding>(&name), binding.uid()));
            let role = Action::delete(Target::cluster::<ClusterRole>(&name), role.uid());
            binding.into_iter().chain([role])
        })
        .collect()
}
