//! Cause of phase Failed, parsed once from the reason of the status, so that all consequences are a match.

use olm_api::condition::csv as reason;

/// The causes that differ in their way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// Its namespace has no OperatorGroup, or several, or one that selects nothing or namespaces it does not support.
    OperatorGroup,
    /// An OperatorGroup with common targets provides one of its APIs.
    ApiConflict,
    /// The OperatorGroup's list of APIs is static and does not list the operator's own.
    StaticApis,
    /// Another ClusterServiceVersion of its namespace owns one of its CustomResourceDefinitions.
    OwnerConflict,
    /// The API server refused a component, or the Subscription's configuration cannot be used.
    Refused,
    /// The ServiceAccount of the OperatorGroup may not write a component.
    RefusedToAccount,
    /// A Deployment gave up or did not become available in time.
    InstallCheck,
    /// Any other, those of other programs among them: the way back depends on what is found alone.
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

    /// True when writes were refused: the same may be tried again in place.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::RefusedToAccount)
    }
}
