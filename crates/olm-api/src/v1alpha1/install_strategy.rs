//! Install strategy of an operator: Deployments and permissions.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::api::rbac::v1::PolicyRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::decode::{DecodeError, or_default};
use crate::embedded::{Embedded, decode_all};
use crate::sparse::{List, Map};

/// The only install strategy.
pub const STRATEGY_DEPLOYMENT: &str = "deployment";

/// How the operator is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallStrategy {
    /// Name of the strategy; only deployment is understood.
    #[serde(deserialize_with = "or_default")]
    pub strategy: String,
    /// What the strategy installs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<StrategyDetailsDeployment>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl InstallStrategy {
    /// Returns the Deployments to create.
    pub fn deployments(&self) -> &[StrategyDeploymentSpec] {
        self.spec.as_ref().map_or(&[], |spec| &spec.deployments)
    }

    /// Returns the permissions in the target namespaces.
    pub fn permissions(&self) -> &[StrategyDeploymentPermissions] {
        self.spec.as_ref().map_or(&[], |spec| &spec.permissions)
    }

    /// Returns the permissions in the whole cluster.
    pub fn cluster_permissions(&self) -> &[StrategyDeploymentPermissions] {
        self.spec.as_ref().map_or(&[], |spec| &spec.cluster_permissions)
    }
}

/// Deployments of an operator and the permissions they need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyDetailsDeployment {
    /// Deployments to create.
    #[serde(deserialize_with = "or_default")]
    pub deployments: Vec<StrategyDeploymentSpec>,
    /// Permissions in each target namespace, one Role for each entry.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub permissions: List<StrategyDeploymentPermissions>,
    /// Permissions in the whole cluster, one ClusterRole for each entry.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub cluster_permissions: List<StrategyDeploymentPermissions>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyDeploymentSpec {
    /// Name of the Deployment.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Spec of the Deployment.
    #[serde(deserialize_with = "or_default")]
    pub spec: Embedded<DeploymentSpec>,
    /// Labels of the Deployment.
    #[serde(skip_serializing_if = "Map::is_absent")]
    pub label: Map,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl StrategyDeploymentSpec {
    /// Returns the Deployment spec as a typed value.
    ///
    /// # Errors
    /// If the spec does not decode; the error names the Deployment and the field.
    pub fn decode_spec(&self) -> Result<DeploymentSpec, DecodeError> {
        self.spec.decode(&format!("deployment `{}`", self.name))
    }
}

/// Permissions of one ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyDeploymentPermissions {
    /// Name of the ServiceAccount; it is created unless it is called default.
    #[serde(deserialize_with = "or_default")]
    pub service_account_name: String,
    /// What the ServiceAccount may do.
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<Embedded<PolicyRule>>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl StrategyDeploymentPermissions {
    /// Returns the rules as typed values.
    ///
    /// # Errors
    /// The first rule that does not decode; the error names the ServiceAccount, the rule's index and the field.
    pub fn decode_rules(&self) -> Result<Vec<PolicyRule>, DecodeError> {
        decode_all(
            &self.rules,
            &format!("service account `{}`, rules", self.service_account_name),
        )
    }
}
