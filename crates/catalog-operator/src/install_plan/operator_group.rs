//! Which identity a plan is carried out with: the check of the namespace's OperatorGroups.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api::v1::OperatorGroup;
use olm_runtime::plan::Identity;

/// Why a plan cannot be carried out in its namespace. The texts are upstream's, users search for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// No group, or none that has found its namespaces yet.
    #[error("no operator group found that is managing this namespace")]
    NoGroup,
    /// More than one.
    #[error("more than one operator group(s) are managing this namespace count={0}")]
    SeveralGroups(usize),
    /// The group names a ServiceAccount that its status does not name (yet).
    #[error("please make sure the service account exists. sa={service_account} operatorgroup={group}")]
    ServiceAccountMissing {
        /// Name of the ServiceAccount.
        service_account: String,
        /// `namespace/name` of the group.
        group: String,
    },
}

/// The ServiceAccount whose rights an install is limited to; none when the one OperatorGroup names none.
///
/// # Errors
/// There is not exactly one OperatorGroup with namespaces, or its ServiceAccount is missing.
pub(crate) fn find_service_account(
    groups: &[Arc<OperatorGroup>],
) -> Result<Option<ObjectReference>, GroupError> {
    let managing: Vec<_> = groups
        .iter()
        .filter(|group| {
            group
                .status
                .as_ref()
                .is_some_and(|status| !status.namespaces.is_empty())
        })
        .collect();
    let [group] = managing[..] else {
        return Err(if managing.is_empty() {
            GroupError::NoGroup
        } else {
            GroupError::SeveralGroups(managing.len())
        });
    };
    let Some(wanted) = group
        .spec
        .service_account_name
        .as_deref()
        .filter(|name| !name.is_empty())
    else {
        return Ok(None);
    };
    // A status that speaks of the account named before says nothing of the one named now.
    let found = group
        .status
        .as_ref()
        .and_then(|status| status.service_account_ref.clone())
        .filter(|found| found.name.as_deref() == Some(wanted));
    found.map(Some).ok_or_else(|| GroupError::ServiceAccountMissing {
        service_account: wanted.to_owned(),
        group: format!("{}/{}", group.namespace().unwrap_or_default(), group.name_any()),
    })
}

/// The identity that writes in a ServiceAccount's name.
pub(crate) fn identity(service_account: Option<&ObjectReference>) -> Identity {
    match service_account {
        None => Identity::Operator,
        Some(reference) => Identity::ServiceAccount {
            namespace: reference.namespace.clone().unwrap_or_default(),
            name: reference.name.clone().unwrap_or_default(),
        },
    }
}
