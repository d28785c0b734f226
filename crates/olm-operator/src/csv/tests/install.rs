//! Writes of an install: Deployments, rights in all namespaces, and deletions.

use serde_json::{Value, json};

use super::{changed, installed, prepared, prepared_for, succeeded};
use crate::test_env::{TestEnv, csv, is_for_users, namespace_object, subscription};

/// Changes the targets of the OperatorGroup.
fn retarget(env: &mut TestEnv, targets: Value) {
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": targets}}),
    );
    env.settle();
}

fn deployment_of(env: &TestEnv) -> Value {
    let mut found = env
        .get("Deployment", "ns", "demo")
        .expect("the Deployment exists")
        .clone();
    found["metadata"]["uid"] = Value::Null;
    found
}

#[test]
fn og_025_the_deployment_carries_what_operators_and_the_lifecycle_manager_read() {
    let env = installed();
    let found = deployment_of(&env);
    let labels = &found["metadata"]["labels"];
    assert_eq!(labels["olm.owner"], "a");
    assert_eq!(labels["olm.owner.namespace"], "ns");
    assert_eq!(labels["olm.owner.kind"], "ClusterServiceVersion");
    assert_eq!(labels["olm.managed"], "true");
    assert!(labels["olm.deployment-spec-hash"].as_str().unwrap().len() > 20);
    let uid = env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["uid"].clone();
    assert_eq!(
        found["metadata"]["ownerReferences"],
        json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": uid,
            "controller": false, "blockOwnerDeletion": false}])
    );
    assert_eq!(
        found["spec"]["template"]["metadata"]["annotations"],
        json!({"capabilities": "Basic Install", "olm.operatorGroup": "og", "olm.operatorNamespace": "ns", "olm.targetNamespaces": "ns"})
    );
    assert_eq!(
        found["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{"name": "OPERATOR_CONDITION_NAME", "value": "a"}])
    );
    assert_eq!(found["spec"]["revisionHistoryLimit"], 1);
}

#[test]
fn template_annotations_are_overlaid_and_the_strategy_label_stands_beside_ours() {
    let mut env = prepared();
    let mut csv = changed("a", |spec| {
        let deployment = &mut spec["install"]["spec"]["deployments"][0];
        deployment["label"] = json!({"app": "x", "olm.managed": "nonsense"});
        deployment["spec"]["revisionHistoryLimit"] = json!(10);
        deployment["spec"]["template"]["metadata"]["annotations"] = json!({"foo1": "t", "foo2": "t"});
    });
    csv["metadata"]["annotations"] =
        json!({"foo1": "csv", "foo3": "csv", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    env.put(csv);
    env.settle_for(5);
    let found = deployment_of(&env);
    let annotations = &found["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(
        [&annotations["foo1"], &annotations["foo2"], &annotations["foo3"]],
        ["csv", "t", "csv"]
    );
    assert_eq!(
        annotations.get("kubectl.kubernetes.io/last-applied-configuration"),
        None
    );
    assert_eq!(found["metadata"]["labels"]["app"], "x");
    assert_eq!(found["metadata"]["labels"]["olm.managed"], "true");
    assert_eq!(found["spec"]["revisionHistoryLimit"], 1);
}

#[test]
fn the_subscription_configures_the_first_pods_and_a_change_is_rolled_out() {
    let config =
        json!({"env": [{"name": "A", "value": "1"}], "annotations": {"team": "x", "capabilities": "no"}});
    let mut env = prepared().with(subscription("a", config)).with(csv("a", ""));
    env.settle_for(20);
    let found = deployment_of(&env);
    let variables = |found: &Value| found["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    assert_eq!(
        variables(&found),
        json!([{"name": "A", "value": "1"}, {"name": "OPERATOR_CONDITION_NAME", "value": "a"}])
    );
    assert_eq!(
        found["metadata"]["annotations"],
        json!({"team": "x", "capabilities": "no"})
    );
    let annotations = &found["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(
        [&annotations["team"], &annotations["capabilities"]],
        ["x", "Basic Install"]
    );
    env.edit(
        "Subscription",
        "ns",
        "sub",
        json!({"spec": {"config": {"env": [{"name": "A", "value": "2"}], "annotations": null}}}),
    );
    env.settle();
    let found = deployment_of(&env);
    assert_eq!(variables(&found)[0]["value"], "2");
    assert_eq!(
        found["spec"]["template"]["metadata"]["annotations"].get("team"),
        None
    );
    succeeded(&env, "a");
}

#[test]
fn rbac_014_an_all_namespaces_group_promotes_the_permissions_and_a_narrower_one_takes_them_back() {
    let mut env = prepared_for(&[]).with(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    let promoted = role_name();
    let lifted = env
        .get("ClusterRole", "", &promoted)
        .expect("the Role is promoted")
        .clone();
    assert_eq!(
        lifted["rules"],
        json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]},
            {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}])
    );
    let bound = env
        .get("ClusterRoleBinding", "", &promoted)
        .expect("the RoleBinding is promoted");
    for made in [&lifted, bound] {
        let labels = &made["metadata"]["labels"];
        assert_eq!(
            [&labels["olm.owner"], &labels["olm.owner.namespace"]],
            ["a", "ns"]
        );
    }
    assert_eq!(
        bound["subjects"],
        json!([{"kind": "ServiceAccount", "name": "demo", "namespace": "ns"}])
    );
    assert_eq!(
        bound["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": promoted})
    );
    assert_eq!(env.names("ClusterRoleBinding").len(), 2);
    env.delete("ClusterRole", "", &promoted);
    env.settle();
    assert!(env.get("ClusterRole", "", &promoted).is_some(), "it is repaired");
    succeeded(&env, "a");
    retarget(&mut env, json!(["ns"]));
    assert_eq!(env.get("ClusterRole", "", &promoted), None);
    assert_eq!(env.names("ClusterRoleBinding").len(), 1);
}

