//! Install strategy of an operator: Deployments and permissions.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::api_type::api_type;
use crate::decode::DecodeError;
use crate::embedded::{Embedded, decode_all};
use crate::sparse::{List, Map};

/// The only install strategy.
pub const STRATEGY_DEPLOYMENT: &str = "deployment";

api_type! {
    /// How the operator is installed.
    pub struct InstallStrategy {
        /// Name of the strategy; only deployment is understood.
        pub strategy: String,
        /// What the strategy installs.
        pub spec: Option<StrategyDetailsDeployment>,
    }
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

api_type! {
    /// Deployments of an operator and the permissions they need.
    pub struct StrategyDetailsDeployment {
        /// Deployments to create.
        pub deployments: Vec<StrategyDeploymentSpec>,
        /// Permissions in each target namespace, one Role for each entry.
        pub permissions: List<StrategyDeploymentPermissions>,
        /// Permissions in the whole cluster, one ClusterRole for each entry.
        pub cluster_permissions: List<StrategyDeploymentPermissions>,
    }
}

api_type! {
    /// One Deployment.
    pub struct StrategyDeploymentSpec {
        /// Name of the Deployment.
        pub name: String,
        /// Spec of the Deployment.
        pub spec: Embedded<DeploymentSpec>,
        /// Labels of the Deployment.
        pub label: Map,
    }
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

api_type! {
    /// Permissions of one ServiceAccount.
    pub struct StrategyDeploymentPermissions {
        /// Name of the ServiceAccount; it is created unless it is called default.
        pub service_account_name: String,
        /// What the ServiceAccount may do.
        pub rules: Vec<Embedded<PolicyRule>>,
    }
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
