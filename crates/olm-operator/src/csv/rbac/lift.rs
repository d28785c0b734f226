//! Operators of an all-namespaces group need their namespaced permissions everywhere: each Role is lifted to a
//! ClusterRole of the same name, with the right to see namespaces (specification csv-lifecycle, section 3, step 8).
//!
//! When the group no longer targets all namespaces the lifted roles go again, which upstream leaves behind.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use kube::ResourceExt;
use olm_runtime::plan::{Action, Target};

use crate::csv::{
    observe::Observed,
    rbac::{
        Scope, WantedRole,
        coverage::{self, Binding},
        repair,
    },
};

/// What has to be lifted, or taken back.
pub fn actions(observed: &Observed) -> Vec<Action> {
    let (Ok(strategy), Some(group)) = (&observed.strategy, observed.group()) else {
        return Vec::new();
    };
    let namespaced = strategy
        .roles
        .iter()
        .filter(|role| role.scope == Scope::Namespace);
    if group.targets_all() {
        namespaced
            .filter(|role| !holds_everywhere(observed, role))
            .flat_map(|role| lift(observed, role))
            .collect()
    } else {
        namespaced.flat_map(|role| take_back(observed, role)).collect()
    }
}

/// True when ClusterRoles of this ClusterServiceVersion already allow all of it in every namespace.
pub(super) fn holds_everywhere(observed: &Observed, role: &WantedRole) -> bool {
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
    let account = coverage::Account {
        namespace: observed.namespace(),
        name: &role.service_account,
    };
    let roles = observed
        .rbac
        .cluster_roles
        .iter()
        .map(|role| ((None, role.name_any()), role.rules.clone().unwrap_or_default()))
        .collect();
    let granted = coverage::granted(account, None, &bindings, &roles);
    role.rules.iter().all(|rule| coverage::covers(&granted, rule))
}

fn lift(observed: &Observed, role: &WantedRole) -> Vec<Action> {
    let mut rules = role.rules.clone();
    rules.push(PolicyRule {
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["namespaces".to_owned()]),
        ..PolicyRule::default()
    });
    let subjects = vec![repair::subject(&role.service_account, observed.namespace())];
    // The hash stays that of the Role it was lifted from, as on clusters today.
    repair::cluster_role(&observed.csv, role, rules, subjects)
        .map(|(target, object)| repair::apply(observed, target, &object))
        .into()
}

fn take_back(observed: &Observed, role: &WantedRole) -> Vec<Action> {
    let binding = observed
        .rbac
        .cluster_role_bindings
        .iter()
        .find(|binding| binding.name_any() == role.name);
    let lifted = observed
        .rbac
        .cluster_roles
        .iter()
        .find(|lifted| lifted.name_any() == role.name);
    let binding = binding
        .map(|binding| Action::delete(Target::cluster::<ClusterRoleBinding>(&role.name), binding.uid()));
    let lifted =
        lifted.map(|lifted| Action::delete(Target::cluster::<ClusterRole>(&role.name), lifted.uid()));
    binding.into_iter().chain(lifted).collect()
}
