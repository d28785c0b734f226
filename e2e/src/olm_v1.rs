//! OLM v1 on the embedded cluster: its installation by the chart, ClusterCatalogs and ClusterExtensions.

use serde_json::{Value, json};
use xtask::kubectl::{Destination, text};

use crate::lab::{PATIENCE, condition};

/// Returns a ClusterCatalog of an image.
pub fn cluster_catalog(name: &str, mode: &str, image: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"availabilityMode": mode, "source": {"type": "Image", "image": {"ref": image}}}
    })
}

/// Returns the catalog once its condition `Serving` has this status.
///
/// # Errors
/// That times out.
pub fn serving(kubectl: &Destination, catalog: &str, status: &str) -> anyhow::Result<Value> {
    kubectl.wait(&format!("Serving to be {status}"), PATIENCE, |kubectl| {
        let found = kubectl.get(&["clustercatalog", catalog])?.unwrap_or_default();
        Ok(
            if condition(&found, "Serving").is_some_and(|it| it["status"] == status) {
                Ok(found)
            } else {
                Err(found["status"].to_string())
            },
        )
    })
}

/// Returns true if a condition has this status and reason.
pub fn is(object: &Value, type_: &str, status: &str, reason: &str) -> bool {
    condition(object, type_).is_some_and(|it| it["status"] == status && it["reason"] == reason)
}

/// Returns the message of a condition; empty without the condition.
pub fn message<'a>(object: &'a Value, type_: &str) -> &'a str {
    condition(object, type_).map_or("", |condition| text(condition, "/message"))
}

/// Returns true if a ClusterExtension has installed a version, and wants no other.
pub fn has_installed(extension: &Value, version: &str) -> bool {
    is(extension, "Installed", "True", "Succeeded")
        && is(extension, "Progressing", "True", "Succeeded")
        && text(extension, "/status/install/bundle/version") == version
}

/// Returns the object with these arguments of `kubectl get` once `seen` accepts it.
///
/// # Errors
/// That times out; the error has `what` and the last status.
pub fn object(
    kubectl: &Destination,
    arguments: &[&str],
    what: &str,
    seen: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    kubectl.wait_for(arguments, what, PATIENCE, seen)
}

/// Waits until an object does not exist.
///
/// # Errors
/// That times out.
pub fn gone(kubectl: &Destination, arguments: &[&str]) -> anyhow::Result<()> {
    kubectl.wait_until_gone(arguments, PATIENCE)
}
