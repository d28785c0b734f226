//! ServiceAccounts, Roles and bindings of an install strategy.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use olm_api::permission::{self, Permission};
use olm_api::v1alpha1::StrategyDeploymentPermissions;
use serde_json::{Value, json};

use super::object::{self, hashed_name};
use super::{Context, RenderError};

/// Account of permissions that name none. Every namespace has it.
const DEFAULT_ACCOUNT: &str = "default";

/// Returns the ServiceAccounts that permissions name and that the bundle does not contain itself, sorted.
pub(super) fn service_accounts(context: &Context<'_>) -> Vec<Value> {
    let install = &context.bundle.csv.spec.install;
    let all = install.permissions().iter().chain(install.cluster_permissions());
    let mut names: BTreeSet<&str> = all.map(account).collect();
    names.remove(DEFAULT_ACCOUNT);
    let others = context.bundle.others.iter().map(|file| &file.object);
    for other in others.filter(|other| object::kind(other) == "ServiceAccount") {
        names.remove(object::name(other));
    }
    let object = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": context.namespace}})
    };
    names.into_iter().map(object).collect()
}

/// Returns the roles of all permissions and their bindings. Namespaced permissions are for the watched namespace. If the operator watches
/// all namespaces, they become ClusterRoles, and may also read namespaces.
///
/// # Errors
/// A rule does not decode.
pub(super) fn roles(context: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    let install = &context.bundle.csv.spec.install;
    let watched = context.watch_namespace.as_ref();
    let mut objects = Vec::new();
    for entry in install.cluster_permissions() {
        let rules = entry.decode_rules()?;
        objects.extend(role_and_binding(context, None, entry, &rules)?);
    }
    for entry in install.permissions() {
        let mut rules = entry.decode_rules()?;
        if watched.is_none() {
            rules.push(PolicyRule {
                verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
                api_groups: Some(vec![String::new()]),
                resources: Some(vec!["namespaces".to_owned()]),
                ..PolicyRule::default()
            });
        }
        objects.extend(role_and_binding(context, watched, entry, &rules)?);
    }
    Ok(objects)
}

fn account(entry: &StrategyDeploymentPermissions) -> &str {
    match entry.service_account_name.as_str() {
        "" => DEFAULT_ACCOUNT,
        name => name,
    }
}

/// Returns the Role of a permission in a namespace, or its ClusterRole, and the binding of the same name.
fn role_and_binding(
    context: &Context<'_>,
    namespace: Option<&String>,
    entry: &StrategyDeploymentPermissions,
    rules: &[PolicyRule],
) -> Result<[Value; 2], RenderError> {
    let account = account(entry);
    let (role, binding) = match namespace {
        Some(_) => ("Role", "RoleBinding"),
        None => ("ClusterRole", "ClusterRoleBinding"),
    };
    let base = format!("{}-{account}", context.bundle.csv_name());
    let hashed = Permission::new(&entry.service_account_name, rules);
    let name = hashed_name(&base, &hashed)?;
    let api_version = format!("{}/v1", permission::API_GROUP);
    let metadata = json!({"name": name, "namespace": namespace});
    Ok([
        json!({"apiVersion": api_version, "kind": role, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": api_version, "kind": binding, "metadata": metadata,
            "subjects": [permission::service_account_subject(context.namespace, account)],
            "roleRef": permission::role_ref(role, &name),
        }),
    ])
}
