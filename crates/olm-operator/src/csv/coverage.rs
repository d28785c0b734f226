//! Checks whether granted RBAC rules cover the rules an operator requests.
//!
//! The semantics are those of the API server's own authorizer (`docs/reference/lifecycle.md`). Two
//! differences from upstream are deliberate: a grant on `*/sub` covers `any/sub`, and the groups of a service
//! account count. The API server would allow both.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject};

const ALL: &str = "*";
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

/// Number of combinations of verb, group, resource and name (or verb and URL) that a rule requests, without
/// duplicates.
pub(crate) fn combinations(rule: &PolicyRule) -> usize {
    let lists = if is_set(&rule.non_resource_urls) {
        vec![distinct(&rule.non_resource_urls)]
    } else {
        [&rule.api_groups, &rule.resources, &rule.resource_names]
            .map(distinct)
            .to_vec()
    };
    let verbs: BTreeSet<&String> = rule.verbs.iter().collect();
    lists
        .iter()
        .fold(verbs.len(), |all, list| all.saturating_mul(list.len()))
}

/// A set of granted rules: bit `n % 64` of word `n / 64` is the nth rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RuleSet(Vec<u64>);

impl RuleSet {
    fn insert(&mut self, number: usize) {
        let word = number / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(found) = self.0.get_mut(word) {
            *found |= 1 << (number % 64);
        }
    }

    fn add(&mut self, other: Option<&RuleSet>) {
        let words = other.map(|other| other.0.as_slice()).unwrap_or_default();
        self.0.resize(self.0.len().max(words.len()), 0);
        for (own, more) in self.0.iter_mut().zip(words) {
            *own |= more;
        }
    }

    fn and(&self, other: &RuleSet) -> RuleSet {
        RuleSet(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// Sets of rules by a value they name.
#[derive(Debug, Default)]
struct Named<'a>(BTreeMap<&'a str, RuleSet>);

impl<'a> Named<'a> {
    fn insert(&mut self, names: &'a [String], number: usize) {
        for name in names {
            self.0.entry(name).or_default().insert(number);
        }
    }

    /// Returns the rules that name one of these.
    fn any<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> RuleSet {
        let mut found = RuleSet::default();
        for name in names {
            found.add(self.0.get(name));
        }
        found
    }
}

/// Granted rules, indexed by their values. Each requested value is looked up once, and values that the same
/// rules allow are merged.
///
/// This limits the cost: the author of a ClusterServiceVersion chooses the number of requested combinations,
/// and authors of Roles choose the number of granted rules.
#[derive(Debug, Default)]
pub(crate) struct Granted<'a> {
    all: RuleSet,
    verbs: Named<'a>,
    groups: Named<'a>,
    resources: Named<'a>,
    names: Named<'a>,
    /// Rules without resource names.
    any_name: RuleSet,
    urls: Vec<(usize, &'a str)>,
}

impl<'a> FromIterator<&'a PolicyRule> for Granted<'a> {
    fn from_iter<I: IntoIterator<Item = &'a PolicyRule>>(rules: I) -> Self {
        let mut granted = Granted::default();
        for (number, rule) in rules.into_iter().enumerate() {
            let names = rule.resource_names.as_deref().unwrap_or_default();
            granted.all.insert(number);
            granted.verbs.insert(&rule.verbs, number);
            let lists = [
                (&mut granted.groups, &rule.api_groups),
                (&mut granted.resources, &rule.resources),
            ];
            for (named, list) in lists {
                named.insert(list.as_deref().unwrap_or_default(), number);
            }
            granted.names.insert(names, number);
            if names.is_empty() {
                granted.any_name.insert(number);
            }
            let urls = rule.non_resource_urls.iter().flatten();
            granted.urls.extend(urls.map(|url| (number, url.as_str())));
        }
        granted
    }
}

