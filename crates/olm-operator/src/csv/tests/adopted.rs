//! Operators that a ClusterExtension of OLM v1 has adopted: what its ClusterObjectSet controls is neither repaired
//! nor deleted.

use serde_json::{Value, json};

use super::{installed, succeeded};
use crate::test_env::TestEnv;

/// Makes a ClusterObjectSet another owner of the object.
fn own(env: &mut TestEnv, kind: &str, namespace: &str, name: &str, is_controller: bool) {
    let found = env.get(kind, namespace, name).unwrap();
    let mut owners = found["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    owners.push(json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": "e-1", "uid": "set",
        "controller": is_controller, "blockOwnerDeletion": true}));
    env.edit(
        kind,
        namespace,
        name,
        json!({"metadata": {"ownerReferences": owners}}),
    );
}

/// The demo, and the name of its ClusterRole that a ClusterObjectSet owns as well, maybe as the controller.
fn adopted(is_controller: bool) -> (TestEnv, String) {
    let mut env = installed();
    // Stands for the ClusterObjectSet: the garbage collector finds owners by their uid.
    env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "set", "uid": "set"}}));
    let is_of_csv = |name: &String| {
        let role = env.get("ClusterRole", "", name);
        role.is_some_and(|role| role["metadata"]["labels"]["olm.owner.kind"] == "ClusterServiceVersion")
    };
    let names = env.names("ClusterRole").into_iter();
    let mut names = names.map(|key| key.trim_start_matches('/').to_owned());
    let name = names.find(is_of_csv).unwrap();
    own(&mut env, "ClusterRole", "", &name, is_controller);
    own(&mut env, "Deployment", "ns", "demo", is_controller);
    env.settle_for(10);
    succeeded(&env, "a");
    (env, name)
}

fn image(env: &TestEnv) -> Value {
    env.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

/// Sets another image of the Deployment's only container.
fn set_image(env: &mut TestEnv) {
    let container = json!({"name": "c", "image": "demo:2"});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    env.edit_as("olm.operatorframework.io", "Deployment", "ns", "demo", patch);
    env.settle_for(20);
}

#[test]
fn what_an_extension_controls_is_not_repaired_and_stays_without_the_csv() {
    let (mut env, role) = adopted(true);
    set_image(&mut env);
    assert_eq!(image(&env), "demo:2");
    succeeded(&env, "a");
    let others = env.names("ClusterRoleBinding");
    assert!(!others.is_empty());
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(60);
    assert!(env.get("ClusterServiceVersion", "ns", "a").is_none());
    assert_eq!(image(&env), "demo:2");
    assert!(env.get("ClusterRole", "", &role).is_some());
    // Objects that nothing has adopted are deleted as before.
    assert!(env.names("ClusterRoleBinding").is_empty(), "{others:?}");
}

/// Only the controller counts: other owners may be anything.
#[test]
fn what_an_extension_does_not_control_is_repaired_and_deleted_as_before() {
    let (mut env, role) = adopted(false);
    set_image(&mut env);
    assert_eq!(image(&env), "demo:1");
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(60);
    assert!(env.get("ClusterServiceVersion", "ns", "a").is_none());
    assert!(env.get("ClusterRole", "", &role).is_none());
    assert!(env.names("ClusterRoleBinding").is_empty());
}
