//! CustomResourceDefinitions whose objects a ClusterServiceVersion converts: when it may, and what becomes of them afterwards.

use std::collections::BTreeSet;

use olm_runtime::plan::{Action, Guard, Identity};
use serde_json::{Value, json};

use crate::csv::{
    observed::Observed,
    serving::{bundle, conversion},
};

/// Why the conversion webhooks cannot be installed; for people.
pub(super) fn refused(observed: &Observed) -> Option<String> {
    if let Err(text) = conversion::check(&observed.csv) {
        return Some(text);
    }
    let preserves = |crd: &str| {
        let found = observed.cluster.crds.get(crd);
        found.is_some_and(|found| found.preserves_unknown_fields)
    };
    let (_, crd) = conversion::conversions(&observed.csv).find(|(_, crd)| preserves(crd))?;
    Some(format!(
        "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion ({crd})"
    ))
}

/// Definitions whose objects a Deployment of the strategy would convert, though nothing describes that any more. One that trusts
/// another CA than ours is somebody else's work.
pub(super) fn stale(observed: &Observed) -> impl Iterator<Item = &str> {
    let described: BTreeSet<&str> = conversion::conversions(&observed.csv)
        .map(|(_, crd)| crd)
        .collect();
    let is_ours = |crd: &str| {
        let found = observed.cluster.crds.get(crd);
        let definition = json!({"spec": {"conversion": found.and_then(|found| found.conversion.as_ref())}});
        let Some(bundle) = conversion::bundle_of(&definition) else {
            return false;
        };
        let mut own = observed.serving.own_cas.iter();
        own.any(|ca| bundle::trusts(&bundle, ca))
    };
    calling_us(observed).filter(move |crd| !described.contains(crd) && is_ours(crd))
}

/// Writes by which a ClusterServiceVersion that goes leaves its objects readable. Where another of the namespace converts them
/// and stays, that is its to say from here on.
pub(super) fn end(observed: &Observed) -> Vec<Action> {
    let is_taken_over = |crd: &str| {
        observed
            .siblings
            .iter()
            .any(|sibling| sibling.converted_crds.contains(crd) && !sibling.is_deleting)
    };
    calling_us(observed)
        .filter(|crd| !is_taken_over(crd))
        .map(|crd| patch(observed, crd, conversion::reset(), Identity::Operator))
        .collect()
}

/// Owned definitions that call a Service in front of a Deployment of the strategy.
fn calling_us(observed: &Observed) -> impl Iterator<Item = &str> {
    let deployments = observed
        .strategy
        .iter()
        .flat_map(|strategy| &strategy.deployments);
    // The strategy may be unreadable by now.
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
            .and_then(|found| found.conversion.as_ref());
        found.is_some_and(|found| conversion::calls(found, observed.namespace(), names.iter().copied()))
    })
}

/// Changes a part of a definition, which for the rest is others'.
pub(super) fn patch(observed: &Observed, crd: &str, patch: Value, identity: Identity) -> Action {
    let guard = Guard {
        uid: observed.cluster.crds.get(crd).map(|found| found.uid.clone()),
        resource_version: None,
    };
    Action::patch(conversion::target(crd), patch, guard).by(identity)
}
