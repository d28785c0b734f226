//! Cause of phase Failed, parsed once from the reason of the status, so that all consequences are a match.

use olm_api::condition::csv as reason;

/// Causes of phase Failed that differ in the way out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// Its namespace has no OperatorGroup, or several. Or the group selects nothing, or namespaces that it
    /// does not support.
    OperatorGroup,
    /// An OperatorGroup with common targets provides one of its APIs.
    ApiConflict,
    /// The OperatorGroup's list of APIs is static and does not list the operator's own.
    StaticApis,
    /// Another ClusterServiceVersion of its namespace owns one of its CustomResourceDefinitions.
    OwnerConflict,
    /// The API server refused a component, or the Subscription's configuration is invalid.
    Refused,
    /// The ServiceAccount of the OperatorGroup may not write a component.
    RefusedToAccount,
    /// A Deployment exceeded its progress deadline or did not become available in time.
    InstallCheck,
    /// Any other cause, including those of other programs: the way out only depends on the observed state.
    Other,
}

impl FailureCause {
    /// Returns the cause for `reason`, taken from a status in phase Failed.
    pub(crate) fn parse(reason: &str) -> Self {
        match reason {
            reason::NO_OPERATOR_GROUP
            | reason::TOO_MANY_OPERATOR_GROUPS
            | reason::NO_TARGET_NAMESPACES
            | reason::UNSUPPORTED_OPERATOR_GROUP => Self::OperatorGroup,
            reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT => Self::ApiConflict,
            reason::CANNOT_MODIFY_STATIC_OPERATOR_GROUP_PROVIDED_APIS => Self::StaticApis,
            reason::OWNER_CONFLICT => Self::OwnerConflict,
            reason::INSTALL_COMPONENT_FAILED => Self::Refused,
            reason::INSTALL_COMPONENT_FAILED_NO_RETRY => Self::RefusedToAccount,
            reason::INSTALL_CHECK_FAILED => Self::InstallCheck,
            _ => Self::Other,
        }
    }

    /// True when writes were refused, so that they can be retried in place.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::RefusedToAccount)
    }
}
