//! Identity with which the objects of an operator are written.

use olm_runtime::plan::{Action, Identity, Target, to_value};
use serde::Serialize;

use crate::csv::{FIELD_MANAGER, observed::Observed};

/// Applies `object` with the identity for this ClusterServiceVersion.
pub(crate) fn apply(observed: &Observed, target: Target, object: &impl Serialize) -> Action {
    Action::apply(target, to_value(object), FIELD_MANAGER).by(identity(observed))
}

/// Returns the identity for writes of an operator's objects: the account its OperatorGroup names, else OLM's
/// own.
///
/// The account of the group's spec counts even before its status names it; the preconditions block every
/// write until then.
pub(crate) fn identity(observed: &Observed) -> Identity {
    let account = observed.group().and_then(|group| group.service_account.clone());
    match account {
        Some(name) => Identity::ServiceAccount {
            namespace: observed.namespace().to_owned(),
            name,
        },
        None => Identity::Operator,
    }
}
