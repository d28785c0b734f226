//! OperatorCondition: conditions that an operator reports about itself. Stored version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::decode::absent_means_default;
use crate::sparse::List;
use crate::v1::ConditionOverride;

/// What the operator reports, what a cluster admin overrides, and which workloads report.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v2",
    kind = "OperatorCondition",
    plural = "operatorconditions",
    singular = "operatorcondition",
    shortname = "condition",
    category = "olm",
    namespaced,
    status = "OperatorConditionStatus",
    derive = "Default",
    derive = "PartialEq",
    schema = "disabled",
    doc = "Conditions that an operator reports, for example that it must not be upgraded now.",
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(rename = "OperatorConditionSpec")]
pub struct OperatorConditionSpec {
    /// ServiceAccounts that may write this object.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub service_accounts: List<String>,
    /// Deployments of the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub deployments: List<String>,
    /// Conditions a cluster admin sets; they win over what the operator reports.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub overrides: List<ConditionOverride>,
    /// What the operator reports. Operators write here.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

absent_means_default!(OperatorConditionSpec);

/// What has been taken over from the spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorConditionStatus {
    /// Conditions of the spec, with the generation they were seen in.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
