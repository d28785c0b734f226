//! The ServiceAccount of an extension. Before a revision is made, the API server is asked for every right that it needs, so that all that
//! it lacks is reported at once.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleRef};
use kube::Api;
use olm_api::extension_v1::ClusterExtension;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::key::is_path_segment;
use olm_runtime::review::{User, denied};
use serde_json::Value;

use super::ClusterExtensions;
use super::rights::{Grant, Right, VERBS, defined, message};
use crate::apply::object::ObjectId;

/// Maximum number of rights that are asked for at a time. The API server refuses what is not asked for when it is written.
const MAX_RIGHTS: usize = 5000;

impl ClusterExtensions {
    /// Returns the account that the objects of an extension are written as; `None` for that of OLM.
    pub(super) fn account(&self, extension: &ClusterExtension) -> Option<NamespacedName> {
        let account = extension.spec.service_account.as_ref()?;
        let name = account.name.clone().filter(|name| !name.is_empty())?;
        (!self.sources.ignores_accounts).then(|| NamespacedName::new(extension.spec.namespace.as_str(), name))
    }

    /// Returns the message about an account that does not exist, in upstream's former words.
    pub(super) async fn missing_account(
        &self,
        account: &NamespacedName,
    ) -> Result<Option<String>, ObserveError> {
        let NamespacedName { namespace, name } = account;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("ServiceAccount {account}");
        if is_path_segment(name) && deadline(&what, accounts.get_opt(name)).await?.is_some() {
            return Ok(None);
        }
        let (namespace, name) = (go_compat::quote(namespace), go_compat::quote(name));
        Ok(Some(format!(
            "operation cannot proceed due to the following validation error(s): service account {name} not found in namespace {namespace}"
        )))
    }

    /// Returns the message about the rights that an account lacks to write these objects; `None` if it has all.
    pub(super) async fn missing_rights(
        &self,
        account: &NamespacedName,
        objects: &[Value],
    ) -> Result<Option<String>, ObserveError> {
        let lacks = |rights| self.lacks(account, rights);
        if lacks(Right::all("").into()).await?.is_empty() {
            return Ok(None);
        }
        let mut needed = BTreeSet::new();
        let mut grants = Vec::new();
        for object in objects {
            let mut id = ObjectId::of(object);
            let served = self.discovery.find_kind(&id.group, &id.version, &id.kind).await?;
            let served = served.map(|served| (served.api.plural, served.namespaced));
            let in_bundle =
                || defined(&id, objects).map(|(plural, namespaced)| (plural.to_owned(), namespaced));
            // A kind that nothing defines is reported when it is applied.
            let Some((resource, is_namespaced)) = served.or_else(in_bundle) else {
                continue;
            };
            if !is_namespaced {
                id.namespace.clear();
            }
            needed.extend(VERBS.map(|verb| Right::on(&id, &resource, verb)));
            grants.extend(Grant::of(&id, object, objects));
        }
        let mut missing = lacks(needed).await?;
        let permitted = grants.iter().map(|grant| grant.without.clone()).collect();
        let unpermitted = lacks(permitted).await?;
        let mut rules = BTreeSet::new();
        for grant in grants {
            if !unpermitted.contains(&grant.without) {
                continue;
            }
            if let Some(of_bundle) = grant.rules {
                rules.extend(of_bundle);
                continue;
            }
            // The rules of a role of others are not for everybody's eyes.
            let found = Box::pin(self.rules_of(grant.role.as_ref(), &grant.namespace)).await?;
            let has_all = match found {
                Some(found) => lacks(Right::of_rules(&found, &grant.namespace)).await?.is_empty(),
                None => false,
            };
            if !has_all {
                missing.insert(grant.without);
            }
        }
        missing.extend(lacks(rules).await?);
        Ok((!missing.is_empty()).then(|| message(&missing)))
    }

    /// Returns the rules of a role in the cluster; `None` if it does not exist.
    async fn rules_of(
        &self,
        role: Option<&RoleRef>,
        namespace: &str,
    ) -> Result<Option<Vec<PolicyRule>>, ObserveError> {
        let Some(role) = role.filter(|role| is_path_segment(&role.name)) else {
            return Ok(None);
        };
        let what = format!("{} {}", role.kind, role.name);
        if role.kind == "Role" {
            let roles: Api<Role> = Api::namespaced(self.client.clone(), namespace);
            let found = deadline(&what, roles.get_opt(&role.name)).await?;
            return Ok(found.map(|found| found.rules.unwrap_or_default()));
        }
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let found = deadline(&what, roles.get_opt(&role.name)).await?;
        Ok(found.map(|found| found.rules.unwrap_or_default()))
    }

    /// Returns the rights that an account does not have.
    async fn lacks(
        &self,
        account: &NamespacedName,
        rights: BTreeSet<Right>,
    ) -> Result<BTreeSet<Right>, ObserveError> {
        let user = User::service_account(&account.namespace, &account.name);
        let rights = rights.into_iter().take(MAX_RIGHTS);
        let questions = rights.map(|right| {
            let attributes = right.attributes();
            (right, attributes)
        });
        let lacking = denied(&self.sources.reviewer, user, questions).await;
        lacking.map_err(|error| ObserveError::read(format!("the rights of ServiceAccount {account}"), error))
    }
}
