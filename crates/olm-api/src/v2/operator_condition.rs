//! OperatorCondition: conditions that an operator reports about itself. Stored version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api_type::{api_kind, api_type};
use crate::decode::absent_means_default;
use crate::sparse::List;
use crate::v1::ConditionOverride;

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
