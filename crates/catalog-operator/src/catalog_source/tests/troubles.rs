//! Pods that do not start and refused writes.

use super::*;

fn told(pod: Pod) -> CatalogSourceStatus {
    let mut observed = converged(image_source());
    observed.pods = vec![Arc::new(pod)];
    status_of(&observed)
}

#[test]
fn an_image_that_cannot_be_pulled_is_told_once_whatever_the_kubelet_does() {
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
fn a_server_that_keeps_ending_is_told_once_whatever_the_kubelet_does() {
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
fn refusals_are_told_in_upstreams_words() {
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

/// Returns the plan after a node has refused these pods, and the record of them on the new pod.
fn after(pods: &[Pod]) -> (String, Option<String>) {
    let mut observed = converged(image_source());
    observed.pods = pods.iter().cloned().map(Arc::new).collect();
    let (plan, _) = decide::decide(&observed, now());
    let count = plan.actions.iter().find_map(|action| match action {
        Action::Create { object, .. } => object
            .pointer("/metadata/annotations/operatorframework.io~1registry-pod-failures")
            .and_then(Value::as_str)
            .map(str::to_owned),
        _ => None,
    });
    (plan.to_string(), count)
}

fn rejected(age: i64, failures: u32) -> Pod {
    let mut pod = with_status(
        Pod::clone(&converged(image_source()).pods[0]),
        json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"}),
    );
    pod.metadata.creation_timestamp = Some(Time(earlier(age)));
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(
        "operatorframework.io/registry-pod-failures".to_owned(),
        failures.to_string(),
    );
    pod
}

/// A node that refuses a catalog's pod refuses the next one, too: there is a pause between them.
#[test]
fn pods_that_are_refused_one_after_the_other_come_ever_more_rarely() {
    let replaced = "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n";
    let rows = [
        (1, 0, Some("1")),
        (1, 1, None),
        (10, 1, Some("2")),
        (19, 2, None),
        (20, 2, Some("3")),
        (299, 40, None),
        (300, 40, Some("41")),
        (300, u32::MAX, Some("4294967295")),
    ];
    for (age, failures, next) in rows {
        let (text, count) = after(&[rejected(age, failures)]);
        assert_eq!(count.as_deref(), next, "{age} s after, {failures} before: {text}");
        match next {
            Some(_) => assert_eq!(text, replaced),
            None => assert!(text.starts_with("again in "), "{text}"),
        }
    }
    // A pod that served for a while resets the count, and without refusals there is no record.
    assert_eq!(after(&[rejected(600, 5)]), (replaced.to_owned(), None));
    assert_eq!(after(&[]).1, None);
    let mut observed = converged(image_source());
    observed.pods = vec![Arc::new(rejected(4, 1))];
    let (plan, _) = decide::decide(&observed, now());
    assert_eq!(
        plan.requeue,
        Requeue::After {
            delay: Duration::from_secs(6),
            reason: "backoff after pods that terminated early"
        }
    );
    insta::assert_snapshot!(status_of(&observed).message.unwrap(), @"registry server is not ready - pod cat-1 terminated: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu; it is replaced 10 s later");
}

/// With a living pod there is no pause, and dead ones are deleted.
#[test]
fn a_dead_pod_beside_a_living_one_goes_at_once() {
    let mut dead = rejected(1, 5);
    dead.metadata.name = Some("cat-0".to_owned());
    let living = Pod::clone(&converged(image_source()).pods[0]);
    assert_eq!(after(&[dead, living]).0, "delete Pod ns/cat-0\n");
}
