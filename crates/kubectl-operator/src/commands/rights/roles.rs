//! The rights to write the objects of a bundle, and all rights that these objects grant: in Kubernetes nobody can grant more than
//! they have. Pure.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::v1alpha1::ClusterServiceVersion;
use serde_json::{Value, json};

use crate::groups::ALL;

/// API group of Roles.
const RBAC: &str = "rbac.authorization.k8s.io";
/// Verbs to write an object.
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
/// API groups of objects by which rights in the whole cluster can be had: roles, webhook configurations and APIServices.
const POWERFUL: [&str; 3] = [RBAC, "admissionregistration.k8s.io", "apiregistration.k8s.io"];
/// Verbs to write such objects outside the own namespaces: users of the account must not remove or take over those of others.
const FEW_VERBS: [&str; 3] = ["get", "create", "patch"];
/// Kinds that OLM writes with its own rights, or that every operator needs.
const OF_OLM: [&str; 3] = [
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Subscription",
];
/// Namespace of the Role by which servers of APIs check their clients.
const KUBE_SYSTEM: &str = "kube-system";

/// The rules of a Role.
#[derive(Debug, Default)]
struct Rules {
    /// Resources to write, by API group.
    written: BTreeMap<String, BTreeSet<String>>,
    /// Rules that are granted to accounts of the operator.
    granted: Vec<Value>,
}

impl Rules {
    fn write(&mut self, group: &str, resources: &[&str]) {
        let written = self.written.entry(group.to_owned()).or_default();
        written.extend(resources.iter().map(|resource| (*resource).to_owned()));
    }

    fn grant<'a>(&mut self, rules: impl IntoIterator<Item = &'a Value>) {
        for rule in rules {
            if !self.granted.contains(rule) {
                self.granted.push(rule.clone());
            }
        }
    }

    /// Allows to bind a role of this kind whose rules are not in the bundle.
    fn bind(&mut self, kind: &str, name: &str) {
        let resource = plural(kind);
        let rule =
            json!({"apiGroups": [RBAC], "resources": [resource], "resourceNames": [name], "verbs": ["bind"]});
        self.grant([&rule]);
    }

    /// Returns the Role, or the ClusterRole without a namespace; `None` without rules.
    fn role(&self, name: &str, namespace: Option<&str>) -> Option<Value> {
        let is_shared = namespace.is_none_or(|namespace| namespace == KUBE_SYSTEM);
        let written = self.written.iter().map(|(group, resources)| {
            let verbs = match is_shared && POWERFUL.contains(&group.as_str()) {
                true => &FEW_VERBS[..],
                false => &VERBS[..],
            };
            json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
        });
        let rules: Vec<Value> = written.chain(self.granted.iter().cloned()).collect();
        let (kind, metadata) = match namespace {
            Some(namespace) => ("Role", json!({"name": name, "namespace": namespace})),
            None => ("ClusterRole", json!({"name": name})),
        };
        (!rules.is_empty()).then(|| {
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules})
        })
    }
}

