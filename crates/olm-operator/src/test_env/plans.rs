//! InstallPlans, as far as this operator knows them. A stand-in for the catalog operator creates accounts and
//! RBAC of a ClusterServiceVersion, and restores them on request.

use olm_api::{permission, v1alpha1::ClusterServiceVersion};
use olm_runtime::NamespacedName;
use serde_json::{Value, json};

use super::{Key, TestEnv, decode};
use crate::csv::strategy::{self, Scope};

const RBAC: &str = permission::API_GROUP;

impl TestEnv {
    /// Creates a completed InstallPlan `install-<name>` for the ClusterServiceVersion, and the objects of its
    /// steps.
    pub(crate) fn install_plan(&mut self, csv: &NamespacedName) {
        let Some(object) = self.get("ClusterServiceVersion", &csv.namespace, &csv.name) else {
            return;
        };
        let objects = rbac_of(&decode(object.clone()));
        let steps: Vec<Value> = objects.iter().map(|object| step(&csv.name, object)).collect();
        self.put(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"namespace": csv.namespace, "name": format!("install-{}", csv.name)},
            "spec": {"clusterServiceVersionNames": [csv.name], "approval": "Automatic", "approved": true, "generation": 1},
            "status": {"phase": "Complete", "catalogSources": [], "plan": steps, "conditions": [{"type": "Installed", "status": "True",
                "lastTransitionTime": object["metadata"]["creationTimestamp"]}]},
        }));
        for object in objects {
            self.carry_out(csv, &object);
        }
    }

    /// Restores missing objects of completed plans, as the catalog operator does.
    pub(crate) fn restore_plans(&mut self) {
        let plans: Vec<Value> = self
            .objects
            .iter()
            .filter(|(key, _)| key.0 == "InstallPlan")
            .map(|(_, plan)| plan.clone())
            .collect();
        for plan in plans {
            let namespace = plan["metadata"]["namespace"].as_str().unwrap();
            for step in plan["status"]["plan"].as_array().unwrap() {
                let csv = NamespacedName::new(namespace, step["resolving"].as_str().unwrap());
                let manifest = step["resource"]["manifest"].as_str().unwrap();
                if self.stays(&csv) {
                    self.carry_out(&csv, &serde_json::from_str(manifest).unwrap());
                }
            }
        }
    }

    fn stays(&self, csv: &NamespacedName) -> bool {
        self.get("ClusterServiceVersion", &csv.namespace, &csv.name)
            .is_some_and(|csv| {
                csv["metadata"]["deletionTimestamp"].is_null()
                    && csv["status"]["phase"] != "Replacing"
                    && csv["status"]["phase"] != "Deleting"
            })
    }

    /// Executes one step.
    fn carry_out(&mut self, csv: &NamespacedName, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key: Key = (
            object["kind"].as_str().unwrap().to_owned(),
            text("namespace"),
            text("name"),
        );
        let mut wanted = object.clone();
        if !key.1.is_empty() {
            let owner = &self
                .get("ClusterServiceVersion", &csv.namespace, &csv.name)
                .unwrap()["metadata"];
            let reference = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                "name": csv.name, "uid": owner["uid"], "controller": false, "blockOwnerDeletion": false});
            wanted["metadata"]["ownerReferences"] = json!([reference]);
            if let Some(found) = self.objects.get(&key) {
                let owners = &found["metadata"]["ownerReferences"];
                let mut all = owners.as_array().cloned().unwrap_or_default();
                // An account that a user created keeps its owners.
                if all.iter().any(|owner| owner["kind"] == "ClusterServiceVersion")
                    && !all.iter().any(|owner| owner["uid"] == reference["uid"])
                {
                    all.push(reference);
                }
                wanted["metadata"]["ownerReferences"] = json!(all);
            }
        }
        let same = |found: &Value| {
            ["rules", "subjects", "roleRef"]
                .iter()
                .all(|field| found[field] == wanted[field])
                && found["metadata"]["ownerReferences"] == wanted["metadata"]["ownerReferences"]
        };
        if !self.objects.get(&key).is_some_and(same) {
            self.put(wanted);
        }
    }
}

fn step(csv: &str, object: &Value) -> Value {
    let (group, version) = object["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap_or(("", "v1"));
    json!({"resolving": csv, "status": "Created", "resource": {"sourceName": "cat", "sourceNamespace": "ns",
        "group": group, "version": version, "kind": object["kind"], "name": object["metadata"]["name"],
        "manifest": object.to_string()}})
}

/// Returns accounts, roles and bindings that a ClusterServiceVersion describes; none while its strategy is
/// invalid.
fn rbac_of(csv: &ClusterServiceVersion) -> Vec<Value> {
    let Ok(strategy) = strategy::read(csv) else {
        return Vec::new();
    };
    let namespace = csv.metadata.namespace.clone().unwrap_or_default();
    let accounts: std::collections::BTreeSet<&str> = strategy
        .roles
        .iter()
        .map(|role| role.service_account.as_str())
        .filter(|name| *name != "default")
        .collect();
    let mut marks = crate::component::shared_labels(&csv.metadata);
    marks.insert("olm.managed".into(), "true".into());
    let mut objects: Vec<Value> = accounts
        .into_iter()
        .map(|name| {
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"namespace": namespace, "name": name, "labels": marks}})
        })
        .collect();
    for role in &strategy.roles {
        let (kind, within) = match role.scope {
            Scope::Namespace => ("Role", json!(namespace)),
            Scope::Cluster => ("ClusterRole", Value::Null),
        };
        let role_ref = permission::role_ref(kind, &role.name);
        let subjects = vec![permission::service_account_subject(
            &namespace,
            &role.service_account,
        )];
        let metadata = |hash: String| {
            let mut labels = crate::owner::marks(csv);
            labels.insert("olm.permissions.hash".into(), hash);
            let mut metadata = json!({"name": role.name, "labels": labels});
            if !within.is_null() {
                metadata["namespace"] = within.clone();
            }
            metadata
        };
        objects.push(
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "rules": role.rules,
            "metadata": metadata(permission::rules_hash(&role.rules).unwrap())}),
        );
        objects.push(
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "roleRef": role_ref, "subjects": subjects,
            "metadata": metadata(permission::binding_hash(&role_ref, &subjects).unwrap())}),
        );
    }
    objects
}
