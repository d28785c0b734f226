//! What is kept of an Operator: whether OLM made it, and a hash of its status, which may be long and is written here alone.

use kube::ResourceExt;
use olm_api::{
    labels,
    v1::{Components, Operator},
};
use olm_runtime::store::{Projected, Projection};

use crate::csv_sketch::hash;

/// An Operator as its store keeps it.
pub(crate) type OperatorSketch = Projected<KeptOperator>;

/// What is kept besides name, uid and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptOperator {
    /// It bears OLM's mark, which nobody can write who may not write in the cluster.
    pub(crate) is_ours: bool,
    pub(crate) status: StatusHash,
}

/// Hash of what the status lists, and of how it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusHash(u64);

impl StatusHash {
    /// The hash of a status with these components. Fields that this version does not know do not count: they would never go.
    pub(crate) fn of_components(components: &Components) -> Self {
        let selector = &components.label_selector;
        Self(hash(&(
            &selector.match_expressions,
            &selector.match_labels,
            components.refs.as_slice(),
        )))
    }

    /// Whether the status says nothing, as that of an Operator that was just made.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::of_components(&Components::default())
    }
}

impl Projection for KeptOperator {
    type Object = Operator;

    fn of(operator: Operator) -> Self {
        let is_ours = operator
            .labels()
            .get(labels::MANAGED)
            .is_some_and(|mark| mark == labels::TRUE);
        let components = operator.status.and_then(|status| status.components);
        Self {
            is_ours,
            status: StatusHash::of_components(&components.unwrap_or_default()),
        }
    }
}
