//! ClusterServiceVersions that pass for copies: the label `olm.copiedFrom` comes off.
//!
//! Copies, of which a cluster may have thousands, are not watched, and the label tells them from the others. Whoever may update
//! a ClusterServiceVersion could hide it with that label, and keep it and its rights from ever going. But copies never have the
//! finalizer that OLM gives its own ([`ClusterServiceVersion::is_copied`]): one that has it loses the label, and is seen again.
//!
//! The store behind this reads metadata and keeps only what has both, so copies cost no memory here.

pub(crate) mod triggers;

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{ResourceExt, core::PartialObjectMeta};
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

use crate::stores::Stores;

type Metadata = PartialObjectMeta<ClusterServiceVersion>;

pub(crate) struct MislabelledCsvs {
    pub(crate) stores: Stores,
}

#[async_trait]
impl Reconciler for MislabelledCsvs {
    type Key = NamespacedName;
    type Observed = Arc<Metadata>;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "mislabelled-csv";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        let found = self.stores.mislabelled_csvs.get_key(key)?;
        Some(about(&found))
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Arc<Metadata>>, ObserveError> {
        Ok(self.stores.mislabelled_csvs.get_key(key))
    }

    fn decide(observed: &Arc<Metadata>, _: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        (decide(observed), ())
    }

    fn status(_: &Arc<Metadata>, (): (), _: &Outcomes, _: Timestamp) -> StatusUpdate {
        StatusUpdate::default()
    }
}

fn about(found: &Metadata) -> ObjectReference {
    reference::<ClusterServiceVersion>(&NamespacedName::from_object(found), found.uid())
}

/// The label comes off; the controllers of ClusterServiceVersions go on from there.
pub(crate) fn decide(found: &Metadata) -> Plan {
    let target =
        Target::of::<ClusterServiceVersion>(&found.namespace().unwrap_or_default(), &found.name_any());
    let guard = Guard {
        uid: found.uid(),
        // It has the finalizer and the label in this version; of another nobody knows.
        resource_version: found.resource_version(),
    };
    // Whoever wrote the label is to know.
    let message = format!(
        "The label {} marks copies of operators of other namespaces. This is none, so the label was removed.",
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
