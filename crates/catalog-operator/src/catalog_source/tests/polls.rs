//! Polls for newer content: when, and what comes of what they find.

use super::*;
use crate::catalog_source::polling::{Check, Poll, interval_error, schedule};

const OLD: &str = "sha256:aaa";
const NEW: &str = "sha256:bbb";

fn polled(interval: Option<&str>) -> CatalogSource {
    let mut source = source(json!({"sourceType": "grpc", "image": IMAGE,
        "updateStrategy": {"registryPoll": {"interval": interval}}}));
    source.metadata.creation_timestamp = Some(Time(earlier(3600)));
    let connected =
        json!({"connectionState": {"address": "cat-a.ns.svc:50051", "lastObservedState": "READY"}});
    source.status = Some(serde_json::from_value(connected).unwrap());
    source
}

fn scheduled(source: &CatalogSource) -> Option<Poll> {
    schedule(source, &source::parse_source(source), earlier(86_400), now())
}

/// How long until the next poll of a catalog that was polled just now.
fn pause(interval: Option<&str>) -> i64 {
    let mut source = polled(interval);
    source.status =
        Some(serde_json::from_value(json!({"latestImageRegistryPoll": now().to_string()})).unwrap());
    scheduled(&source).unwrap().due.as_second() - now().as_second()
}

#[test]
fn cat_017_the_interval_of_polls_is_the_specs_within_bounds() {
    for (interval, seconds) in [
        (Some("45s"), 45),
        (Some("30m0s"), 1800),
        (Some("10h"), 36_000),
        // What cannot be understood is a quarter of an hour; a registry is not flooded.
        (None, 900),
        (Some(""), 900),
        (Some("45mError.code"), 900),
        (Some("0s"), 30),
        (Some("-5m"), 30),
        (Some("1ns"), 30),
        (Some("2000000h"), 100 * 365 * 86_400),
    ] {
        let spread = pause(interval) - seconds;
        assert!(
            (0..=(seconds / 10).min(300)).contains(&spread),
            "{interval:?}: {spread}"
        );
    }
}

#[test]
fn an_interval_that_cannot_be_read_is_told_in_upstreams_words_and_the_catalog_serves() {
    let source = polled(Some("45mError.code"));
    let mut observed = converged(source);
    observed.connection = ConnectionState::Connecting;
    let status = status_of(&observed);
    assert_eq!(status.reason.as_deref(), Some("InvalidIntervalError"));
    assert_eq!(
        status.message.as_deref(),
        Some(
            "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. \
             Error: time: unknown unit \"mError\" in duration \"45mError.code\""
        )
    );
    assert_eq!(status.connection_state.unwrap().last_observed_state, "READY");
    assert_eq!(writes(&observed), "");
    assert!(
        interval_error(&polled(None))
            .unwrap()
            .ends_with("time: invalid duration \"\"")
    );
    // Corrected, the error goes.
    let mut observed = converged(polled(Some("45m")));
    observed.connection = ConnectionState::Connecting;
    assert_eq!(status_of(&observed).reason, None);
}

#[test]
fn only_images_behind_a_tag_are_polled() {
    let poll = json!({"registryPoll": {"interval": "45s"}});
    let digest = format!("quay.io/x/cat@sha256:{}", "0".repeat(64));
    for (spec, expected) in [
        (
            json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": poll}),
            true,
        ),
        (
            json!({"sourceType": "grpc", "image": IMAGE, "address": "a:1", "updateStrategy": poll}),
            true,
        ),
        (
            json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": {}}),
            false,
        ),
        (
            json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": {"registryPoll": null}}),
            false,
        ),
        (json!({"sourceType": "grpc", "image": IMAGE}), false),
        (
            json!({"sourceType": "grpc", "image": digest, "updateStrategy": poll}),
            false,
        ),
        (
            json!({"sourceType": "grpc", "image": "No Image", "updateStrategy": poll}),
            false,
        ),
        (
            json!({"sourceType": "grpc", "address": "a:1", "updateStrategy": poll}),
            false,
        ),
        (
            json!({"sourceType": "configmap", "configMap": "content", "updateStrategy": poll}),
            false,
        ),
        (json!({"sourceType": "grpc", "updateStrategy": poll}), false),
    ] {
        assert_eq!(scheduled(&source(spec.clone())).is_some(), expected, "{spec}");
    }
}

