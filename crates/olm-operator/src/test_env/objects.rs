//! Objects as users write them. The namespace is `ns`, the operator is called `demo`, its version `a`.

use serde_json::{Value, json};

pub(crate) fn namespace_object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}})
}

/// An OperatorGroup of `namespace` that targets these; none for all namespaces.
pub(crate) fn group(namespace: &str, name: &str, targets: &[&str]) -> Value {
    let spec = if targets.is_empty() {
        json!({})
    } else {
        json!({"targetNamespaces": targets})
    };
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

/// A ServiceAccount of `ns` that its user made.
pub(crate) fn service_account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": name}})
}

/// A ClusterServiceVersion with one Deployment, one owned CustomResourceDefinition and rights of both kinds.
pub(crate) fn csv(name: &str, replaces: &str) -> Value {
    let modes = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ]
    .map(|mode| json!({"type": mode, "supported": true}));
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"namespace": "ns", "name": name, "annotations": {"capabilities": "Basic Install"}},
        "spec": {
            "displayName": "Demo", "replaces": replaces,
            "installModes": modes,
            "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]},
            "install": {"strategy": "deployment", "spec": {
                "permissions": [permission("demo", "", "configmaps")],
                "clusterPermissions": [permission("demo", "example.com", "demos")],
                "deployments": [deployment("demo", "demo:1")],
            }},
        },
    })
}

pub(crate) fn permission(account: &str, group: &str, resource: &str) -> Value {
    json!({"serviceAccountName": account, "rules": [{"verbs": ["*"], "apiGroups": [group], "resources": [resource]}]})
}

/// An entry of an install strategy.
pub(crate) fn deployment(name: &str, image: &str) -> Value {
    json!({"name": name, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
        "metadata": {"labels": {"app": name}},
        "spec": {"serviceAccountName": "demo", "containers": [{"name": "c", "image": image}]},
    }}})
}

/// A CustomResourceDefinition that the API server has taken.
pub(crate) fn crd(name: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"versions": [{"name": "v1", "served": true}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]}})
}

/// A Subscription whose InstallPlan makes `csv`.
pub(crate) fn subscription(csv: &str, config: Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"namespace": "ns", "name": "sub"},
        "spec": {"source": "cat", "sourceNamespace": "ns", "name": "demo", "config": config},
        "status": {"currentCSV": csv, "lastUpdated": null}})
}

pub(crate) fn api_service(name: &str, available: &str) -> Value {
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Available", "status": available}]}})
}
