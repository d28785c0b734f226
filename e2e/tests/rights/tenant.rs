//! Users with few rights, and what the cluster grants.

use std::collections::BTreeMap;

use e2e::lab::{Lab, Namespace};
use serde_json::{Value, json};
use xtask::kubectl::text;

/// A user who has only the rights of `rules` in a namespace.
pub struct User<'a> {
    lab: &'static Lab,
    namespace: &'a Namespace<'static>,
    name: String,
}

impl<'a> User<'a> {
    pub fn new(namespace: &'a Namespace<'static>, rules: &Value) -> anyhow::Result<Self> {
        let name = format!("user-{}", namespace.name());
        let api = "rbac.authorization.k8s.io/v1";
        namespace.apply(&[
            json!({"apiVersion": api, "kind": "Role", "metadata": {"name": "trial-user"}, "rules": rules}),
            json!({"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": "trial-user"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "trial-user"},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]}),
        ])?;
        Ok(Self {
            lab: Lab::shared()?,
            namespace,
            name,
        })
    }

    pub fn create(&self, objects: &[Value]) -> anyhow::Result<()> {
        let (who, namespace) = (format!("--as={}", self.name), self.namespace.name());
        for object in objects {
            let mut object = object.clone();
            object["metadata"]["namespace"] = json!(namespace);
            self.lab
                .kubectl()
                .run_with_input(&["create", &who, "-n", namespace, "-f", "-"], &object.to_string())?;
        }
        Ok(())
    }

    pub fn patch(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        let (who, patch) = (format!("--as={}", self.name), patch.to_string());
        let words = [
            "patch",
            kind,
            name,
            &who,
            "-n",
            self.namespace.name(),
            "--type=merge",
            "-p",
            &patch,
        ];
        self.lab.kubectl().run(&words)?;
        Ok(())
    }
}

pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

pub fn writes_csvs() -> Value {
    rule(
        "operators.coreos.com",
        &["clusterserviceversions"],
        &["get", "create", "update", "patch"],
    )
}

/// Returns every binding with a subject of the namespace, and its role's rules: `kind namespace/name` to rules. The user's own
/// are ignored, and those of OperatorConditions, which have a fixed form. ClusterRoles of OperatorGroups are also ignored,
/// because OLM never binds them.
pub fn grants(namespace: &Namespace<'_>) -> anyhow::Result<BTreeMap<String, String>> {
    let kubectl = Lab::shared()?.kubectl();
    let mut found = BTreeMap::new();
    for kind in ["rolebinding", "clusterrolebinding"] {
        let list = kubectl.get(&[kind, "--all-namespaces"])?.unwrap_or_default();
        for binding in list["items"].as_array().into_iter().flatten() {
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            let concerns = subjects
                .into_iter()
                .any(|subject| subject["namespace"] == namespace.name());
            if !concerns || is_of_condition(binding) {
                continue;
            }
            let (role_kind, role) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
            let within = text(binding, "/metadata/namespace");
            let role = if role_kind == "Role" {
                kubectl.get(&["role", "-n", within, role])?
            } else {
                kubectl.get(&["clusterrole", role])?
            };
            let rules = role.map(|role| role["rules"].to_string()).unwrap_or_default();
            found.insert(
                format!("{kind} {within}/{}", text(binding, "/metadata/name")),
                rules,
            );
        }
    }
    // Roles without a binding count, too.
    let selector = format!("olm.owner.namespace={}", namespace.name());
    for kind in ["clusterrole", "role"] {
        let list = kubectl
            .get(&[kind, "--all-namespaces", "-l", &selector])?
            .unwrap_or_default();
        let roles = list["items"].as_array().into_iter().flatten();
        for role in roles.filter(|role| !is_of_condition(role) && !is_of_group(role)) {
            let name = format!(
                "{kind} {}/{}",
                text(role, "/metadata/namespace"),
                text(role, "/metadata/name")
            );
            found.insert(name, role["rules"].to_string());
        }
    }
    Ok(found)
}

fn is_of_condition(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["kind"] == "OperatorCondition")
}

fn is_of_group(object: &Value) -> bool {
    text(object, "/metadata/labels/olm.owner.kind") == "OperatorGroup"
}

/// Returns true if an access review allows a ServiceAccount of the namespace to do something.
pub fn may(
    namespace: &Namespace<'_>,
    account: &str,
    verb: &str,
    resource: &str,
    within: &str,
) -> anyhow::Result<bool> {
    let who = format!("--as=system:serviceaccount:{}:{account}", namespace.name());
    Lab::shared()?
        .kubectl()
        .can_i(&[verb, resource, "-n", within, &who])
}
