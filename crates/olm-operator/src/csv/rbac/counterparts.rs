//! Counterparts: an operator that works beyond its namespace needs its namespaced permissions there. So each
//! Role with its owner labels, and each binding to one, has a counterpart. In a group for all namespaces that
//! is a ClusterRole, which also grants reading namespaces. Otherwise it is a Role in every target namespace
//! (`docs/reference/lifecycle.md`). There are no counterparts if the ClusterRoles of the bundle grant these rights everywhere
//! (`is_covered`).
//!
//! A counterpart has the name of its original, as upstream's, unless another operator's object or one that came with this operator has
//! that name. It is created, and never applied over an existing object: a tenant may have made, and bound, a Role of that name. While a
//! RoleBinding of somebody else refers to its name, a Role is not created (`blocked`). Objects with the owner labels are repaired.
//!
//! A counterpart is deleted with its ClusterServiceVersion, with its original, or when its namespace is no longer a target. Revocation
//! waits until the replacement exists or, in a narrowed group, was refused (`revocations`).

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt, core::NamespaceResourceScope};
use olm_api::{labels, permission};
use olm_runtime::plan::{Action, Exists, Guard, Target};
use serde_json::{Value, json};

use crate::{
    csv::{
        coverage::{self, Binding},
        observed::{Observed, RbacKey},
        rbac::{Place, identity, is_held, namespaced, places, same_rules},
        requirements,
        strategy::{Scope, WantedRole},
    },
    owner,
};

/// The wanted state of a Role, ClusterRole or binding beyond the namespace.
struct Counterpart {
    key: RbacKey,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Rules(Vec<PolicyRule>),
    Binding {
        role_ref: RoleRef,
        subjects: Vec<Subject>,
    },
}

/// Returns the writes that grant an operator its rights beyond its own namespace, wherever its group targets.
pub(crate) fn grants(observed: &Observed) -> Vec<Action> {
    let granted = |wanted: Vec<Counterpart>| {
        let blocked: BTreeSet<&str> = wanted
            .iter()
            .filter(|one| is_bound_by_others(observed, one))
            .map(|one| one.key.name.as_str())
            .collect();
        let is_open = |one: &&Counterpart| match &one.content {
            Content::Rules(_) => !blocked.contains(one.key.name.as_str()),
            Content::Binding { role_ref, .. } => !blocked.contains(role_ref.name.as_str()),
        };
        let actions = wanted.iter().filter(is_open);
        let actions = actions.flat_map(|one| writes(observed, one));
        actions.collect::<Vec<Action>>()
    };
    wanted(observed).into_iter().flat_map(granted).collect()
}

/// Returns Roles that would be created in target namespaces. Existing bindings to such a name are looked up
/// first.
pub(crate) fn new_roles(observed: &Observed) -> BTreeSet<RbacKey> {
    let wanted = wanted(observed).into_iter().flatten();
    let new = wanted.filter(|one| one.key.kind == "Role" && find(observed, &one.key).is_none());
    new.map(|one| one.key).collect()
}

/// Returns Roles that are not created because a binding of others already refers to the name. Such a binding
/// would give its subjects the rights of the operator.
pub(crate) fn blocked(observed: &Observed) -> Vec<RbacKey> {
    let mut blocked: Vec<RbacKey> = new_roles(observed).into_iter().collect();
    blocked.retain(|key| observed.rbac.bound_by_others.contains(key));
    blocked
}

fn is_bound_by_others(observed: &Observed, one: &Counterpart) -> bool {
    observed.rbac.bound_by_others.contains(&one.key) && find(observed, &one.key).is_none()
}

/// Returns the counterparts of each place; none if requested ClusterRoles of the ClusterServiceVersion already
/// grant the rights.
fn wanted(observed: &Observed) -> Vec<Vec<Counterpart>> {
    let places = places(observed);
    if places.is_empty() || observed.strategy.is_err() || is_covered(observed) {
        return Vec::new();
    }
    places.iter().map(|place| wanted_at(observed, place)).collect()
}

