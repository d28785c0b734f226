//! Rights beyond the namespace: existing objects of tenants of a target namespace, and RBAC that users
//! created.

use olm_runtime::NamespacedName;
use serde_json::{Value, json};

use super::{installed, prepared_for, succeeded};
use crate::{
    csv::rbac,
    test_env::{TestEnv, crd, csv, namespace_object, permission},
};

const API: &str = "rbac.authorization.k8s.io/v1";

/// Name of the Role that the plan creates, and of its counterparts.
fn role_name(env: &TestEnv) -> String {
    let names = env.names("Role").into_iter();
    let mut made = names.filter_map(|name| name.strip_prefix("ns/a-demo-").map(str::to_owned));
    format!("a-demo-{}", made.next().expect("the plan made it"))
}

/// Returns the name of the next counterpart of the demo, which any user can compute.
fn next_name() -> String {
    let mut env = prepared_for(&["ns"]).with(csv("a", ""));
    env.settle_for(5);
    role_name(&env)
}

fn tenants_role(name: &str) -> Value {
    json!({"apiVersion": API, "kind": "Role", "metadata": {"namespace": "one", "name": name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
}

fn tenants_binding(role: &str) -> Value {
    json!({"apiVersion": API, "kind": "RoleBinding", "metadata": {"namespace": "one", "name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]})
}

fn missing(env: &TestEnv) -> Vec<String> {
    let status = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
    let rows = status["requirementStatus"].as_array().into_iter().flatten();
    let messages = rows.filter_map(|row| row["message"].as_str());
    let messages = messages.filter(|message| message.starts_with("rights are missing "));
    messages.map(str::to_owned).collect()
}

/// A Role with the operator's rights would grant them to the users that the tenant bound.
#[test]
fn a_role_of_a_tenant_under_the_name_of_a_counterpart_is_not_filled() {
    let name = next_name();
    let mut env = prepared_for(&["ns", "one"]).with(namespace_object("one"));
    env.put(tenants_role(&name));
    env.put(csv("a", ""));
    env.settle_for(20);
    succeeded(&env, "a");
    let found = env.get("Role", "one", &name).unwrap();
    assert_eq!(found["rules"], tenants_role(&name)["rules"]);
    assert_eq!(found["metadata"].get("labels"), None, "{found}");
    let told = format!(
        "rights are missing in namespace one: create Role one/{name}: the name is in use by another object"
    );
    assert_eq!(missing(&env), [told]);
}

/// A tenant creates a Role of that name, binds a user to it, and deletes it again: the binding remains.
#[test]
fn a_role_that_a_tenant_bound_beforehand_is_not_made_until_the_binding_is_gone() {
    let name = next_name();
    let mut env = prepared_for(&["ns", "one"]).with(namespace_object("one"));
    env.put(tenants_binding(&name));
    env.put(csv("a", ""));
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(env.get("Role", "one", &name), None);
    let told = format!(
        "rights are missing in namespace one: a RoleBinding that does not belong to OLM already refers to Role {name}"
    );
    assert_eq!(missing(&env), [told]);
    env.delete("RoleBinding", "one", "mine");
    env.settle_for(70);
    assert!(env.get("Role", "one", &name).is_some());
    assert_eq!(missing(&env), [""; 0]);
}

/// No object involved is watched.
#[test]
fn rights_made_by_hand_are_missed_within_a_minute() {
    let mut env = prepared_for(&["ns"]);
    env.by_hand = true;
    env.put(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "demo"}}));
    let mut role = tenants_role("mine");
    role["rules"] = permission("demo", "", "configmaps")["rules"].clone();
    let mut binding = tenants_binding("mine");
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "demo", "namespace": "ns"}]);
    for object in [&mut role, &mut binding] {
        object["metadata"]["namespace"] = json!("ns");
        env.put(object.clone());
    }
    let mut demo = csv("a", "");
    demo["spec"]["install"]["spec"]["clusterPermissions"] = json!([]);
    env.put(demo);
    env.settle_for(20);
    succeeded(&env, "a");
    let writes = env.writes.len();
    env.settle_for(300);
    assert_eq!(env.writes.len(), writes, "it is at rest");
    env.delete("RoleBinding", "ns", "mine");
    env.settle_for(65);
    let status = env.status("a");
    assert!(status.starts_with("Pending RequirementsNotMet"), "{status}");
    env.put(binding);
    env.settle_for(65);
    succeeded(&env, "a");
}

#[test]
fn without_a_group_nothing_is_taken_back_by_an_install() {
    let mut env = prepared_for(&[]).with(csv("a", ""));
    env.settle_for(5);
    assert!(!env.cluster_roles().is_empty());
    let mut observed = env.observe(&NamespacedName::new("ns", "a")).unwrap();
    assert_eq!(rbac::revocations(&observed), []);
    observed.groups.clear();
    assert_eq!(rbac::revocations(&observed), []);
}

#[test]
fn ogx_006_a_group_lists_what_all_its_members_provide() {
    let mut env = installed();
    let mut other = csv("b", "");
    other["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "others.example.com", "version": "v1", "kind": "Other"}]});
    other["spec"]["install"]["spec"] = json!({"deployments": []});
    env.put(crd("others.example.com"));
    env.put(other);
    env.settle_for(5);
    let group = env.get("OperatorGroup", "ns", "og").unwrap();
    assert_eq!(
        group["metadata"]["annotations"]["olm.providedAPIs"],
        "Demo.v1.example.com,Other.v1.example.com"
    );
}
