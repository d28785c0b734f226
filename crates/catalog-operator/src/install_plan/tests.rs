//! InstallPlans on a cluster in memory, see [`TestEnv`].

mod carried_out;
mod crd_upgrades;
mod crds;
mod failures;
mod golden;
mod properties;
mod requeues;
mod restoration;
mod strangers;
mod test_env;
mod waiting;

use std::time::Duration;

use olm_runtime::outcome::FailureClass;
use serde_json::{Value, json};

use self::test_env::{NAMESPACE, TestEnv, group};
use crate::bundle_unpack::UnpackedBundle;
use crate::bundle_unpack::content::BundleFile;
use crate::bundle_unpack::error::UnpackClass;
use crate::manifest::ConfigMapReference;
use crate::object;

const PLAN: &str = "install-1";

fn crd(name: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name, "creationTimestamp": null},
        "spec": {"group": "example.com", "versions": [{"name": "v1", "served": true, "storage": true}]}, "status": {"conditions": null}})
}

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
fn core(kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

fn bundle(name: &str, objects: Vec<Value>) -> UnpackedBundle {
    let rules = json!([{"serviceAccountName": "demo", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]);
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"displayName": "Demo", "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [], "permissions": rules, "clusterPermissions": rules}}}});
    let objects = objects
        .into_iter()
        .map(|object| BundleFile {
            name: format!("{}.yaml", object::name(&object)),
            object,
        })
        .collect();
    UnpackedBundle {
        image: format!("r/{name}@sha256:00"),
        csv,
        objects,
        ..UnpackedBundle::default()
    }
}

/// A bundle with something of everything.
fn rich() -> UnpackedBundle {
    bundle(
        "demo.v1",
        vec![
            core("ConfigMap", "config", json!({"data": {"a": "1"}})),
            crd("demos.example.com"),
            core("Secret", "secret", json!({"stringData": {"password": "x"}})),
            core("Service", "service", json!({"spec": {"ports": [{"port": 80}]}})),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"}, "spec": {"minAvailable": 1}}),
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1}),
        ],
    )
}

fn small() -> UnpackedBundle {
    bundle("demo.v1", vec![crd("demos.example.com")])
}
