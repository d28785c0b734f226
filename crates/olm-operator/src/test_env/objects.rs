//! Objects as users write them. The namespace is `ns`, the operator is named `demo`, and its version `a`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(crate) fn namespace_object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}})
}

/// An OperatorGroup of `namespace` with these targets; none means all namespaces.
pub(crate) fn group(namespace: &str, name: &str, targets: &[&str]) -> Value {
    let spec = if targets.is_empty() {
        json!({})
    } else {
        json!({"targetNamespaces": targets})
    };
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

/// A ServiceAccount of `ns` that a user created.
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

/// A CustomResourceDefinition that the API server has accepted; its kind is the singular of the plural.
pub(crate) fn crd(name: &str) -> Value {
    let plural = name.split('.').next().unwrap_or_default();
    let singular = plural.trim_end_matches('s');
    let kind: String = singular
        .char_indices()
        .map(|(at, letter)| {
            if at == 0 {
                letter.to_ascii_uppercase()
            } else {
                letter
            }
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"names": {"plural": plural, "kind": kind}, "versions": [{"name": "v1", "served": true}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]}})
}

/// A Subscription whose InstallPlan creates `csv`.
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

/// The demo with one webhook of each of these types, `validating` and `mutating`, both served by its Deployment.
pub(crate) fn csv_with_webhooks(name: &str, replaces: &str) -> Value {
    let mut csv = csv(name, replaces);
    csv["spec"]["webhookdefinitions"] = json!([
        webhook("v.example.com", "ValidatingAdmissionWebhook"),
        webhook("m.example.com", "MutatingAdmissionWebhook"),
    ]);
    csv
}

/// A webhook that the demo's Deployment serves.
pub(crate) fn webhook(name: &str, kind: &str) -> Value {
    json!({"generateName": name, "type": kind, "deploymentName": "demo", "containerPort": 443, "targetPort": 9443,
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "sideEffects": "None", "webhookPath": "/call",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["demos"]}]})
}

/// True for a ClusterRole for users, from its name or from a write of it. No account is bound to these.
pub(crate) fn is_for_users(name: &str) -> bool {
    let ends = ["-admin", "-edit", "-view", "-crdview"];
    let is_of_api = ends
        .iter()
        .any(|end| name.strip_suffix(end).is_some_and(|start| start.ends_with("-v1")));
    is_of_api || name.contains("olm.og.")
}

/// Returns the ClusterRoles of a recording, by name; none without the folder of recordings.
pub(crate) fn golden_roles(file: &str) -> Option<BTreeMap<String, Value>> {
    let path = olm_testing::shared::shared_path(&format!("golden/{file}"))?;
    let documents: Vec<Value> = olm_fbc::yaml::parse_all(&std::fs::read(path).unwrap()).unwrap();
    let objects = documents
        .into_iter()
        .flat_map(|document| match document["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![document],
        });
    let roles = objects.filter(|object| object["kind"] == "ClusterRole");
    let named = roles.map(|role| (role["metadata"]["name"].as_str().unwrap().to_owned(), role));
    Some(named.collect())
}
