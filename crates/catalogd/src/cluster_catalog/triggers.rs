//! Decides what a process that does not lead does after a change of a catalog. No I/O.

use olm_api::extension_v1::ClusterCatalog;
use olm_runtime::store::Change;

use crate::unpacking::Request;

/// The content that a process that does not lead is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Followed {
    /// None.
    Nothing,
    /// The content that it has, if any: the leader has resolved nothing yet.
    Unchanged,
    /// The content that the leader has resolved.
    Content(Request),
}

/// Returns the content after a change.
pub(crate) fn followed(change: &Change<ClusterCatalog>) -> Followed {
    let Change::Applied { new: catalog, .. } = change else {
        return Followed::Nothing;
    };
    if catalog.metadata.deletion_timestamp.is_some() || catalog.spec.is_switched_off() {
        return Followed::Nothing;
    }
    let status = catalog.status.as_ref();
    match status.and_then(|status| status.resolved_source.as_ref()) {
        Some(resolved) => Followed::Content(Request {
            image: resolved.image.reference.clone(),
            poll: None,
        }),
        None => Followed::Unchanged,
    }
}
