//! Rights that the account of an extension needs, and the message about those that it lacks. Pure.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::quote;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};
use olm_runtime::review::Attributes;
use serde_json::Value;

use crate::apply::object::ObjectId;

/// Verbs on each object of a bundle. OLM itself reads them.
pub(super) const VERBS: [&str; 3] = ["create", "delete", "patch"];
const ALL: &str = "*";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A verb on a resource in a namespace, or on a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    /// Namespace; empty for the whole cluster.
    namespace: String,
    group: String,
    /// Plural name, with its subresource.
    resource: String,
    /// Name of the object; empty for all.
    name: String,
    /// Path; empty for a right on a resource.
    path: String,
    verb: String,
}

impl Right {
    /// Returns the right to a verb on an object.
    pub(super) fn on(id: &ObjectId, resource: &str, verb: &str) -> Self {
        Self {
            namespace: id.namespace.clone(),
            group: id.group.clone(),
            resource: resource.to_owned(),
            name: id.name.clone(),
            verb: verb.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the rights of `cluster-admin`, in a namespace or in the whole cluster if it is empty.
    pub(super) fn all(namespace: &str) -> [Self; 2] {
        let all = || ALL.to_owned();
        let on_resources = Self {
            namespace: namespace.to_owned(),
            group: all(),
            resource: all(),
            verb: all(),
            ..Self::default()
        };
        let on_paths = Self {
            path: all(),
            verb: all(),
            ..Self::default()
        };
        [on_resources, on_paths]
    }

    /// Returns the rights that rules give in a namespace, or in the whole cluster if it is empty.
    pub(super) fn of_rules(rules: &[PolicyRule], namespace: &str) -> BTreeSet<Self> {
        let mut rights = BTreeSet::new();
        for rule in rules {
            for verb in &rule.verbs {
                rights.extend(rule.non_resource_urls.iter().flatten().map(|path| Self {
                    path: path.clone(),
                    verb: verb.clone(),
                    ..Self::default()
                }));
                for group in rule.api_groups.iter().flatten() {
                    for resource in rule.resources.iter().flatten() {
                        let names = rule.resource_names.as_deref().unwrap_or_default();
                        let unnamed = names.is_empty().then(String::new);
                        rights.extend(names.iter().cloned().chain(unnamed).map(|name| Self {
                            namespace: namespace.to_owned(),
                            group: group.clone(),
                            resource: resource.clone(),
                            name,
                            path: String::new(),
                            verb: verb.clone(),
                        }));
                    }
                }
            }
        }
        rights
    }

    /// Returns the question to the API server.
    pub(super) fn attributes(&self) -> Attributes {
        if !self.path.is_empty() {
            return Attributes::Path {
                verb: self.verb.clone(),
                path: self.path.clone(),
            };
        }
        let parts = self.resource.split_once('/');
        let (resource, subresource) = parts.unwrap_or((self.resource.as_str(), ""));
        Attributes::Resource {
            verb: self.verb.clone().into(),
            group: self.group.clone().into(),
            version: "",
            namespace: self.namespace.clone(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: self.name.clone(),
        }
    }
}

/// Rules that an object of RBAC gives to others. Its author must have them, or a right of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grant {
    /// The right that permits it without having the rules.
    pub(super) without: Right,
    /// Namespace of the rules; empty for the whole cluster.
    pub(super) namespace: String,
    /// The rules as rights; `None` if the role is not in the bundle.
    pub(super) rules: Option<BTreeSet<Right>>,
    /// Role that a binding refers to.
    pub(super) role: Option<RoleRef>,
}

impl Grant {
    /// Returns what an object gives; `None` if it is no role and no binding. `objects` are all of the bundle.
    pub(super) fn of(id: &ObjectId, object: &Value, objects: &[Value]) -> Option<Self> {
        if id.group != RBAC {
            return None;
        }
        match id.kind.as_str() {
            "Role" | "ClusterRole" => Some(Self {
                without: Right::on(id, plural(&id.kind), "escalate"),
                namespace: id.namespace.clone(),
                rules: Some(rights(object, &id.namespace)),
                role: None,
            }),
            "RoleBinding" | "ClusterRoleBinding" => {
                let role: RoleRef = serde_json::from_value(object["roleRef"].clone()).ok()?;
                let is_referred = |other: &&Value| {
                    let other = ObjectId::of(other);
                    other.group == RBAC
                        && (&other.kind, &other.name) == (&role.kind, &role.name)
                        && (other.namespace.is_empty() || other.namespace == id.namespace)
                };
                let of_role = ObjectId {
                    name: role.name.clone(),
                    ..id.clone()
                };
                Some(Self {
                    without: Right::on(&of_role, plural(&role.kind), "bind"),
                    namespace: id.namespace.clone(),
                    rules: objects
                        .iter()
                        .find(is_referred)
                        .map(|role| rights(role, &id.namespace)),
                    role: Some(role),
                })
            }
            _ => None,
        }
    }
}

fn plural(kind: &str) -> &'static str {
    if kind == "Role" { "roles" } else { "clusterroles" }
}

/// Returns the rights that a role gives in a namespace. A role that collects the rules of others can have any.
fn rights(role: &Value, namespace: &str) -> BTreeSet<Right> {
    let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap_or_default();
    let mut rights = Right::of_rules(&rules, namespace);
    if !role["aggregationRule"].is_null() {
        rights.extend(Right::all(namespace));
    }
    rights
}

/// Returns the resource and the scope of a kind that a definition of the bundle defines; `None` if none does. The second value is true
/// for a kind with namespaces.
pub(super) fn defined<'a>(id: &ObjectId, objects: &'a [Value]) -> Option<(&'a str, bool)> {
    let mut definitions = objects
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .map(|object| &object["spec"]);
    let spec = definitions.find(|spec| spec["group"] == *id.group && spec["names"]["kind"] == *id.kind)?;
    Some((spec["names"]["plural"].as_str()?, spec["scope"] != "Cluster"))
}

