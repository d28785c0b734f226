//! RBAC that OLM did not make, read from the API server: the bindings that reach some accounts, and their roles.
//!
//! Read only when a ClusterServiceVersion's own roles are incomplete, and never kept: all RBAC of a cluster would be
//! most of this process's memory.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::{Api, Client, api::ListParams};
use olm_runtime::{NamespacedName, discovery::deadline, error::ObserveError, key::is_path_segment};

use crate::{
    csv::{
        coverage::{self, Binding, RoleKey},
        observed::Grants,
    },
    owner,
};

/// More namespaces than these are not asked one by one.
const ASKED_ONE_BY_ONE: usize = 8;
/// RoleBindings in a page of all.
const PAGE_SIZE: u32 = 500;

/// Reads what is granted to `accounts`, which are in the namespace of `csv`, in `namespaces` and in the whole cluster.
///
/// # Errors
/// When a read fails.
pub(super) async fn read(
    client: &Client,
    csv: &NamespacedName,
    namespaces: &BTreeSet<String>,
    accounts: &BTreeSet<&str>,
) -> Result<Grants, ObserveError> {
    if accounts.is_empty() {
        return Ok(Grants::default());
    }
    let namespace = csv.namespace.as_str();
    let local = role_bindings(client, namespaces).await?;
    let cluster: Api<ClusterRoleBinding> = Api::all(client.clone());
    let global = deadline("the ClusterRoleBindings", cluster.list(&ListParams::default())).await?;
    let bindings = bindings(csv, local, global.items);
    let held: BTreeSet<RoleKey> = accounts
        .iter()
        .flat_map(|name| {
            let account = coverage::Account { namespace, name };
            let bindings = bindings.as_slice();
            namespaces
                .iter()
                .flat_map(move |within| coverage::roles_of(account, Some(within), bindings))
        })
        .collect();
    let mut roles = BTreeMap::new();
    for key in held {
        if let Some(rules) = rules(client, csv, &key).await? {
            roles.insert(key, rules);
        }
    }
    Ok(Grants { bindings, roles })
}

/// The RoleBindings of these namespaces. Many namespaces are not asked one by one, round after round, but all in one list, of which
/// a page is in memory at a time.
async fn role_bindings(
    client: &Client,
    namespaces: &BTreeSet<String>,
) -> Result<Vec<RoleBinding>, ObserveError> {
    let mut found = Vec::new();
    if namespaces.len() <= ASKED_ONE_BY_ONE {
        for namespace in namespaces {
            let namespaced: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
            let what = format!("the RoleBindings of namespace {namespace}");
            let list = deadline(&what, namespaced.list(&ListParams::default())).await?;
            found.extend(list.items);
        }
        return Ok(found);
    }
    let all: Api<RoleBinding> = Api::all(client.clone());
    let mut page = ListParams::default().limit(PAGE_SIZE);
    loop {
        let list = deadline("the RoleBindings", all.list(&page)).await?;
        let within = list.items.into_iter().filter(|binding| {
            let namespace = binding.metadata.namespace.as_ref();
            namespace.is_some_and(|namespace| namespaces.contains(namespace))
        });
        found.extend(within);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}

/// The bindings that will stay: those made for another ClusterServiceVersion go with it, and counting them would let
/// this one lose its rights in the middle of an upgrade.
pub fn bindings(
    csv: &NamespacedName,
    local: Vec<RoleBinding>,
    global: Vec<ClusterRoleBinding>,
) -> Vec<Binding> {
    let local = local
        .into_iter()
        .filter(|binding| !owner::is_of_another(&binding.metadata, csv))
        .map(|binding| Binding {
            namespace: binding.metadata.namespace,
            role: binding.role_ref,
            subjects: binding.subjects.unwrap_or_default(),
        });
    let global = global
        .into_iter()
        .filter(|binding| !owner::is_of_another(&binding.metadata, csv))
        .map(|binding| Binding {
            namespace: None,
            role: binding.role_ref,
            subjects: binding.subjects.unwrap_or_default(),
        });
    local.chain(global).collect()
}

async fn rules(
    client: &Client,
    csv: &NamespacedName,
    (namespace, name): &RoleKey,
) -> Result<Option<Vec<PolicyRule>>, ObserveError> {
    // A binding may name anything; what cannot be asked for grants nothing.
    if !is_path_segment(name) {
        return Ok(None);
    }
    let (metadata, rules) = match namespace {
        Some(namespace) => {
            let api: Api<Role> = Api::namespaced(client.clone(), namespace);
            let role = deadline(&format!("Role {namespace}/{name}"), api.get_opt(name)).await?;
            let Some(role) = role else { return Ok(None) };
            (role.metadata, role.rules)
        }
        None => {
            let api: Api<ClusterRole> = Api::all(client.clone());
            let role = deadline(&format!("ClusterRole {name}"), api.get_opt(name)).await?;
            let Some(role) = role else { return Ok(None) };
            (role.metadata, role.rules)
        }
    };
    let stays = !owner::is_of_another(&metadata, csv);
    Ok(stays.then(|| rules.unwrap_or_default()))
}
