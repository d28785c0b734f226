//! Deployments of operators that users edit, and the fields that users may set.

use olm_api::labels;
use olm_testing::cluster::{Fault, PatchType, Verb};
use serde_json::{Value, json};

use super::{changed, prepared, succeeded};
use crate::test_env::TestEnv;

pub(super) fn installed() -> TestEnv {
    installed_under(|_| {})
}

/// The demo with some more fields to remove, in a cluster with this webhook.
fn installed_under(webhook: impl Fn(&mut Value) + Send + 'static) -> TestEnv {
    let mut env = prepared();
    env.cluster.set_webhook(webhook);
    env.put(changed("a", |spec| {
        let pod = &mut spec["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"os": "linux"});
        pod["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        pod["containers"] = json!([{"name": "c", "image": "demo:1", "env": [{"name": "A", "value": "1"}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}}, "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1"}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            {"name": "proxy", "image": "proxy:1"}]);
    }));
    env.settle_for(5);
    succeeded(&env, "a");
    env.writes.clear();
    env.log.clear();
    env
}

pub(super) fn deployment(env: &TestEnv) -> &Value {
    env.get("Deployment", "ns", "demo")
        .expect("the Deployment exists")
}

/// Changes the spec as `manager`.
fn edit(env: &mut TestEnv, manager: &str, spec: Value) {
    edit_at_once(env, manager, spec);
    env.settle_for(10);
    succeeded(env, "a");
}

/// The same edit, and the operator reacts in the same second.
fn edit_at_once(env: &mut TestEnv, manager: &str, spec: Value) {
    env.edit_as(manager, "Deployment", "ns", "demo", json!({"spec": spec}));
    env.settle();
}

/// Returns a patch that removes the field at `pointer` from the pods.
fn without(env: &TestEnv, pointer: &str) -> Value {
    let mut pod = deployment(env)["spec"]["template"]["spec"].clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match pod.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.insert(key.to_owned(), Value::Null).unwrap()),
        Value::Array(items) => drop(items.remove(key.parse().unwrap())),
        other => panic!("{other}"),
    }
    if parent.starts_with("/containers/") {
        // Within a list a merge patch does not interpret null.
        let container = pod["containers"][0].as_object_mut().unwrap();
        container.retain(|_, value| !value.is_null());
    }
    json!({"template": {"spec": pod}})
}

pub(super) fn applied(env: &TestEnv) -> usize {
    let applied = env
        .writes
        .iter()
        .filter(|write| write.starts_with("apply Deployment"));
    applied.count()
}

#[test]
fn an_image_set_by_hand_is_put_back_once() {
    let mut env = installed();
    let before = deployment(&env)["spec"].clone();
    let mut containers = before["template"]["spec"]["containers"].clone();
    containers[0]["image"] = json!("example.com/other:1");
    let spec = json!({"template": {"spec": {"containers": containers}}});
    edit(&mut env, "kubectl-set", spec.clone());
    assert_eq!(deployment(&env)["spec"], before);
    let told = env
        .log
        .iter()
        .filter(|line| line.contains("was changed at template.spec.containers[c].image"));
    assert_eq!(told.count(), 1, "{:#?}", env.log);
    assert_eq!(applied(&env), 1, "{:#?}", env.writes);
    rests(&mut env);
    // The same edit again counts as another edit.
    edit(&mut env, "kubectl-set", spec);
    assert_eq!((applied(&env), &deployment(&env)["spec"]), (1, &before));
}

/// Asserts that nothing is written any more, also by a new process.
#[track_caller]
pub(super) fn rests(env: &mut TestEnv) {
    env.writes.clear();
    env.kill();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
}

/// A writer that only removes fields owns nothing afterwards, so the API server lists no manager.
#[test]
fn what_is_taken_away_by_hand_is_put_back_each_time() {
    let cases = [
        ("/containers/0/livenessProbe", "[c].livenessProbe.httpGet.path"),
        ("/containers/0/resources", "[c].resources.limits.cpu"),
        ("/containers/0/env/0", "[c].env[A]"),
        ("/containers/0/ports", "[c].ports[0]"),
        ("/containers/0/volumeMounts/0", "[c].volumeMounts[v]"),
        ("/containers/1", "[proxy]"),
    ];
    let mut env = installed();
    let before = deployment(&env)["spec"].clone();
    for (pointer, told) in cases {
        for time in ["first", "second"] {
            env.log.clear();
            let patch = without(&env, pointer);
            edit(&mut env, "kubectl-patch", patch);
            assert_eq!(deployment(&env)["spec"], before, "{pointer} the {time} time");
            assert_eq!(applied(&env), 1, "{pointer} the {time} time: {:#?}", env.writes);
            let told = format!("was changed at template.spec.containers{told}");
            assert!(env.log.iter().any(|line| line.contains(&told)), "{:#?}", env.log);
            rests(&mut env);
        }
    }
}

