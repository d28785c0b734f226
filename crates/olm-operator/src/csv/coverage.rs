//! Does a set of granted RBAC rules cover what an operator asks for?
//!
//! The semantics are those of the API server's own authorizer (`docs/reference/lifecycle.md`), with two
//! deliberate differences from upstream: a grant on `*/sub` covers `any/sub`, and a service account's groups count, because
//! the API server would let both through.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};

const ALL: &str = "*";
const KIND_SERVICE_ACCOUNT: &str = "ServiceAccount";
const KIND_GROUP: &str = "Group";
const KIND_USER: &str = "User";

/// The account a rule is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccountName<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// A binding reduced to what decides whether it applies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Binding {
    /// Namespace of a RoleBinding, `None` for a ClusterRoleBinding.
    pub(crate) namespace: Option<String>,
    /// The role it points to.
    pub(crate) role: RoleRef,
    pub(crate) subjects: Vec<Subject>,
}

/// A role's place: `(None, name)` for a ClusterRole, `(Some(namespace), name)` for a Role.
pub(crate) type RoleKey = (Option<String>, String);

/// Why a rule of a ClusterServiceVersion cannot be a policy rule at all; `None` when it can.
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

/// True when the binding gives its role to the account, by name or by a group of it.
pub(crate) fn is_bound(account: AccountName<'_>, binding: &Binding) -> bool {
    let within = binding.namespace.as_deref();
    let mut subjects = binding.subjects.iter();
    subjects.any(|subject| names(subject, account, within))
}

/// The role a binding gives.
pub(crate) fn role_of(binding: &Binding) -> RoleKey {
    let is_namespaced = binding.role.kind == "Role";
    let namespace = binding.namespace.clone().filter(|_| is_namespaced);
    (namespace, binding.role.name.clone())
}

/// The roles that the account holds through these bindings; with a namespace RoleBindings there count too.
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

/// The rules the account holds: those of all its roles that are known.
pub(crate) fn granted<'a>(
    account: AccountName<'a>,
    namespace: Option<&'a str>,
    bindings: &'a [Binding],
    roles: &'a BTreeMap<RoleKey, Vec<PolicyRule>>,
) -> Vec<&'a PolicyRule> {
    roles_of(account, namespace, bindings)
        .filter_map(|key| roles.get(&key))
        .flatten()
        .collect()
}

/// True when every combination of verb, group, resource and name (or URL) of `asked` is allowed by some granted rule.
///
/// Wildcards in `asked` are literal: `*` is only covered by `*`.
pub(crate) fn covers(granted: &[&PolicyRule], asked: &PolicyRule) -> bool {
    let is_url = is_set(&asked.non_resource_urls);
    asked.verbs.iter().all(|verb| {
        if is_url {
            return each(&asked.non_resource_urls).all(|url| {
                granted
                    .iter()
                    .any(|rule| has(&rule.verbs, verb) && allows_url(rule, url))
            });
        }
        each(&asked.api_groups).all(|group| {
            each(&asked.resources).all(|resource| {
                each(&asked.resource_names).all(|name| {
                    granted
                        .iter()
                        .any(|rule| has(&rule.verbs, verb) && allows_resource(rule, group, resource, name))
                })
            })
        })
    })
}

fn allows_resource(rule: &PolicyRule, group: &str, resource: &str, name: &str) -> bool {
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    let resources = rule.resources.as_deref().unwrap_or_default();
    let names = rule.resource_names.as_deref().unwrap_or_default();
    let any_with_same_subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    has(groups, group)
        && (has(resources, resource)
            || any_with_same_subresource.is_some_and(|wildcard| resources.contains(&wildcard)))
        && (names.is_empty() || names.iter().any(|granted| granted == name))
}

fn allows_url(rule: &PolicyRule, url: &str) -> bool {
    rule.non_resource_urls
        .as_deref()
        .unwrap_or_default()
        .iter()
        .any(|granted| {
            granted == ALL
                || granted == url
                || granted
                    .strip_suffix('*')
                    .is_some_and(|prefix| url.starts_with(prefix))
        })
}

