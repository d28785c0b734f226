//! Tests of removed and kept values.

use serde_json::{Value, json};

use super::super::redact::{REDACTED, redact};

/// A secret with characters that JSON escapes.
pub(super) const SECRET: &str = "hunter2Qz7 \"\\/{}[]";
/// Beginning of the secret, which escaping does not change.
pub(super) const SECRET_START: &str = "hunter2Qz7";

/// Returns an InstallPlan with a secret in every place that is redacted.
pub(super) fn object_with_secrets() -> Value {
    let manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"any": SECRET}});
    let deployment =
        json!({"kind": "Deployment", "spec": {"containers": [{"env": [{"name": "ANY", "value": SECRET}]}]}});
    let annotated = json!({"metadata": {"annotations": {"x": manifest.to_string()}}});
    json!({
        "kind": "InstallPlan",
        "metadata": {"managedFields": [{"x": SECRET}], "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": json!({"x": SECRET}).to_string(),
            "alm-examples": json!([{"kind": "Db", "spec": {"data": SECRET}}]).to_string(),
        }},
        "spec": {
            "containers": [{
                "env": [{"name": "ANY", "value": SECRET}, {"name": "LIST", "value": [SECRET]}],
                "args": [format!("--db-password={SECRET}"), "--token", SECRET, "--verbose"],
                "command": ["sh", "-c", format!("run --token {SECRET}")],
                "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "X-Api-Key", "value": SECRET}]}},
            }],
            "config": {"env": [{"name": "OTHER", "value": SECRET}]},
        },
        "status": {"plan": [
            {"resource": {"kind": "BundleSecret", "manifest": manifest.to_string()}},
            {"resource": {"kind": "Secret", "manifest": format!("not JSON {SECRET}")}},
            {"resource": {"kind": "Secret", "manifest": format!("{{not JSON {SECRET}")}},
            {"resource": {"kind": "Secret", "manifest": json!({"data": {"any": {"deep": [SECRET]}}}).to_string()}},
            {"resource": {"kind": "Deployment", "manifest": deployment.to_string()}},
            {"resource": {"kind": "ConfigMap", "manifest": annotated.to_string()}},
        ]},
        "inside": [{"kind": "Secret", "data": {"any": SECRET}}, {"kind": "ConfigMap", "data": {"any": SECRET}, "binaryData": {"b": SECRET}}],
    })
}

#[test]
fn values_are_removed_by_place() {
    let mut object = object_with_secrets();
    redact(&mut object);
    let text = object.to_string();
    assert!(!text.contains(SECRET_START), "{text}");
    let container = &object["spec"]["containers"][0];
    assert_eq!(container["env"][0], json!({"name": "ANY", "value": REDACTED}));
    assert_eq!(container["args"], json!([REDACTED, REDACTED, REDACTED, REDACTED]));
    assert_eq!(object["inside"][1]["data"], json!({"any": REDACTED}));
    assert_eq!(object["status"]["plan"][1]["resource"]["manifest"], REDACTED);
}

#[test]
fn everything_else_stays() {
    let object = json!({
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}],
        "envFrom": [{"secretRef": {"name": "s"}}],
        "spec": {"secrets": ["pull"], "password": "text", "env": {"type": "array"}},
        "volumes": [{"secret": {"secretName": "cert", "items": [{"key": "tls.key", "path": "tls.key"}]}}],
        "conditions": [{"type": "Ready", "message": "{ pull https://me:pass@registry.example.com/x failed"}],
        "resource": {"kind": "Role", "manifest": "{\"kind\":\"Role\"}"},
    });
    let mut redacted = object.clone();
    redact(&mut redacted);
    assert_eq!(redacted, object);
}

#[test]
fn json_in_texts_is_followed() {
    let mut text = json!({"data": SECRET});
    for _ in 0..6 {
        text = json!({"x": text.to_string()});
    }
    redact(&mut text);
    let text = text.to_string();
    assert!(text.contains(REDACTED) && !text.contains(SECRET_START), "{text}");
}