fn wanted_at(observed: &Observed, place: &Place) -> Vec<Counterpart> {
    let (role_kind, binding_kind) = match place {
        None => ("ClusterRole", "ClusterRoleBinding"),
        Some(_) => ("Role", "RoleBinding"),
    };
    let mut roles: Vec<&Role> = observed.rbac.roles.iter().map(AsRef::as_ref).collect();
    roles.retain(|role| role.metadata.deletion_timestamp.is_none());
    roles.sort_by_key(|role| role.name_any());
    let mut bindings: Vec<&RoleBinding> = observed.rbac.role_bindings.iter().map(AsRef::as_ref).collect();
    let is_of_these = |name: &str| {
        roles
            .iter()
            .any(|role| role.metadata.name.as_deref() == Some(name))
    };
    bindings.retain(|binding| {
        let to = &binding.role_ref;
        binding.metadata.deletion_timestamp.is_none() && to.kind == "Role" && is_of_these(&to.name)
    });
    bindings.sort_by_key(|binding| binding.name_any());
    let of_role = |role: &&Role| {
        let mut rules = role.rules.clone().unwrap_or_default();
        if place.is_none() {
            rules.push(see_namespaces());
        }
        Counterpart {
            key: key(observed, place, role_kind, &role.name_any()),
            content: Content::Rules(rules),
        }
    };
    let of_binding = |binding: &&RoleBinding| {
        let role = key(observed, place, role_kind, &binding.role_ref.name);
        Counterpart {
            key: key(observed, place, binding_kind, &binding.name_any()),
            content: Content::Binding {
                role_ref: permission::role_ref(role_kind, &role.name),
                subjects: binding.subjects.clone().unwrap_or_default(),
            },
        }
    };
    let roles = roles.iter().map(of_role);
    roles.chain(bindings.iter().map(of_binding)).collect()
}

fn key(observed: &Observed, place: &Place, kind: &'static str, name: &str) -> RbacKey {
    let own = RbacKey::new(kind, place.as_deref().unwrap_or_default(), name);
    if !observed.rbac.taken.contains(&own) {
        return own;
    }
    RbacKey {
        name: permission::name_beside(name, observed.namespace()),
        ..own
    }
}

fn see_namespaces() -> PolicyRule {
    PolicyRule {
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["namespaces".to_owned()]),
        ..PolicyRule::default()
    }
}

/// Returns metadata and content of the existing counterpart.
fn find<'a>(observed: &'a Observed, key: &RbacKey) -> Option<(&'a ObjectMeta, Content)> {
    fn named<'a, K: Resource>(all: &'a [Arc<K>], key: &RbacKey) -> Option<&'a Arc<K>> {
        all.iter().find(|one| {
            let metadata = one.meta();
            metadata.name.as_ref() == Some(&key.name)
                && metadata.namespace.as_deref().unwrap_or_default() == key.namespace
        })
    }
    let rules = |rules: &Option<Vec<PolicyRule>>| Content::Rules(rules.clone().unwrap_or_default());
    let binding = |role_ref: &RoleRef, subjects: &Option<Vec<Subject>>| Content::Binding {
        role_ref: role_ref.clone(),
        subjects: subjects.clone().unwrap_or_default(),
    };
    let rbac = &observed.rbac;
    match key.kind {
        "Role" => named(&rbac.replicated_roles, key).map(|it| (&it.metadata, rules(&it.rules))),
        "ClusterRole" => named(&rbac.cluster_roles, key).map(|it| (&it.metadata, rules(&it.rules))),
        "RoleBinding" => named(&rbac.replicated_bindings, key)
            .map(|it| (&it.metadata, binding(&it.role_ref, &it.subjects))),
        _ => named(&rbac.cluster_role_bindings, key)
            .map(|it| (&it.metadata, binding(&it.role_ref, &it.subjects))),
    }
}

