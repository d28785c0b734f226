//! Permissions of OLM's accounts in the chart.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rule::{Right, Subject};
use crate::kubectl::text;

/// Returns the permissions that `objects` grant to ServiceAccounts of `namespace`, without duplicates, in order.
///
/// # Errors
/// A binding names a role that is not among the objects, so its permissions are unknown.
pub(super) fn rights(objects: &[Value], namespace: &str) -> anyhow::Result<Vec<Right>> {
    let mut rights = BTreeSet::new();
    for binding in objects {
        let within = match text(binding, "/kind") {
            "ClusterRoleBinding" => None,
            "RoleBinding" => Some(text(binding, "/metadata/namespace")),
            _ => continue,
        };
        let accounts: Vec<&str> = list(binding, "subjects")
            .filter(|subject| text(subject, "/kind") == "ServiceAccount")
            .filter(|subject| text(subject, "/namespace") == namespace)
            .map(|subject| text(subject, "/name"))
            .collect();
        if accounts.is_empty() {
            continue;
        }
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let role = objects.iter().find(|object| {
            text(object, "/kind") == kind
                && text(object, "/metadata/name") == name
                && (kind == "ClusterRole" || Some(text(object, "/metadata/namespace")) == within)
        });
        let Some(role) = role else {
            anyhow::bail!(
                "{} {} binds the {kind} {name}, which is not among the manifests",
                text(binding, "/kind"),
                text(binding, "/metadata/name")
            );
        };
        for account in accounts {
            for rule in list(role, "rules") {
                rights.extend(of_rule(rule, account, name, within));
            }
        }
    }
    Ok(rights.into_iter().collect())
}

fn of_rule(rule: &Value, account: &str, role: &str, namespace: Option<&str>) -> Vec<Right> {
    let names: BTreeSet<String> = words(rule, "resourceNames").map(str::to_owned).collect();
    let subject = |group: &str, resource: &str| Subject {
        group: group.to_owned(),
        resource: resource.to_owned(),
    };
    let resources = words(rule, "apiGroups")
        .flat_map(|group| words(rule, "resources").map(move |resource| subject(group, resource)));
    let paths = words(rule, "nonResourceURLs").map(|path| subject("", path));
    let subjects: Vec<Subject> = resources.chain(paths).collect();
    let right = |subject: &Subject, verb: &str| Right {
        account: account.to_owned(),
        role: role.to_owned(),
        namespace: namespace.map(str::to_owned),
        subject: subject.clone(),
        names: names.clone(),
        verb: verb.to_owned(),
    };
    let of = |subject| words(rule, "verbs").map(move |verb| right(subject, verb));
    subjects.iter().flat_map(of).collect()
}

fn list<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object[field].as_array().into_iter().flatten()
}

fn words<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(rule, field).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(kind: &str, role_kind: &str, namespace: &str, accounts: &Value) -> Value {
        json!({"kind": kind, "metadata": {"name": "b", "namespace": namespace},
            "roleRef": {"kind": role_kind, "name": "r"}, "subjects": accounts})
    }

    fn role(kind: &str, rules: &Value) -> Value {
        json!({"kind": kind, "metadata": {"name": "r", "namespace": "olm"}, "rules": rules})
    }

    #[test]
    fn each_verb_on_each_resource_is_a_right_of_each_account() {
        let ours = json!([
            {"kind": "ServiceAccount", "name": "a", "namespace": "olm"},
            {"kind": "ServiceAccount", "name": "other", "namespace": "elsewhere"},
            {"kind": "User", "name": "a"},
        ]);
        let rules = json!([
            {"apiGroups": ["", "apps"], "resources": ["x", "y/status"], "verbs": ["get", "list"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]);
        let objects = [
            role("ClusterRole", &rules),
            binding("ClusterRoleBinding", "ClusterRole", "", &ours),
        ];
        let rights = rights(&objects, "olm").unwrap();
        assert_eq!(rights.len(), 9);
        assert!(
            rights
                .iter()
                .all(|right| right.account == "a" && right.namespace.is_none())
        );
        assert!(
            rights
                .iter()
                .any(|right| right.subject.to_string() == "y/status.apps" && right.verb == "list")
        );
        assert!(rights.iter().any(|right| right.subject.to_string() == "/metrics"));
    }

    #[test]
    fn a_role_binding_gives_rights_in_its_namespace_alone() {
        let accounts = json!([{"kind": "ServiceAccount", "name": "a", "namespace": "olm"}]);
        let rules =
            json!([{"apiGroups": [""], "resources": ["x"], "resourceNames": ["n"], "verbs": ["get"]}]);
        let bound = binding("RoleBinding", "Role", "olm", &accounts);
        let found = rights(&[role("Role", &rules), bound.clone()], "olm").unwrap();
        assert_eq!(found[0].namespace.as_deref(), Some("olm"));
        assert_eq!(found[0].names, BTreeSet::from(["n".to_owned()]));
        // A Role of another namespace is not the bound one.
        let elsewhere = binding("RoleBinding", "Role", "elsewhere", &accounts);
        assert!(rights(&[role("Role", &rules), elsewhere], "olm").is_err());
    }
}
