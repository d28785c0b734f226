//! Operators of a group that targets other namespaces need their namespaced permissions there: each Role and its binding
//! get a counterpart in every such namespace (`docs/reference/lifecycle.md`).
//!
//! A counterpart carries the owner labels and says where it comes from. It goes with the ClusterServiceVersion, when its
//! namespace is no longer a target, and when the strategy no longer asks for it.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::rbac::v1::{Role, RoleBinding},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt, core::NamespaceResourceScope};
use olm_runtime::plan::{Action, Target};

use crate::{
    csv::{
        observed::Observed,
        rbac::{Grant, Place, is_bound, namespaced, objects, promotion},
        strategy::WantedRole,
    },
    operator_group::Targets,
};

/// True when counterparts give the account these rights in `namespace`.
pub(super) fn holds_in(observed: &Observed, role: &WantedRole, namespace: &str) -> bool {
    let roles = within(&observed.rbac.replicated_roles, namespace);
    let bindings = within(&observed.rbac.replicated_bindings, namespace);
    is_bound(role, observed.namespace(), &roles, &bindings)
}

fn within<K: Resource>(objects: &[Arc<K>], namespace: &str) -> Vec<Arc<K>> {
    objects
        .iter()
        .filter(|object| object.meta().namespace.as_deref() == Some(namespace))
        .cloned()
        .collect()
}

/// The writes that make the rights of a role hold in one target namespace.
///
/// A counterpart with upstream's name, which is the Role's own, is put right under that name.
pub(super) fn replicate_to_target(observed: &Observed, wanted: &WantedRole, namespace: &str) -> Vec<Grant> {
    let roles = within(&observed.rbac.replicated_roles, namespace);
    let bindings = within(&observed.rbac.replicated_bindings, namespace);
    let stands = |name: &str| {
        roles.iter().any(|role| role.name_any() == name) || bindings.iter().any(|it| it.name_any() == name)
    };
    let name = if stands(&wanted.name) {
        &wanted.name
    } else {
        &wanted.promoted_name
    };
    let (role, binding) = objects::role(observed, wanted, namespace, name);
    let role_is_there = roles
        .iter()
        .any(|live| live.name_any() == *name && super::same_rules(live.rules.as_deref(), &wanted.rules));
    let binding_is_there = bindings.iter().any(|live| {
        live.name_any() == *name && live.role_ref == binding.role_ref && live.subjects == binding.subjects
    });
    let mut actions = Vec::new();
    if !role_is_there {
        let target = Target::of::<Role>(namespace, name);
        actions.push(objects::apply(observed, target, &role));
    }
    if !binding_is_there {
        let target = Target::of::<RoleBinding>(namespace, name);
        // What a binding points to cannot be changed. One that does not say it is ours stays, and is told.
        let misled = bindings
            .iter()
            .filter(|live| live.name_any() == *name && live.role_ref != binding.role_ref);
        actions.extend(misled.map(|live| remove(live.as_ref())));
        actions.push(objects::apply(observed, target, &binding));
    }
    let grant = |action| Grant {
        place: Place::Namespace(namespace.to_owned()),
        action,
    };
    actions.into_iter().map(grant).collect()
}

/// Takes back counterparts that are no longer wanted: first bindings, without which a Role grants nothing. Nothing while it is not
/// known which namespaces are targets. One of another name stays while nothing but it grants what is asked for: other releases
/// chose other names, and without a proof nobody could grant it again.
pub(super) fn revoke(observed: &Observed) -> Vec<Action> {
    let Some(Targets::Namespaces(targets)) = observed.group().map(|group| &group.targets) else {
        return Vec::new();
    };
    // A right that counts everywhere needs no counterpart.
    let wanted: Vec<&WantedRole> = namespaced(observed)
        .filter(|role| !promotion::holds_everywhere(observed, role))
        .collect();
    let names: BTreeSet<&str> = wanted
        .iter()
        .flat_map(|role| [role.name.as_str(), role.promoted_name.as_str()])
        .collect();
    let is_named = |object: &ObjectMeta| names.contains(object.name.as_deref().unwrap_or_default());
    // They alone make the difference: what somebody else grants besides needs none of them.
    let is_needed = |namespace: &str| {
        let mut roles = within(&observed.rbac.replicated_roles, namespace);
        let mut bindings = within(&observed.rbac.replicated_bindings, namespace);
        let own = observed.namespace();
        let (all_roles, all_bindings) = (roles.clone(), bindings.clone());
        roles.retain(|it| is_named(&it.metadata));
        bindings.retain(|it| is_named(&it.metadata));
        let mut roles_held = wanted.iter();
        roles_held.any(|role| {
            !is_bound(role, own, &roles, &bindings) && is_bound(role, own, &all_roles, &all_bindings)
        })
    };
    // Once a namespace: whoever may write there may make many.
    let replicated = observed.rbac.replicated_roles.iter().map(|it| &it.metadata);
    let replicated = replicated.chain(observed.rbac.replicated_bindings.iter().map(|it| &it.metadata));
    let unnamed: BTreeSet<&str> = replicated
        .filter(|object| !is_named(object))
        .filter_map(|object| object.namespace.as_deref())
        .filter(|namespace| targets.contains(*namespace))
        .collect();
    let needing: BTreeSet<&str> = unnamed
        .into_iter()
        .filter(|namespace| is_needed(namespace))
        .collect();
    let goes = |object: &ObjectMeta| {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        !targets.contains(namespace) || !is_named(object) && !needing.contains(namespace)
    };
    revoke_where(observed, goes)
}

/// Takes back counterparts in namespaces that are no targets any more.
pub(super) fn revoke_outside(observed: &Observed) -> Vec<Action> {
    let Some(Targets::Namespaces(targets)) = observed.group().map(|group| &group.targets) else {
        return Vec::new();
    };
    revoke_where(observed, |object| {
        !targets.contains(object.namespace.as_deref().unwrap_or_default())
    })
}

/// Takes back all counterparts.
pub(super) fn withdraw(observed: &Observed) -> Vec<Action> {
    revoke_where(observed, |_| true)
}

fn revoke_where(observed: &Observed, goes: impl Fn(&ObjectMeta) -> bool) -> Vec<Action> {
    let bindings = observed.rbac.replicated_bindings.iter();
    let bindings = bindings
        .filter(|it| goes(&it.metadata))
        .map(|it| remove(it.as_ref()));
    let roles = observed.rbac.replicated_roles.iter();
    let roles = roles
        .filter(|it| goes(&it.metadata))
        .map(|it| remove(it.as_ref()));
    bindings.chain(roles).collect()
}

fn remove<K>(object: &K) -> Action
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let namespace = ResourceExt::namespace(object).unwrap_or_default();
    Action::delete(Target::of::<K>(&namespace, &object.name_any()), object.uid())
}