/// The API server reports edit times in seconds.
#[test]
fn two_edits_in_one_second_are_both_put_back() {
    let mut env = installed();
    let before = deployment(&env)["spec"].clone();
    let pod = &before["template"]["spec"];
    let mut images = pod["containers"].clone();
    images[0]["image"] = json!("example.com/other:1");
    let mut third = images.clone();
    third[0]["image"] = json!("example.com/third:1");
    for second in [images.clone(), third] {
        env.begin_second();
        edit_at_once(
            &mut env,
            "kubectl-edit",
            json!({"template": {"spec": {"containers": images}}}),
        );
        edit(
            &mut env,
            "kubectl-edit",
            json!({"template": {"spec": {"containers": second}}}),
        );
        assert_eq!(deployment(&env)["spec"], before);
        rests(&mut env);
    }
}

/// Neither does what it takes away count as an edit again and again, nor does it hide real ones.
#[test]
fn a_webhook_that_takes_something_away_each_time_costs_one_attempt_an_edit() {
    let mut env = installed_under(|object| {
        if object["kind"] == "Deployment" {
            let container = object["spec"]["template"]["spec"]["containers"][0].as_object_mut();
            container.unwrap().remove("livenessProbe");
        }
    });
    assert_eq!(applied(&env), 0, "the install was noted as it came to rest");
    rests(&mut env);
    edit(&mut env, "hpa", json!({"replicas": 3}));
    assert!(applied(&env) <= 1, "{:#?}", env.writes);
    assert_eq!(deployment(&env)["spec"]["replicas"], 3);
    rests(&mut env);
    let before = deployment(&env)["spec"].clone();
    let patch = without(&env, "/containers/0/resources");
    edit(&mut env, "kubectl-patch", patch);
    assert_eq!(deployment(&env)["spec"], before);
    assert!(applied(&env) <= 2, "{:#?}", env.writes);
    rests(&mut env);
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
    let volumes = json!([{"name": "v", "emptyDir": {}}, {"name": "more", "emptyDir": {}}]);
    let spec = json!({"replicas": 5, "template": {"spec": {"containers": containers, "volumes": volumes}}});
    edit(&mut env, "kubectl-edit", spec);
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

/// A switch that the author turned off stays off.
#[test]
fn what_is_set_to_nothing_is_put_back() {
    let mut env = prepared();
    env.put(changed("a", |spec| {
        let pod = &mut spec["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
        pod["hostNetwork"] = json!(false);
        pod["containers"][0]["securityContext"] = json!({"allowPrivilegeEscalation": false});
    }));
    env.settle_for(5);
    succeeded(&env, "a");
    let before = deployment(&env)["spec"].clone();
    for pointer in [
        "/hostNetwork",
        "/containers/0/securityContext/allowPrivilegeEscalation",
    ] {
        let mut pod = before["template"]["spec"].clone();
        *pod.pointer_mut(pointer).unwrap() = json!(true);
        edit(&mut env, "kubectl-edit", json!({"template": {"spec": pod}}));
        assert_eq!(deployment(&env)["spec"], before, "{pointer}");
        rests(&mut env);
    }
}

/// Fields that platforms, controllers or users add stay, without an event. When the Deployment is applied for another reason, one rollout
/// replaces it whole, as upstream, and the additions are gone.
#[test]
fn what_others_add_stays_until_the_next_install_and_changes_no_phase() {
    let pod = |more: Value| json!({"template": {"spec": more}});
    let additions = [
        pod(json!({"hostNetwork": true})),
        pod(json!({"dnsConfig": {"nameservers": ["1.1.1.1"]}})),
        pod(json!({"affinity": {"podAntiAffinity": {}}, "runtimeClassName": "other"})),
        pod(json!({"tolerations": [{"key": "spot", "operator": "Exists"}]})),
        pod(json!({"nodeSelector": {"pool": "spot"}})),
        json!({"template": {"metadata": {"labels": {"more": "1"}, "annotations": {"more": "1"}}}}),
        json!({"minReadySeconds": 5}),
    ];
    for spec in additions {
        let mut env = installed();
        let before = deployment(&env)["spec"].clone();
        edit(&mut env, "platform", spec.clone());
        let with_it = deployment(&env)["spec"].clone();
        assert_ne!(with_it, before, "{spec}");
        assert_eq!(env.log, [""; 0], "{spec}");
        rests(&mut env);
        assert_eq!(deployment(&env)["spec"], with_it);
        env.edit(
            "ClusterServiceVersion",
            "ns",
            "a",
            json!({"metadata": {"annotations": {"another": "version"}}}),
        );
        env.settle_for(10);
        succeeded(&env, "a");
        let mut expected = before;
        expected["template"]["metadata"]["annotations"]["another"] = json!("version");
        assert_eq!(deployment(&env)["spec"], expected, "{spec}");
        assert_eq!(managers(&env), ["olm-operator/csv Apply"], "{spec}");
        // One that says whose the fields are, and the apply.
        let patched = env
            .writes
            .iter()
            .filter(|write| write.contains(" Deployment ns/demo"));
        assert_eq!((patched.count(), applied(&env)), (2, 1), "{:#?}", env.writes);
        never_failed(&env);
        rests(&mut env);
    }
}

/// A platform that adds its own again and again is not fought.
#[test]
fn a_webhook_that_adds_the_same_each_time_costs_no_write() {
    let mut env = installed();
    for _ in 0..5 {
        edit(&mut env, "platform", json!({"minReadySeconds": 5}));
        edit(&mut env, "platform", json!({"minReadySeconds": 6}));
    }
    let own: Vec<&String> = env
        .writes
        .iter()
        .filter(|write| !write.starts_with("kubernetes"))
        .collect();
    assert!(own.is_empty() && env.log.is_empty(), "{own:#?} {:#?}", env.log);
}

/// Between the patch that says whose the fields are and the apply anything may happen.
#[test]
fn what_was_added_by_hand_goes_though_the_apply_fails_at_first() {
    for is_killed in [false, true] {
        let mut env = installed();
        let mut expected = deployment(&env)["spec"].clone();
        expected["replicas"] = json!(4);
        let mut failures = 3;
        env.cluster.on_request(move |request| {
            let is_apply = request.kind.kind == "Deployment" && request.verb == Verb::Patch(PatchType::Apply);
            if !is_apply || failures == 0 {
                return None;
            }
            failures -= 1;
            Some(Fault::LoseRequest)
        });
        let pod = json!({"hostNetwork": true, "nodeSelector": {"os": "other"}});
        let spec = json!({"replicas": 4, "template": {"spec": pod}});
        env.edit_as("kubectl-edit", "Deployment", "ns", "demo", json!({"spec": spec}));
        for _ in 0..4 {
            env.settle_for(2);
            if is_killed {
                env.kill();
            }
        }
        env.settle_for(600);
        succeeded(&env, "a");
        assert_eq!(deployment(&env)["spec"], expected);
        rests(&mut env);
    }
}

/// The API server sets the rolling update parameters as defaults, and refuses them with another strategy.
#[test]
fn a_strategy_that_was_filled_in_goes_with_rolling_updates() {
    let mut env = installed();
    let mut deployments =
        env.get("ClusterServiceVersion", "ns", "a").unwrap()["spec"]["install"]["spec"]["deployments"]
            .clone();
    deployments[0]["spec"]["strategy"] = json!({"type": "Recreate"});
    let version = json!({"spec": {"install": {"spec": {"deployments": deployments}}}});
    let filled_in =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}});
    env.edit_as("nobody", "Deployment", "ns", "demo", filled_in);
    let nobodys = |entries: &mut Vec<Value>| entries.retain(|entry| entry["manager"] != "nobody");
    let mut entries = deployment(&env)["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap();
    nobodys(&mut entries);
    env.edit_as(
        "nobody",
        "Deployment",
        "ns",
        "demo",
        json!({"metadata": {"managedFields": entries}}),
    );
    env.settle();
    env.edit("ClusterServiceVersion", "ns", "a", version);
    env.writes.clear();
    env.settle_for(30);
    succeeded(&env, "a");
    let strategy = &deployment(&env)["spec"]["strategy"];
    assert_eq!(*strategy, json!({"type": "Recreate"}), "{:#?}", env.writes);
    let patched =
        r#"patch Deployment ns/demo {"spec":{"strategy":{"rollingUpdate":null,"type":"Recreate"}}}"#;
    assert!(
        env.writes.iter().any(|write| write == patched),
        "{:#?}",
        env.writes
    );
    never_failed(&env);
    rests(&mut env);
}

