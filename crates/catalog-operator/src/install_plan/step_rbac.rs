//! ServiceAccounts, Roles, ClusterRoles and bindings that a ClusterServiceVersion's install strategy asks for.
//!
//! Names and hash labels are bit-identical to upstream's: plans pending approval across a change of the operator's
//! implementation depend on it, and `olm-operator` finds the same objects by the same names.

use std::collections::BTreeSet;

use olm_api::labels;
use olm_api::permission::{self, Permission};
use serde_json::{Value, json};

use crate::object;

/// Kinds of role and binding of a permission that holds in the namespace, and of one that holds in the cluster.
const NAMESPACE: [&str; 2] = ["Role", "RoleBinding"];
const CLUSTER: [&str; 2] = ["ClusterRole", "ClusterRoleBinding"];
/// The ServiceAccount every namespace has; it is never made here.
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

/// The objects for a ClusterServiceVersion in `namespace`, in upstream's order made deterministic: for each permission its
/// ServiceAccount (once), Role and RoleBinding, then for each cluster permission ServiceAccount, ClusterRole and binding.
///
/// # Errors
/// The permissions cannot be read.
pub(crate) fn rbac_objects(csv: &Value, namespace: &str) -> Result<Vec<Value>, String> {
    let name = object::name(csv);
    let owner = Owner { csv: name, namespace };
    let mut accounts = BTreeSet::from([DEFAULT_SERVICE_ACCOUNT.to_owned()]);
    let mut objects = Vec::new();
    for (field, scope) in [("permissions", NAMESPACE), ("clusterPermissions", CLUSTER)] {
        for permission in permissions(csv, field)? {
            if accounts.insert(permission.service_account_name.clone()) {
                objects.push(owner.service_account(&permission.service_account_name));
            }
            let role = if scope == CLUSTER {
                permission.cluster_role_name(name, namespace)
            } else {
                permission.role_name(name)
            };
            let made = role.and_then(|role| owner.role_and_binding(scope, &role, &permission));
            objects.extend(made.map_err(unreadable(field, name))?);
        }
    }
    Ok(objects)
}

fn permissions(csv: &Value, field: &str) -> Result<Vec<Permission>, String> {
    match csv.pointer("/spec/install/spec").and_then(|spec| spec.get(field)) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(list) => serde_json::from_value(list.clone()).map_err(unreadable(field, object::name(csv))),
    }
}

/// A list of permissions has another shape than the API wants.
fn unreadable(field: &str, csv: &str) -> impl Fn(serde_json::Error) -> String {
    move |error| format!("cannot read spec.install.spec.{field} of ClusterServiceVersion {csv}: {error}")
}

/// The ClusterServiceVersion the objects belong to.
#[derive(Clone, Copy)]
struct Owner<'a> {
    csv: &'a str,
    namespace: &'a str,
}

