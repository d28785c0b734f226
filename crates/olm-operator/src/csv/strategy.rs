//! The install strategy as typed values, or the error in it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{apps::v1::DeploymentSpec, rbac::v1::PolicyRule};
use olm_api::{
    permission as recipe, rights,
    v1alpha1::{ClusterServiceVersion, STRATEGY_DEPLOYMENT},
};

use crate::csv::coverage;

/// Limit of the combinations of verb, group, resource and name in all permissions together. In every reconcile
/// each may be compared with the granted rules, on the thread of all reconciles.
const MAX_COMBINATIONS: usize = 200_000;

/// Objects that an install creates.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Strategy {
    /// Deployments, in the author's order.
    pub(crate) deployments: Vec<StrategyDeployment>,
    /// The roles for all requested rights, without duplicates: those in the target namespaces first.
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
    Ok(Strategy {
        roles: wanted_roles(csv)?,
        deployments: deployments.collect::<Result<_, String>>()?,
    })
}

/// Returns the roles for the permissions, without duplicates.
///
/// # Errors
/// The first invalid permission, or the size of all of them, for users.
fn wanted_roles(csv: &ClusterServiceVersion) -> Result<Vec<WantedRole>, String> {
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let install = &csv.spec.install;
    let scoped = |scope| move |permission| (scope, permission);
    let all = install.permissions().iter().map(scoped(Scope::Namespace));
    let all = all.chain(install.cluster_permissions().iter().map(scoped(Scope::Cluster)));
    let mut combinations = 0_usize;
    let mut seen = BTreeSet::new();
    let mut roles = Vec::new();
    for (scope, permission) in all {
        let rules = permission.decode_rules().map_err(|error| error.to_string())?;
        let service_account = permission.service_account_name.clone();
        if let Some(why) = rules.iter().find_map(coverage::invalid_rule) {
            return Err(format!(
                "rule invalid: {why} (permissions of service account {service_account})"
            ));
        }
        let of_rules = rules.iter().map(rights::coverage::combinations);
        combinations = of_rules.fold(combinations, usize::saturating_add);
        let recipe = recipe::Permission::new(&service_account, &rules);
        let role = match scope {
            Scope::Namespace => recipe.role_name(name),
            Scope::Cluster => recipe.cluster_role_name(name, namespace),
        };
        let role = role.map_err(|error| error.to_string())?;
        if seen.insert((scope, role.clone())) {
            roles.push(WantedRole {
                name: role,
                scope,
                service_account,
                rules,
            });
        }
    }
    if combinations > MAX_COMBINATIONS {
        return Err(format!(
            "permissions have {combinations} combinations of verbs, groups, resources and names; the limit is {MAX_COMBINATIONS}"
        ));
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

    #[test]
    fn permissions_that_ask_for_more_than_can_be_compared_are_refused() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|n| format!("n{n}")).collect() };
        let asking = |verbs: &[&str], count: usize| {
            let rule = json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"], "resourceNames": names(count)});
            let permissions = json!([{"serviceAccountName": "default", "rules": [rule]}]);
            read(&csv(json!({"install": {"strategy": "deployment",
                "spec": {"deployments": [], "permissions": permissions, "clusterPermissions": permissions}}})))
        };
        assert!(asking(&["get", "get", "get"], MAX_COMBINATIONS / 2).is_ok());
        assert_eq!(
            asking(&["get", "list"], MAX_COMBINATIONS / 4 + 1).unwrap_err(),
            "permissions have 200004 combinations of verbs, groups, resources and names; the limit is 200000"
        );
    }
}