/// An apply only removes fields without another owner.
#[test]
fn what_patches_own_goes_with_the_version_that_had_it() {
    let mut env = installed();
    let mut containers = deployment(&env)["spec"]["template"]["spec"]["containers"].clone();
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "more", "image": "example.com/more:1"}));
    edit(
        &mut env,
        "olm",
        json!({"template": {"spec": {"containers": containers}}}),
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
    assert_eq!(names(&env).len(), 3);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"annotations": {"another": "version"}}}),
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(names(&env).len(), 2, "{:?}", names(&env));
    never_failed(&env);
}

/// Returns the managers that own fields of the spec.
pub(super) fn managers(env: &TestEnv) -> Vec<String> {
    let all = deployment(env)["metadata"]["managedFields"].as_array().cloned();
    let all = all.map(|all| {
        all.into_iter()
            .filter(|entry| entry["fieldsV1"]["f:spec"].is_object())
    });
    let name = |entry: &Value| {
        format!(
            "{} {}",
            entry["manager"].as_str().unwrap(),
            entry["operation"].as_str().unwrap()
        )
    };
    let named = all.into_iter().flatten().map(|entry| name(&entry));
    named.collect()
}

/// The annotation about undone changes can be written by any user who edits the Deployment.
#[test]
fn a_forged_note_of_what_was_undone_hides_no_edit() {
    let mut env = installed();
    let before = deployment(&env)["spec"].clone();
    let mut containers = before["template"]["spec"]["containers"].clone();
    containers[0]["image"] = json!("example.com/other:1");
    let forged = json!({"metadata": {"annotations": {labels::UNDONE_CHANGE: "2999-01-01T00:00:00Z"}},
        "spec": {"template": {"spec": {"containers": containers}}}});
    for time in ["first", "second"] {
        env.edit_as("kubectl-edit", "Deployment", "ns", "demo", forged.clone());
        env.settle_for(10);
        assert_eq!(deployment(&env)["spec"], before, "the {time} time");
        rests(&mut env);
    }
}

