//! RBAC that OLM did not make, read from the API server: the bindings that reach some accounts, and their roles.
//!
//! Read only when a ClusterServiceVersion's own roles are incomplete, and never kept: all RBAC of a cluster would be
//! most of this process's memory.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::{Api, Client, api::ListParams};
use olm_runtime::{discovery::deadline, error::ObserveError};

use crate::csv::{
    observe::Grants,
    rbac::coverage::{self, Binding, RoleKey},
};

/// Reads what is granted to `accounts` of `namespace`, there and in the whole cluster.
///
/// # Errors
/// When a read fails.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    accounts: &BTreeSet<&str>,
) -> Result<Grants, ObserveError> {
    if accounts.is_empty() {
        return Ok(Grants::default());
    }
    let namespaced: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    let what = format!("the RoleBindings of namespace {namespace}");
    let local = deadline(&what, namespaced.list(&ListParams::default())).await?;
    let cluster: Api<ClusterRoleBinding> = Api::all(client.clone());
    let global = deadline("the ClusterRoleBindings", cluster.list(&ListParams::default())).await?;
    let local = local.items.into_iter().map(|binding| Binding {
        namespace: Some(namespace.to_owned()),
        role: binding.role_ref,
        subjects: binding.subjects.unwrap_or_default(),
    });
    let global = global.items.into_iter().map(|binding| Binding {
        namespace: None,
        role: binding.role_ref,
        subjects: binding.subjects.unwrap_or_default(),
    });
    let bindings: Vec<Binding> = local.chain(global).collect();
    let held: BTreeSet<RoleKey> = accounts
        .iter()
        .flat_map(|name| {
            coverage::roles_of(coverage::Account { namespace, name }, Some(namespace), &bindings)
        })
        .collect();
    let mut roles = BTreeMap::new();
    for key in held {
        if let Some(rules) = rules(client, &key).await? {
            roles.insert(key, rules);
        }
    }
    Ok(Grants { bindings, roles })
}

async fn rules(
    client: &Client,
    (namespace, name): &RoleKey,
) -> Result<Option<Vec<PolicyRule>>, ObserveError> {
    match namespace {
        Some(namespace) => {
            let api: Api<Role> = Api::namespaced(client.clone(), namespace);
            let role = deadline(&format!("Role {namespace}/{name}"), api.get_opt(name)).await?;
            Ok(role.map(|role| role.rules.unwrap_or_default()))
        }
        None => {
            let api: Api<ClusterRole> = Api::all(client.clone());
            let role = deadline(&format!("ClusterRole {name}"), api.get_opt(name)).await?;
            Ok(role.map(|role| role.rules.unwrap_or_default()))
        }
    }
}
