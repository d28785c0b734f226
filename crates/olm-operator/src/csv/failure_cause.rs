//! Why a ClusterServiceVersion is in phase Failed: read once from the reason of its status, so that all that follows from it is a
//! match.

use olm_api::condition::csv as reason;

/// The causes that differ in their way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// Its namespace has no OperatorGroup, or several, or one that selects nothing or namespaces it does not support.
    OperatorGroup,
    /// An OperatorGroup with common targets provides one of its APIs.
    ApiConflict,
    /// The list of APIs of its OperatorGroup is the user's, and others than its own are in it.
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
    /// The cause that `reason`, of a status in phase Failed, stands for.
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
