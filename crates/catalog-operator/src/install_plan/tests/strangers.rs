//! Objects older than OLM: a plan may change them, but they never belong to a ClusterServiceVersion.

use std::sync::{Arc, Mutex};

use olm_testing::cluster::Verb;

use super::test_env::GLOBAL;
use super::*;

/// An object under the same name that says nothing.
fn labelled(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "labels": {"mine": "yes"}}})
}

/// Everything of the plan that a user had made before, under the very names.
fn made_by_a_user() -> Vec<Value> {
    let mut env = TestEnv::with_plan(&[rich()]);
    env.converge();
    let kinds = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Secret",
        "Service",
        "PodDisruptionBudget",
        "PriorityClass",
    ];
    let made = env.objects();
    let made = made.iter().filter(|object| kinds.contains(&object::kind(object)));
    made.map(labelled).collect()
}

#[test]
fn what_a_user_made_before_gets_no_csv_as_owner() {
    let mut env = TestEnv::with_plan(&[rich()]);
    let mut strangers = made_by_a_user();
    assert_eq!(strangers.len(), 10);
    for object in &mut strangers {
        object["metadata"]["uid"] = json!(format!("of a {}", object::kind(object)));
        env.put(object.clone());
    }
    env.converge();
    env.assert_summary(PLAN, "Complete");
    for stranger in &strangers {
        let kind = object::kind(stranger);
        let found = env.object(&test_env::key(stranger));
        assert_eq!(found["metadata"]["uid"], stranger["metadata"]["uid"], "{kind}");
        assert!(object::owner_references(&found).is_empty(), "{kind}: {found}");
        let labels = &found["metadata"]["labels"];
        assert_eq!(labels["mine"], "yes", "{kind}");
        for label in ["olm.owner", "olm.owner.namespace", "olm.owner.kind"] {
            assert_eq!(labels.get(label), None, "{kind} {label}");
        }
    }
    assert_eq!(
        env.object("ConfigMap ns/config")["data"],
        json!({"a": "1"}),
        "it is changed nevertheless"
    );
}

/// One operator in two namespaces, with a ClusterRole of the bundle's own name. It stays with the operator of the other namespace
/// and is deleted with it. In one namespace the new version takes it over from its predecessor.
#[test]
fn what_belongs_to_a_csv_of_another_namespace_does_not_change_hands() {
    for namespace in ["other", NAMESPACE] {
        let mut env = TestEnv::with_plan(&[rich()]);
        let made = made_by_a_user().into_iter();
        let mut role = made
            .into_iter()
            .find(|made| object::kind(made) == "ClusterRole")
            .unwrap();
        object::set_owner_labels(&mut role, "before.v1", namespace);
        let name = object::name(&role).to_owned();
        env.put(role);
        env.converge();
        env.assert_summary(PLAN, "Complete");
        let found = env.object(&format!("ClusterRole {name}"));
        let labels = &found["metadata"]["labels"];
        assert_eq!(labels["olm.owner.namespace"], namespace);
        assert_eq!(labels["olm.owner"] == "before.v1", namespace == "other");
        assert!(found["rules"].is_array(), "it is changed nevertheless");
    }
}

/// olm-operator finds the owner of a Role by these labels, so a bundle may set them for its own operator only.
#[test]
fn a_bundle_marks_no_role_as_that_of_another_operator() {
    let marked = |name: &str, csv: &str, namespace: &str| {
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        object::set_owner_labels(&mut role, csv, namespace);
        role["metadata"]["labels"]["olm.copiedFrom"] = json!("victim");
        role["metadata"]["labels"]["mine"] = json!("kept");
        role
    };
    let brought = vec![
        marked("own", "demo.v1", NAMESPACE),
        marked("of-another", "victim.v1", NAMESPACE),
        marked("of-another-namespace", "demo.v1", "victim"),
    ];
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", brought)]);
    env.converge();
    env.assert_summary(PLAN, "Complete");
    let marks = |name: &str| -> Vec<String> {
        let role = env.object(&format!("Role {NAMESPACE}/{name}"));
        let labels = role["metadata"]["labels"].as_object().unwrap();
        assert_eq!(labels["mine"], "kept", "{name}");
        let marks = labels.keys().filter(|label| olm_api::labels::is_guarded(label));
        marks.cloned().collect()
    };
    assert_eq!(
        marks("own"),
        ["olm.owner", "olm.owner.kind", "olm.owner.namespace"]
    );
    for name in ["of-another", "of-another-namespace"] {
        assert_eq!(marks(name), [""; 0], "{name}");
    }
}

/// What an earlier version of the operator brought is shared with the next one.
#[test]
fn what_a_predecessor_owns_gets_the_next_version_as_owner() {
    let config = |data: &str| core("ConfigMap", "config", json!({"data": {"a": data}}));
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", vec![config("1")])]);
    env.converge();
    env.add_plan("install-2", &[bundle("demo.v2", vec![config("2")])]);
    env.converge();
    let owners = |key: &str| -> Vec<Value> {
        object::owner_references(&env.object(key))
            .iter()
            .map(|owner| owner["name"].clone())
            .collect()
    };
    assert_eq!(owners("ConfigMap ns/config"), ["demo.v1", "demo.v2"]);
    assert_eq!(owners("ServiceAccount ns/demo"), ["demo.v1", "demo.v2"]);
}

/// Upstream's plans refer to ConfigMaps of their own namespace and of the global one. Users who write such a reference into a plan
/// learn nothing about those of others, not even whether they exist.
#[test]
fn a_config_map_of_another_namespace_is_never_read() {
    let reference = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "name": "any", "namespace": namespace,
            "catalogSourceName": "cat", "catalogSourceNamespace": NAMESPACE})
    };
    for (namespace, expected) in [
        ("victim", "configmap victim/any cannot be used from namespace ns"),
        (NAMESPACE, "configmaps \"any\" not found"),
        (GLOBAL, "configmaps \"any\" not found"),
    ] {
        let mut env = TestEnv::with_plan(&[rich()]);
        let read = Arc::<Mutex<Vec<String>>>::default();
        let told = Arc::clone(&read);
        env.cluster.on_request(move |request| {
            if request.kind.kind == "ConfigMap" && request.verb == Verb::Get {
                told.lock().unwrap().push(request.namespace.clone());
            }
            None
        });
        env.change_plan(PLAN, |plan| {
            for step in plan["status"]["plan"].as_array_mut().unwrap() {
                if step["resource"]["kind"] == "ConfigMap" {
                    step["resource"]["manifest"] = json!(reference(namespace).to_string());
                }
            }
        });
        env.converge();
        env.assert_told(PLAN, expected);
        let read = read.lock().unwrap();
        assert!(!read.iter().any(|found| found == "victim"), "{read:?}");
        assert_eq!(read.is_empty(), namespace == "victim", "{read:?}");
    }
}
