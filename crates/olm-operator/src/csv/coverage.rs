//! Finds the RBAC rules that bindings grant to an account; `olm_api::rights::coverage` checks whether they cover
//! others.
//!
//! A deliberate difference from upstream: the groups of a service account count, as for the API server.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject};
use olm_api::{
    names::{service_account_groups, service_account_user},
    rights::coverage::Granted,
};

const KIND_SERVICE_ACCOUNT: &str = "ServiceAccount";
const KIND_GROUP: &str = "Group";
const KIND_USER: &str = "User";

/// Service account that needs a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccountName<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// The fields of a binding that determine whether it applies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Binding {
    /// Namespace of a RoleBinding, `None` for a ClusterRoleBinding.
    pub(crate) namespace: Option<String>,
    /// The role it refers to.
    pub(crate) role: RoleRef,
    pub(crate) subjects: Vec<Subject>,
}

impl From<RoleBinding> for Binding {
    fn from(binding: RoleBinding) -> Self {
        Self {
            namespace: binding.metadata.namespace,
            role: binding.role_ref,
            subjects: binding.subjects.unwrap_or_default(),
        }
    }
}

impl From<ClusterRoleBinding> for Binding {
    fn from(binding: ClusterRoleBinding) -> Self {
        Self {
            namespace: None,
            role: binding.role_ref,
            subjects: binding.subjects.unwrap_or_default(),
        }
    }
}

/// Key of a role: `(None, name)` for a ClusterRole, `(Some(namespace), name)` for a Role.
pub(crate) type RoleKey = (Option<String>, String);

/// Returns the reason why a rule of a ClusterServiceVersion is not a valid policy rule; `None` when it is
/// valid.
pub(crate) fn invalid_rule(rule: &PolicyRule) -> Option<&'static str> {
    if rule.verbs.is_empty() {
        return Some("policy rule must have at least one verb");
    }
    let resources = [&rule.api_groups, &rule.resources, &rule.resource_names];
    if is_set(&rule.non_resource_urls) && resources.into_iter().any(is_set) {
        return Some("rule cannot apply to both regular resources and non-resource URLs");
    }
    None
}

/// True when the binding grants its role to the account, by name or by one of its groups.
pub(crate) fn is_bound(account: AccountName<'_>, binding: &Binding) -> bool {
    let within = binding.namespace.as_deref();
    let mut subjects = binding.subjects.iter();
    subjects.any(|subject| names(subject, account, within))
}

/// Returns the role of a binding.
pub(crate) fn role_of(binding: &Binding) -> RoleKey {
    let is_namespaced = binding.role.kind == "Role";
    let namespace = binding.namespace.clone().filter(|_| is_namespaced);
    (namespace, binding.role.name.clone())
}

/// Returns the roles of the account through these bindings. With a namespace, RoleBindings of that namespace
/// count, too.
pub(crate) fn roles_of<'a>(
    account: AccountName<'a>,
    namespace: Option<&'a str>,
    bindings: &'a [Binding],
) -> impl Iterator<Item = RoleKey> + 'a {
    let in_scope = move |binding: &&Binding| match &binding.namespace {
        None => true,
        Some(bound) => namespace == Some(bound.as_str()),
    };
    let bound = bindings.iter().filter(in_scope);
    bound
        .filter(move |binding| is_bound(account, binding))
        .map(role_of)
}

/// Returns the rules of all known roles of the account.
pub(crate) fn granted<'a>(
    account: AccountName<'a>,
    namespace: Option<&'a str>,
    bindings: &'a [Binding],
    roles: &'a BTreeMap<RoleKey, Vec<PolicyRule>>,
) -> Granted<'a> {
    let roles = roles_of(account, namespace, bindings).filter_map(|key| roles.get(&key));
    roles.flatten().collect()
}

fn names(subject: &Subject, account: AccountName<'_>, binding_namespace: Option<&str>) -> bool {
    match subject.kind.as_str() {
        KIND_USER => subject.name == service_account_user(account.namespace, account.name),
        KIND_GROUP => service_account_groups(account.namespace).contains(&subject.name),
        _ => is_account(subject, account, binding_namespace),
    }
}

/// True when the subject is the account itself.
pub(crate) fn is_account(
    subject: &Subject,
    account: AccountName<'_>,
    binding_namespace: Option<&str>,
) -> bool {
    let own = subject.namespace.as_deref().filter(|own| !own.is_empty());
    subject.kind == KIND_SERVICE_ACCOUNT
        && subject.name == account.name
        && own.or(binding_namespace) == Some(account.namespace)
}

fn is_set(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    use olm_testing::rbac::{rule, url};

    #[test]
    fn a_rule_needs_verbs_and_one_kind_of_object() {
        assert_eq!(
            invalid_rule(&rule("", "core", "pods", "")),
            Some("policy rule must have at least one verb")
        );
        let mixed = PolicyRule {
            resources: Some(vec!["pods".to_owned()]),
            ..url("get", "/x")
        };
        assert_eq!(
            invalid_rule(&mixed),
            Some("rule cannot apply to both regular resources and non-resource URLs")
        );
        assert_eq!(invalid_rule(&url("get", "/x")), None);
    }

    fn binding(namespace: Option<&str>, kind: &str, role: &str, subject: Subject) -> Binding {
        Binding {
            namespace: namespace.map(str::to_owned),
            role: RoleRef {
                kind: kind.into(),
                name: role.into(),
                ..RoleRef::default()
            },
            subjects: vec![subject],
        }
    }

    fn subject(kind: &str, namespace: Option<&str>, name: &str) -> Subject {
        Subject {
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(str::to_owned),
            api_group: None,
        }
    }

    #[test]
    fn bindings_count_in_their_scope_only() {
        let account = AccountName {
            namespace: "ns",
            name: "sa",
        };
        let bindings = [
            binding(Some("ns"), "Role", "local", subject("ServiceAccount", None, "sa")),
            binding(
                Some("other"),
                "Role",
                "foreign",
                subject("ServiceAccount", Some("ns"), "sa"),
            ),
            binding(
                Some("ns"),
                "ClusterRole",
                "shared",
                subject("ServiceAccount", Some("ns"), "sa"),
            ),
            binding(
                None,
                "ClusterRole",
                "everywhere",
                subject("Group", None, "system:serviceaccounts:ns"),
            ),
            binding(
                None,
                "ClusterRole",
                "user",
                subject("User", None, "system:serviceaccount:ns:sa"),
            ),
            binding(
                None,
                "ClusterRole",
                "nobody",
                subject("ServiceAccount", None, "sa"),
            ),
            binding(
                Some("ns"),
                "Role",
                "someone",
                subject("ServiceAccount", None, "else"),
            ),
        ];
        let found = |namespace| {
            roles_of(account, namespace, &bindings)
                .map(|(_, name)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(Some("ns")), ["local", "shared", "everywhere", "user"]);
        assert_eq!(found(None), ["everywhere", "user"]);
    }
}