/// Catalogs that were made together, or were overdue when this process began, are not polled together.
#[test]
fn polls_of_many_catalogs_are_spread() {
    let due = |uid: usize, interval: &str, started| {
        let mut source = polled(Some(interval));
        source.metadata.uid = Some(uid.to_string());
        let poll = schedule(&source, &source::parse_source(&source), started, now());
        poll.unwrap().due.as_second()
    };
    let spread = |interval: &str, started: Timestamp, from: i64, longest: i64| {
        let all: Vec<i64> = (0..1000).map(|uid| due(uid, interval, started)).collect();
        assert_eq!(
            all,
            (0..1000)
                .map(|uid| due(uid, interval, started))
                .collect::<Vec<_>>()
        );
        let (first, last) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
        assert_eq!((first - from, last - from), (0, longest), "{interval}");
    };
    let created = earlier(3600).as_second();
    spread("10m", earlier(86_400), created + 600, 60);
    spread("10h", earlier(86_400), created + 36_000, 300);
    spread("10m", now(), now().as_second(), 60);
}

/// A clock that was wrong once does not end polling.
#[test]
fn a_poll_in_the_far_future_does_not_count() {
    let mut source = polled(Some("10m"));
    source.status =
        Some(serde_json::from_value(json!({"latestImageRegistryPoll": "2099-01-01T00:00:00Z"})).unwrap());
    assert!(scheduled(&source).unwrap().is_due(now()));
}

// What comes of a poll -------------------------------------------------------------------------------------------------

fn pulled(mut pod: Pod, digest: &str) -> Pod {
    let statuses = json!([{"name": "registry-server", "image": IMAGE, "imageID": format!("quay.io/x/cat@{digest}"),
        "ready": true, "restartCount": 0}]);
    pod.status.get_or_insert_default().container_statuses = Some(serde_json::from_value(statuses).unwrap());
    pod
}

/// A catalog whose pod has [`OLD`], of which a poll has just told `found`.
fn asked(found: Option<&str>) -> Observed {
    let source = polled(Some("10m"));
    let mut observed = converged(source);
    observed.connection = ConnectionState::Connecting;
    observed.pods = vec![Arc::new(pulled(Pod::clone(&observed.pods[0]), OLD))];
    let poll = scheduled(&observed.source).unwrap();
    observed.poll = Some(Poll {
        check: Some(Check {
            at: now(),
            digest: found.map(str::to_owned),
        }),
        ..poll
    });
    observed
}

/// What is written, without when it is looked again.
fn writes(observed: &Observed) -> String {
    let plan = decide::decide(observed, now()).0;
    let plan = Plan {
        requeue: Requeue::AwaitChange,
        ..plan
    };
    plan.to_string()
}

/// The status tells of the poll.
fn told(mut observed: Observed) -> Observed {
    let mut source = CatalogSource::clone(&observed.source);
    source.status = Some(status_of(&observed));
    observed.source = Arc::new(source);
    observed
}

