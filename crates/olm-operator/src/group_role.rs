//! The ClusterRoles of OperatorGroups: one each for `admin`, `edit` and `view`. They aggregate the rights on
//! the APIs that the group's operators provide (`docs/reference/operator-groups.md`). OLM binds no user to
//! them.
//!
//! # Guarantees
//! - Each is written once with its rights, if an operator is installed soon after its group.
//! - Kubernetes writes the rules, except those of a ClusterRole that no longer aggregates anything.
//! - All are deleted with the group, even if it was deleted while OLM was down.

pub(crate) mod decide;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::api::{core::v1::ObjectReference, rbac::v1::ClusterRole};
use kube::{Api, Client, ResourceExt};
use olm_api::{api_key::ApiSet, user_role::Level, v1::OperatorGroup};
use olm_runtime::{
    NamespacedName, Timestamp,
    discovery::deadline,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    key::{is_path_segment, reference},
    outcome::Outcomes,
    plan::Plan,
};

use crate::{
    operator_group::{observe::Member, provided_apis},
    owner,
    stores::Stores,
    user_role::{self, Sent, Verdict},
};

/// An OperatorGroup, or the remains of a deleted one, and the input for decisions about its ClusterRoles.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) key: NamespacedName,
    /// `None` when it was deleted.
    pub(crate) group: Option<Arc<OperatorGroup>>,
    /// APIs in the group's list and owned by its members in any phase.
    pub(crate) apis: ApiSet,
    /// ClusterRoles by name: those with the names of its ClusterRoles, or, for a deleted group, those with
    /// its owner labels.
    pub(crate) found: BTreeMap<String, Arc<ClusterRole>>,
}

pub(crate) struct GroupRoles {
    pub(crate) stores: Stores,
    /// For the read before a deletion.
    pub(crate) client: Client,
}

#[async_trait]
impl Reconciler for GroupRoles {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = Sent;

    const NAME: &'static str = "group-role";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.groups, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        if let Some(group) = self.stores.groups.get_key(key) {
            return Ok(Some(of_group(&self.stores, key, group)));
        }
        let Some(left) = left_behind(&self.stores, key) else {
            return Ok(None);
        };
        let api: Api<OperatorGroup> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = deadline(&format!("OperatorGroup {key}"), api.get_metadata_opt(&key.name)).await?;
        Ok(found.is_none().then_some(left))
    }

    fn decide(observed: &Observed, sent: Option<&Sent>, now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, sent, now)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate<Sent> {
        let uid = observed.group.as_ref().and_then(|group| group.uid());
        let regarding = reference::<OperatorGroup>(&observed.key, uid);
        let mut update = user_role::status(regarding, verdict, outcomes);
        if decide::is_too_long(observed) {
            // Not reported again, except after a restart.
            update.memory = Some(Sent::from([observed.key.name.clone()]));
        }
        update
    }
}

fn of_group(stores: &Stores, key: &NamespacedName, group: Arc<OperatorGroup>) -> Observed {
    let members = stores.csvs.list_in(&key.namespace);
    let members = members.iter().filter(|csv| !csv.is_copied());
    let staying = members
        .map(|csv| Member::read(csv))
        .filter(|member| !member.deleting);
    let mut apis: ApiSet = staying.flat_map(|member| member.provides).collect();
    apis.extend(provided_apis(&group));
    let names = Level::ALL.map(|level| level.group_role_name(&key.namespace, &key.name));
    Observed {
        key: key.clone(),
        group: Some(group),
        apis,
        found: stores.cluster_roles_called(names),
    }
}

/// Returns the remaining ClusterRoles of a group that does not exist; `None` when there are none. Any user
/// may write labels, so a ClusterRole with the name of another group's belongs to that group, which corrects
/// the labels.
fn left_behind(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    if !is_path_segment(&key.namespace) || !is_path_segment(&key.name) {
        return None;
    }
    let own = Level::ALL.map(|level| level.group_role_name(&key.namespace, &key.name));
    // Names used by old releases. A ClusterRole with any other name is a user's copy, including its labels.
    let older = ["admin", "edit", "view"].map(|level| format!("{}-{level}", key.name));
    let is_its = |role: &ClusterRole| {
        let name = role.name_any();
        role.metadata.deletion_timestamp.is_none()
            && (own.contains(&name) || older.contains(&name))
            && owner::labelled_group(&role.metadata).as_ref() == Some(key)
    };
    let found = stores.cluster_roles.list_where(is_its);
    (!found.is_empty()).then(|| Observed {
        key: key.clone(),
        group: None,
        apis: ApiSet::new(),
        found: found.into_iter().map(|role| (role.name_any(), role)).collect(),
    })
}