/// Returns the message about rights that an account lacks, one line per rule, in upstream's former words.
pub(super) fn message(missing: &BTreeSet<Right>) -> String {
    // Each step merges what differs in one field only.
    let mut verbs: BTreeMap<Right, BTreeSet<&str>> = BTreeMap::new();
    for right in missing {
        let object = Right {
            verb: String::new(),
            ..right.clone()
        };
        verbs.entry(object).or_default().insert(&right.verb);
    }
    let mut names: BTreeMap<(Right, bool, BTreeSet<&str>), BTreeSet<String>> = BTreeMap::new();
    for (mut object, verbs) in verbs {
        let name = std::mem::take(&mut object.name);
        let key = (object, name.is_empty(), verbs);
        names.entry(key).or_default().insert(name);
    }
    let mut rules: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for ((object, _, verbs), names) in names {
        let is_path = !object.path.is_empty();
        let key = (object.namespace, object.group, names, verbs, is_path);
        let subject = if is_path { object.path } else { object.resource };
        rules.entry(key).or_default().insert(subject);
    }
    let list = |items: Vec<&str>| format!("[{}]", items.join(","));
    let mut text =
        "pre-authorization failed: service account requires the following permissions to manage cluster extension:"
            .to_owned();
    for ((namespace, group, names, verbs, is_path), subjects) in rules {
        let subjects = list(subjects.iter().map(String::as_str).collect());
        let verbs = list(verbs.into_iter().collect());
        let named: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        let names = if named.is_empty() {
            String::new()
        } else {
            format!(" ResourceNames:{}", list(named))
        };
        let namespace = quote(&namespace);
        text += &if is_path {
            format!("\n  Namespace:{namespace} Verbs:{verbs} NonResourceURLs:{subjects}")
        } else {
            format!("\n  Namespace:{namespace} APIGroups:[{group}] Resources:{subjects}{names} Verbs:{verbs}")
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(object: &Value) -> ObjectId {
        ObjectId::of(object)
    }

    fn role(kind: &str, namespace: &str, rules: &Value) -> Value {
        let api_version = "rbac.authorization.k8s.io/v1";
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "r", "namespace": namespace}, "rules": rules})
    }

    #[test]
    fn v1_002_what_is_missing_is_listed_once_and_grouped() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "d"}});
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name}});
        let mut missing = BTreeSet::new();
        for (object, resource) in [
            (&deployment, "deployments"),
            (&map("a"), "configmaps"),
            (&map("b"), "configmaps"),
        ] {
            missing.extend(VERBS.map(|verb| Right::on(&id(object), resource, verb)));
        }
        let rules: Vec<PolicyRule> = serde_json::from_value(json!([
            {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]))
        .unwrap();
        missing.extend(Right::of_rules(&rules, ""));
        assert_eq!(
            message(&missing).lines().collect::<Vec<_>>(),
            [
                "pre-authorization failed: service account requires the following permissions to manage cluster extension:",
                "  Namespace:\"\" Verbs:[get] NonResourceURLs:[/metrics]",
                "  Namespace:\"\" APIGroups:[] Resources:[pods,pods/log] Verbs:[get,list]",
                "  Namespace:\"\" APIGroups:[] Resources:[secrets] ResourceNames:[s] Verbs:[get]",
                "  Namespace:\"ns\" APIGroups:[] Resources:[configmaps] ResourceNames:[a,b] Verbs:[create,delete,patch]",
                "  Namespace:\"ns\" APIGroups:[apps] Resources:[deployments] ResourceNames:[d] Verbs:[create,delete,patch]",
            ]
        );
    }

    /// One row per object: the object, the right that permits it, and how many rules it gives; `None` if they are not in the bundle.
    #[test]
    fn v1_002_roles_and_bindings_give_rules() {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let in_ns = role("Role", "ns", &rules);
        let of_cluster = role("ClusterRole", "", &rules);
        let mut aggregated = of_cluster.clone();
        aggregated["aggregationRule"] = json!({"clusterRoleSelectors": []});
        let binding = |kind: &str, namespace: &str, role: &str, name: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "b", "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}, "subjects": [],
            })
        };
        let objects = [in_ns.clone(), of_cluster.clone()];
        for (object, without, count) in [
            (in_ns, ("ns", "roles", "r", "escalate"), Some(1)),
            (of_cluster, ("", "clusterroles", "r", "escalate"), Some(1)),
            (aggregated, ("", "clusterroles", "r", "escalate"), Some(3)),
            (
                binding("RoleBinding", "ns", "Role", "r"),
                ("ns", "roles", "r", "bind"),
                Some(1),
            ),
            (
                binding("RoleBinding", "other", "Role", "r"),
                ("other", "roles", "r", "bind"),
                None,
            ),
            (
                binding("RoleBinding", "ns", "ClusterRole", "r"),
                ("ns", "clusterroles", "r", "bind"),
                Some(1),
            ),
            (
                binding("ClusterRoleBinding", "", "ClusterRole", "admin"),
                ("", "clusterroles", "admin", "bind"),
                None,
            ),
        ] {
            let grant = Grant::of(&id(&object), &object, &objects).unwrap();
            let right = &grant.without;
            let found = (
                right.namespace.as_str(),
                right.resource.as_str(),
                right.name.as_str(),
                right.verb.as_str(),
            );
            assert_eq!(found, without, "{object}");
            assert_eq!(grant.rules.map(|rules| rules.len()), count, "{object}");
        }
    }

    #[test]
    fn the_question_names_the_subresource_apart() {
        let rules: Vec<PolicyRule> =
            serde_json::from_value(json!([{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]))
                .unwrap();
        let rights = Right::of_rules(&rules, "ns");
        let asked = serde_json::to_value(rights.first().unwrap().attributes()).unwrap();
        assert_eq!(
            (&asked["Resource"]["resource"], &asked["Resource"]["subresource"]),
            (&json!("pods"), &json!("log"))
        );
    }
}
