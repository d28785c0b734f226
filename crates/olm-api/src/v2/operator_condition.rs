//! OperatorCondition: conditions that an operator reports about itself. Stored version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api_type::{api_kind, api_type};
use crate::decode::absent_means_default;
use crate::sparse::List;

api_kind! {
    /// What the operator reports, what a cluster admin overrides, and which workloads report.
    #[kube(
        group = "operators.coreos.com",
        version = "v2",
        kind = "OperatorCondition",
        plural = "operatorconditions",
        namespaced,
        status = "OperatorConditionStatus",
        doc = "Conditions that an operator reports, for example that it must not be upgraded now."
    )]
    #[serde(remote = "Self")]
    pub struct OperatorConditionSpec {
        /// ServiceAccounts that may write this object.
        pub service_accounts: List<String>,
        /// Deployments of the operator.
        pub deployments: List<String>,
        /// Conditions a cluster admin sets; they win over what the operator reports.
        pub overrides: List<ConditionOverride>,
        /// What the operator reports. Operators write here.
        pub conditions: List<Condition>,
    }
}

absent_means_default!(OperatorConditionSpec);

api_type! {
    /// What has been taken over from the spec.
    pub struct OperatorConditionStatus {
        /// Conditions of the spec, with the generation they were seen in.
        pub conditions: List<Condition>,
    }
}

api_type! {
    /// A condition set by a cluster admin.
    pub struct ConditionOverride {
        /// What it is about; only Upgradeable is interpreted.
        #[serde(rename = "type")]
        pub type_: String,
        /// True, False or Unknown.
        pub status: String,
        /// Why, in one word.
        pub reason: String,
        /// Why, for people.
        pub message: String,
        /// When it was set.
        pub last_transition_time: Option<Time>,
        /// Generation of this object the condition was set for.
        pub observed_generation: Option<i64>,
    }
}