/// The pod that the plan makes, as the server would have it.
fn made(observed: &Observed) -> Pod {
    let actions = decide::decide(observed, now()).0.actions;
    let [Action::Create { object, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    let pod: Pod = serde_json::from_value(object.clone()).unwrap();
    starting(named(pod, "cat-2"))
}

#[test]
fn cat_017_cat_022_an_unchanged_digest_costs_one_status_and_no_pod() {
    let observed = asked(Some(OLD));
    assert_eq!(writes(&observed), "");
    let status = status_of(&observed);
    assert_eq!(status.latest_image_registry_poll.as_ref().unwrap().0, now());
    assert_eq!(
        status.registry_service,
        status_of(&converged(polled(None))).registry_service
    );
    let observed = told(observed);
    assert_eq!(Some(status_of(&observed)), observed.source.status);
}

#[test]
fn cat_017_opm_007_a_changed_image_behind_the_tag_is_served() {
    let mut observed = asked(Some(NEW));
    let pod = made(&observed);
    let label = |pod: &Pod, label: &str| pod.metadata.labels.as_ref().unwrap().get(label).cloned();
    // As upstream labels it, which keeps it out of the Service.
    assert_eq!(label(&pod, "olm.catalogSource").as_deref(), Some(""));
    assert_eq!(
        label(&pod, "catalogsource.operators.coreos.com/update").as_deref(),
        Some("cat.a")
    );
    assert_eq!(status_of(&observed).latest_image_registry_poll.unwrap().0, now());
    // Another round before the status tells of the poll makes no second.
    observed.update_pods = vec![Arc::new(pod.clone())];
    assert_eq!(writes(&observed), "", "it is waited for");
    let mut observed = told(observed);
    assert_eq!(writes(&observed), "", "it is waited for");
    observed.update_pods.clear();
    assert_eq!(writes(&observed), "", "what follows from a poll is done once");
    observed.update_pods = vec![Arc::new(pulled(ready(pod.clone()), NEW))];
    assert_eq!(
        writes(&observed),
        "patch Pod ns/cat-2 {\"metadata\":{\"labels\":{\"catalogsource.operators.coreos.com/update\":null,\"olm.catalogSource\":\"cat.a\"}}}\n\
         delete Pod ns/cat-1\n"
    );
    // It serves from now on, and nothing is to be done.
    let mut promoted = pulled(ready(pod), NEW);
    let labels = promoted.metadata.labels.as_mut().unwrap();
    labels.insert("olm.catalogSource".to_owned(), "cat.a".to_owned());
    labels.remove("catalogsource.operators.coreos.com/update");
    observed.pods = vec![Arc::new(promoted)];
    observed.update_pods.clear();
    assert_eq!(writes(&observed), "");
}

/// Where the registry tells us nothing a pod looks, as upstream's does.
#[test]
fn cat_017_without_an_answer_of_the_registry_pods_are_compared() {
    let observed = asked(None);
    let pod = made(&observed);
    let mut observed = told(observed);
    observed.update_pods = vec![Arc::new(pulled(ready(pod.clone()), OLD))];
    assert_eq!(writes(&observed), "delete Pod ns/cat-2\n");
    observed.update_pods = vec![Arc::new(pulled(ready(pod.clone()), NEW))];
    assert!(writes(&observed).ends_with("delete Pod ns/cat-1\n"));
    // What a node does not tell counts as unchanged.
    observed.update_pods = vec![Arc::new(ready(pod))];
    assert_eq!(writes(&observed), "delete Pod ns/cat-2\n");
}

/// Some nodes call an image by the digest of its platform, registries by that of all platforms: a pod looks once.
#[test]
fn a_digest_that_nodes_call_otherwise_is_looked_for_once() {
    let observed = asked(Some(NEW));
    let pod = made(&observed);
    let mut observed = told(observed);
    observed.update_pods = vec![Arc::new(pulled(ready(pod), OLD))];
    assert_eq!(
        writes(&observed),
        "patch Pod ns/cat-1 {\"metadata\":{\"annotations\":{\"operatorframework.io/image-digest\":\"sha256:bbb\"}}}\n\
         delete Pod ns/cat-2\n"
    );
    let mut again = asked(Some(NEW));
    let mut noted = Pod::clone(&again.pods[0]);
    let annotations = noted.metadata.annotations.get_or_insert_default();
    annotations.insert("operatorframework.io/image-digest".to_owned(), NEW.to_owned());
    again.pods = vec![Arc::new(noted)];
    assert_eq!(writes(&again), "");
}

#[test]
fn the_pod_that_looks_goes_when_it_is_useless() {
    let mut observed = asked(Some(NEW));
    let pod = made(&observed);
    type Row = (&'static str, fn(&mut Observed), &'static str);
    let rows: Vec<Row> = vec![
        ("not polled any more", |o| o.poll = None, "delete Pod ns/cat-2\n"),
        (
            "an address",
            |o| o.parsed = source::Source::Address("a:1".to_owned()),
            "delete Pod ns/cat-1\ndelete Pod ns/cat-2\ndelete Service ns/cat-a\n",
        ),
        (
            "dead",
            |o| {
                let dead = with_status(Pod::clone(&o.update_pods[0]), json!({"phase": "Failed"}));
                o.update_pods = vec![Arc::new(dead)];
            },
            "delete Pod ns/cat-2\n",
        ),
        (
            "no pod beside it",
            |o| o.pods.clear(),
            "create Pod ns/cat.a-\ndelete Pod ns/cat-2\n",
        ),
        (
            "a second",
            |o| {
                let second = named(Pod::clone(&o.update_pods[0]), "cat-3");
                o.update_pods.push(Arc::new(second));
            },
            "delete Pod ns/cat-3\n",
        ),
        (
            "another spec",
            |o| {
                let mut other = Pod::clone(&o.update_pods[0]);
                other
                    .metadata
                    .labels
                    .as_mut()
                    .unwrap()
                    .insert(labels::POD_SPEC_HASH.to_owned(), "x".to_owned());
                o.update_pods = vec![Arc::new(other)];
            },
            "delete Pod ns/cat-2\n",
        ),
        (
            "on its way out",
            |o| {
                let mut going = Pod::clone(&o.update_pods[0]);
                going.metadata.deletion_timestamp = Some(Time(now()));
                o.update_pods = vec![Arc::new(going)];
            },
            "",
        ),
    ];
    observed.update_pods = vec![Arc::new(pod)];
    let begun = told(observed);
    for (what, change, expected) in rows {
        let mut observed = begun.clone();
        change(&mut observed);
        assert_eq!(writes(&observed), expected, "{what}");
    }
    // The tag has moved on before the pod came up.
    let mut newer = asked(Some("sha256:ccc"));
    newer.update_pods.clone_from(&begun.update_pods);
    assert_eq!(writes(&newer), "delete Pod ns/cat-2\ncreate Pod ns/cat.a-\n");
}

#[test]
fn a_pod_that_looks_and_cannot_start_is_told_while_the_catalog_serves() {
    let mut observed = asked(Some(NEW));
    observed.update_pods = vec![Arc::new(waiting(made(&observed), "ErrImagePull", "not found"))];
    let observed = told(observed);
    assert_eq!(writes(&observed), "");
    let status = status_of(&observed);
    assert_eq!(status.reason.as_deref(), Some("RegistryServerError"));
    assert_eq!(
        status.message.as_deref(),
        Some(
            "catalog polling: cat.a not ready for update: pod cat-2 container registry-server cannot pull image \
             quay.io/x/cat:v1: not found"
        )
    );
    assert_eq!(status.connection_state.unwrap().last_observed_state, "READY");
}

/// A catalog that does not come up may be mended by newer content.
#[test]
fn newer_content_takes_the_place_of_a_pod_that_is_not_ready() {
    let mut observed = asked(Some(NEW));
    observed.pods = vec![Arc::new(pulled(starting(Pod::clone(&observed.pods[0])), OLD))];
    let pod = made(&observed);
    let mut observed = told(observed);
    observed.update_pods = vec![Arc::new(ready(pod))];
    let plan = writes(&observed);
    assert!(
        plan.starts_with("patch Pod ns/cat-2") && plan.ends_with("delete Pod ns/cat-1\n"),
        "{plan}"
    );
}

#[test]
fn a_poll_that_nothing_could_be_done_about_is_not_told() {
    let observed = asked(Some(NEW));
    let (plan, verdict) = decide::decide(&observed, now());
    assert_eq!(plan.actions.len(), 1);
    let refused = Failure {
        class: FailureClass::Forbidden,
        code: 403,
        message: "exceeded quota".to_owned(),
        action: plan.actions[0].brief(),
    };
    let outcomes = outcomes_for_tests(vec![Outcome::Failed(refused)]);
    let status = status::compose(&observed, &verdict, &outcomes, now());
    assert_eq!(status.latest_image_registry_poll, None, "it is tried again");
    assert_eq!(
        status.message.as_deref(),
        Some(
            "couldn't ensure registry server - error ensuring update pod for catalog source cat.a: exceeded quota"
        )
    );
}

/// Where the content is copied out of the image, the container that copies it has it.
#[test]
fn the_image_of_a_catalog_is_that_of_the_container_that_has_it() {
    let mut observed = converged(source(json!({"sourceType": "grpc", "image": IMAGE,
        "grpcPodConfig": {"extractContent": {"catalogDir": "/configs"}}})));
    let mut pod = pulled(Pod::clone(&observed.pods[0]), NEW);
    assert_eq!(pod_state::image_id(&pod), None);
    let statuses = json!([{"name": "extract-content", "image": IMAGE, "imageID": "x@sha256:aaa", "ready": true, "restartCount": 0}]);
    pod.status.as_mut().unwrap().init_container_statuses = Some(serde_json::from_value(statuses).unwrap());
    assert_eq!(pod_state::image_id(&pod), Some("x@sha256:aaa"));
    observed = converged(image_source());
    assert_eq!(
        pod_state::image_id(&pulled(Pod::clone(&observed.pods[0]), NEW)),
        Some("quay.io/x/cat@sha256:bbb")
    );
}

#[test]
fn the_next_poll_is_waited_for() {
    let requeue = |observed: &Observed| match decide::decide(observed, now()).0.requeue {
        Requeue::After { delay, .. } => delay.as_secs(),
        Requeue::AwaitChange => 0,
    };
    let mut observed = asked(Some(OLD));
    let seconds = |seconds| Timestamp::from_second(now().as_second() + seconds).unwrap();
    observed.poll.as_mut().unwrap().due = seconds(40);
    assert_eq!(requeue(&observed), 40);
    observed.poll.as_mut().unwrap().due = seconds(-40);
    assert_eq!(requeue(&observed), 60);
    observed.poll.as_mut().unwrap().due = seconds(1_000_000_000);
    assert_eq!(requeue(&observed), 86_400);
}
