//! Pods that do not start and refused writes.

use super::*;

fn told(pod: Pod) -> CatalogSourceStatus {
    let mut observed = converged(image_source());
    observed.pods = vec![Arc::new(pod)];
    status_of(&observed)
}

#[test]
fn an_image_that_cannot_be_pulled_is_reported_once_whatever_the_kubelet_does() {
    let pod = Pod::clone(&converged(image_source()).pods[0]);
    let cause = "rpc error: code = NotFound desc = not found";
    let pulling = told(waiting(pod.clone(), "ErrImagePull", cause));
    assert_eq!(
        pulling.message.as_deref(),
        Some(
            "registry server is not ready - pod cat-1 container registry-server cannot pull image quay.io/x/cat:v1: rpc error: code = NotFound desc = not found"
        )
    );
    assert_eq!(pulling.reason.as_deref(), Some("RegistryServerError"));
    assert_eq!(
        pulling.connection_state.as_ref().unwrap().last_observed_state,
        "TRANSIENT_FAILURE"
    );
    let backing_off = told(waiting(
        pod,
        "ImagePullBackOff",
        &format!("Back-off pulling image \"{IMAGE}\": ErrImagePull: {cause}"),
    ));
    assert_eq!(backing_off, pulling);
}

#[test]
fn other_troubles_name_pod_and_cause() {
    let pod = Pod::clone(&converged(image_source()).pods[0]);
    let crashing = with_status(
        pod.clone(),
        json!({"containerStatuses": [{
            "name": "registry-server", "image": IMAGE, "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "starting\npermission denied: /configs\n"}},
        }]}),
    );
    let unschedulable = with_status(
        pod.clone(),
        json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"},
        ]}),
    );
    let gated = with_status(
        pod.clone(),
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
    );
    let invalid = waiting(pod, "InvalidImageName", "couldn't parse image");
    let texts: Vec<String> = [crashing, unschedulable, gated, invalid]
        .into_iter()
        .map(|pod| told(pod).message.unwrap())
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    registry server is not ready - pod cat-1 container registry-server keeps terminating (exit code 1): permission denied: /configs
    registry server is not ready - pod cat-1 cannot be scheduled: 0/1 nodes are available
    registry server is not ready - pod cat-1 cannot be scheduled: SchedulingGated
    registry server is not ready - pod cat-1 container registry-server is waiting: InvalidImageName: couldn't parse image
    ");
}

/// Each different text would be written, and trigger resolution in all namespaces that see the catalog.
#[test]
fn a_server_that_keeps_ending_is_reported_once_whatever_the_kubelet_does() {
    let made = Pod::clone(&converged(image_source()).pods[0]);
    let with = |restarts: i32, started: bool, state: Value, last: Value| {
        told(with_status(
            made.clone(),
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [{
                "name": "registry-server", "image": IMAGE, "imageID": "", "ready": false, "started": started,
                "restartCount": restarts, "state": state, "lastState": last}]}),
        ))
    };
    let ended = json!({"terminated": {"exitCode": 1, "message": "starting\nno catalog"}});
    let backing_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
    let running = json!({"running": {}});
    let first = with(0, false, backing_off.clone(), ended.clone());
    assert_eq!(
        first.message.as_deref(),
        Some(
            "registry server is not ready - pod cat-1 container registry-server keeps terminating (exit code 1): no catalog"
        )
    );
    for (state, last) in [
        (running.clone(), ended.clone()),
        (ended.clone(), json!({})),
        (ended.clone(), ended.clone()),
        (backing_off, ended.clone()),
    ] {
        assert_eq!(with(1, false, state.clone(), last), first, "{state}");
    }
    // A server that has started in the end is just not ready, and another cause is reported.
    assert_eq!(with(1, true, running, ended.clone()).message, None);
    let pulling = json!({"waiting": {"reason": "ErrImagePull", "message": "gone"}});
    let message = with(1, false, pulling, ended).message.unwrap();
    assert!(
        message.ends_with("cannot pull image quay.io/x/cat:v1: gone"),
        "{message}"
    );
}

