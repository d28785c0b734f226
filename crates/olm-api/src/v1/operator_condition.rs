//! OperatorCondition as served to clients of the older version, and the types both versions share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::decode::{absent_means_default, or_default};
use crate::sparse::List;

/// What a cluster admin overrides, and which workloads report.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OperatorCondition",
    plural = "operatorconditions",
    singular = "operatorcondition",
    shortname = "condition",
    category = "olm",
    namespaced,
    storage = false,
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
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

absent_means_default!(OperatorConditionSpec);

/// What the operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorConditionStatus {
    /// What the operator reports.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A condition set by a cluster admin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionOverride {
    /// What it is about; only Upgradeable is interpreted.
    #[serde(rename = "type", deserialize_with = "or_default")]
    #[schemars(extend("maxLength" = 316, "pattern" = crate::schema::CONDITION_TYPE_PATTERN))]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(deserialize_with = "or_default")]
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Why, in one word.
    #[serde(deserialize_with = "or_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 1024, "pattern" = crate::schema::CONDITION_REASON_PATTERN))]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "or_default")]
    #[schemars(extend("maxLength" = 32768))]
    pub message: String,
    /// When it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Generation of this object the condition was set for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