/// Adopted fields are applied right after, and the result of the apply counts.
#[test]
fn an_edit_of_what_olm_sets_besides_the_spec_is_put_back_without_a_failure() {
    let mut env = installed();
    let mut containers = deployment(&env)["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = json!("example.com/another:1");
    let annotations = json!({"olm.operatorNamespace": "elsewhere"});
    let template = json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
    edit(&mut env, "kubectl-edit", json!({"template": template}));
    let template = &deployment(&env)["spec"]["template"];
    assert_eq!(template["spec"]["containers"][0]["image"], "demo:1");
    assert_eq!(template["metadata"]["annotations"]["olm.operatorNamespace"], "ns");
    never_failed(&env);
}

#[track_caller]
pub(super) fn never_failed(env: &TestEnv) {
    let failed: Vec<&String> = env.log.iter().filter(|line| line.contains("Failed")).collect();
    assert!(!env.log.is_empty() && failed.is_empty(), "{:#?}", env.log);
}

#[test]
fn replicas_and_restarts_are_left_alone() {
    let mut env = installed();
    edit(&mut env, "hpa", json!({"replicas": 3}));
    assert_eq!(deployment(&env)["spec"]["replicas"], 3);
    let restarted = json!({"kubectl.kubernetes.io/restartedAt": "now"});
    edit(
        &mut env,
        "kubectl-rollout",
        json!({"template": {"metadata": {"annotations": restarted}}}),
    );
    let annotations = &deployment(&env)["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["kubectl.kubernetes.io/restartedAt"], "now");
    assert_eq!(applied(&env), 0, "{:#?}", env.writes);
}