impl Granted<'_> {
    /// True when every combination of verb, group, resource and name (or URL) of `asked` is allowed by some
    /// granted rule.
    ///
    /// Wildcards in `asked` are literal: `*` is only covered by `*`.
    pub(crate) fn covers(&self, asked: &PolicyRule) -> bool {
        let verbs = asked.verbs.iter().map(|verb| self.verbs.any([ALL, verb]));
        let mut lists: Vec<BTreeSet<RuleSet>> = vec![verbs.collect()];
        if is_set(&asked.non_resource_urls) {
            let urls = distinct(&asked.non_resource_urls).into_iter();
            lists.push(urls.map(|url| self.allowing_url(url)).collect());
        } else {
            let groups = distinct(&asked.api_groups).into_iter();
            lists.push(groups.map(|group| self.groups.any([ALL, group])).collect());
            let resources = distinct(&asked.resources).into_iter();
            lists.push(
                resources
                    .map(|resource| self.allowing_resource(resource))
                    .collect(),
            );
            let names = distinct(&asked.resource_names).into_iter();
            lists.push(names.map(|name| self.allowing_name(name)).collect());
        }
        each_choice_has_a_rule(&self.all, &lists)
    }

    fn allowing_resource(&self, resource: &str) -> RuleSet {
        let mut allowing = self.resources.any([ALL, resource]);
        if let Some((_, sub)) = resource.split_once('/') {
            let any_with_same_subresource = format!("*/{sub}");
            allowing.add(self.resources.0.get(any_with_same_subresource.as_str()));
        }
        allowing
    }

    fn allowing_name(&self, name: &str) -> RuleSet {
        let mut allowing = self.names.any([name]);
        allowing.add(Some(&self.any_name));
        allowing
    }

    fn allowing_url(&self, url: &str) -> RuleSet {
        let mut allowing = RuleSet::default();
        for (number, granted) in &self.urls {
            if allows_url(granted, url) {
                allowing.insert(*number);
            }
        }
        allowing
    }
}

/// True when for every choice of one set from each list some rule is in all chosen sets.
fn each_choice_has_a_rule(among: &RuleSet, lists: &[BTreeSet<RuleSet>]) -> bool {
    let Some((first, rest)) = lists.split_first() else {
        return !among.is_empty();
    };
    first.iter().all(|chosen| {
        let both = among.and(chosen);
        !both.is_empty() && each_choice_has_a_rule(&both, rest)
    })
}

fn allows_url(granted: &str, url: &str) -> bool {
    granted == ALL
        || granted == url
        || granted
            .strip_suffix('*')
            .is_some_and(|prefix| url.starts_with(prefix))
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

fn is_set(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// The distinct values of a list; an empty list becomes one empty value.
fn distinct(list: &Option<Vec<String>>) -> BTreeSet<&str> {
    let values = list.as_deref().unwrap_or_default();
    let none = values.is_empty().then_some("");
    values.iter().map(String::as_str).chain(none).collect()
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

    /// Builds a rule from `verbs groups/resources[:names]`; `core` is the empty group.
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
            granted.iter().collect::<Granted<'_>>().covers(asked),
            expected,
            "{granted:?} for {asked:?}"
        );
    }

    #[test]
    fn values_that_are_named_twice_are_asked_for_once() {
        let many = |value: &str| vec![value; 1000].join(",");
        let repeated = rule(&many("get"), &many("core"), &many("pods"), &many("x"));
        assert_eq!(combinations(&repeated), 1);
        check(&[rule("get", "core", "pods", "")], &repeated, true);
        assert_eq!(combinations(&rule("get,list", "core", "pods,secrets", "")), 4);
        assert_eq!(combinations(&url("get,put", "/a,/b,/b")), 4);
    }

    #[test]
    fn values_that_the_same_rules_allow_are_compared_once() {
        let granted = [rule("*", "*", "pods", ""), rule("get", "core", "secrets", "a")];
        let granted: Granted<'_> = granted.iter().collect();
        let names: Vec<String> = (0..1000).map(|n| format!("pod-{n}")).collect();
        let sets: BTreeSet<RuleSet> = names.iter().map(|name| granted.allowing_name(name)).collect();
        assert_eq!(sets.len(), 1);
        assert!(granted.covers(&rule("get", "core", "pods", &names.join(","))));
        assert!(!granted.covers(&rule("get", "core", "pods,secrets", &names.join(","))));
    }

    #[test]
    fn more_rules_than_a_word_has_bits_are_told_apart() {
        let names: Vec<String> = (0..200).map(|n| format!("n{n}")).collect();
        let granted: Vec<PolicyRule> = names
            .iter()
            .map(|name| rule("get", "core", "pods", name))
            .collect();
        check(&granted, &rule("get", "core", "pods", &names.join(",")), true);
        check(&granted, &rule("get", "core", "pods", "n199,n200"), false);
        let mixed = [granted, vec![rule("list", "core", "pods", "n0")]].concat();
        check(&mixed, &rule("get,list", "core", "pods", "n0"), true);
        // Its number and that of the rule for `list` differ only in their words.
        check(&mixed, &rule("get,list", "core", "pods", "n8"), false);
    }

    #[test]
    fn the_group_of_an_api_limits_a_grant() {
        let granted = rule("get", "apps", "deployments", "");
        let granted = Granted::from_iter([&granted]);
        let asked = |group: &str| granted.covers(&rule("get", group, "deployments", ""));
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
