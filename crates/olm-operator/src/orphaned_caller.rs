//! Deletes APIServices and webhook configurations that outlived their ClusterServiceVersion. No server
//! responds behind them any more, but the API server keeps calling it.
//!
//! A key is the ClusterServiceVersion that they name in all three owner labels. Before a deletion, the API
//! server is asked whether it is really deleted.

use async_trait::async_trait;
use kube::{Api, Client, Resource, ResourceExt};
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::{
    NamespacedName, Timestamp,
    discovery::deadline,
    driver::Reconciler,
    error::ObserveError,
    key::is_path_segment,
    plan::{Action, Plan, Target},
    store::{Change, Store},
};

use crate::{csv_sketch::Sketch, owner, stores::Stores};

pub(crate) struct OrphanedCallers {
    pub(crate) stores: Stores,
    /// For the read before a deletion.
    pub(crate) client: Client,
}

#[async_trait]
impl Reconciler for OrphanedCallers {
    /// The owner.
    type Key = NamespacedName;
    /// The deletions, if the owner was deleted.
    type Observed = Vec<Action>;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "orphaned-caller";

    async fn observe(&self, owner: &NamespacedName) -> Result<Option<Vec<Action>>, ObserveError> {
        let stores = &self.stores;
        let is_name = is_path_segment(&owner.namespace) && is_path_segment(&owner.name);
        if !is_name || stores.csv_sketches.get_key(owner).is_some() {
            return Ok(None);
        }
        let mut found = deletions(&stores.api_services, owner);
        found.extend(deletions(&stores.validating_webhooks, owner));
        found.extend(deletions(&stores.mutating_webhooks, owner));
        if found.is_empty() {
            return Ok(None);
        }
        let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), &owner.namespace);
        let what = format!("ClusterServiceVersion {owner}");
        let there = deadline(&what, api.get_metadata_opt(&owner.name)).await?;
        Ok(there.is_none().then_some(found))
    }

    fn decide(found: &Vec<Action>, _: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        let plan = Plan {
            independent: found.len(),
            ..Plan::of(found.clone())
        };
        (plan, ())
    }
}

/// Returns the deletions of all objects in `store` with the labels of this owner.
fn deletions<K: Resource<DynamicType = ()>>(store: &Store<K>, owner: &NamespacedName) -> Vec<Action> {
    let found = store.list_where(|object| {
        object.meta().deletion_timestamp.is_none() && owner::labelled(object.meta()).as_ref() == Some(owner)
    });
    let found = found.iter();
    found
        .map(|object| Action::delete(Target::cluster::<K>(&object.name_any()), object.uid()))
        .collect()
}

/// Returns the owner of a changed object.
pub(crate) fn by_caller<K: Resource>(change: &Change<K>) -> Option<NamespacedName> {
    match change {
        Change::Applied { new, .. } => owner::labelled(new.meta()),
        Change::Deleted { .. } => None,
    }
}

/// Returns the key of a deleted ClusterServiceVersion, original or copy.
pub(crate) fn by_csv(change: &Change<Sketch>) -> Option<NamespacedName> {
    match change {
        Change::Applied { .. } => None,
        Change::Deleted { old } => Some(old.key()),
    }
}
