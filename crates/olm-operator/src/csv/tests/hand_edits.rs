//! Deployments of operators that somebody edits, and what is theirs to set.

use serde_json::{Value, json};

use super::{prepared, succeeded};
use crate::test_env::{TestEnv, csv};

fn installed() -> TestEnv {
    let mut env = prepared().with(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    env.writes.clear();
    env
}

fn deployment(env: &TestEnv) -> &Value {
    env.get("Deployment", "ns", "demo")
        .expect("the Deployment exists")
}

/// Changes the spec as `manager`, which has set `fields` since.
fn edit(env: &mut TestEnv, manager: &str, spec: Value, fields: Value) {
    let entry = json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": env.now.to_string(),
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}});
    env.edit(
        "Deployment",
        "ns",
        "demo",
        json!({"metadata": {"managedFields": [entry]}, "spec": spec}),
    );
    env.settle_for(10);
    succeeded(env, "a");
}

#[test]
fn an_image_set_by_hand_is_put_back_once() {
    let mut env = installed();
    let before = deployment(&env)["spec"].clone();
    let mut containers = before["template"]["spec"]["containers"].clone();
    containers[0]["image"] = json!("example.com/other:1");
    let spec = json!({"template": {"spec": {"containers": containers}}});
    let fields =
        json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"demo\"}": {"f:image": {}}}}}});
    edit(&mut env, "kubectl-set", spec, fields);
    assert_eq!(deployment(&env)["spec"], before);
    let told = env
        .log
        .iter()
        .filter(|line| line.contains("was changed by kubectl-set at"));
    assert_eq!(told.count(), 1, "{:#?}", env.log);
    let applied = env
        .writes
        .iter()
        .filter(|write| write.starts_with("apply Deployment"));
    assert_eq!(applied.count(), 1, "{:#?}", env.writes);
    // Whoever set it is still named by the API server, and nothing is written for that.
    env.writes.clear();
    env.kill();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
}

#[test]
fn what_was_put_into_the_place_of_something_goes_and_replicas_stay() {
    let mut env = installed();
    let before = deployment(&env)["spec"].clone();
    let mut containers = before["template"]["spec"]["containers"].clone();
    containers[0]["livenessProbe"] = json!({"tcpSocket": {"port": 1}});
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "more", "image": "example.com/more:1"}));
    let spec = json!({"replicas": 5, "template": {"spec": {"containers": containers, "volumes": [{"name": "more", "emptyDir": {}}]}}});
    let fields = json!({"f:replicas": {}, "f:template": {"f:spec": {"f:volumes": {}}}});
    edit(&mut env, "kubectl-edit", spec, fields);
    let mut expected = before.clone();
    expected["replicas"] = json!(5);
    let without_empty = |mut spec: Value| {
        let pod = spec["template"]["spec"].as_object_mut().unwrap();
        pod.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        spec
    };
    assert_eq!(
        without_empty(deployment(&env)["spec"].clone()),
        without_empty(expected)
    );
}

/// An apply takes away only what nobody else owns.
#[test]
fn what_patches_own_goes_with_the_version_that_had_it() {
    let mut env = installed();
    let mut containers = deployment(&env)["spec"]["template"]["spec"]["containers"].clone();
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "proxy", "image": "example.com/proxy:1"}));
    let fields =
        json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"proxy\"}": {"f:image": {}}}}}});
    edit(
        &mut env,
        "olm",
        json!({"template": {"spec": {"containers": containers}}}),
        fields,
    );
    let names = |env: &TestEnv| {
        let all = deployment(env)["spec"]["template"]["spec"]["containers"]
            .as_array()
            .cloned();
        all.into_iter()
            .flatten()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&env).len(), 2);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"annotations": {"another": "version"}}}),
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(names(&env).len(), 1, "{:?}", names(&env));
}

#[test]
fn replicas_and_restarts_are_left_alone() {
    let mut env = installed();
    edit(&mut env, "hpa", json!({"replicas": 3}), json!({"f:replicas": {}}));
    assert_eq!(deployment(&env)["spec"]["replicas"], 3);
    let restarted = json!({"kubectl.kubernetes.io/restartedAt": "now"});
    let fields =
        json!({"f:template": {"f:metadata": {"f:annotations": {"f:kubectl.kubernetes.io/restartedAt": {}}}}});
    edit(
        &mut env,
        "kubectl-rollout",
        json!({"template": {"metadata": {"annotations": restarted}}}),
        fields,
    );
    let annotations = &deployment(&env)["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["kubectl.kubernetes.io/restartedAt"], "now");
    let applied = env
        .writes
        .iter()
        .filter(|write| write.starts_with("apply Deployment"));
    assert_eq!(applied.count(), 0, "{:#?}", env.writes);
}
