//! Rights that accounts gain and lose between two sets of Roles and bindings. Pure.

pub mod coverage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use self::coverage::Granted;
use crate::labels;
use crate::object::{given_name, is_of_a_csv, kind, metadata_entries};
use crate::plan_preview::{PERMISSIONS, PermissionChange, Rule};
use crate::user_role::{KUBERNETES_AGGREGATE_PREFIX, is_api_label};
use crate::v1::{OperatorGroup, OperatorGroupSpec};

/// Kinds that give rights.
const CLUSTER_ROLE: &str = "ClusterRole";
const CLUSTER_ROLE_BINDING: &str = "ClusterRoleBinding";
const ROLE_BINDING: &str = "RoleBinding";
/// Verbs on resources that are compared, of one side. A bundle of a whole platform has some hundreds.
const COMPARED: usize = 5000;
/// Maximum number of target namespaces that are listed one by one.
const MAX_TARGETS: usize = 20;

/// The subject of a grant, and its scope.
type Holder = (String, Scope);
/// One verb on one resource each.
type Grants = BTreeMap<Holder, BTreeSet<Rule>>;

/// Scope of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Cluster,
    /// The namespace of the plan.
    Own,
    /// All other namespaces that the OperatorGroup selects.
    Targets,
}

/// Where the OperatorGroup has namespaced permissions of ClusterServiceVersions carried, beside the namespace of the plan
/// (`docs/reference/lifecycle.md`, rights beyond the own namespace).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// The whole cluster, with the right to see namespaces.
    All,
    /// These, which may be none.
    Named(Vec<String>),
    /// It does not say yet.
    Unknown,
}

impl Targets {
    /// As these groups, of which a namespace with operators has one, select: what OLM found, else what they say.
    pub fn of(groups: &[Arc<OperatorGroup>], own: &str) -> Self {
        let [group] = groups else {
            return Self::Unknown;
        };
        let found = group
            .status
            .as_ref()
            .filter(|status| status.last_updated.is_some());
        let spec = &group.spec;
        let named = match found {
            Some(status) => status.namespaces.to_vec(),
            None if !spec.target_namespaces.is_empty() => spec.target_namespaces.to_vec(),
            None if selects_by_labels(spec) => return Self::Unknown,
            None => return Self::All,
        };
        if named.iter().any(String::is_empty) {
            return Self::All;
        }
        Self::Named(named.into_iter().filter(|name| name != own).collect())
    }

    /// Where the permissions of a ClusterServiceVersion hold that are for its namespace.
    fn scopes(&self) -> &'static [Scope] {
        match self {
            Self::All => &[Scope::Cluster],
            Self::Named(named) if !named.is_empty() => &[Scope::Own, Scope::Targets],
            Self::Named(_) | Self::Unknown => &[Scope::Own],
        }
    }

    /// Notes beside the changes.
    fn note(&self, changes: &[PermissionChange]) -> Option<String> {
        match self {
            Self::Unknown if !changes.is_empty() => Some(format!(
                "{PERMISSIONS} in other namespaces: the status of the OperatorGroup does not list them yet"
            )),
            Self::Named(named) if named.len() > MAX_TARGETS && !changes.is_empty() => Some(format!(
                "{PERMISSIONS} in {} more namespaces of the OperatorGroup: same changes as in {}",
                named.len() - MAX_TARGETS,
                named.first().map_or("", String::as_str)
            )),
            _ => None,
        }
    }
}

/// An empty selector selects all, as none does.
fn selects_by_labels(spec: &OperatorGroupSpec) -> bool {
    spec.selector.as_ref().is_some_and(|selector| {
        let (labels, expressions) = (&selector.match_labels, &selector.match_expressions);
        labels.iter().any(|labels| !labels.is_empty()) || expressions.iter().any(|all| !all.is_empty())
    })
}

/// What each subject gains and loses when `before` becomes `after`, and what cannot be said. Objects are as plans have them:
/// bindings refer to Roles among them, or to others, whose rules are not known.
pub fn changes(
    before: &[Value],
    after: &[Value],
    namespace: &str,
    targets: &Targets,
) -> (Vec<PermissionChange>, Option<String>) {
    let sides = (
        grants(before, namespace, targets),
        grants(after, namespace, targets),
    );
    let (Some(before), Some(after)) = sides else {
        let text =
            format!("{PERMISSIONS}: not compared because there are more than {COMPARED} verbs on resources");
        return (Vec::new(), Some(text));
    };
    let holders: BTreeSet<&Holder> = before.keys().chain(after.keys()).collect();
    let mut changes = Vec::new();
    for holder in holders {
        let change = PermissionChange {
            subject: holder.0.clone(),
            gained: missing(&after, &before, holder),
            lost: missing(&before, &after, holder),
            ..PermissionChange::default()
        };
        if change.gained.is_empty() && change.lost.is_empty() {
            continue;
        }
        let names = match (holder.1, targets) {
            (Scope::Cluster, _) => &[String::new()][..],
            (Scope::Own, _) => &[namespace.to_owned()],
            (Scope::Targets, Targets::Named(named)) => named.get(..MAX_TARGETS).unwrap_or(named),
            (Scope::Targets, _) => &[],
        };
        changes.extend(names.iter().map(|name| PermissionChange {
            namespace: name.clone(),
            ..change.clone()
        }));
    }
    let note = targets.note(&changes);
    (changes, note)
}