/// Returns the writes from the existing to the wanted state, with the identity for this
/// ClusterServiceVersion.
fn writes(observed: &Observed, wanted: &Counterpart) -> Vec<Action> {
    let target = target(&wanted.key);
    let create = || Action::Create {
        target: target.clone(),
        object: object(observed, wanted),
        exists: Exists::Fail,
        identity: identity(observed),
    };
    let Some((live, content)) = find(observed, &wanted.key) else {
        return vec![create()];
    };
    // Another object that replaced it meanwhile is not changed.
    let guard = Guard::of(live);
    let patch = |patch: Value| vec![Action::patch(target.clone(), patch, guard).by(identity(observed))];
    match (&wanted.content, &content) {
        (Content::Rules(wanted), Content::Rules(live)) if same_rules(Some(live.as_slice()), wanted) => {
            Vec::new()
        }
        (Content::Rules(wanted), _) => patch(json!({ "rules": wanted })),
        (
            Content::Binding { role_ref, subjects },
            Content::Binding {
                role_ref: to,
                subjects: bound,
            },
        ) if role_ref == to => {
            if subjects == bound {
                return Vec::new();
            }
            patch(json!({ "subjects": subjects }))
        }
        // The role reference of a binding is immutable.
        (Content::Binding { .. }, _) => vec![Action::delete(target.clone(), live.uid.clone()), create()],
    }
}

fn target(key: &RbacKey) -> Target {
    match key.kind {
        "Role" => Target::of::<Role>(&key.namespace, &key.name),
        "RoleBinding" => Target::of::<RoleBinding>(&key.namespace, &key.name),
        "ClusterRole" => Target::cluster::<ClusterRole>(&key.name),
        _ => Target::cluster::<ClusterRoleBinding>(&key.name),
    }
}

/// Returns the whole object. Kubernetes has no owners across namespaces, so the finalizer finds it by its
/// labels. The hash label of a ClusterRole is that of the source Role. It identifies promoted ClusterRoles,
/// also those of existing clusters.
fn object(observed: &Observed, wanted: &Counterpart) -> Value {
    let RbacKey {
        kind,
        namespace,
        name,
    } = &wanted.key;
    let is_namespaced = !namespace.is_empty();
    let mut marks = if is_namespaced {
        owner::labels(&observed.csv)
    } else {
        owner::marks(&observed.csv)
    };
    let mut object = match &wanted.content {
        Content::Rules(rules) => {
            let made_of: &[PolicyRule] = match rules.split_last().filter(|_| !is_namespaced) {
                Some((_, made_of)) => made_of,
                None => rules,
            };
            // Rules always serialize.
            let hash = permission::rules_hash(made_of).unwrap_or_default();
            marks.insert(labels::PERMISSIONS_HASH.to_owned(), hash);
            json!({ "rules": rules })
        }
        Content::Binding { role_ref, subjects } => {
            let hash = permission::binding_hash(role_ref, subjects).unwrap_or_default();
            marks.insert(labels::PERMISSIONS_HASH.to_owned(), hash);
            json!({"roleRef": role_ref, "subjects": subjects})
        }
    };
    let mut metadata = json!({ "name": name });
    if is_namespaced {
        marks.insert(labels::COPIED_FROM.to_owned(), observed.namespace().to_owned());
        metadata["namespace"] = json!(namespace);
    }
    metadata["labels"] = json!(marks);
    object["apiVersion"] = json!(format!("{}/v1", permission::API_GROUP));
    object["kind"] = json!(kind);
    object["metadata"] = metadata;
    object
}

/// True when ClusterRoles that came with the ClusterServiceVersion grant its accounts all namespaced
/// permissions in every namespace.
fn is_covered(observed: &Observed) -> bool {
    let bindings = observed.rbac.cluster_role_bindings.iter();
    let bindings: Vec<Binding> = bindings
        .map(|binding| ClusterRoleBinding::clone(binding).into())
        .collect();
    let roles = observed.rbac.cluster_roles.iter();
    let roles = roles
        .filter(|role| is_brought(observed, role))
        .map(|role| ((None, role.name_any()), role.rules.clone().unwrap_or_default()))
        .collect();
    namespaced(observed).all(|role| {
        let account = coverage::AccountName {
            namespace: observed.namespace(),
            name: &role.service_account,
        };
        let granted = coverage::granted(account, None, &bindings, &roles);
        role.rules.iter().all(|rule| granted.covers(rule))
    })
}

