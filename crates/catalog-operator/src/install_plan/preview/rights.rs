//! What accounts gain and lose between two sets of Roles and bindings. Pure.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::labels;
use olm_api::plan_preview::{PERMISSIONS, PermissionChange, Rule};
use olm_api::user_role::{KUBERNETES_AGGREGATE_PREFIX, is_api_label};
use serde_json::Value;

use crate::object;
use crate::step_kind::StepKind;

/// Verbs on resources that are compared, of one side. A bundle of a whole platform has some hundreds.
const COMPARED: usize = 5000;

/// Who may do something where: the subject, and a namespace, empty for the whole cluster.
type Holder = (String, String);
/// One verb on one resource each.
type Grants = BTreeMap<Holder, BTreeSet<Rule>>;

/// What each subject gains and loses when `before` becomes `after`, and what cannot be said. Objects are as plans have them:
/// bindings refer to Roles among them, or to others, whose rules are not known.
pub(super) fn changes(
    before: &[Value],
    after: &[Value],
    namespace: &str,
) -> (Vec<PermissionChange>, Option<String>) {
    let (Some(before), Some(after)) = (grants(before, namespace), grants(after, namespace)) else {
        let text = format!("{PERMISSIONS}: more than {COMPARED} verbs on resources, which are not compared");
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
    let covering: Vec<&BTreeSet<Rule>> = [from.get(holder), from.get(&everywhere)]
        .into_iter()
        .flatten()
        .collect();
    // Most are there as they are; only those that stand for many have to be tried one by one.
    let broad: Vec<&Rule> = covering
        .iter()
        .flat_map(|rules| rules.iter())
        .filter(|rule| is_broad(rule))
        .collect();
    let rules = of.get(holder).into_iter().flatten().filter(|rule| {
        let is_there = covering.iter().any(|rules| rules.contains(*rule));
        !is_there && !broad.iter().any(|other| covers(other, rule))
    });
    let mut by_resource: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for rule in rules {
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

fn is_broad(rule: &Rule) -> bool {
    let has_star = |text: &str| text.contains('*');
    rule.resource_name.is_empty() && rule.role.is_empty()
        || [&rule.group, &rule.resource, &rule.url]
            .into_iter()
            .any(|text| has_star(text))
        || rule.verbs.iter().any(|verb| has_star(verb))
}

/// Whether whoever may do the first may do the second.
fn covers(broad: &Rule, rule: &Rule) -> bool {
    let is_part = |broad: &str, one: &str| broad == "*" || broad == one;
    fn verb(rule: &Rule) -> &str {
        rule.verbs.first().map_or("", String::as_str)
    }
    let resource = || {
        let of_all = broad
            .resource
            .strip_prefix("*/")
            .zip(rule.resource.split_once('/'));
        is_part(&broad.resource, &rule.resource) || of_all.is_some_and(|(all, (_, one))| all == one)
    };
    let url = || match broad.url.strip_suffix('*') {
        Some(start) => rule.url.starts_with(start),
        None => broad.url == rule.url,
    };
    if !broad.role.is_empty() || !rule.role.is_empty() || broad.url.is_empty() != rule.url.is_empty() {
        return false;
    }
    is_part(verb(broad), verb(rule))
        && match rule.url.is_empty() {
            true => {
                is_part(&broad.group, &rule.group)
                    && resource()
                    && (broad.resource_name.is_empty() || broad.resource_name == rule.resource_name)
            }
            false => url(),
        }
}

/// Who may do what; none when it is too much.
fn grants(objects: &[Value], namespace: &str) -> Option<Grants> {
    let mut grants = Grants::new();
    let mut left = COMPARED;
    for binding in objects {
        let scope = match StepKind::of(object::kind(binding)) {
            Some(StepKind::ClusterRole) => {
                for holder in aggregated_to(binding) {
                    let rules = rules_of(binding, left)?;
                    let cost = rules.len() + 1;
                    left = left.checked_sub(cost)?;
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
        let mut roles = objects.iter();
        let role = roles.find(|role| object::kind(role) == kind && object::name(role) == name);
        let rules = match role {
            Some(role) => rules_of(role, left)?,
            None => vec![Rule {
                role: format!("{kind} {name}"),
                ..Rule::default()
            }],
        };
        // What is read of a role costs, also where nobody gets it.
        left = left.checked_sub(rules.len().max(1))?;
        let subjects = binding.get("subjects").and_then(Value::as_array);
        for subject in subjects.into_iter().flatten() {
            left = left.checked_sub(rules.len())?;
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

/// The rules of a role, and the ClusterRoles whose rules it gets; none when they are more than `most`.
fn rules_of(role: &Value, most: usize) -> Option<Vec<Rule>> {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    let selectors = selectors.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut rules = single_rules(role, most.checked_sub(selectors.len())?)?;
    rules.extend(selectors.iter().map(|selector| Rule {
        role: format!("ClusterRoles with {}", selector_text(selector)),
        ..Rule::default()
    }));
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

/// The rules of a role with one verb on one resource each; none when they are more than `most`.
fn single_rules(role: &Value, most: usize) -> Option<Vec<Rule>> {
    let mut single = Vec::new();
    let mut left = most;
    for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
        let list = |field: &str| texts(rule, field);
        let names = list("resourceNames");
        let names = if names.is_empty() { vec![""] } else { names };
        // Counted before any is made: a few thousand words each give more than fit into memory.
        let mut targets = list("apiGroups").len().checked_mul(list("resources").len())?;
        targets = targets
            .checked_mul(names.len())?
            .checked_add(list("nonResourceURLs").len())?;
        left = left.checked_sub(targets.checked_mul(list("verbs").len())?)?;
        for verb in list("verbs") {
            let verbs = || vec![verb.to_owned()];
            for url in list("nonResourceURLs") {
                single.push(Rule {
                    url: url.to_owned(),
                    verbs: verbs(),
                    ..Rule::default()
                });
            }
            for group in list("apiGroups") {
                for resource in list("resources") {
                    single.extend(names.iter().map(|name| Rule {
                        group: group.to_owned(),
                        resource: resource.to_owned(),
                        resource_name: (*name).to_owned(),
                        verbs: verbs(),
                        ..Rule::default()
                    }));
                }
            }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
    fn role(kind: &str, name: &str, account: &str, rules: Value) -> [Value; 2] {
        let binding = json!({"kind": format!("{kind}Binding"), "metadata": {"name": name}, "roleRef": {"kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "ns"}]});
        [
            json!({"kind": kind, "metadata": {"name": name}, "rules": rules}),
            binding,
        ]
    }

    fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
    }

    fn told(before: &[Value], after: &[Value]) -> Vec<String> {
        let (changes, trouble) = changes(before, after, "ns");
        assert_eq!(trouble, None);
        let text = |rule: &Rule| {
            let Rule {
                group,
                resource,
                resource_name,
                url,
                role,
                verbs,
            } = rule;
            format!("{group}/{resource}{resource_name}{url}{role} {}", verbs.join(","))
        };
        let mut lines = Vec::new();
        for change in &changes {
            let holder = format!("{} in '{}'", change.subject, change.namespace);
            lines.extend(
                change
                    .gained
                    .iter()
                    .map(|rule| format!("{holder} + {}", text(rule))),
            );
            lines.extend(
                change
                    .lost
                    .iter()
                    .map(|rule| format!("{holder} - {}", text(rule))),
            );
        }
        lines
    }

    #[test]
    fn what_is_gained_and_lost_is_told_by_account_and_scope() {
        let before = role(
            "Role",
            "a.v1",
            "demo",
            json!([rule("", "pods", &["get", "delete"])]),
        );
        let mut after = role(
            "Role",
            "a.v2",
            "demo",
            json!([rule("", "pods", &["get", "list"])]),
        )
        .to_vec();
        after.extend(role(
            "ClusterRole",
            "b.v2",
            "demo",
            json!([rule("apps", "deployments", &["create"])]),
        ));
        assert_eq!(
            told(&before, &after),
            [
                "ServiceAccount demo in '' + apps/deployments create",
                "ServiceAccount demo in 'ns' + /pods list",
                "ServiceAccount demo in 'ns' - /pods delete",
            ]
        );
    }

    #[test]
    fn what_was_covered_before_is_not_gained() {
        let one = |rules: Value| role("ClusterRole", "r", "demo", rules);
        let rows = [
            (
                rule("*", "*", &["*"]),
                rule("apps", "deployments", &["get"]),
                vec!["ServiceAccount demo in '' - */* *"],
            ),
            (
                rule("", "*", &["get"]),
                rule("", "pods", &["get"]),
                vec!["ServiceAccount demo in '' - /* get"],
            ),
            (
                rule("", "*/status", &["get"]),
                rule("", "pods/status", &["get"]),
                vec!["ServiceAccount demo in '' - /*/status get"],
            ),
            (
                rule("", "pods", &["get"]),
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x"]}),
                vec!["ServiceAccount demo in '' - /pods get"],
            ),
            (
                json!({"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]}),
                json!({"nonResourceURLs": ["/metrics/a"], "verbs": ["get"]}),
                vec!["ServiceAccount demo in '' - //metrics/* get"],
            ),
            (rule("", "pods", &["get"]), rule("", "pods", &["get"]), vec![]),
        ];
        for (before, after, expected) in rows {
            assert_eq!(
                told(&one(json!([before])), &one(json!([after]))),
                expected,
                "{before} {after}"
            );
            // The other way round it is.
            let back = told(&one(json!([after])), &one(json!([before])));
            assert!(back.iter().all(|line| line.contains(" + ")), "{back:?}");
            assert_eq!(back.is_empty(), expected.is_empty(), "{before} {after}");
        }
        // Whoever may do everything with one object may not do one thing with all.
        let everything =
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"], "resourceNames": ["x"]});
        let gained = told(
            &one(json!([everything])),
            &one(json!([rule("", "pods", &["get"])])),
        );
        assert_eq!(
            gained,
            [
                "ServiceAccount demo in '' + /pods get",
                "ServiceAccount demo in '' - /podsx *"
            ]
        );
        // What counts in the whole cluster counts in the namespace.
        let namespaced = role("Role", "r", "demo", json!([rule("", "pods", &["get"])]));
        let lost = told(&one(json!([rule("", "pods", &["get"])])), &namespaced);
        assert_eq!(lost, ["ServiceAccount demo in '' - /pods get"]);
    }

    #[test]
    fn a_role_that_is_not_in_the_plan_is_named() {
        let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "eve"}, {"kind": "ServiceAccount", "name": "x", "namespace": "other"}]});
        assert_eq!(
            told(&[], &[binding]),
            [
                "ServiceAccount other/x in '' + /ClusterRole cluster-admin ",
                "User eve in '' + /ClusterRole cluster-admin "
            ]
        );
    }

    /// Nobody is bound to it, and everybody who may edit may do it then.
    #[test]
    fn rules_that_are_added_to_roles_of_others_are_told() {
        let aggregated = |labels: Value, verbs: &[&str]| json!({"kind": "ClusterRole", "metadata": {"name": "x", "labels": labels}, "rules": [rule("", "secrets", verbs)]});
        let to_edit = json!({"rbac.authorization.k8s.io/aggregate-to-edit": "true", "a": "true"});
        let gained = told(&[], &[aggregated(to_edit.clone(), &["get"])]);
        assert_eq!(gained, ["ClusterRole edit in '' + /secrets get"]);
        let before = [aggregated(to_edit.clone(), &["get", "list"])];
        let lost = told(&before, &[aggregated(to_edit, &["get"])]);
        assert_eq!(lost, ["ClusterRole edit in '' - /secrets list"]);
        let to_group = json!({"olm.opgroup.permissions/aggregate-to-ddb619aba476937e-admin": "true"});
        assert_eq!(
            told(&[], &[aggregated(to_group, &["get"])]),
            [
                "ClusterRoles with olm.opgroup.permissions/aggregate-to-ddb619aba476937e-admin in '' + /secrets get"
            ]
        );
        let not = json!({"rbac.authorization.k8s.io/aggregate-to-edit": "false"});
        assert_eq!(told(&[], &[aggregated(not, &["get"])]), Vec::<String>::new());
        // As many roles as there are labels: each costs.
        let labels: serde_json::Map<String, Value> = (0..60)
            .map(|number| {
                (
                    format!("rbac.authorization.k8s.io/aggregate-to-{number}"),
                    json!("true"),
                )
            })
            .collect();
        let verbs: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
        let (found, trouble) = changes(&[], &[aggregated(Value::Object(labels), &verbs)], "ns");
        assert!(found.is_empty() && trouble.is_some());
    }

    #[test]
    fn a_role_that_gathers_the_rules_of_others_is_told_as_those() {
        let selectors = json!([{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "Exists"}]}, {}]);
        let mut objects = role("ClusterRole", "all", "demo", json!([]));
        objects[0]["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        assert_eq!(
            told(&[], &objects),
            [
                "ServiceAccount demo in '' + /ClusterRoles with a=b, c In (d,e), f Exists ",
                "ServiceAccount demo in '' + /ClusterRoles with any labels ",
            ]
        );
        objects[0]["aggregationRule"] = json!({"clusterRoleSelectors": vec![json!({}); COMPARED + 1]});
        assert!(changes(&[], &objects, "ns").1.is_some());
    }

    #[test]
    fn more_rules_than_can_be_compared_are_told() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|number| number.to_string()).collect() };
        let of_urls = json!([{"nonResourceURLs": names(100_000), "verbs": names(100_000)}]);
        let of_resources = json!([{"apiGroups": names(200), "resources": names(200), "verbs": names(200)}]);
        let many = json!([{"nonResourceURLs": names(50), "verbs": names(50)}]);
        let mut of_nobody = role("Role", "r", "demo", many);
        for binding in of_nobody
            .iter_mut()
            .filter(|object| object["kind"] == "RoleBinding")
        {
            binding["subjects"] = json!([]);
        }
        let bindings: Vec<Value> = of_nobody
            .iter()
            .cycle()
            .take(100 * of_nobody.len())
            .cloned()
            .collect();
        for objects in [
            role("Role", "r", "demo", of_urls).to_vec(),
            role("Role", "r", "demo", of_resources).to_vec(),
            bindings,
        ] {
            let (found, trouble) = changes(&[], &objects, "ns");
            assert!(found.is_empty() && trouble.is_some_and(|text| text.contains("5000")));
        }
    }
}
