//! Whether rules allow what another one does: looked up, as there may be thousands on either side. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::plan_preview::Rule;

/// What somebody may do. Rules have one verb on one resource each.
#[derive(Debug)]
pub(super) struct Coverage<'a> {
    rules: Vec<&'a BTreeSet<Rule>>,
    /// By verb: how URLs begin that are allowed with whatever follows. None begins with another, so that of those before a URL
    /// only the last can be its beginning.
    urls: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Coverage<'a> {
    pub(super) fn of(rules: Vec<&'a BTreeSet<Rule>>) -> Self {
        let mut urls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for rule in rules.iter().copied().flatten() {
            if let Some(start) = rule.url.strip_suffix('*') {
                urls.entry(verb(rule)).or_default().insert(start);
            }
        }
        for starts in urls.values_mut() {
            let mut shortest: Option<&str> = None;
            // In order, so that what begins with another comes after it.
            starts.retain(|start| {
                let is_new = shortest.is_none_or(|shortest| !start.starts_with(shortest));
                if is_new {
                    shortest = Some(start);
                }
                is_new
            });
        }
        Self { rules, urls }
    }

    /// Whether whoever has these may do that.
    pub(super) fn covers(&self, rule: &Rule) -> bool {
        let is_there = |wider: &Rule| self.rules.iter().any(|rules| rules.contains(wider));
        // Most are there as they are.
        is_there(rule) || wider(rule).any(|wider| is_there(&wider)) || self.covers_url(rule)
    }

    fn covers_url(&self, rule: &Rule) -> bool {
        if rule.url.is_empty() || !rule.role.is_empty() {
            return false;
        }
        let up_to_it = (Bound::Unbounded, Bound::Included(rule.url.as_str()));
        ["*", verb(rule)].into_iter().any(|verb| {
            let mut before = self
                .urls
                .get(verb)
                .into_iter()
                .flat_map(|starts| starts.range::<str, _>(up_to_it).next_back());
            before.any(|start| rule.url.starts_with(start))
        })
    }
}

fn verb(rule: &Rule) -> &str {
    rule.verbs.first().map_or("", String::as_str)
}

/// Every other rule that allows what it does, whatever rules there are; but for beginnings of URLs.
fn wider(rule: &Rule) -> impl Iterator<Item = Rule> {
    let or_star = |text: &str| BTreeSet::from(["*".to_owned(), text.to_owned()]);
    let is_role = !rule.role.is_empty();
    let mut resources = or_star(&rule.resource);
    if let Some((_, subresource)) = rule.resource.split_once('/') {
        resources.insert(format!("*/{subresource}"));
    }
    let names = BTreeSet::from([String::new(), rule.resource_name.clone()]);
    let groups = or_star(&rule.group);
    let is_resource = rule.url.is_empty();
    let mut all = Vec::new();
    for verb in or_star(verb(rule)) {
        let of_verb = Rule {
            verbs: vec![verb],
            ..rule.clone()
        };
        match (is_role, is_resource) {
            (true, _) => {}
            (false, false) => all.push(of_verb),
            (false, true) => {
                for group in &groups {
                    for resource in &resources {
                        all.extend(names.iter().map(|name| Rule {
                            group: group.clone(),
                            resource: resource.clone(),
                            resource_name: name.clone(),
                            ..of_verb.clone()
                        }));
                    }
                }
            }
        }
    }
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Kubernetes' authorizer has it, by a walk.
    fn allows(broad: &Rule, rule: &Rule) -> bool {
        let is_part = |broad: &str, one: &str| broad == "*" || broad == one;
        if !broad.role.is_empty() || !rule.role.is_empty() || broad.url.is_empty() != rule.url.is_empty() {
            return broad == rule;
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
        is_part(verb(broad), verb(rule))
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
        let role = |role: &str| Rule {
            role: role.to_owned(),
            ..Rule::default()
        };
        all.extend([role("ClusterRole a"), role("ClusterRole b")]);
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
                let rules = BTreeSet::from([one.clone(), beside.clone()]);
                let found = Coverage::of(vec![&rules]).covers(other);
                assert_eq!(
                    found,
                    allows(one, other) || allows(&beside, other),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    /// However many rules there are.
    #[test]
    fn a_rule_costs_a_few_looks() {
        let most = every_rule().iter().map(|rule| wider(rule).count()).max();
        assert!(most.is_some_and(|most| most <= 25), "{most:?}");
    }
}
