//! The form of the counterparts, and in whose name they are written.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use olm_api::{labels, permission};
use olm_runtime::plan::{Action, Identity, Target, to_value};
use serde::Serialize;

use crate::{
    csv::{FIELD_MANAGER, observed::Observed, strategy::WantedRole},
    owner,
};

/// A Role and its binding, called `name`, for the account of a ClusterServiceVersion of another namespace.
///
/// Kubernetes knows no owners across namespaces: the finalizer finds them by their labels.
pub(super) fn role(
    observed: &Observed,
    wanted: &WantedRole,
    namespace: &str,
    name: &str,
) -> (Role, RoleBinding) {
    let role_ref = permission::role_ref("Role", name);
    let subjects = vec![permission::service_account_subject(
        observed.namespace(),
        &wanted.service_account,
    )];
    let within = |mut metadata: ObjectMeta| {
        metadata.namespace = Some(namespace.to_owned());
        let marks = metadata.labels.get_or_insert_default();
        marks.insert(labels::COPIED_FROM.to_owned(), observed.namespace().to_owned());
        metadata
    };
    let role = Role {
        metadata: within(metadata(owner::labels(&observed.csv), name, &wanted.rules_hash)),
        rules: Some(wanted.rules.clone()),
    };
    let binding = RoleBinding {
        metadata: within(metadata(
            owner::labels(&observed.csv),
            name,
            &binding_hash(&role_ref, &subjects),
        )),
        role_ref,
        subjects: Some(subjects),
    };
    (role, binding)
}

/// A ClusterRole with these rules and its binding to the account. The hash label is that of the Role it was promoted from, as on
/// clusters today.
pub(super) fn cluster_role(
    observed: &Observed,
    wanted: &WantedRole,
    rules: Vec<PolicyRule>,
) -> (ClusterRole, ClusterRoleBinding) {
    let name = wanted.promoted_name.as_str();
    let role_ref = permission::role_ref("ClusterRole", name);
    let subjects = vec![permission::service_account_subject(
        observed.namespace(),
        &wanted.service_account,
    )];
    let role = ClusterRole {
        metadata: metadata(owner::marks(&observed.csv), name, &wanted.rules_hash),
        rules: Some(rules),
        aggregation_rule: None,
    };
    let binding = ClusterRoleBinding {
        metadata: metadata(
            owner::marks(&observed.csv),
            name,
            &binding_hash(&role_ref, &subjects),
        ),
        role_ref,
        subjects: Some(subjects),
    };
    (role, binding)
}

/// The hash label of a binding. A binding always has a JSON form, so there always is one.
pub(super) fn binding_hash(role_ref: &RoleRef, subjects: &[Subject]) -> String {
    permission::binding_hash(role_ref, subjects).unwrap_or_default()
}

fn metadata(mut marks: BTreeMap<String, String>, name: &str, hash: &str) -> ObjectMeta {
    marks.insert(labels::PERMISSIONS_HASH.to_owned(), hash.to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(marks),
        ..ObjectMeta::default()
    }
}

/// Writes `object` with the rights that count for this ClusterServiceVersion.
pub(crate) fn apply(observed: &Observed, target: Target, object: &impl Serialize) -> Action {
    Action::apply(target, to_value(object), FIELD_MANAGER).by(identity(observed))
}

/// In whose name the parts of an operator are written: the account its OperatorGroup names, else our own.
///
/// The account of the group's spec counts even before its status names it; the gates hold every write back until then.
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