/// Name of the Role, and so of the ClusterRole and the counterparts, of the demo's namespaced permission.
fn role_name() -> String {
    let rules: Vec<k8s_openapi::api::rbac::v1::PolicyRule> =
        crate::test_env::decode(crate::test_env::permission("demo", "", "configmaps")["rules"].clone());
    olm_api::permission::Permission::new("demo", &rules)
        .role_name("a")
        .unwrap()
}

/// The demo `a`, installed for `ns`, `one` and `later`, which does not exist yet.
fn installed_in_one() -> TestEnv {
    let mut env = prepared_for(&["one", "ns", "later"])
        .with(namespace_object("one"))
        .with(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    env
}

/// Returns Roles and RoleBindings outside of `ns`.
fn spread(env: &TestEnv) -> Vec<String> {
    let mut names = env.names("Role");
    names.extend(env.names("RoleBinding"));
    names.retain(|name| !name.starts_with("ns/"));
    names
}

#[test]
fn rbac_015_the_permissions_are_copied_to_the_other_targets() {
    let env = installed_in_one();
    let name = role_name();
    assert_eq!(spread(&env), [format!("one/{name}"), format!("one/{name}")]);
    let made = env.get("Role", "one", &name).unwrap();
    assert_eq!(
        made["rules"],
        json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}])
    );
    let binding = env.get("RoleBinding", "one", &name).unwrap();
    for (kind, copy) in [("Role", made), ("RoleBinding", binding)] {
        assert_eq!(copy["metadata"].get("ownerReferences"), None);
        let labels = &copy["metadata"]["labels"];
        assert_eq!(
            [&labels["olm.copiedFrom"], &labels["olm.managed"]],
            ["ns", "true"]
        );
        let mut here = env.names(kind).into_iter();
        let original = here
            .find(|name| name.starts_with("ns/a-demo-"))
            .expect("the install plan made it");
        let original = env.get(kind, "ns", original.trim_start_matches("ns/")).unwrap();
        let original = &original["metadata"]["labels"];
        for (label, value) in [("olm.owner", "a"), ("olm.owner.namespace", "ns")] {
            assert_eq!(
                [&labels[label], &original[label]],
                [value, value],
                "{kind} {label}"
            );
        }
    }
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "demo", "namespace": "ns"}])
    );
    assert_eq!(binding["roleRef"]["name"], *name);
}

#[test]
fn og_002_members_get_their_permissions_where_the_group_sends_them_and_nowhere_else() {
    let mut env = installed_in_one();
    let name = role_name();
    let rules = env.get("Role", "one", &name).unwrap()["rules"].clone();
    env.put(namespace_object("later"));
    env.settle();
    assert_eq!(
        spread(&env).len(),
        4,
        "a namespace that comes later is a target, too"
    );
    env.edit("Role", "one", &name, json!({"rules": []}));
    env.delete("RoleBinding", "later", &name);
    env.settle();
    assert_eq!(env.get("Role", "one", &name).unwrap()["rules"], rules);
    assert_eq!(spread(&env).len(), 4, "it is repaired");

    retarget(&mut env, json!(["later", "ns"]));
    assert_eq!(spread(&env), [format!("later/{name}"), format!("later/{name}")]);
    retarget(&mut env, json!(null));
    assert_eq!(spread(&env), [""; 0], "rights in all namespaces include these");
    retarget(&mut env, json!(["later", "ns"]));
    assert_eq!(spread(&env).len(), 2);
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle();
    assert_eq!(env.status("a"), "gone");
    assert_eq!(spread(&env), [""; 0]);
}

