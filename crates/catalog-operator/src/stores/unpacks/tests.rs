//! Memory that this operator needs for Jobs and pods of any user.

use olm_api::unpacked_bundle::PROOF;
use serde_json::{Value, json};

use super::*;

fn large() -> String {
    "x".repeat(1 << 20)
}

fn metadata(label: &str) -> Value {
    json!({"namespace": "ns", "name": "j", "uid": "u", "labels": {labels::BUNDLE_UNPACK_REF: label, "other": large()},
        "annotations": {"a": large()},
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": label, "uid": large()},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": large()}]})
}

fn job(label: &str) -> UnpackJob {
    let containers = [json!({"name": large(), "image": large(), "command": [large()]})];
    let condition = json!({"type": "Failed", "status": "True", "reason": large(), "message": large()});
    let secrets: Vec<Value> = (0..10_000)
        .map(|name| json!({"name": name.to_string()}))
        .collect();
    let job = json!({"metadata": metadata(label), "status": {"conditions": [condition]},
        "spec": {"template": {"spec": {"containers": containers, "imagePullSecrets": secrets}}}});
    UnpackJob::from_object(serde_json::from_value(job).unwrap())
}

fn pod(label: &str) -> UnpackPod {
    let state = |name: &str, state: &Value| json!({"name": name, "imageID": large(), "state": state});
    let waiting = state("x", &json!({"waiting": {"reason": large(), "message": large()}}));
    let ended =
        |code: i32| json!({"terminated": {"exitCode": code, "message": format!("{PROOF}{}", large())}});
    let statuses = [
        vec![state(EXTRACT, &ended(0)), state("y", &ended(1))],
        vec![waiting; 100],
    ]
    .concat();
    let unschedulable =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": large()});
    let pod = json!({"metadata": metadata(label), "spec": {"containers": []},
        "status": {"conditions": [unschedulable], "containerStatuses": statuses}});
    UnpackPod::from_object(serde_json::from_value(pod).unwrap())
}

/// Bytes of what is kept, about.
fn held(object: &impl std::fmt::Debug) -> usize {
    format!("{object:?}").len()
}

#[test]
fn only_the_fields_that_are_read_are_kept_of_a_forged_job() {
    let name = "0".repeat(NAME_LENGTH);
    let (job, pod) = (job(&name), pod(&name));
    assert!(held(&job) < 4096, "{}", held(&job));
    assert!(held(&pod) < 8192, "{}", held(&pod));
    assert!(job.ending.as_ref().unwrap().message.starts_with("xxx"));
    assert_eq!((&job.config_map, &pod.job, &pod.proof), (&None, &None, &None));
    assert_eq!(unpack_of(&pod).unwrap().name, name);
}

#[test]
fn nothing_is_kept_of_jobs_without_the_name_of_an_unpack() {
    for label in ["", "kube-root-ca.crt", &"g".repeat(NAME_LENGTH)] {
        let (job, pod) = (job(label), pod(label));
        assert_eq!(*job, KeptJob::default(), "{label}");
        assert_eq!(*pod, KeptPod::default(), "{label}");
        assert_eq!((unpack_of(&job), unpack_of(&pod)), (None, None));
    }
}

/// Different or differently split words are different programs.
#[test]
fn programs_are_distinguished() {
    let of = |containers: Value| Programs::of(&serde_json::from_value(containers).unwrap());
    let container =
        |name: &str, image: &str, command: &[&str]| json!({"name": name, "image": image, "command": command});
    let all = [
        json!({"containers": [container("a", "i", &["x", "y"])]}),
        json!({"containers": [container("a", "i", &["xy"])]}),
        json!({"containers": [container("a", "i", &["x"]), container("y", "", &[])]}),
        json!({"containers": [container("ai", "", &["x", "y"])]}),
        json!({"containers": [container("a", "j", &["x", "y"])]}),
        json!({"containers": [container("b", "i", &["x", "y"])]}),
        json!({"initContainers": [container("a", "i", &["x", "y"])], "containers": [container("a", "i", &["x", "y"])]}),
        json!({"containers": []}),
    ];
    for (at, one) in all.iter().enumerate() {
        for (other_at, other) in all.iter().enumerate() {
            assert_eq!(
                of(one.clone()) == of(other.clone()),
                at == other_at,
                "{one} {other}"
            );
        }
    }
    // What the API server adds says nothing about what runs.
    let mut defaulted = all[0].clone();
    defaulted["containers"][0]["imagePullPolicy"] = json!("Always");
    assert_eq!(of(defaulted), of(all[0].clone()));
}
