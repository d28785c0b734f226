//! The way out: what cannot be garbage collected goes first, then the finalizer.

use kube::ResourceExt;
use olm_api::{labels, v1alpha1::ClusterServiceVersion};
use olm_runtime::plan::{Action, Guard, Target};
use serde_json::json;

use crate::csv::{install::serving, observed::Observed};

/// Writes that let a deleted ClusterServiceVersion go; none once the finalizer is off.
pub(crate) fn actions(observed: &Observed) -> Vec<Action> {
    let finalizers = observed.csv.finalizers();
    if !finalizers
        .iter()
        .any(|finalizer| finalizer == labels::FINALIZER_CSV_CLEANUP)
    {
        return Vec::new();
    }
    let others: Vec<&String> = finalizers
        .iter()
        .filter(|finalizer| *finalizer != labels::FINALIZER_CSV_CLEANUP)
        .collect();
    let release = Action::patch(
        Target::of::<ClusterServiceVersion>(observed.namespace(), observed.name()),
        json!({"metadata": {"finalizers": others}}),
        Guard {
            uid: Some(observed.uid().to_owned()),
            // A merge patch replaces the list whole: one that was added meanwhile must not be lost.
            resource_version: observed.csv.resource_version(),
        },
    );
    let deletions = observed
        .leftovers
        .iter()
        .map(|leftover| Action::delete(leftover.target.clone(), leftover.uid.clone()));
    let conversions = serving::end_conversions(observed).into_iter();
    conversions.chain(deletions).chain([release]).collect()
}
