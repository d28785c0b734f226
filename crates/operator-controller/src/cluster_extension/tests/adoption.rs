//! Extensions that adopt the objects of a ClusterServiceVersion.

use serde_json::{Value, json};

use super::REACHED;
use crate::cluster_extension::test_env::{TestBundle, TestEnv};

/// A ConfigMap that a ClusterServiceVersion owns, which is not its controller.
fn of_classic(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"),
        "labels": {"olm.owner": "p.v1.0.0"},
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "p.v1.0.0",
            "uid": "csv", "controller": false, "blockOwnerDeletion": false}]}, "data": {"mine": "1"}})
}

#[test]
fn v1_the_first_revision_of_an_adopting_extension_takes_over_what_has_no_controller() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        version: "1.1.0",
        config_maps: &["a", "b"],
        ..TestBundle::default()
    });
    // The owner exists, else the garbage collector would delete the object.
    env.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "csv", "uid": "csv"}}));
    for name in ["a", "b"] {
        env.put(of_classic(name));
    }
    env.put(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "e", "annotations": {olm_api::labels::EXTENSION_ADOPTS: "ns/p.v1.0.0"}},
        "spec": {"namespace": "ns", "source": {"sourceType": "Catalog",
            "catalog": {"packageName": "p", "version": "1.0.0"}}},
    }));
    env.settle();
    assert_eq!(env.condition("Progressing"), REACHED);
    let map = env.get("ConfigMap", "a");
    assert_eq!(map["metadata"]["uid"], "uid-a", "it is the same object");
    assert_eq!(map["data"], json!({"mine": "1", "version": "1.0.0"}));
    let owners = map["metadata"]["ownerReferences"].as_array().unwrap();
    let controllers = owners.iter().filter(|owner| owner["controller"] == true);
    let controllers: Vec<&Value> = controllers.map(|owner| &owner["name"]).collect();
    assert_eq!(controllers, ["e-1"]);
    // Without its other owner it stays.
    env.delete("ConfigMap", "csv");
    env.settle_for(60);
    assert_eq!(env.get("ConfigMap", "a")["metadata"]["uid"], "uid-a");
    // The second revision has another object that exists.
    env.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "b"}}));
    env.ask_for("1.1.0");
    env.settle_for(20);
    let found = env.condition("Progressing");
    assert!(
        found.contains("ConfigMap.v1 ns/b\nAction: \"Collision\""),
        "{found}"
    );
}
