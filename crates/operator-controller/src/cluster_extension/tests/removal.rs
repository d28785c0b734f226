//! Deletion of extensions with and without data of users.

use serde_json::{Value, json};

use super::{REACHED, installed};
use crate::cluster_extension::test_env::TestEnv;

/// An extension with version 1.0.0, and a custom resource of its definition.
fn with_data() -> TestEnv {
    let mut env = installed();
    env.put(json!({
        "apiVersion": "example.com/v1", "kind": "Demo", "metadata": {"namespace": "ns", "name": "data"}, "x": "1",
    }));
    env
}

fn data(env: &TestEnv) -> Value {
    env.stage.cluster.get("Demo", "ns", "data").unwrap_or_default()
}

fn definition(env: &TestEnv) -> Value {
    env.get("CustomResourceDefinition", "demos.example.com")
}

#[test]
fn v1_data_survives_the_deletion_of_its_extension_and_is_there_again_afterwards() {
    let mut env = with_data();
    env.delete("ClusterExtension", "e");
    env.settle_for(60);
    assert_eq!(env.get("ClusterObjectSet", "e-1"), Value::Null);
    assert_eq!(env.get("Deployment", "demo"), Value::Null);
    assert_eq!(data(&env)["x"], "1");
    assert_eq!(definition(&env)["metadata"]["ownerReferences"], json!([]));
    env.extension(&json!({"version": "1.0.0"}));
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(data(&env)["x"], "1");
    // Once the data is gone, nothing is kept.
    env.stage.as_user(|cluster| cluster.delete("Demo", "ns", "data"));
    env.delete("ClusterExtension", "e");
    env.settle_for(60);
    assert_eq!(definition(&env), Value::Null);
}

#[test]
fn v1_with_an_annotation_data_goes_with_its_extension() {
    let mut env = with_data();
    let annotated = |value: Value| json!({"metadata": {"annotations": {"olm.operatorframework.io/delete-custom-resources": value}}});
    let of_revision = |env: &TestEnv| {
        let annotations = env.get("ClusterObjectSet", "e-1")["metadata"]["annotations"].clone();
        annotations["olm.operatorframework.io/delete-custom-resources"].clone()
    };
    env.edit("ClusterExtension", "e", &annotated(json!("true")));
    assert_eq!(of_revision(&env), "true");
    env.edit("ClusterExtension", "e", &annotated(Value::Null));
    assert_eq!(of_revision(&env), Value::Null);
    env.edit("ClusterExtension", "e", &annotated(json!("true")));
    env.delete("ClusterExtension", "e");
    env.settle_for(60);
    assert_eq!(definition(&env), Value::Null);
}
