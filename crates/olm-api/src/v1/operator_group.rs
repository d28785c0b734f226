//! OperatorGroup: the namespaces the operators of a namespace watch. Stored version.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};

use crate::api_type::{api_kind, api_type};
use crate::decode::absent_means_default;
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Upgrade strategy of the operators of a group.
    pub enum UpgradeStrategy {
        /// An operator is upgraded only from a version that has succeeded.
        Default = "Default",
        /// An operator is also upgraded from a version that has failed.
        TechPreviewUnsafeFailForward = "TechPreviewUnsafeFailForward",
    }
}

api_kind! {
    /// Which namespaces the operators installed in this namespace watch, and with whose permissions they are installed.
    #[kube(
        group = "operators.coreos.com",
        version = "v1",
        kind = "OperatorGroup",
        plural = "operatorgroups",
        namespaced,
        status = "OperatorGroupStatus",
        doc = "The namespaces that the operators installed in this namespace watch. A namespace with operators needs exactly one."
    )]
    #[serde(remote = "Self")]
    pub struct OperatorGroupSpec {
        /// Names of the namespaces. The selector is ignored when this is set.
        pub target_namespaces: List<String>,
        /// Selects the namespaces by their labels. All namespaces are targets when neither this nor a list is set.
        pub selector: Option<LabelSelector>,
        /// ServiceAccount of this namespace whose permissions limit what operators can be given.
        pub service_account_name: Option<String>,
        /// Leaves the annotation with the provided APIs to the user.
        #[serde(rename = "staticProvidedAPIs")]
        pub static_provided_apis: Option<bool>,
        /// Whether an operator that failed may be upgraded: Default (no) or TechPreviewUnsafeFailForward (yes).
        pub upgrade_strategy: Option<UpgradeStrategy>,
    }
}

absent_means_default!(OperatorGroupSpec);

impl OperatorGroupSpec {
    /// Returns true if failed operators may be upgraded.
    pub fn allows_fail_forward(&self) -> bool {
        self.upgrade_strategy == Some(UpgradeStrategy::TechPreviewUnsafeFailForward)
    }

    /// Returns the ServiceAccount whose permissions limit the permissions of operators.
    pub fn service_account(&self) -> Option<&str> {
        self.service_account_name
            .as_deref()
            .filter(|name| !name.is_empty())
    }
}

api_type! {
    /// The namespaces a group has found.
    pub struct OperatorGroupStatus {
        /// Target namespaces; one empty name means all.
        pub namespaces: List<String>,
        /// The ServiceAccount named in the spec, once it exists.
        pub service_account_ref: Option<ObjectReference>,
        #[null_when_absent]
        /// When this status was last written.
        pub last_updated: Option<Time>,
        /// What is wrong with the group.
        pub conditions: List<Condition>,
    }
}
