//! Checks whether granted RBAC rules cover others. No I/O.
//!
//! The semantics are those of the API server's own authorizer (`docs/reference/lifecycle.md`). One difference from upstream is
//! deliberate: a grant on `*/sub` covers `any/sub`, as the API server would allow.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::plan_preview::Rule;

const ALL: &str = "*";

/// The lists of a rule. Without URLs it is about resources, and without names about all objects of them.
#[derive(Debug, Clone, Copy)]
pub struct Lists<'a> {
    verbs: &'a [String],
    groups: &'a [String],
    resources: &'a [String],
    names: &'a [String],
    urls: &'a [String],
}

impl<'a> From<&'a PolicyRule> for Lists<'a> {
    fn from(rule: &'a PolicyRule) -> Self {
        Self {
            verbs: &rule.verbs,
            groups: rule.api_groups.as_deref().unwrap_or_default(),
            resources: rule.resources.as_deref().unwrap_or_default(),
            names: rule.resource_names.as_deref().unwrap_or_default(),
            urls: rule.non_resource_urls.as_deref().unwrap_or_default(),
        }
    }
}

impl<'a> From<&'a Rule> for Lists<'a> {
    fn from(rule: &'a Rule) -> Self {
        let is_url = !rule.url.is_empty();
        let list = |text: &'a String, is_there: bool| -> &'a [String] {
            if is_there { slice::from_ref(text) } else { &[] }
        };
        Self {
            verbs: &rule.verbs,
            groups: list(&rule.group, !is_url),
            resources: list(&rule.resource, !is_url),
            names: list(&rule.resource_name, !rule.resource_name.is_empty()),
            urls: list(&rule.url, is_url),
        }
    }
}

/// Returns the number of combinations of verb, group, resource and name (or verb and URL) that a rule requests, without
/// duplicates.
pub fn combinations(rule: &PolicyRule) -> usize {
    let rule = Lists::from(rule);
    let lists = match rule.urls {
        [] => vec![
            distinct(rule.groups),
            distinct(rule.resources),
            distinct(rule.names),
        ],
        urls => vec![distinct(urls)],
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

/// Granted rules, indexed by their values. Each requested value is looked up once, and values that the same rules allow are
/// merged.
///
/// This limits the cost: the author of a ClusterServiceVersion chooses the number of requested combinations, and authors of
/// Roles choose the number of granted rules.
#[derive(Debug, Default)]
pub struct Granted<'a> {
    all: RuleSet,
    verbs: Named<'a>,
    groups: Named<'a>,
    resources: Named<'a>,
    names: Named<'a>,
    /// Rules without resource names.
    any_name: RuleSet,
    urls: Vec<(usize, &'a str)>,
}

impl<'a, R: Into<Lists<'a>>> FromIterator<R> for Granted<'a> {
    fn from_iter<I: IntoIterator<Item = R>>(rules: I) -> Self {
        let mut granted = Granted::default();
        for (number, rule) in rules.into_iter().enumerate() {
            let rule: Lists<'a> = rule.into();
            granted.all.insert(number);
            granted.verbs.insert(rule.verbs, number);
            granted.groups.insert(rule.groups, number);
            granted.resources.insert(rule.resources, number);
            granted.names.insert(rule.names, number);
            if rule.names.is_empty() {
                granted.any_name.insert(number);
            }
            let urls = rule.urls.iter();
            granted.urls.extend(urls.map(|url| (number, url.as_str())));
        }
        granted
    }
}

impl Granted<'_> {
    /// Returns true when every combination of verb, group, resource and name (or URL) of `asked` is allowed by some granted
    /// rule.
    ///
    /// Wildcards in `asked` are literal: `*` is only covered by `*`.
    pub fn covers<'r>(&self, asked: impl Into<Lists<'r>>) -> bool {
        let asked: Lists<'r> = asked.into();
        let verbs = asked.verbs.iter().map(|verb| self.verbs.any([ALL, verb]));
        let mut lists: Vec<BTreeSet<RuleSet>> = vec![verbs.collect()];
        if asked.urls.is_empty() {
            let groups = distinct(asked.groups).into_iter();
            lists.push(groups.map(|group| self.groups.any([ALL, group])).collect());
            let resources = distinct(asked.resources).into_iter();
            lists.push(
                resources
                    .map(|resource| self.allowing_resource(resource))
                    .collect(),
            );
            let names = distinct(asked.names).into_iter();
            lists.push(names.map(|name| self.allowing_name(name)).collect());
        } else {
            let urls = distinct(asked.urls).into_iter();
            lists.push(urls.map(|url| self.allowing_url(url)).collect());
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

/// The distinct values of a list; an empty list becomes one empty value.
fn distinct(list: &[String]) -> BTreeSet<&str> {
    let none = list.is_empty().then_some("");
    list.iter().map(String::as_str).chain(none).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use olm_testing::rbac::{rule, url};

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
    fn more_rules_than_a_word_has_bits_are_distinguished() {
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

    /// As Kubernetes' authorizer has it, by a walk.
    fn allows(broad: &Rule, rule: &Rule) -> bool {
        let is_part = |broad: &str, one: &str| broad == "*" || broad == one;
        if broad.url.is_empty() != rule.url.is_empty() {
            return false;
        }
        let of_all = || {
            let subresources = broad
                .resource
                .strip_prefix("*/")
                .zip(rule.resource.split_once('/'));
            subresources.is_some_and(|(all, (_, one))| all == one)
        };
        let url = || match broad.url.strip_suffix('*') {
            Some(start) => rule.url.starts_with(start),
            None => broad.url == rule.url,
        };
        is_part(&broad.verbs[0], &rule.verbs[0])
            && match rule.url.is_empty() {
                true => {
                    is_part(&broad.group, &rule.group)
                        && (is_part(&broad.resource, &rule.resource) || of_all())
                        && (broad.resource_name.is_empty() || broad.resource_name == rule.resource_name)
                }
                false => url(),
            }
    }

    fn every_rule() -> Vec<Rule> {
        let mut all = Vec::new();
        for verb in ["*", "get"] {
            let verbs = vec![verb.to_owned()];
            for url in ["*", "/a", "/a*", "/ab", "/ab*", "/abc", "/b", "/a/*"] {
                all.push(Rule {
                    url: url.to_owned(),
                    verbs: verbs.clone(),
                    ..Rule::default()
                });
            }
            for group in ["", "*", "apps"] {
                for resource in ["*", "x", "y", "x/s", "*/s", "*/t"] {
                    for name in ["", "n"] {
                        all.push(Rule {
                            group: group.to_owned(),
                            resource: resource.to_owned(),
                            resource_name: name.to_owned(),
                            verbs: verbs.clone(),
                            ..Rule::default()
                        });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn what_is_looked_up_is_what_a_walk_finds() {
        let all = every_rule();
        for one in &all {
            for other in &all {
                // A second beginning of URLs beside the one that counts.
                let beside = Rule {
                    url: "/a/b*".to_owned(),
                    verbs: one.verbs.clone(),
                    ..Rule::default()
                };
                let found = Granted::from_iter([one, &beside]).covers(other);
                assert_eq!(
                    found,
                    allows(one, other) || allows(&beside, other),
                    "{one:?} {other:?}"
                );
            }
        }
    }
}
