//! Bundles for tests.

use olm_fbc::bundle_files::BundleFile;
use serde_json::{Value, json};

use super::Bundle;

/// Returns a bundle of package `demo` with ClusterServiceVersion `demo.v1.0.0` of this `spec`.
pub(super) fn bundle(spec: &Value) -> Bundle {
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "demo.v1.0.0"}, "spec": spec});
    Bundle {
        package: "demo".to_owned(),
        csv: olm_api::decode_csv_manifest(csv).unwrap(),
        ..Bundle::default()
    }
}

/// Returns the list of these install modes, supported.
pub(super) fn modes(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({"type": name, "supported": true}))
        .collect()
}

/// Returns a file with a CustomResourceDefinition.
pub(super) fn crd(name: &str) -> BundleFile {
    let (plural, group) = name.split_once('.').unwrap();
    BundleFile {
        name: format!("{name}.yaml"),
        object: json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "creationTimestamp": null},
            "spec": {"group": group, "names": {"kind": "Demo", "plural": plural}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true}]},
            "status": {"storedVersions": []}}),
    }
}

/// Returns a file with another object.
pub(super) fn other(file: &str, object: Value) -> BundleFile {
    BundleFile {
        name: file.to_owned(),
        object,
    }
}
