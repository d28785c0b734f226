//! RBAC that OLM did not create, read from the API server: the bindings that apply to some accounts, and
//! their roles.
//!
//! It is only read when a ClusterServiceVersion's own roles are incomplete. It is never stored, because all
//! RBAC of a cluster would need most of this process's memory. For the same reason long lists are read page
//! by page.

use std::{collections::BTreeSet, fmt::Debug};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::{Api, Client, Resource, api::ListParams};
use olm_runtime::{NamespacedName, discovery::deadline, error::ObserveError, key::is_path_segment};
use serde::de::DeserializeOwned;

use crate::{
    csv::{
        coverage::{self, Binding, RoleKey},
        observe::stored::is_replica,
        observed::{ForeignGrants, RbacKey},
    },
    owner,
};

/// Up to this number, namespaces are listed one by one in each reconcile; beyond it, all are listed at once.
const ASKED_ONE_BY_ONE: usize = 8;
/// Page size of lists of bindings.
const PAGE_SIZE: u32 = 500;

/// Parameters of the read.
pub(super) struct Reading<'a> {
    pub(super) client: &'a Client,
    pub(super) csv: NamespacedName,
    /// Names of its ServiceAccounts.
    pub(super) accounts: &'a BTreeSet<String>,
    /// Namespaces in which the rights must apply.
    pub(super) namespaces: BTreeSet<String>,
}

impl Reading<'_> {
    /// Reads the rights that RoleBindings of the namespaces grant.
    ///
    /// # Errors
    /// When a read fails.
    pub(super) async fn in_namespaces(&self) -> Result<ForeignGrants, ObserveError> {
        let mut grants = ForeignGrants::default();
        let mut found = Vec::new();
        each_role_binding(self.client, &self.namespaces, |binding| {
            found.extend(self.relevant(binding));
        })
        .await?;
        self.add(&mut grants, found).await?;
        Ok(grants)
    }

    /// Adds the grants of ClusterRoleBindings.
    ///
    /// # Errors
    /// When a read fails.
    pub(super) async fn add_cluster_wide(&self, grants: &mut ForeignGrants) -> Result<(), ObserveError> {
        let all: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let mut found = Vec::new();
        each_page(&all, "the ClusterRoleBindings", |binding| {
            found.extend(self.relevant(binding));
        })
        .await?;
        self.add(grants, found).await
    }

    /// Returns the binding if it grants one of the accounts a role permanently. Bindings created for another
    /// ClusterServiceVersion are excluded. They are deleted with it, and counting them would make this one
    /// lose its rights in the middle of an upgrade.
    fn relevant<K: Resource + Into<Binding>>(&self, object: K) -> Option<Binding> {
        let stays = !owner::is_of_another(object.meta(), &self.csv);
        let binding: Binding = object.into();
        (stays && self.concerns(&binding)).then_some(binding)
    }

    fn concerns(&self, binding: &Binding) -> bool {
        self.accounts.iter().any(|name| {
            let namespace = self.csv.namespace.as_str();
            coverage::is_bound(coverage::AccountName { namespace, name }, binding)
        })
    }

    /// Adds bindings, and the rules of the roles they refer to.
    async fn add(&self, grants: &mut ForeignGrants, bindings: Vec<Binding>) -> Result<(), ObserveError> {
        let mut roles: BTreeSet<RoleKey> = bindings.iter().map(coverage::role_of).collect();
        roles.retain(|key| !grants.roles.contains_key(key));
        for key in roles {
            if let Some(rules) = self.rules(&key).await? {
                grants.roles.insert(key, rules);
            }
        }
        grants.bindings.extend(bindings);
        Ok(())
    }

    async fn rules(&self, (namespace, name): &RoleKey) -> Result<Option<Vec<PolicyRule>>, ObserveError> {
        // A binding may name anything. A name that cannot be requested grants nothing.
        if !is_path_segment(name) {
            return Ok(None);
        }
        let (metadata, rules) = match namespace {
            Some(namespace) => {
                let api: Api<Role> = Api::namespaced(self.client.clone(), namespace);
                let role = deadline(&format!("Role {namespace}/{name}"), api.get_opt(name)).await?;
                let Some(role) = role else { return Ok(None) };
                (role.metadata, role.rules)
            }
            None => {
                let api: Api<ClusterRole> = Api::all(self.client.clone());
                let role = deadline(&format!("ClusterRole {name}"), api.get_opt(name)).await?;
                let Some(role) = role else { return Ok(None) };
                (role.metadata, role.rules)
            }
        };
        let stays = !owner::is_of_another(&metadata, &self.csv);
        Ok(stays.then(|| rules.unwrap_or_default()))
    }
}

/// Returns those of `roles` that a binding refers to, other than counterparts of this ClusterServiceVersion.
///
/// # Errors
/// When a read fails.
pub(super) async fn bound_by_others(
    client: &Client,
    csv: &NamespacedName,
    roles: &BTreeSet<RbacKey>,
) -> Result<BTreeSet<RbacKey>, ObserveError> {
    let namespaces = roles.iter().map(|role| role.namespace.clone()).collect();
    let mut bound = BTreeSet::new();
    each_role_binding(client, &namespaces, |binding| {
        let namespace = binding.metadata.namespace.as_deref().unwrap_or_default();
        let key = RbacKey::new("Role", namespace, &binding.role_ref.name);
        if binding.role_ref.kind == "Role" && roles.contains(&key) && !is_replica(&binding.metadata, csv) {
            bound.insert(key);
        }
    })
    .await?;
    Ok(bound)
}

/// Calls `take` for every RoleBinding of these namespaces.
async fn each_role_binding(
    client: &Client,
    namespaces: &BTreeSet<String>,
    mut take: impl FnMut(RoleBinding),
) -> Result<(), ObserveError> {
    if namespaces.len() > ASKED_ONE_BY_ONE {
        let is_of_these = |binding: &RoleBinding| {
            let namespace = binding.metadata.namespace.as_ref();
            namespace.is_some_and(|namespace| namespaces.contains(namespace))
        };
        let all: Api<RoleBinding> = Api::all(client.clone());
        let take = |binding| {
            if is_of_these(&binding) {
                take(binding);
            }
        };
        return each_page(&all, "the RoleBindings", take).await;
    }
    for namespace in namespaces {
        let api: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
        let what = format!("the RoleBindings of namespace {namespace}");
        each_page(&api, &what, &mut take).await?;
    }
    Ok(())
}

/// Calls `take` for every object of a list, with one page in memory at a time.
async fn each_page<K>(api: &Api<K>, what: &str, mut take: impl FnMut(K)) -> Result<(), ObserveError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut page = ListParams::default().limit(PAGE_SIZE);
    loop {
        let list = deadline(what, api.list(&page)).await?;
        list.items.into_iter().for_each(&mut take);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}
