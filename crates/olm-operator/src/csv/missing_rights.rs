//! Rows of the status about rights missing beyond the namespace.

use olm_api::{
    condition::requirement,
    permission,
    v1alpha1::{ClusterServiceVersion, RequirementStatus},
};

/// True for a row about missing rights.
pub(crate) fn is_missing_rights(row: &RequirementStatus) -> bool {
    row.group == permission::API_GROUP && row.message.starts_with(requirement::MISSING_RIGHTS)
}

/// True when the stored status reports rights missing beyond the namespace.
pub(crate) fn reports_missing_rights(csv: &ClusterServiceVersion) -> bool {
    let status = csv.status.as_ref();
    status.is_some_and(|status| status.requirement_status.iter().any(is_missing_rights))
}