/// True for a ClusterRole that was installed with the ClusterServiceVersion: its strategy requests it, or it
/// was not promoted.
fn is_brought(observed: &Observed, role: &ClusterRole) -> bool {
    let roles = observed.strategy.iter().flat_map(|strategy| &strategy.roles);
    let mut of_cluster = roles.filter(|wanted| wanted.scope == Scope::Cluster);
    of_cluster.any(|wanted| Some(&wanted.name) == role.metadata.name.as_ref()) || !is_promoted(role)
}

/// True for a ClusterRole that was promoted from a Role, here or by upstream. Its hash label is that of its
/// rules without the rule that promotion adds. A ClusterRole from an InstallPlan has the hash of all its
/// rules, or none.
fn is_promoted(role: &ClusterRole) -> bool {
    let Some((last, rules)) = role.rules.as_deref().and_then(<[PolicyRule]>::split_last) else {
        return false;
    };
    let hash = role.labels().get(labels::PERMISSIONS_HASH);
    same_rules(Some(std::slice::from_ref(last)), &[see_namespaces()])
        && permission::rules_hash(rules).ok().as_ref() == hash
}

/// Returns the counterparts to revoke. Existing rights are only removed after their replacement exists or, in
/// a narrowed group, was refused and is reported.
pub(crate) fn revocations(observed: &Observed) -> Vec<Action> {
    let Some(group) = observed.group().filter(|_| observed.strategy.is_ok()) else {
        return Vec::new();
    };
    // A user who makes one target of a narrowed group refuse its counterparts cannot keep the operator's
    // former rights everywhere.
    let is_refused = !group.targets_all() && requirements::reports_missing_rights(&observed.csv);
    if !is_refused && !grants(observed).is_empty() {
        return Vec::new();
    }
    let places: BTreeSet<Place> = places(observed).into_iter().collect();
    let wanted = wanted(observed).into_iter().flatten();
    let wanted: BTreeSet<RbacKey> = wanted.map(|one| one.key).collect();
    // Without their sources, counterparts are the only grant of the rights there.
    let is_held = |role: &WantedRole| is_held(role, observed.namespace(), &observed.rbac);
    let is_complete = namespaced(observed).all(is_held);
    let goes = |key: &RbacKey| {
        let place = Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let is_outside = !places.contains(&place);
        is_outside || is_complete && !wanted.contains(key)
    };
    remove_where(observed, goes)
}

/// Returns the deletions of all counterparts, for an operator that no group targets beyond its own namespace.
pub(crate) fn withdrawals(observed: &Observed) -> Vec<Action> {
    remove_where(observed, |_| true)
}

/// Deletes bindings first: without them a role grants nothing.
fn remove_where(observed: &Observed, goes: impl Fn(&RbacKey) -> bool) -> Vec<Action> {
    let rbac = &observed.rbac;
    let promoted = rbac.cluster_roles.iter();
    let promoted: Vec<_> = promoted.filter(|role| !is_brought(observed, role)).collect();
    let binds_promoted = |binding: &&Arc<ClusterRoleBinding>| {
        let to = &binding.role_ref;
        to.kind == "ClusterRole" && promoted.iter().any(|role| role.name_any() == to.name)
    };
    let bindings = rbac.cluster_role_bindings.iter().filter(binds_promoted);
    let bindings = bindings.map(|it| (RbacKey::new("ClusterRoleBinding", "", it.name_any()), it.uid()));
    let roles = promoted.iter();
    let roles = roles.map(|it| (RbacKey::new("ClusterRole", "", it.name_any()), it.uid()));
    let replicated_bindings = rbac.replicated_bindings.iter();
    let replicated_bindings = replicated_bindings.map(|it| within("RoleBinding", it.as_ref()));
    let replicated_roles = rbac.replicated_roles.iter();
    let replicated_roles = replicated_roles.map(|it| within("Role", it.as_ref()));
    let all = bindings
        .chain(roles)
        .chain(replicated_bindings)
        .chain(replicated_roles);
    all.filter(|(key, _)| goes(key))
        .map(|(key, uid)| Action::delete(target(&key), uid))
        .collect()
}

fn within<K>(kind: &'static str, object: &K) -> (RbacKey, Option<String>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let namespace = ResourceExt::namespace(object).unwrap_or_default();
    (RbacKey::new(kind, namespace, object.name_any()), object.uid())
}
