//! Removal: first deletes the objects that cannot be garbage collected, then removes the finalizer.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{Resource, ResourceExt};
use olm_api::{labels, v1alpha1::ClusterServiceVersion};
use olm_runtime::plan::{Action, Guard, Plan, Requeue, Target};
use serde_json::json;

use crate::csv::{
    install::serving,
    observed::{Leftover, Observed},
};

/// Interval of the checks for objects that finalizers of others keep.
const KEPT_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the writes that let a deleted ClusterServiceVersion disappear.
pub(crate) fn plan(observed: &Observed) -> Plan {
    let mut plan = Plan::of(actions(observed));
    if observed.leftovers.iter().any(grants_on) {
        plan.requeue = Requeue::after(
            KEPT_INTERVAL,
            "foreign finalizers block deletion of cluster-wide rights",
        );
    }
    plan
}

/// True for cluster-wide rights that remain after their deletion because of a finalizer. The
/// ClusterServiceVersion waits for them. It does not wait for rights in a namespace, because administrators
/// there could then block it forever.
fn grants_on(leftover: &Leftover) -> bool {
    let kind = &leftover.target.api.kind;
    leftover.is_kept && (*kind == ClusterRole::kind(&()) || *kind == ClusterRoleBinding::kind(&()))
}

/// Writes that complete the deletion of a ClusterServiceVersion; none once the finalizer is removed.
fn actions(observed: &Observed) -> Vec<Action> {
    if !observed.csv.has_cleanup_finalizer() {
        return Vec::new();
    }
    let finalizers = observed.csv.finalizers().iter();
    let others: Vec<&String> = finalizers
        .filter(|finalizer| *finalizer != labels::FINALIZER_CSV_CLEANUP)
        .collect();
    let release = Action::patch(
        Target::of::<ClusterServiceVersion>(observed.namespace(), observed.name()),
        json!({"metadata": {"finalizers": others}}),
        Guard {
            uid: Some(observed.uid().to_owned()),
            // A merge patch replaces the whole list, so a finalizer that was added meanwhile must not be
            // lost.
            resource_version: observed.csv.resource_version(),
        },
    );
    let waits = observed.leftovers.iter().any(grants_on);
    let release = (!waits).then_some(release);
    let staying = observed.leftovers.iter().filter(|leftover| !leftover.is_deleting);
    let deletions = staying.map(|leftover| Action::delete(leftover.target.clone(), leftover.uid.clone()));
    let conversions = serving::definitions::end(observed).into_iter();
    conversions.chain(deletions).chain(release).collect()
}
