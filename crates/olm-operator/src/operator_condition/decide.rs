//! Decides the writes for an OperatorCondition. No I/O.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, Subject},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, ResourceExt};
use olm_api::{
    labels, permission,
    v1alpha1::ClusterServiceVersion,
    v2::{OperatorCondition, OperatorConditionSpec},
};
use olm_runtime::plan::{Action, Exists, Identity, Plan, Target, to_value};
use serde_json::{Value, json};

use crate::{
    component,
    csv::rbac::{DEFAULT_ACCOUNT, same_rules},
    operator_condition::{FIELD_MANAGER, Observed},
    owner,
};

/// Returns the write of the OperatorCondition for its ClusterServiceVersion, then of the rights to write it.
pub(crate) fn decide(observed: &Observed) -> Plan {
    if observed.namespace_terminating {
        return Plan::default();
    }
    let wanted = observed
        .csv
        .as_ref()
        .filter(|csv| csv.metadata.deletion_timestamp.is_none());
    let mut actions: Vec<Action> = wanted
        .and_then(|csv| generate(observed, csv))
        .into_iter()
        .collect();
    let alive = observed
        .condition
        .as_ref()
        .filter(|found| found.metadata.deletion_timestamp.is_none());
    // A pending change of the condition may change the accounts, so its rights follow in the next reconcile.
    if let (Some(condition), true) = (alive, actions.is_empty()) {
        actions.extend(role(observed, condition));
        actions.extend(binding(observed, condition));
    }
    Plan::of(actions)
}

fn generate(observed: &Observed, csv: &ClusterServiceVersion) -> Option<Action> {
    let (accounts, deployments) = (service_accounts(csv), deployments(csv));
    if let Some(found) = &observed.condition
        && found.spec.service_accounts == accounts
        && found.spec.deployments == deployments
        && is_controlled_by(&found.metadata, csv.uid().as_deref())
    {
        return None;
    }
    let spec = OperatorConditionSpec {
        service_accounts: accounts.into(),
        deployments: deployments.into(),
        ..OperatorConditionSpec::default()
    };
    let owner = OwnerReference {
        controller: Some(true),
        ..owner::reference(csv)
    };
    let mut object = json!({
        "apiVersion": OperatorCondition::api_version(&()),
        "kind": OperatorCondition::kind(&()),
        "metadata": {"name": observed.name, "namespace": observed.namespace, "ownerReferences": [owner]},
        "spec": spec,
    });
    let marks = component::shared_labels(&csv.metadata);
    if !marks.is_empty() {
        object["metadata"]["labels"] = json!(marks);
    }
    let target = Target::of::<OperatorCondition>(&observed.namespace, &observed.name);
    Some(Action::apply(target, object, FIELD_MANAGER))
}

/// Returns the accounts of the cluster permissions, then of the permissions, in order and with duplicates.
fn service_accounts(csv: &ClusterServiceVersion) -> Vec<String> {
    let install = &csv.spec.install;
    let all = install.cluster_permissions().iter().chain(install.permissions());
    let named: Vec<String> = all
        .map(|permission| permission.service_account_name.clone())
        .collect();
    if named.is_empty() {
        vec![DEFAULT_ACCOUNT.to_owned()]
    } else {
        named
    }
}

fn deployments(csv: &ClusterServiceVersion) -> Vec<String> {
    csv.spec
        .install
        .deployments()
        .iter()
        .map(|deployment| deployment.name.clone())
        .collect()
}

fn is_controlled_by(metadata: &ObjectMeta, uid: Option<&str>) -> bool {
    owner::controller(metadata).is_some_and(|owner| Some(owner.uid.as_str()) == uid)
}

fn role(observed: &Observed, condition: &OperatorCondition) -> Option<Action> {
    let rules = vec![PolicyRule {
        verbs: ["get", "update", "patch"].map(str::to_owned).to_vec(),
        api_groups: Some(vec![OperatorCondition::group(&()).into_owned()]),
        resources: Some(vec![OperatorCondition::plural(&()).into_owned()]),
        resource_names: Some(vec![observed.name.clone()]),
        ..PolicyRule::default()
    }];
    if let Some(found) = &observed.role
        && is_controlled_by(&found.metadata, condition.uid().as_deref())
        && same_rules(found.rules.as_deref(), &rules)
    {
        return None;
    }
    let role = Role {
        metadata: metadata(observed, condition),
        rules: Some(rules),
    };
    let target = Target::of::<Role>(&observed.namespace, &observed.name);
    Some(write(target, to_value(&role), observed.role.is_some()))
}

fn binding(observed: &Observed, condition: &OperatorCondition) -> Vec<Action> {
    let role_ref = permission::role_ref("Role", &observed.name);
    let subjects = subjects(condition);
    let found = observed.binding.as_ref();
    if let Some(found) = found
        && is_controlled_by(&found.metadata, condition.uid().as_deref())
        && found.role_ref == role_ref
        && found.subjects.as_deref() == Some(&subjects)
    {
        return Vec::new();
    }
    let target = Target::of::<RoleBinding>(&observed.namespace, &observed.name);
    // The role reference of a binding is immutable.
    let misled = found.filter(|found| found.role_ref != role_ref);
    let stays = found.is_some() && misled.is_none();
    let removal = misled.map(|found| Action::delete(target.clone(), found.uid()));
    let binding = RoleBinding {
        metadata: metadata(observed, condition),
        role_ref,
        subjects: Some(subjects),
    };
    removal
        .into_iter()
        .chain([write(target, to_value(&binding), stays)])
        .collect()
}

/// Creates unknown objects instead of applying them, because an apply would overwrite an object of others
/// with this name. The refusal ends the plan, so accounts get no rights of a Role that is not OLM's.
fn write(target: Target, object: Value, is_known: bool) -> Action {
    if is_known {
        return Action::apply(target, object, FIELD_MANAGER);
    }
    Action::Create {
        target,
        object,
        exists: Exists::Fail,
        identity: Identity::Operator,
    }
}

/// Returns each account once; upstream repeats one that has permissions of both kinds.
fn subjects(condition: &OperatorCondition) -> Vec<Subject> {
    let mut seen = BTreeSet::new();
    let accounts = condition
        .spec
        .service_accounts
        .iter()
        .filter(|account| seen.insert(*account));
    accounts
        .map(|account| Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.clone(),
            namespace: None,
            api_group: None,
        })
        .collect()
}

fn metadata(observed: &Observed, condition: &OperatorCondition) -> ObjectMeta {
    ObjectMeta {
        name: Some(observed.name.clone()),
        namespace: Some(observed.namespace.clone()),
        labels: Some([(labels::MANAGED.to_owned(), labels::TRUE.to_owned())].into()),
        owner_references: Some(vec![OwnerReference {
            api_version: OperatorCondition::api_version(&()).into_owned(),
            kind: OperatorCondition::kind(&()).into_owned(),
            name: observed.name.clone(),
            uid: condition.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(false),
        }]),
        ..ObjectMeta::default()
    }
}
