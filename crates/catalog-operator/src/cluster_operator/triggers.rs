//! Changed object → whether the cluster has ClusterOperators. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_api::cluster_operator::DEFINITION;
use olm_runtime::store::{Change, Presence, Projected};

/// Whether the cluster has the kind from now on, where the change is about that. The definition alone tells: of definitions nothing
/// but their presence is kept here.
pub(crate) fn served_by(change: &Change<Projected<Presence<CustomResourceDefinition>>>) -> Option<bool> {
    (change.object().name() == DEFINITION).then_some(matches!(change, Change::Applied { .. }))
}
