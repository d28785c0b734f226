//! Decides whether a changed object affects the setting's status, and the delay of the reconcile. No I/O.

use std::time::Duration;

use olm_api::v1::{OLM_CONFIG_NAME, OLMConfig};
use olm_runtime::store::Change;

/// Delay in which changes of copies, operators, groups and namespaces are collected. There may be thousands
/// of changes, and each reconcile reads all copies.
pub(crate) const GATHER: Duration = Duration::from_secs(1);

/// True for the only OLMConfig that has an effect.
pub(crate) fn is_about(change: &Change<OLMConfig>) -> bool {
    change.object().metadata.name.as_deref() == Some(OLM_CONFIG_NAME)
}