#[test]
fn what_an_install_plan_has_made_is_not_written_again() {
    let env = installed();
    let rbac = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    let needless: Vec<&String> = env
        .writes
        .iter()
        .filter(|write| {
            rbac.iter().any(|kind| write.contains(kind)) && !write.ends_with("ns/a") && !is_for_users(write)
        })
        .collect();
    assert!(needless.is_empty(), "{needless:#?}");
}

#[test]
fn a_deleted_csv_takes_its_cluster_roles_and_its_deployments_with_it() {
    let mut env = installed();
    // With the annotation of an InstallPlan: its ClusterRoles for users remain.
    let mark = json!({"metadata": {"annotations": {"operatorframework.io/installed-alongside-1": "ns/a"}}});
    env.edit("CustomResourceDefinition", "", "demos.example.com", mark);
    env.settle();
    env.delete("ClusterServiceVersion", "ns", "a");
    assert!(
        env.get("ClusterServiceVersion", "ns", "a").is_some(),
        "the finalizer holds it"
    );
    let before = env.writes.len();
    env.settle();
    assert_eq!(env.status("a"), "gone");
    let (for_users, ours): (Vec<String>, Vec<String>) = env.writes[before..]
        .iter()
        .cloned()
        .partition(|write| write.contains("ClusterRole olm.og."));
    assert_eq!(
        for_users.len(),
        3,
        "its group's take it up no more: {for_users:#?}"
    );
    insta::assert_snapshot!(ours.join("\n"), @r#"
    patch OperatorGroup ns/og {"metadata":{"annotations":{"olm.providedAPIs":""}}}
    delete ClusterRoleBinding a-7sSaM3k4XQK2ojAuVcjXqWAzeTny1qvMeUOlXq
    delete ClusterRole a-7sSaM3k4XQK2ojAuVcjXqWAzeTny1qvMeUOlXq
    patch ClusterServiceVersion ns/a {"metadata":{"finalizers":[]}}
    kubernetes: collected ServiceAccount demo
    kubernetes: collected Deployment demo
    kubernetes: collected OperatorCondition a
    kubernetes: collected Role a-demo-7xsvb5eVljI6lxpzvmen54uf0n2wtzGV6aWZnP
    kubernetes: collected RoleBinding a-demo-7xsvb5eVljI6lxpzvmen54uf0n2wtzGV6aWZnP
    kubernetes: collected Role a
    kubernetes: collected RoleBinding a
    "#);
    for kind in [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "Deployment",
        "ServiceAccount",
        "OperatorCondition",
    ] {
        let mut left = env.names(kind);
        left.retain(|name| !is_for_users(name));
        assert!(left.is_empty(), "{kind}: {left:?}");
    }
    assert_eq!(env.names("CustomResourceDefinition"), ["/demos.example.com"]);
}

/// Cluster-wide rights are deleted before their ClusterServiceVersion; rights in a namespace cannot delay its
/// deletion.
#[test]
fn a_csv_goes_after_cluster_wide_rights_that_others_keep() {
    for (targets, kind, waits) in [(&[][..], "ClusterRole", true), (&["ns", "one"], "Role", false)] {
        let mut env = prepared_for(targets).with(namespace_object("one"));
        env.put(csv("a", ""));
        env.settle_for(10);
        succeeded(&env, "a");
        let mut names = env.names(kind).into_iter();
        let name = names
            .find(|name| !name.starts_with("ns/") && !is_for_users(name))
            .expect("one is there");
        let (namespace, name) = name.split_once('/').unwrap();
        let held = json!({"metadata": {"finalizers": ["example.com/audit"]}});
        env.edit(kind, namespace, name, held);
        env.delete("ClusterServiceVersion", "ns", "a");
        env.settle_for(20);
        assert_eq!(env.status("a") != "gone", waits, "{kind}");
        assert!(env.get(kind, namespace, name).is_some());
        let writes = env.writes.len();
        env.settle_for(60);
        assert_eq!(env.writes.len(), writes, "waiting writes nothing");
        env.edit(kind, namespace, name, json!({"metadata": {"finalizers": null}}));
        env.settle_for(20);
        assert_eq!(env.get(kind, namespace, name), None);
        assert_eq!(env.status("a"), "gone");
    }
}

#[test]
fn finalizers_of_others_are_kept() {
    let mut env = prepared();
    let mut csv = csv("a", "");
    csv["metadata"]["finalizers"] = json!(["example.com/mine"]);
    env.put(csv);
    env.settle_for(5);
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle();
    let left = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["finalizers"];
    assert_eq!(*left, json!(["example.com/mine"]));
}
