#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use serde_json::json;

use super::*;
use crate::manifest_validator::ShapeValidator;

mod content;
mod format;
mod optional;
mod verdicts;

const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: p
  operators.operatorframework.io.bundle.channels.v1: stable
";

fn csv() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "p.v1"},
        "spec": {
            "version": "1.0.0", "displayName": "P",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment"},
            "customresourcedefinitions": {"owned": [{"name": "things.p.io", "version": "v1", "kind": "Thing"}]},
        },
    })
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.p.io"},
        "spec": {
            "group": "p.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn files(objects: &[Value]) -> BTreeMap<String, String> {
    objects
        .iter()
        .enumerate()
        .map(|(index, object)| (format!("{index}.yaml"), object.to_string()))
        .collect()
}

fn content(change: impl FnOnce(&mut Value, &mut Value, &mut Vec<Value>)) -> String {
    let (mut csv, mut crd, mut more) = (csv(), crd(), Vec::new());
    change(&mut csv, &mut crd, &mut more);
    let mut objects = vec![csv, crd];
    objects.extend(more);
    check_content(&files(&objects), &Optional::default(), &ShapeValidator).join("\n")
}