/// Returns the Roles, and the ClusterRole if one is needed, to install a bundle in a namespace for these target namespaces.
pub(super) fn roles(
    package: &str,
    csv: &ClusterServiceVersion,
    objects: &[Value],
    namespace: &str,
    targets: &[String],
) -> Vec<Value> {
    let (mut own, mut elsewhere, mut system) = (Rules::default(), Rules::default(), Rules::default());
    let mut cluster = Rules::default();
    own.write(
        "operators.coreos.com",
        &["clusterserviceversions", "subscriptions"],
    );
    own.write("", &["serviceaccounts"]);
    own.write("apps", &["deployments"]);
    let install = &csv.spec.install;
    let permissions = install.permissions().iter();
    let rules = permissions.flat_map(|permission| &permission.rules);
    let rules: Vec<&Value> = rules.map(|rule| rule.raw()).collect();
    if !rules.is_empty() {
        own.write(RBAC, &["roles", "rolebindings"]);
        own.grant(rules.clone());
        // OLM carries these to the other target namespaces.
        match targets.iter().any(|target| target == ALL) {
            true => {
                cluster.write(RBAC, &["clusterroles", "clusterrolebindings"]);
                cluster.grant(rules);
            }
            false => {
                elsewhere.write(RBAC, &["roles", "rolebindings"]);
                elsewhere.grant(rules);
            }
        }
    }
    for permission in install.cluster_permissions() {
        cluster.write(RBAC, &["clusterroles", "clusterrolebindings"]);
        cluster.grant(permission.rules.iter().map(|rule| rule.raw()));
    }
    if !csv.spec.webhook_definitions.is_empty() {
        serve(&mut own);
        let configurations = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
        cluster.write("admissionregistration.k8s.io", &configurations);
    }
    if !csv.spec.owned_api_services().is_empty() {
        serve(&mut own);
        cluster.write("apiregistration.k8s.io", &["apiservices"]);
        cluster.write(RBAC, &["clusterrolebindings"]);
        cluster.bind("ClusterRole", "system:auth-delegator");
        system.write(RBAC, &["rolebindings"]);
        system.bind("Role", "extension-apiserver-authentication-reader");
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let has = |kind: &str, name: &str| {
        let mut all = objects.iter();
        all.any(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    };
    for object in objects {
        let (kind, version) = (text(&object["kind"]), text(&object["apiVersion"]));
        if kind.is_empty() || OF_OLM.contains(&kind.as_str()) {
            continue;
        }
        let rules = match is_cluster_scoped(&kind) {
            true => &mut cluster,
            false => &mut own,
        };
        let group = version.split_once('/').map_or("", |(group, _)| group);
        rules.write(group, &[&plural(&kind)]);
        match kind.as_str() {
            "Role" | "ClusterRole" => rules.grant(object["rules"].as_array().into_iter().flatten()),
            "RoleBinding" | "ClusterRoleBinding" => {
                let (of, name) = (text(&object["roleRef"]["kind"]), text(&object["roleRef"]["name"]));
                if !has(&of, &name) {
                    rules.bind(&of, &name);
                }
            }
            _ => {}
        }
    }
    let name = format!("{package}-installer");
    let mut made = vec![own.role(&name, Some(namespace))];
    let others = targets
        .iter()
        .filter(|target| *target != ALL && *target != namespace);
    made.extend(others.map(|target| elsewhere.role(&name, Some(target))));
    made.push(system.role(&format!("{name}-of-{namespace}"), Some(KUBE_SYSTEM)));
    made.push(cluster.role(&format!("{name}-of-{namespace}"), None));
    made.into_iter().flatten().collect()
}

/// Returns a warning if a role has rights outside the namespaces of the operator.
pub(super) fn reach(roles: &[Value], namespace: &str) -> Option<String> {
    let is_shared =
        |role: &Value| role["kind"] == "ClusterRole" || role["metadata"]["namespace"] == KUBE_SYSTEM;
    roles.iter().any(is_shared).then(|| {
        format!(
            "some of these rights are for the whole cluster or {KUBE_SYSTEM}; anyone who may edit namespace {namespace} can act as the account and use them"
        )
    })
}

/// Adds the objects by which OLM serves webhooks and APIs of an operator.
fn serve(own: &mut Rules) {
    own.write("", &["services", "secrets"]);
    own.write(RBAC, &["roles", "rolebindings"]);
}

/// Returns true for the kinds of bundles whose objects have no namespace.
fn is_cluster_scoped(kind: &str) -> bool {
    matches!(kind, "ClusterRole" | "ClusterRoleBinding" | "PriorityClass") || kind.starts_with("Console")
}

/// Returns the resource of a kind that a bundle may contain.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match (kind.strip_suffix('y'), kind.ends_with('s')) {
        (Some(stem), _) => format!("{stem}ies"),
        (None, true) => format!("{kind}es"),
        (None, false) => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> ClusterServiceVersion {
        let rule = |resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
        let of = |resource: &str| json!([{"serviceAccountName": "etcd", "rules": [rule(resource), rule(resource)]}]);
        serde_json::from_value(json!({"metadata": {"name": "etcd.v1.0.0"}, "spec": {"install": {"strategy": "deployment", "spec": {
            "deployments": [{"name": "etcd", "spec": {}}],
            "permissions": of("pods"), "clusterPermissions": of("nodes"),
        }}}}))
        .unwrap()
    }

    fn named(roles: &[Value]) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |role: &Value| {
            let metadata = &role["metadata"];
            format!(
                "{} {}/{}",
                text(&role["kind"]),
                text(&metadata["namespace"]),
                text(&metadata["name"])
            )
        };
        roles.iter().map(name).collect()
    }

    /// Returns the resources that a role has with a verb.
    fn with(role: &Value, verb: &str) -> Vec<String> {
        let rules = role["rules"].as_array().unwrap().iter();
        let rules = rules.filter(|rule| rule["verbs"].as_array().unwrap().contains(&json!(verb)));
        rules
            .flat_map(|rule| rule["resources"].as_array().unwrap())
            .map(|resource| resource.as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn an_account_needs_what_it_writes_and_what_it_grants() {
        let made = roles("etcd", &csv(), &[], "shop", &["shop".to_owned()]);
        assert_eq!(
            named(&made),
            ["Role shop/etcd-installer", "ClusterRole /etcd-installer-of-shop"]
        );
        assert_eq!(
            with(&made[0], "create"),
            [
                "serviceaccounts",
                "deployments",
                "clusterserviceversions",
                "subscriptions",
                "rolebindings",
                "roles"
            ]
        );
        assert_eq!(with(&made[0], "get").last().unwrap(), "pods");
        assert_eq!(with(&made[1], "create"), ["clusterrolebindings", "clusterroles"]);
        assert_eq!(
            with(&made[1], "get"),
            ["clusterrolebindings", "clusterroles", "nodes"]
        );
    }

    #[test]
    fn rights_are_needed_where_olm_carries_them() {
        let names = |targets: &[&str]| {
            let targets: Vec<String> = targets.iter().map(|name| (*name).to_owned()).collect();
            roles("etcd", &csv(), &[], "shop", &targets)
        };
        assert_eq!(
            named(&names(&["a", "shop"])),
            [
                "Role shop/etcd-installer",
                "Role a/etcd-installer",
                "ClusterRole /etcd-installer-of-shop"
            ]
        );
        assert_eq!(with(&names(&["a"])[1], "create"), ["rolebindings", "roles"]);
        let all = names(&[ALL]);
        assert_eq!(all.len(), 2);
        assert_eq!(
            with(&all[1], "get"),
            ["clusterrolebindings", "clusterroles", "pods", "nodes"]
        );
    }

    #[test]
    fn objects_of_a_bundle_are_written_and_foreign_roles_are_bound() {
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
        let mut foreign = object("rbac.authorization.k8s.io/v1", "RoleBinding");
        foreign["roleRef"] = json!({"kind": "ClusterRole", "name": "view"});
        let mut own = object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
        own["roleRef"] = json!({"kind": "ClusterRole", "name": "x"});
        let objects = [
            object("v1", "ConfigMap"),
            object("networking.k8s.io/v1", "NetworkPolicy"),
            object("scheduling.k8s.io/v1", "PriorityClass"),
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            object("rbac.authorization.k8s.io/v1", "ClusterRole"),
            foreign,
            own,
        ];
        let made = roles("etcd", &csv(), &objects, "shop", &["shop".to_owned()]);
        for (role, resource, is_written) in [
            (0, "configmaps", true),
            (0, "networkpolicies", true),
            (1, "priorityclasses", true),
            (1, "customresourcedefinitions", false),
        ] {
            let written = with(&made[role], "create");
            assert_eq!(
                written.iter().any(|found| found == resource),
                is_written,
                "{resource}"
            );
        }
        assert_eq!(with(&made[0], "bind"), ["clusterroles"]);
        assert!(with(&made[1], "bind").is_empty());
    }

    #[test]
    fn served_apis_need_the_bindings_of_kubernetes() {
        let mut csv = serde_json::to_value(csv()).unwrap();
        csv["spec"]["apiservicedefinitions"] = json!({"owned": [{"name": "x", "group": "g", "version": "v1", "kind": "K", "deploymentName": "etcd"}]});
        let csv: ClusterServiceVersion = serde_json::from_value(csv).unwrap();
        let made = roles("etcd", &csv, &[], "shop", &["shop".to_owned()]);
        assert_eq!(
            named(&made),
            [
                "Role shop/etcd-installer",
                "Role kube-system/etcd-installer-of-shop",
                "ClusterRole /etcd-installer-of-shop"
            ]
        );
        assert_eq!(with(&made[1], "bind"), ["roles"]);
        assert_eq!(with(&made[2], "bind"), ["clusterroles"]);
        for role in &made[1..] {
            for verb in ["update", "delete", "list"] {
                assert!(with(role, verb).is_empty(), "{verb}: {role}");
            }
        }
        assert_eq!(with(&made[1], "patch"), ["rolebindings"]);
        assert!(with(&made[0], "delete").contains(&"rolebindings".to_owned()));
        assert!(reach(&made, "shop").is_some_and(|text| text.contains("edit namespace shop")));
        assert_eq!(reach(&made[..1], "shop"), None);
        assert!(with(&made[0], "create").contains(&"secrets".to_owned()));
    }
}