#[test]
fn a_slow_start_is_mentioned_only_when_it_is_slow() {
    let mut observed = converged(image_source());
    let mut pod = starting(Pod::clone(&observed.pods[0]));
    observed.pods = vec![Arc::new(pod.clone())];
    let (plan, verdict) = decide::decide(&observed, now());
    assert_eq!(
        plan.requeue,
        Requeue::After {
            delay: Duration::from_secs(25),
            reason: "registry pod becoming ready"
        }
    );
    assert_eq!(verdict.trouble, None);
    pod.metadata.creation_timestamp = Some(Time(earlier(40)));
    observed.pods = vec![Arc::new(pod)];
    assert_eq!(
        status_of(&observed).message.as_deref(),
        Some("registry server is not ready - pod cat-1 has not been ready since 2026-11-20T21:28:12Z")
    );
}

fn refused(index: usize, class: FailureClass) -> CatalogSourceStatus {
    let observed = fresh(image_source());
    let (plan, verdict) = decide::decide(&observed, now());
    let results = plan
        .actions
        .iter()
        .enumerate()
        .map(|(at, action)| match at.cmp(&index) {
            std::cmp::Ordering::Less => Outcome::Done(Arc::new(Value::Null)),
            std::cmp::Ordering::Equal => Outcome::Failed(Failure {
                class,
                code: 0,
                message: "no such luck".to_owned(),
                action: action.to_string(),
            }),
            std::cmp::Ordering::Greater => Outcome::NotAttempted,
        });
    status::compose(&observed, &verdict, &outcomes_for_tests(results.collect()), now())
}

#[test]
fn refusals_are_reported_in_upstreams_words() {
    let texts: Vec<String> = (0..5)
        .map(|index| refused(index, FailureClass::Forbidden).message.unwrap())
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    couldn't ensure registry server - error ensuring grpc server network policy for catalog source cat.a: no such luck
    couldn't ensure registry server - error ensuring bundle unpack network policy for catalog source cat.a: no such luck
    couldn't ensure registry server - error ensuring service account: cat.a: no such luck
    couldn't ensure registry server - error ensuring service: cat-a: no such luck
    couldn't ensure registry server - error ensuring pod: cat.a-: error creating new pod: cat.a-: no such luck
    ");
    assert_eq!(refused(0, FailureClass::Forbidden).registry_service, None);
    assert_eq!(
        refused(0, FailureClass::Retry).reason,
        None,
        "what passes by itself is not told"
    );
}

fn rejected(age: i64) -> Pod {
    let mut pod = with_status(
        Pod::clone(&converged(image_source()).pods[0]),
        json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"}),
    );
    pod.metadata.creation_timestamp = Some(Time(earlier(age)));
    pod
}

/// A node that refuses a catalog's pod may refuse the next one, too: one that ended early has its successor a minute after its creation.
#[test]
fn pods_that_end_early_are_replaced_once_a_minute() {
    let mut observed = converged(image_source());
    observed.pods = vec![Arc::new(rejected(4))];
    let (plan, _) = decide::decide(&observed, now());
    assert!(plan.actions.is_empty(), "{plan}");
    assert_eq!(
        plan.requeue,
        Requeue::After {
            delay: Duration::from_secs(56),
            reason: "a pod ended soon after its creation"
        }
    );
    insta::assert_snapshot!(status_of(&observed).message.unwrap(), @"registry server is not ready - pod cat-1 terminated: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu; it is replaced 60 s after its creation");
    observed.pods = vec![Arc::new(rejected(60))];
    assert_eq!(
        plan_text(&observed),
        "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n"
    );
    insta::assert_snapshot!(status_of(&observed).message.unwrap(), @"registry server is not ready - pod cat-1 terminated: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu; it is being replaced");
}

/// With a living pod there is nothing to report, and dead ones are deleted.
#[test]
fn a_dead_pod_beside_a_living_one_goes_at_once() {
    let mut observed = converged(image_source());
    let mut dead = rejected(1);
    dead.metadata.name = Some("cat-0".to_owned());
    observed.pods.push(Arc::new(dead));
    assert_eq!(plan_text(&observed), "delete Pod ns/cat-0\n");
    assert_eq!(status_of(&observed).message, None);
}
