//! Summary of an Operator: whether OLM created it, and a hash of its status. The status may be long, and only
//! this program writes it.

use kube::ResourceExt;
use olm_api::{
    labels,
    v1::{Components, Operator},
};
use olm_runtime::store::{Projected, Projection};

use crate::csv_sketch::hash;

/// Summary of an Operator, as kept in its store.
pub(crate) type OperatorSketch = Projected<KeptOperator>;

/// Summary of an Operator, besides name, uid and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptOperator {
    /// True when it has OLM's label, which requires write access to cluster-scoped objects.
    pub(crate) is_ours: bool,
    pub(crate) status: StatusHash,
}

/// Hash of the components in the status, and of their selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusHash(u64);

impl StatusHash {
    /// Hash of a status with these components. Unknown fields do not count, because they would never be
    /// removed.
    pub(crate) fn of_components(components: &Components) -> Self {
        let selector = &components.label_selector;
        Self(hash(&(
            &selector.match_expressions,
            &selector.match_labels,
            components.refs.as_slice(),
        )))
    }
}

impl Projection for KeptOperator {
    type Object = Operator;

    fn of(operator: Operator) -> Self {
        let is_ours = labels::is_true(operator.labels(), labels::MANAGED);
        let components = operator.status.and_then(|status| status.components);
        Self {
            is_ours,
            status: StatusHash::of_components(&components.unwrap_or_default()),
        }
    }
}