impl Owner<'_> {
    fn service_account(self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "ownerReferences": [object::csv_owner_reference(self.csv, "")],
            },
        })
    }

    /// The role and the binding of the same name.
    fn role_and_binding(
        self,
        scope: [&str; 2],
        name: &str,
        permission: &Permission,
    ) -> Result<[Value; 2], serde_json::Error> {
        let [role_kind, binding_kind] = scope;
        let role_ref = permission::role_ref(role_kind, name);
        let subjects = [permission::service_account_subject(
            self.namespace,
            &permission.service_account_name,
        )];
        let rules = permission.rules.as_deref().unwrap_or_default();
        let mut role = self.rbac_object(role_kind, name, &permission.rules_hash()?);
        object::set(&mut role, "rules", serde_json::to_value(rules)?);
        let hash = permission::binding_hash(&role_ref, &subjects)?;
        let mut binding = self.rbac_object(binding_kind, name, &hash);
        object::set(&mut binding, "subjects", serde_json::to_value(&subjects)?);
        object::set(&mut binding, "roleRef", serde_json::to_value(&role_ref)?);
        Ok([role, binding])
    }

    fn rbac_object(self, kind: &str, name: &str, permissions_hash: &str) -> Value {
        let mut object = json!({
            "apiVersion": format!("{}/v1", permission::API_GROUP),
            "kind": kind,
            "metadata": { "name": name, "labels": { labels::PERMISSIONS_HASH: permissions_hash } },
        });
        object::set_owner_labels(&mut object, self.csv, self.namespace);
        if NAMESPACE.contains(&kind) {
            let metadata = object::map_mut(&mut object, "metadata");
            metadata.insert("namespace".to_owned(), self.namespace.into());
            metadata.insert(
                "ownerReferences".to_owned(),
                json!([object::csv_owner_reference(self.csv, "")]),
            );
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(permissions: &Value, cluster_permissions: &Value) -> Value {
        json!({"metadata": {"name": "demo.v1.0.0"}, "spec": {"install": {"spec": {
            "permissions": permissions, "clusterPermissions": cluster_permissions}}}})
    }

    fn permission(account: &str, group: &str, resource: &str) -> Value {
        json!([{"serviceAccountName": account, "rules": [{"apiGroups": [group], "resources": [resource], "verbs": ["*"]}]}])
    }

    fn lines(objects: &[Value]) -> Vec<String> {
        let line = |object: &Value| {
            let hash =
                object::metadata_entries(object, "labels").find(|(key, _)| *key == labels::PERMISSIONS_HASH);
            let owned = if object::owner_references(object).is_empty() {
                ""
            } else {
                " owned"
            };
            format!(
                "{}/{} {}{owned}",
                object::kind(object),
                object::name(object),
                hash.map_or("", |(_, hash)| hash)
            )
        };
        objects.iter().map(line).collect()
    }

    /// Names and hash labels as in a real cluster.
    #[test]
    fn ip_012_names_and_hashes_are_upstreams() {
        let csv = csv(
            &permission("demo", "", "configmaps"),
            &permission("demo", "example.com", "demos"),
        );
        insta::assert_snapshot!(lines(&rbac_objects(&csv, "golden").unwrap()).join("\n"), @r"
        ServiceAccount/demo  owned
        Role/demo.v1.0.0-demo-37qESDd0KBt6dNrSG9rayqj7oeQh8bsKO50dxQ cSd3g0vXrUNxTA2ev1HX3CPpuvv5nZAXbcoZMJ owned
        RoleBinding/demo.v1.0.0-demo-37qESDd0KBt6dNrSG9rayqj7oeQh8bsKO50dxQ 2eBh2KEk4MoIhFePmWWX8sD3VfE8NOcAFKWwRS owned
        ClusterRole/demo.v1.0.0-89YgvU582s40bAWGY2ZAe9Al7i63ZZkWx9IMxN 4f9nGTRWTCToXAjVCXmntlJyHMHK5bTqfIulTf
        ClusterRoleBinding/demo.v1.0.0-89YgvU582s40bAWGY2ZAe9Al7i63ZZkWx9IMxN 3RlQSiNFxBiUNqLsY5FKJun4iyGGqJIUueSJg3
        ");
        // The namespace is part of a ClusterRole's name only.
        let elsewhere = rbac_objects(&csv, "operators").unwrap();
        assert_eq!(
            object::name(&elsewhere[1]),
            "demo.v1.0.0-demo-37qESDd0KBt6dNrSG9rayqj7oeQh8bsKO50dxQ"
        );
        assert_eq!(
            object::name(&elsewhere[3]),
            "demo.v1.0.0-7ECJ83h2mza9msYuio3BkGSUUcfGfWF2dpGGF8"
        );
    }

    #[test]
    fn default_account_is_never_made_and_others_once() {
        let kinds = |csv: &Value| -> Vec<String> {
            rbac_objects(csv, "ns")
                .unwrap()
                .iter()
                .map(|object| {
                    format!(
                        "{}/{}",
                        object::kind(object),
                        object::name(object).split('-').next().unwrap()
                    )
                })
                .collect()
        };
        let default = csv(&permission("default", "", "pods"), &Value::Null);
        assert_eq!(kinds(&default), ["Role/demo.v1.0.0", "RoleBinding/demo.v1.0.0"]);
        let twice = csv(
            &json!([{"serviceAccountName": "a", "rules": []}, {"serviceAccountName": "a"}]),
            &Value::Null,
        );
        assert_eq!(kinds(&twice)[0], "ServiceAccount/a");
        assert_eq!(kinds(&twice).len(), 5);
    }

    #[test]
    fn unreadable_permissions_name_field_and_csv() {
        let error = rbac_objects(&csv(&json!([{"rules": []}]), &Value::Null), "ns").unwrap_err();
        insta::assert_snapshot!(error, @"cannot read spec.install.spec.permissions of ClusterServiceVersion demo.v1.0.0: missing field `serviceAccountName`");
    }
}
