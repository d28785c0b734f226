//! The install strategy as typed values, or the error in it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{apps::v1::DeploymentSpec, rbac::v1::PolicyRule};
use olm_api::{
    permission as recipe,
    v1alpha1::{ClusterServiceVersion, STRATEGY_DEPLOYMENT, StrategyDeploymentPermissions},
};

/// Objects that an install creates.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Strategy {
    /// Deployments, in the author's order.
    pub(crate) deployments: Vec<StrategyDeployment>,
    /// Rights in the target namespaces.
    pub(crate) permissions: Vec<Permission>,
    /// Rights in the whole cluster.
    pub(crate) cluster_permissions: Vec<Permission>,
    /// The roles for these rights, without duplicates.
    pub(crate) roles: Vec<WantedRole>,
}

/// A Deployment of the strategy.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StrategyDeployment {
    pub(crate) name: String,
    /// Its spec as the author wrote it.
    pub(crate) spec: DeploymentSpec,
    pub(crate) label: BTreeMap<String, String>,
}

/// The rights of one ServiceAccount.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Permission {
    pub(crate) service_account: String,
    pub(crate) rules: Vec<PolicyRule>,
}

/// Scope of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The namespace of the ClusterServiceVersion.
    Namespace,
    /// The whole cluster.
    Cluster,
}

/// A role and its binding, which have the same name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedRole {
    /// Name of role and binding, as in an InstallPlan.
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) service_account: String,
    pub(crate) rules: Vec<PolicyRule>,
}

/// Parses the strategy.
///
/// # Errors
/// The invalid part of the ClusterServiceVersion, for users.
pub(crate) fn read(csv: &ClusterServiceVersion) -> Result<Strategy, String> {
    let install = &csv.spec.install;
    if install.strategy != STRATEGY_DEPLOYMENT {
        return Err("unrecognized install strategy".to_owned());
    }
    let deployments = install.deployments().iter().map(|deployment| {
        let spec = deployment.decode_spec().map_err(|error| error.to_string())?;
        Ok(StrategyDeployment {
            name: deployment.name.clone(),
            spec,
            label: deployment.label.clone().into_inner(),
        })
    });
    let permissions = read_permissions(install.permissions())?;
    let cluster_permissions = read_permissions(install.cluster_permissions())?;
    let roles = wanted_roles(csv, &permissions, &cluster_permissions).map_err(|error| error.to_string())?;
    Ok(Strategy {
        deployments: deployments.collect::<Result<_, String>>()?,
        permissions,
        cluster_permissions,
        roles,
    })
}

fn read_permissions(permissions: &[StrategyDeploymentPermissions]) -> Result<Vec<Permission>, String> {
    permissions
        .iter()
        .map(|permission| {
            Ok(Permission {
                service_account: permission.service_account_name.clone(),
                rules: permission.decode_rules().map_err(|error| error.to_string())?,
            })
        })
        .collect()
}

/// Returns the roles for these permissions, without duplicates.
///
/// # Errors
/// None in practice: names and hashes are computed from plain values.
fn wanted_roles(
    csv: &ClusterServiceVersion,
    permissions: &[Permission],
    cluster_permissions: &[Permission],
) -> Result<Vec<WantedRole>, serde_json::Error> {
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let scoped = |scope| move |permission| (scope, permission);
    let all = permissions
        .iter()
        .map(scoped(Scope::Namespace))
        .chain(cluster_permissions.iter().map(scoped(Scope::Cluster)));
    let mut seen = BTreeSet::new();
    let mut roles = Vec::new();
    for (
        scope,
        Permission {
            service_account,
            rules,
        },
    ) in all
    {
        let recipe = recipe::Permission::new(service_account, rules);
        let role = match scope {
            Scope::Namespace => recipe.role_name(name)?,
            Scope::Cluster => recipe.cluster_role_name(name, namespace)?,
        };
        if seen.insert((scope, role.clone())) {
            roles.push(WantedRole {
                name: role,
                scope,
                service_account: service_account.clone(),
                rules: rules.clone(),
            });
        }
    }
    Ok(roles)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn csv(spec: Value) -> ClusterServiceVersion {
        serde_json::from_value(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a", "namespace": "ns"}, "spec": spec}),
        )
        .unwrap()
    }

    #[test]
    fn an_unknown_strategy_is_refused() {
        let error = read(&csv(json!({"install": {"strategy": "helm"}}))).unwrap_err();
        assert_eq!(error, "unrecognized install strategy");
    }

    #[test]
    fn a_deployment_that_does_not_decode_is_named() {
        let error = read(&csv(
            json!({"install": {"strategy": "deployment", "spec": {"deployments": [
                {"name": "manager", "spec": {"replicas": "many", "selector": {}, "template": {}}}
            ]}}}),
        ))
        .unwrap_err();
        assert!(error.contains("manager") && error.contains("replicas"), "{error}");
    }
}