fn names(subject: &Subject, account: AccountName<'_>, binding_namespace: Option<&str>) -> bool {
    match subject.kind.as_str() {
        KIND_SERVICE_ACCOUNT => {
            let namespace = subject
                .namespace
                .as_deref()
                .filter(|ns| !ns.is_empty())
                .or(binding_namespace);
            subject.name == account.name && namespace == Some(account.namespace)
        }
        KIND_USER => subject.name == format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        KIND_GROUP => {
            subject.name == "system:serviceaccounts"
                || subject.name == "system:authenticated"
                || subject.name == format!("system:serviceaccounts:{}", account.namespace)
        }
        _ => false,
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

fn is_set(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// The values of a list; an empty list stands for one empty value.
fn each(list: &Option<Vec<String>>) -> impl Iterator<Item = &str> {
    let values = list.as_deref().unwrap_or_default();
    let none = values.is_empty().then_some("");
    values.iter().map(String::as_str).chain(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Option<Vec<String>> {
        let items: Vec<String> = text
            .split(',')
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect();
        (!items.is_empty()).then_some(items)
    }

    /// `verbs groups/resources[:names]`; group `core` is the empty one.
    fn rule(verbs: &str, group: &str, resources: &str, names: &str) -> PolicyRule {
        PolicyRule {
            verbs: list(verbs).unwrap_or_default(),
            api_groups: Some(group.split(',').map(|g| g.replace("core", "")).collect()),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: None,
        }
    }

    fn url(verbs: &str, urls: &str) -> PolicyRule {
        PolicyRule {
            verbs: list(verbs).unwrap_or_default(),
            non_resource_urls: list(urls),
            ..PolicyRule::default()
        }
    }

    #[track_caller]
    fn check(granted: &[PolicyRule], asked: &PolicyRule, expected: bool) {
        assert_eq!(
            covers(&granted.iter().collect::<Vec<_>>(), asked),
            expected,
            "{granted:?} for {asked:?}"
        );
    }

    #[test]
    fn the_group_of_an_api_limits_a_grant() {
        let granted = rule("get", "apps", "deployments", "");
        let asked = |group: &str| covers(&[&granted], &rule("get", group, "deployments", ""));
        assert!(asked("apps"));
        assert!(!asked("extensions"));
        assert!(!asked("core"));
    }

    #[test]
    fn rules_may_be_spread_over_several_roles() {
        let granted = [
            rule("get", "core", "pods", ""),
            rule("list", "core", "pods,secrets", ""),
        ];
        check(&granted, &rule("get,list", "core", "pods", ""), true);
        check(&granted, &rule("get,list", "core", "pods,secrets", ""), false);
    }

    #[test]
    fn wildcard_grants_cover_everything_and_asked_wildcards_are_literal() {
        let all = [rule("*", "*", "*", "")];
        check(&all, &rule("delete", "apps", "deployments", "one"), true);
        check(&all, &rule("*", "*", "*", ""), true);
        check(
            &[rule("get,list,watch,create", "core", "pods", "")],
            &rule("*", "core", "pods", ""),
            false,
        );
        check(
            &[rule("delete", "core", "pods", "")],
            &rule("get", "core", "pods", ""),
            false,
        );
    }

    #[test]
    fn resource_names_limit_a_grant() {
        let named = [rule("get", "core", "secrets", "a,b")];
        check(&named, &rule("get", "core", "secrets", "a"), true);
        check(&named, &rule("get", "core", "secrets", "c"), false);
        check(&named, &rule("get", "core", "secrets", ""), false);
        check(
            &[rule("get", "core", "secrets", "")],
            &rule("get", "core", "secrets", "a"),
            true,
        );
    }

    #[test]
    fn subresources_need_their_own_grant_or_a_wildcard_for_that_subresource() {
        check(
            &[rule("get", "core", "pods", "")],
            &rule("get", "core", "pods/log", ""),
            false,
        );
        check(
            &[rule("get", "core", "*/log", "")],
            &rule("get", "core", "pods/log", ""),
            true,
        );
        check(
            &[rule("get", "core", "*/log", "")],
            &rule("get", "core", "pods/exec", ""),
            false,
        );
    }

    #[test]
    fn url_grants_match_by_prefix_and_asked_urls_are_literal() {
        check(&[url("get", "/osbs/*")], &url("get", "/osbs/v1"), true);
        check(&[url("get", "/osbs/*")], &url("get", "/osbs"), false);
        check(&[url("get", "/osbs")], &url("get", "/osbs,/other"), false);
        check(&[url("get", "/osbs")], &url("put", "/osbs"), false);
        check(&[rule("*", "*", "*", "")], &url("get", "/metrics"), false);
    }

    #[test]
    fn a_rule_needs_verbs_and_one_kind_of_object() {
        assert_eq!(
            invalid_rule(&rule("", "core", "pods", "")),
            Some("policy rule must have at least one verb")
        );
        let mixed = PolicyRule {
            resources: list("pods"),
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
