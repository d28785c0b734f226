//! Removes the label `olm.copiedFrom` from ClusterServiceVersions that are not copies.
//!
//! The label identifies copies, and the other controllers ignore objects that have it. A user who can update
//! a ClusterServiceVersion could hide it with the label, so that it and its rights would never be deleted.
//! But copies never have the finalizer that OLM adds to its own ([`ClusterServiceVersion::is_copied`]). An
//! object with the finalizer loses the label and is handled again.
//!
//! A copy to which a user adds the finalizer would become an operator of its own. It loses the finalizer
//! instead ([`held_copy`](crate::csv_sketch::held_copy)).

pub(crate) mod triggers;

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use olm_api::{condition::csv as reason, labels, v1alpha1::ClusterServiceVersion};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    key::reference,
    outcome::Outcomes,
    plan::{Action, EventDraft, Guard, Plan, Target},
};
use serde_json::json;

use crate::{csv_sketch::Sketch, stores::Stores};

pub(crate) struct MislabelledCsvs {
    pub(crate) stores: Stores,
}

#[async_trait]
impl Reconciler for MislabelledCsvs {
    type Key = NamespacedName;
    type Observed = Arc<Sketch>;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "mislabelled-csv";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        let found = find(&self.stores, key)?;
        Some(about(&found))
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Arc<Sketch>>, ObserveError> {
        Ok(find(&self.stores, key))
    }

    fn decide(observed: &Arc<Sketch>, _: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        (decide(observed), ())
    }

    fn status(_: &Arc<Sketch>, (): (), _: &Outcomes, _: Timestamp) -> StatusUpdate {
        StatusUpdate::default()
    }
}

fn find(stores: &Stores, key: &NamespacedName) -> Option<Arc<Sketch>> {
    stores
        .csv_sketches
        .get_key(key)
        .filter(|found| is_mislabelled(found))
}

/// True when it has the label, and the finalizer that no copy has, or is a copy with the finalizer.
fn is_mislabelled(found: &Sketch) -> bool {
    let original = found.original();
    original.is_some_and(|original| original.is_mislabelled || original.held_copy.is_some())
}

fn about(found: &Sketch) -> ObjectReference {
    reference::<ClusterServiceVersion>(&found.key(), found.uid())
}

/// Removes the label, or the finalizer of a copy; the controllers of ClusterServiceVersions continue from
/// there.
pub(crate) fn decide(found: &Sketch) -> Plan {
    let target = Target::of::<ClusterServiceVersion>(found.namespace(), found.name());
    let guard = Guard {
        uid: found.uid(),
        // Finalizer and label are known for this version of the object only.
        resource_version: found.resource_version(),
    };
    if let Some(others) = found.original().and_then(|original| original.held_copy.as_ref()) {
        // Like any other edit of a copy, this is reverted without an event.
        let patch = json!({"metadata": {"finalizers": others}});
        return Plan {
            actions: vec![Action::patch(target, patch, guard)],
            ..Plan::default()
        };
    }
    // Informs the user who wrote the label.
    let message = format!(
        "The label {} marks copies of operators from other namespaces. This object is not a copy, so the label was removed.",
        labels::COPIED_FROM
    );
    let event = EventDraft::warning(about(found), reason::LABEL_REMOVED, message);
    Plan {
        actions: vec![Action::patch(
            target,
            json!({"metadata": {"labels": {labels::COPIED_FROM: null}}}),
            guard,
        )],
        events: vec![event],
        ..Plan::default()
    }
}
