//! Operators of a group that targets other namespaces need their namespaced permissions there: each Role and its binding
//! get a counterpart of the same name in every such namespace (specification operatorgroups, section 9).
//!
//! A counterpart carries the owner labels and says where it comes from. It goes with the ClusterServiceVersion, when its
//! namespace is no longer a target, and when the strategy no longer asks for it.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use olm_api::labels;
use olm_runtime::plan::{Action, Target};

use crate::{
    csv::{
        observe::Observed,
        rbac::{Scope, WantedRole, lift, repair, same_rules},
    },
    operator_group::Targets,
};

/// What has to be made or put right in the target namespaces, and what has to go there. Nothing while it is not known
/// which namespaces these are.
pub fn actions(observed: &Observed) -> Vec<Action> {
    let (Ok(strategy), Some(group)) = (&observed.strategy, observed.group()) else {
        return Vec::new();
    };
    let Targets::Namespaces(targets) = &group.targets else {
        return Vec::new();
    };
    // A right that counts everywhere needs no counterpart.
    let wanted: Vec<&WantedRole> = strategy
        .roles
        .iter()
        .filter(|role| role.scope == Scope::Namespace && !lift::holds_everywhere(observed, role))
        .collect();
    let mut actions = Vec::new();
    for namespace in &observed.open_targets {
        for role in &wanted {
            actions.extend(counterpart(observed, role, namespace));
        }
    }
    let names: BTreeSet<&str> = wanted.iter().map(|role| role.name.as_str()).collect();
    let goes = |object: &ObjectMeta| {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        !targets.contains(namespace) || !names.contains(object.name.as_deref().unwrap_or_default())
    };
    let bindings = observed.rbac.spread_bindings.iter();
    actions.extend(
        bindings
            .filter(|it| goes(&it.metadata))
            .map(|it| remove(it.as_ref())),
    );
    let roles = observed.rbac.spread_roles.iter();
    actions.extend(
        roles
            .filter(|it| goes(&it.metadata))
            .map(|it| remove(it.as_ref())),
    );
    actions
}

fn is_named(object: &ObjectMeta, namespace: &str, name: &str) -> bool {
    object.namespace.as_deref() == Some(namespace) && object.name.as_deref() == Some(name)
}

fn counterpart(observed: &Observed, wanted: &WantedRole, namespace: &str) -> Vec<Action> {
    let here = |object: &ObjectMeta| is_named(object, namespace, &wanted.name);
    let (mut role, mut binding) = repair::role(&observed.csv, wanted);
    for object in [&mut role.metadata, &mut binding.metadata] {
        object.namespace = Some(namespace.to_owned());
        // Kubernetes knows no owners across namespaces and would take the object for an orphan.
        object.owner_references = None;
        object
            .labels
            .get_or_insert_default()
            .insert(labels::COPIED_FROM.to_owned(), observed.namespace().to_owned());
    }
    let role_is_there = observed
        .rbac
        .spread_roles
        .iter()
        .any(|live| here(&live.metadata) && same_rules(live.rules.as_deref(), &wanted.rules));
    let binding_is_there = observed.rbac.spread_bindings.iter().any(|live| {
        here(&live.metadata) && live.role_ref == binding.role_ref && live.subjects == binding.subjects
    });
    let mut actions = Vec::new();
    if !role_is_there {
        let target = Target::of::<Role>(namespace, &wanted.name);
        actions.push(repair::apply(observed, target, &role));
    }
    if !binding_is_there {
        let target = Target::of::<RoleBinding>(namespace, &wanted.name);
        actions.push(repair::apply(observed, target, &binding));
    }
    actions
}

fn remove<K>(object: &K) -> Action
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    let namespace = ResourceExt::namespace(object).unwrap_or_default();
    Action::delete(Target::of::<K>(&namespace, &object.name_any()), object.uid())
}
