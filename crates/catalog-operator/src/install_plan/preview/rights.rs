//! What accounts gain and lose between two sets of Roles and bindings. Pure.

mod coverage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use olm_api::labels;
use olm_api::plan_preview::{PERMISSIONS, PermissionChange, Rule};
use olm_api::user_role::{KUBERNETES_AGGREGATE_PREFIX, is_api_label};
use serde_json::Value;

use self::coverage::Coverage;
use crate::object;
use crate::step_kind::StepKind;

/// Verbs on resources that are compared, of one side. A bundle of a whole platform has some hundreds.
const COMPARED: usize = 5000;
/// Bytes of their names, of one side: each rule has its own copy of what a role says once.
const NAMES: usize = 4 << 20;

/// Who may do something where: the subject, and a namespace, empty for the whole cluster.
type Holder = (String, String);
/// One verb on one resource each.
type Grants = BTreeMap<Holder, BTreeSet<Rule>>;

/// What of one side may still be compared.
#[derive(Debug)]
struct Budget {
    rules: usize,
    bytes: usize,
}

impl Budget {
    fn spend(&mut self, rules: usize, bytes: usize) -> Option<()> {
        self.rules = self.rules.checked_sub(rules)?;
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(())
    }

    /// As many copies of these as somebody gets them.
    fn spend_on(&mut self, rules: &[Rule]) -> Option<()> {
        let bytes = rules.iter().map(|rule| {
            let Rule {
                group,
                resource,
                resource_name,
                url,
                role,
                verbs,
            } = rule;
            let verbs: usize = verbs.iter().map(String::len).sum();
            [group, resource, resource_name, url, role]
                .map(String::len)
                .iter()
                .sum::<usize>()
                + verbs
        });
        self.spend(rules.len(), bytes.sum())
    }
}

/// What each subject gains and loses when `before` becomes `after`, and what cannot be said. Objects are as plans have them:
/// bindings refer to Roles among them, or to others, whose rules are not known.
pub(super) fn changes(
    before: &[Value],
    after: &[Value],
    namespace: &str,
) -> (Vec<PermissionChange>, Option<String>) {
    let (Some(before), Some(after)) = (grants(before, namespace), grants(after, namespace)) else {
        let text = format!(
            "{PERMISSIONS}: more than {COMPARED} verbs on resources, or {} MiB of their names, which are not compared",
            NAMES >> 20
        );
        return (Vec::new(), Some(text));
    };
    let holders: BTreeSet<&Holder> = before.keys().chain(after.keys()).collect();
    let change = |holder: &Holder| {
        let change = PermissionChange {
            subject: holder.0.clone(),
            namespace: holder.1.clone(),
            gained: missing(&after, &before, holder),
            lost: missing(&before, &after, holder),
        };
        (!change.gained.is_empty() || !change.lost.is_empty()).then_some(change)
    };
    (holders.into_iter().filter_map(change).collect(), None)
}

/// What a holder has in `of` and is not covered by what it has in `from`, there or in the whole cluster.
fn missing(of: &Grants, from: &Grants, holder: &Holder) -> Vec<Rule> {
    let everywhere = (holder.0.clone(), String::new());
    let covering = [from.get(holder), from.get(&everywhere)];
    let covering = Coverage::of(covering.into_iter().flatten().collect());
    let rules = of.get(holder).into_iter().flatten();
    let mut by_resource: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for rule in rules.filter(|rule| !covering.covers(rule)) {
        let bare = Rule {
            verbs: Vec::new(),
            ..rule.clone()
        };
        by_resource
            .entry(bare)
            .or_default()
            .extend(rule.verbs.iter().cloned());
    }
    by_resource
        .into_iter()
        .map(|(bare, verbs)| Rule { verbs, ..bare })
        .collect()
}

