//! The ClusterRoles of OperatorGroups: one for each of `admin`, `edit` and `view`, which take up the rights on the APIs that the
//! group's operators provide (`docs/reference/operator-groups.md`). Nobody is bound to them by OLM.
//!
//! # Guarantees
//! Each is written once, with the rights it is to take up, when an operator comes soon after its group. Rules are Kubernetes' to
//! write, but for those of a ClusterRole that takes up nothing any more. All go with the group, also when it went while nobody looked.

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
    user_role::{self, TakenNames, Verdict},
};

/// An OperatorGroup, or what one has left, and what decides about its ClusterRoles.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) key: NamespacedName,
    /// `None` when it is gone.
    pub(crate) group: Option<Arc<OperatorGroup>>,
    /// APIs that its list names and those its members own, whatever their phase.
    pub(crate) apis: ApiSet,
    /// By name: those that have the names of its ClusterRoles; of a group that is gone, those that bear its owner labels.
    pub(crate) found: BTreeMap<String, Arc<ClusterRole>>,
}

pub(crate) struct GroupRoles {
    pub(crate) stores: Stores,
    /// For the last look before anything is deleted.
    pub(crate) client: Client,
}

#[async_trait]
impl Reconciler for GroupRoles {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = TakenNames;

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

    fn decide(observed: &Observed, before: Option<&TakenNames>, now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, before, now)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate<TakenNames> {
        if decide::is_too_long(observed) {
            // It was told; a restart tells it again.
            return StatusUpdate {
                memory: Some(TakenNames::default()),
                ..StatusUpdate::default()
            };
        }
        let uid = observed.group.as_ref().and_then(|group| group.uid());
        user_role::status(reference::<OperatorGroup>(&observed.key, uid), verdict, outcomes)
    }
}

/// How many APIs the ClusterRoles of a group take up, the first ones by group, version and kind: anybody who may create
/// ClusterServiceVersions can claim thousands.
const MAX_APIS: usize = 500;

fn of_group(stores: &Stores, key: &NamespacedName, group: Arc<OperatorGroup>) -> Observed {
    let members = stores.csvs.list_in(&key.namespace);
    let members = members.iter().filter(|csv| !csv.is_copied());
    let staying = members
        .map(|csv| Member::read(csv))
        .filter(|member| !member.deleting);
    let mut apis: ApiSet = staying.flat_map(|member| member.provides).collect();
    apis.extend(provided_apis(&group));
    let apis: ApiSet = apis.into_iter().take(MAX_APIS).collect();
    let names = Level::ALL.map(|level| level.group_role_name(&key.namespace, &key.name));
    Observed {
        key: key.clone(),
        group: Some(group),
        apis,
        found: stores.cluster_roles_called(names),
    }
}

/// The ClusterRoles of a group that is not there; `None` when there are none. Labels are anybody's words: one that has the name of
/// another group's is that group's, which puts the labels right.
fn left_behind(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    if !is_path_segment(&key.namespace) || !is_path_segment(&key.name) {
        return None;
    }
    let own = Level::ALL.map(|level| level.group_role_name(&key.namespace, &key.name));
    // What old releases called them. Any other name is somebody's copy, labels and all.
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