/// Returns the rights of a holder in `of` that its rights in `from` do not cover, in the same scope or in the whole cluster.
fn missing(of: &Grants, from: &Grants, holder: &Holder) -> Vec<Rule> {
    let everywhere = (holder.0.clone(), Scope::Cluster);
    let known = [from.get(holder), from.get(&everywhere)];
    let known: BTreeSet<&Rule> = known.into_iter().flatten().flatten().collect();
    // Rules of a role outside of the plan are not known, so such a role only covers itself.
    let granted = known.iter().copied().filter(|rule| rule.role.is_empty());
    let granted: Granted<'_> = granted.collect();
    let is_covered = |rule: &Rule| match rule.role.is_empty() {
        true => granted.covers(rule),
        false => known.contains(rule),
    };
    let rules = of.get(holder).into_iter().flatten();
    let mut by_resource: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for rule in rules.filter(|rule| !is_covered(rule)) {
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

/// Returns the rights of each holder; `None` if there are too many.
fn grants(objects: &[Value], namespace: &str, targets: &Targets) -> Option<Grants> {
    let mut grants = Grants::new();
    let mut left = COMPARED;
    let mut roles: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    for role in objects {
        roles.entry((kind(role), given_name(role))).or_insert(role);
    }
    for binding in objects {
        let scopes = match kind(binding) {
            CLUSTER_ROLE => {
                for holder in aggregated_to(binding) {
                    let rules = rules_of(binding, &mut left)?;
                    grants.entry(holder).or_default().extend(rules);
                }
                continue;
            }
            ROLE_BINDING if is_of_a_csv(binding) => targets.scopes(),
            ROLE_BINDING => &[Scope::Own],
            CLUSTER_ROLE_BINDING => &[Scope::Cluster],
            _ => continue,
        };
        let text = |pointer| {
            binding
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (role_kind, role_name) = (text("/roleRef/kind"), text("/roleRef/name"));
        // The rules of a role count towards the limit, even if nothing binds it.
        let mut rules = match roles.get(&(role_kind, role_name)) {
            Some(role) => rules_of(role, &mut left)?,
            None => vec![Rule {
                role: format!("{role_kind} {role_name}"),
                ..Rule::default()
            }],
        };
        if kind(binding) == ROLE_BINDING && scopes == [Scope::Cluster] {
            rules.extend(see_namespaces());
        }
        let subjects = binding.get("subjects").and_then(Value::as_array);
        for subject in subjects.into_iter().flatten() {
            for scope in scopes {
                left = left.checked_sub(rules.len())?;
                let holder = (subject_text(subject, namespace), *scope);
                grants.entry(holder).or_default().extend(rules.iter().cloned());
            }
        }
    }
    Some(grants)
}

/// Rights that are added to permissions carried to the whole cluster: to read namespaces.
fn see_namespaces() -> impl Iterator<Item = Rule> {
    ["get", "list", "watch"].into_iter().map(|verb| Rule {
        resource: "namespaces".to_owned(),
        verbs: vec![verb.to_owned()],
        ..Rule::default()
    })
}

/// The roles that a ClusterRole's rules are aggregated to, by its labels: every holder of one of them gains these rules.
fn aggregated_to(role: &Value) -> impl Iterator<Item = Holder> {
    metadata_entries(role, "labels").filter_map(|(key, value)| {
        let subject = match key.strip_prefix(KUBERNETES_AGGREGATE_PREFIX) {
            Some(name) => format!("ClusterRole {name}"),
            None => is_api_label(key).then(|| format!("ClusterRoles with {key}"))?,
        };
        (value == labels::TRUE).then_some((subject, Scope::Cluster))
    })
}

/// The rules of a role, and the ClusterRoles whose rules it gets; none when they are more than is left.
fn rules_of(role: &Value, left: &mut usize) -> Option<Vec<Rule>> {
    let mut rules = single_rules(role, left)?;
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    for selector in selectors.and_then(Value::as_array).into_iter().flatten() {
        let role = format!("ClusterRoles with {}", selector_text(selector));
        *left = left.checked_sub(1)?;
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
fn single_rules(role: &Value, left: &mut usize) -> Option<Vec<Rule>> {
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
        let [groups, resources, mut names, urls, verbs] = lists;
        if names.is_empty() {
            names.push("");
        }
        // Counted before any is made: a few thousand words each give more than fit into memory.
        let mut count = groups.len().checked_mul(resources.len())?;
        count = count.checked_mul(names.len())?.checked_add(urls.len())?;
        count = count.checked_mul(verbs.len().max(1))?;
        *left = left.checked_sub(count)?;
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