/// Who may do what; none when it is too much.
fn grants(objects: &[Value], namespace: &str) -> Option<Grants> {
    let mut grants = Grants::new();
    let mut left = Budget {
        rules: COMPARED,
        bytes: NAMES,
    };
    let mut roles: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    for role in objects {
        roles
            .entry((object::kind(role), object::name(role)))
            .or_insert(role);
    }
    for binding in objects {
        let scope = match StepKind::of(object::kind(binding)) {
            Some(StepKind::ClusterRole) => {
                for holder in aggregated_to(binding) {
                    let rules = rules_of(binding, &mut left)?;
                    grants.entry(holder).or_default().extend(rules);
                }
                continue;
            }
            Some(StepKind::RoleBinding) => namespace,
            Some(StepKind::ClusterRoleBinding) => "",
            _ => continue,
        };
        let text = |pointer| {
            binding
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (kind, name) = (text("/roleRef/kind"), text("/roleRef/name"));
        // What is read of a role costs, also where nobody gets it.
        let rules = match roles.get(&(kind, name)) {
            Some(role) => rules_of(role, &mut left)?,
            None => vec![Rule {
                role: format!("{kind} {name}"),
                ..Rule::default()
            }],
        };
        let subjects = binding.get("subjects").and_then(Value::as_array);
        for subject in subjects.into_iter().flatten() {
            left.spend_on(&rules)?;
            let holder = (subject_text(subject, namespace), scope.to_owned());
            grants.entry(holder).or_default().extend(rules.iter().cloned());
        }
    }
    Some(grants)
}

/// The roles that get the rules of a ClusterRole because its labels say so: everybody who has one of them gains.
fn aggregated_to(role: &Value) -> impl Iterator<Item = Holder> {
    object::metadata_entries(role, "labels").filter_map(|(key, value)| {
        let subject = match key.strip_prefix(KUBERNETES_AGGREGATE_PREFIX) {
            Some(name) => format!("ClusterRole {name}"),
            None => is_api_label(key).then(|| format!("ClusterRoles with {key}"))?,
        };
        (value == labels::TRUE).then(|| (subject, String::new()))
    })
}

/// The rules of a role, and the ClusterRoles whose rules it gets; none when they are more than is left.
fn rules_of(role: &Value, left: &mut Budget) -> Option<Vec<Rule>> {
    let mut rules = single_rules(role, left)?;
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    for selector in selectors.and_then(Value::as_array).into_iter().flatten() {
        let role = format!("ClusterRoles with {}", selector_text(selector));
        left.spend(1, role.len())?;
        rules.push(Rule {
            role,
            ..Rule::default()
        });
    }
    Some(rules)
}

fn selector_text(selector: &Value) -> String {
    let of_labels = selector.get("matchLabels").and_then(Value::as_object);
    let equal = of_labels.into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{key}={value}")
    });
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let others = expressions.into_iter().flatten().map(|expression| {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values = texts(expression, "values").join(",");
        match values.is_empty() {
            true => format!("{} {}", text("key"), text("operator")),
            false => format!("{} {} ({values})", text("key"), text("operator")),
        }
    });
    let parts: Vec<String> = equal.chain(others).collect();
    match parts.is_empty() {
        true => "any labels".to_owned(),
        false => parts.join(", "),
    }
}

/// The rules of a role with one verb on one resource each; none when they are more than is left.
fn single_rules(role: &Value, left: &mut Budget) -> Option<Vec<Rule>> {
    let mut single = Vec::new();
    for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
        let fields = [
            "apiGroups",
            "resources",
            "resourceNames",
            "nonResourceURLs",
            "verbs",
        ];
        let lists = fields.map(|field| texts(rule, field));
        let longest = lists.iter().map(|list| list.iter().map(|text| text.len()).max());
        let bytes: usize = longest.flatten().sum();
        let [groups, resources, mut names, urls, verbs] = lists;
        if names.is_empty() {
            names.push("");
        }
        // Counted before any is made: a few thousand words each give more than fit into memory, as does a long one.
        let mut count = groups.len().checked_mul(resources.len())?;
        count = count.checked_mul(names.len())?.checked_add(urls.len())?;
        count = count.checked_mul(verbs.len().max(1))?;
        left.spend(count, count.checked_mul(bytes)?)?;
        let mut targets: Vec<Rule> = Vec::new();
        targets.extend(urls.iter().map(|url| Rule {
            url: (*url).to_owned(),
            ..Rule::default()
        }));
        for group in groups {
            for resource in &resources {
                targets.extend(names.iter().map(|name| Rule {
                    group: group.to_owned(),
                    resource: (*resource).to_owned(),
                    resource_name: (*name).to_owned(),
                    ..Rule::default()
                }));
            }
        }
        for verb in verbs {
            single.extend(targets.iter().map(|target| Rule {
                verbs: vec![verb.to_owned()],
                ..target.clone()
            }));
        }
    }
    Some(single)
}

fn texts<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    let list = rule.get(field).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

fn subject_text(subject: &Value, namespace: &str) -> String {
    let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    match text("namespace") {
        elsewhere if !elsewhere.is_empty() && elsewhere != namespace => format!("{kind} {elsewhere}/{name}"),
        _ => format!("{kind} {name}"),
    }
}
