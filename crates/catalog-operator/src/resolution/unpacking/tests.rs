//! Bundles that a catalog carries itself.

use std::sync::Arc;

use olm_fbc::entry::BundleEntry;
use olm_resolver::{CatalogKey, Snapshot};
use serde_json::{Value, json};

use super::*;
use crate::bundle_unpack::preflight;
use crate::catalog_manifests::read_manifests;
use crate::test_env::bundle;
use olm_resolver::cluster_fit::GroupTargets;

fn result(objects: &[Value], cluster: &Cluster) -> Bundles {
    let entry = BundleEntry {
        bundle_path: None,
        inline: Some(Arc::default()),
        ..bundle("a.v1").into()
    };
    let operator = Operator {
        entry: Arc::clone(&Snapshot::new([entry]).entries()[0]),
        catalog: CatalogKey {
            name: "cat".to_owned(),
            namespace: "ns".to_owned(),
        },
        replaces: String::new(),
        subscriptions: vec!["a".to_owned()],
        required_by: Vec::new(),
        generated_subscription: None,
    };
    let objects: Vec<String> = objects.iter().map(Value::to_string).collect();
    let bundle =
        read_manifests(&objects).and_then(|bundle| preflight::check(&bundle, "a.v1").map(|()| bundle));
    match bundle {
        Ok(bundle) => with_steps(&operator, bundle, "ns", cluster),
        Err(error) => failed(&error.of_bundle("a.v1"), None),
    }
}

fn csv(name: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"minKubeVersion": "1.99.0", "install": {"strategy": "deployment", "spec": {"deployments": []}}}})
}

fn object(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
}

fn with_data(value: &str) -> Value {
    let mut object = object("v1", "ConfigMap");
    object["data"] = json!({"key": value});
    object
}

/// Errors for which a bundle image with the same objects is refused are reported here, before there is a plan.
#[test]
fn content_in_a_catalog_is_checked_as_that_of_an_image() {
    let mut posing = object("v1", "ConfigMap");
    for field in ["name", "namespace", "catalogSourceName", "catalogSourceNamespace"] {
        posing[field] = json!("any");
    }
    let rows = [
        (
            vec![csv("b.v1")],
            "ClusterServiceVersion b.v1, the catalog names a.v1",
        ),
        (
            vec![csv("a.v1"), object("v1", "Pod")],
            "OLM does not support objects of kind Pod",
        ),
        (
            vec![csv("a.v1"), object("iam.services.k8s.aws/v1alpha1", "Role")],
            "object 0001.json: Role.iam.services.k8s.aws x cannot be part of a bundle",
        ),
        (
            vec![csv(&"a".repeat(64))],
            "has 64 characters; it becomes a label value, which is limited to 63",
        ),
        (
            vec![
                csv("a.v1"),
                object("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
            ],
            "Kubernetes 1.22 and later do not serve",
        ),
        (
            vec![csv("a.v1"), object("v1", "ConfigMap"), with_data("1")],
            "object 0001.json and object 0002.json both contain ConfigMap x with different content",
        ),
        (
            vec![object("v1", "ConfigMap")],
            "no file contains a ClusterServiceVersion",
        ),
        (
            vec![csv("a.v1"), posing],
            "ConfigMap x has the form of a reference that only an InstallPlan may contain",
        ),
    ];
    for (objects, expected) in rows {
        let Bundles::Failed { reason, message, .. } = result(&objects, &Cluster::default()) else {
            panic!("no failure: {expected}")
        };
        assert_eq!(reason, reasons::ERROR_PREVENTED_UNPACKING);
        assert!(
            message.contains(expected) && message.contains("bundle a.v1"),
            "{message}"
        );
    }
}

#[test]
fn content_of_a_catalog_that_the_cluster_refuses_is_reported() {
    let cluster = Cluster {
        kubernetes: Some("v1.34.1".to_owned()),
        targets: Some(GroupTargets {
            group: "og".to_owned(),
            namespaces: vec!["ns".to_owned()],
        }),
    };
    let mut csv = csv("a.v1");
    csv["spec"]["installModes"] = json!([{"type": "AllNamespaces", "supported": true}]);
    let Bundles::Ready(ready) = result(&[csv, object("v1", "ConfigMap")], &cluster) else {
        panic!("no steps")
    };
    assert_eq!((ready.steps.len(), ready.lookups.len()), (2, 0));
    assert_eq!(
        ready.obstacles,
        [
            "bundle a.v1 needs Kubernetes 1.99.0 or newer, this cluster has v1.34.1",
            "bundle a.v1 does not support what OperatorGroup og selects: OwnNamespace InstallModeType not supported, cannot configure to \
             watch own namespace: its ClusterServiceVersion will fail with UnsupportedOperatorGroup; change spec.targetNamespaces, or \
             install it in another namespace"
        ]
    );
}

/// The operator would wait for its definition forever.
#[test]
fn an_object_in_a_catalog_that_cannot_be_read_is_missed_where_it_was_to_be_a_definition() {
    let mut owner = csv("a.v1");
    owner["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "as.example.com", "kind": "A", "version": "v1"}]});
    let objects = [owner.to_string(), r#"{"kind": "#.to_owned()];
    let error = crate::catalog_manifests::read_manifests(&objects)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("CustomResourceDefinition as.example.com")
            && error.contains("`object 0001.json` skipped"),
        "{error}"
    );
}
