//! CustomResourceDefinitions whose objects a ClusterServiceVersion converts: permission to do so, and cleanup
//! afterwards.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_runtime::plan::{Action, Guard, Identity};
use serde_json::{Value, json};

use crate::csv::{
    observed::Observed,
    serving::{bundle, conversion},
};

/// Returns the reason why the conversion webhooks cannot be installed, for users.
pub(crate) fn refused(observed: &Observed) -> Option<String> {
    if let Err(text) = conversion::check(&observed.csv) {
        return Some(text);
    }
    let preserves = |crd: &str| {
        let found = observed.cluster.crds.get(crd);
        found.is_some_and(|found| found.spec.preserve_unknown_fields)
    };
    let (_, crd) = conversion::conversions(&observed.csv).find(|(_, crd)| preserves(crd))?;
    Some(format!(
        "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion ({crd})"
    ))
}

/// Returns the definitions whose conversion still calls a Deployment of the strategy, although no webhook
/// description requests it any more. A definition that trusts a CA other than OLM's is not included, because
/// others configured it.
pub(super) fn stale(observed: &Observed) -> impl Iterator<Item = &str> {
    let described: BTreeSet<&str> = conversion::conversions(&observed.csv)
        .map(|(_, crd)| crd)
        .collect();
    let is_ours = |crd: &str| {
        let found = observed.cluster.crds.get(crd);
        let definition =
            json!({"spec": {"conversion": found.and_then(|found| found.spec.conversion.as_ref())}});
        let Some(bundle) = conversion::bundle_of(&definition) else {
            return false;
        };
        let mut own = observed.serving.own_cas.iter();
        own.any(|ca| bundle::trusts(&bundle, ca))
    };
    calling_us(observed).filter(move |crd| !described.contains(crd) && is_ours(crd))
}

/// Returns the writes that keep the objects of a deleted ClusterServiceVersion readable. Definitions are
/// skipped if another ClusterServiceVersion of the namespace converts them and is not being deleted.
pub(crate) fn end(observed: &Observed) -> Vec<Action> {
    let siblings = observed.siblings.iter();
    let siblings = siblings.filter(|sibling| sibling.metadata.deletion_timestamp.is_none());
    let taken_over: BTreeSet<&str> = siblings
        .flat_map(|sibling| conversion::conversions(sibling))
        .map(|(_, crd)| crd)
        .collect();
    calling_us(observed)
        .filter(|crd| !taken_over.contains(crd))
        .map(|crd| patch(observed, crd, conversion::reset(), Identity::Operator))
        .collect()
}

/// Owned definitions that call a Service of a Deployment of the strategy.
fn calling_us(observed: &Observed) -> impl Iterator<Item = &str> {
    let deployments = observed
        .strategy
        .iter()
        .flat_map(|strategy| &strategy.deployments);
    // The strategy may have become unreadable.
    let described = observed.csv.spec.webhook_definitions.iter();
    let described = described.filter_map(|webhook| webhook.deployment_name.as_deref());
    let names: Vec<&str> = deployments
        .map(|entry| entry.name.as_str())
        .chain(described)
        .collect();
    let owned = observed.csv.spec.owned_crds().iter();
    let owned: BTreeSet<&str> = owned.map(|crd| crd.name.as_str()).collect();
    owned.into_iter().filter(move |crd| {
        let found = observed
            .cluster
            .crds
            .get(*crd)
            .and_then(|found| found.spec.conversion.as_ref());
        found.is_some_and(|found| conversion::calls(found, observed.namespace(), names.iter().copied()))
    })
}

/// Patches a part of a definition; the other fields have other writers.
pub(super) fn patch(observed: &Observed, crd: &str, patch: Value, identity: Identity) -> Action {
    let guard = Guard::of_uid(observed.cluster.crds.get(crd).and_then(|found| found.uid()));
    Action::patch(conversion::target(crd), patch, guard).by(identity)
}
