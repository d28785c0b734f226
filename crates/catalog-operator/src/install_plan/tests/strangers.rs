//! Objects that stood before OLM: a plan may change them, but they never belong to a ClusterServiceVersion.

use super::*;

fn labelled(kind: &str, name: &str) -> Value {
    let group = if kind.contains("Role") {
        "rbac.authorization.k8s.io/v1"
    } else {
        "v1"
    };
    let mut object =
        json!({"apiVersion": group, "kind": kind, "metadata": {"name": name, "labels": {"mine": "yes"}}});
    if !kind.starts_with("Cluster") {
        object["metadata"]["namespace"] = NAMESPACE.into();
    }
    object
}

/// Everything of the plan that a user had made before, under the very names.
fn made_by_a_user() -> Vec<Value> {
    let mut cluster = Cluster::with_plan(&[rich()]);
    cluster.converge(PLAN);
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
    let made = cluster.objects.values();
    made.filter(|object| kinds.contains(&object::kind(object)))
        .map(|object| labelled(object::kind(object), object::name(object)))
        .collect()
}

#[test]
fn what_a_user_made_before_gets_no_csv_as_owner() {
    let mut cluster = Cluster::with_plan(&[rich()]);
    let strangers = made_by_a_user();
    assert_eq!(strangers.len(), 10);
    for object in &strangers {
        cluster.put(object.clone());
    }
    cluster.converge(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with("Complete"),
        "{}",
        cluster.summary(PLAN)
    );
    for stranger in &strangers {
        let (kind, name) = (object::kind(stranger), object::name(stranger));
        let found = cluster
            .objects
            .values()
            .find(|object| object::kind(object) == kind && object::name(object) == name)
            .unwrap();
        assert!(object::owner_references(found).is_empty(), "{kind}: {found}");
        let labels = &found["metadata"]["labels"];
        assert_eq!(labels["mine"], "yes", "{kind}");
        for label in ["olm.owner", "olm.owner.namespace", "olm.owner.kind"] {
            assert_eq!(labels.get(label), None, "{kind} {label}");
        }
    }
    assert_eq!(
        cluster.objects["ConfigMap ns/config"]["data"],
        json!({"a": "1"}),
        "it is changed nevertheless"
    );
}

/// One operator in two namespaces, with a ClusterRole under the bundle's own name: it stays with the first, whose removal takes it
/// and whose forerunner in this namespace it would otherwise be taken from.
#[test]
fn what_belongs_to_a_csv_of_another_namespace_does_not_change_hands() {
    for namespace in ["other", NAMESPACE] {
        let mut cluster = Cluster::with_plan(&[rich()]);
        let mut role = labelled("ClusterRole", "demo-reader");
        role["metadata"]["name"] = made_by_a_user()
            .iter()
            .find(|object| object::kind(object) == "ClusterRole")
            .unwrap()["metadata"]["name"]
            .clone();
        object::set_owner_labels(&mut role, "before.v1", namespace);
        let name = object::name(&role).to_owned();
        cluster.put(role);
        cluster.converge(PLAN);
        assert!(cluster.summary(PLAN).starts_with("Complete"));
        let found = &cluster.objects[&format!("ClusterRole {name}")];
        let labels = &found["metadata"]["labels"];
        assert_eq!(labels["olm.owner.namespace"], namespace);
        assert_eq!(labels["olm.owner"] == "before.v1", namespace == "other");
        assert!(found["rules"].is_array(), "it is changed nevertheless");
    }
}

/// What an earlier version of the operator brought is shared with the next one.
#[test]
fn what_a_predecessor_owns_gets_the_next_version_as_owner() {
    let config = |data: &str| core("ConfigMap", "config", json!({"data": {"a": data}}));
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![config("1")])]);
    cluster.converge(PLAN);
    cluster.add_plan("install-2", &[bundle("demo.v2", vec![config("2")])]);
    cluster.converge("install-2");
    let owners = |key: &str| -> Vec<Value> {
        object::owner_references(&cluster.objects[key])
            .iter()
            .map(|owner| owner["name"].clone())
            .collect()
    };
    assert_eq!(owners("ConfigMap ns/config"), ["demo.v1", "demo.v2"]);
    assert_eq!(owners("ServiceAccount ns/demo"), ["demo.v1", "demo.v2"]);
}
