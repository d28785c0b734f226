//! Results of a poll: pods that look for newer content, and take over with it.

use super::polls::{polled, scheduled};
use super::*;
use crate::catalog_source::polling::{Check, Poll};

const OLD: &str = "sha256:aaa";
const NEW: &str = "sha256:bbb";

fn pulled(mut pod: Pod, digest: &str) -> Pod {
    let statuses = json!([{"name": "registry-server", "image": IMAGE, "imageID": format!("quay.io/x/cat@{digest}"),
        "ready": true, "restartCount": 0}]);
    pod.status.get_or_insert_default().container_statuses = Some(serde_json::from_value(statuses).unwrap());
    pod
}

/// A catalog whose pod has [`OLD`], and whose poll has just returned `found`.
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

/// Returns the writes, without the time of the next check.
pub(super) fn writes(observed: &Observed) -> String {
    let plan = decide::decide(observed, now()).0;
    let plan = Plan {
        requeue: Requeue::AwaitChange,
        ..plan
    };
    plan.to_string()
}

/// Writes the poll into the status: in later reconciles it is over.
fn told(mut observed: Observed) -> Observed {
    let mut source = CatalogSource::clone(&observed.source);
    source.status = Some(status_of(&observed));
    observed.source = Arc::new(source);
    observed.poll.as_mut().unwrap().check = None;
    observed
}

/// Returns the pod of the plan, as the server would have it.
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
    // Upstream's label, which keeps it out of the Service.
    assert_eq!(label(&pod, "olm.catalogSource").as_deref(), Some(""));
    assert_eq!(
        label(&pod, "catalogsource.operators.coreos.com/update").as_deref(),
        Some("cat.a")
    );
    assert_eq!(status_of(&observed).latest_image_registry_poll.unwrap().0, now());
    // Another reconcile before the poll is in the status creates no second pod.
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
    // It serves from now on, and nothing is left to do.
    let mut promoted = pulled(ready(pod), NEW);
    let labels = promoted.metadata.labels.as_mut().unwrap();
    labels.insert("olm.catalogSource".to_owned(), "cat.a".to_owned());
    labels.remove("catalogsource.operators.coreos.com/update");
    observed.pods = vec![Arc::new(promoted)];
    observed.update_pods.clear();
    assert_eq!(writes(&observed), "");
}

/// Without a digest from the registry a pod looks for it, as upstream's does.
#[test]
fn cat_017_without_an_answer_of_the_registry_pods_are_compared() {
    let observed = asked(None);
    let pod = made(&observed);
    let mut observed = told(observed);
    observed.update_pods = vec![Arc::new(pulled(ready(pod.clone()), OLD))];
    assert_eq!(writes(&observed), "delete Pod ns/cat-2\n");
    observed.update_pods = vec![Arc::new(pulled(ready(pod.clone()), NEW))];
    assert!(writes(&observed).ends_with("delete Pod ns/cat-1\n"));
    // Without an image ID from the node the content counts as unchanged.
    observed.update_pods = vec![Arc::new(ready(pod))];
    assert_eq!(writes(&observed), "delete Pod ns/cat-2\n");
}

/// Some nodes report the digest of an image's platform, and registries that of all platforms: only one pod
/// looks for it.
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
            "the tag came back",
            |o| {
                let mut of_no_digest = Pod::clone(&o.update_pods[0]);
                of_no_digest.metadata.annotations = None;
                o.update_pods = vec![Arc::new(of_no_digest)];
                o.poll.clone_from(&asked(Some(OLD)).poll);
            },
            "delete Pod ns/cat-2\n",
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
    // The tag has moved before the pod has started.
    let mut newer = asked(Some("sha256:ccc"));
    newer.update_pods.clone_from(&begun.update_pods);
    assert_eq!(writes(&newer), "delete Pod ns/cat-2\ncreate Pod ns/cat.a-\n");
}

/// A restarted server has the content that was copied when its pod started.
#[test]
fn a_pod_with_a_copy_of_broken_content_is_replaced_at_the_next_poll() {
    let stuck = |spec: Value, seconds| {
        let mut observed = asked(Some(NEW));
        let mut source = CatalogSource::clone(&observed.source);
        source.spec = serde_json::from_value(spec).unwrap();
        observed.parsed = source::parse_source(&source);
        observed.source = Arc::new(source);
        let mut serving = ready(named(wanted_pod(&observed), "cat-1"));
        let of_init = json!([{"name": "extract-content", "image": IMAGE, "imageID": "x@sha256:aaa", "ready": true, "restartCount": 0}]);
        serving = pulled(serving, OLD);
        serving.status.as_mut().unwrap().init_container_statuses =
            Some(serde_json::from_value(of_init).unwrap());
        observed.pods = vec![Arc::new(serving)];
        let mut looking = waiting(made(&observed), "CrashLoopBackOff", "broken");
        looking.metadata.creation_timestamp = Some(Time(earlier(seconds)));
        observed.update_pods = vec![Arc::new(looking)];
        observed
    };
    let poll = json!({"registryPoll": {"interval": "10m"}});
    let copied = json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": poll, "grpcPodConfig": {"extractContent": {"catalogDir": "/configs"}}});
    let plain = json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": poll});
    let again = "delete Pod ns/cat-2\ncreate Pod ns/cat.a-\n";
    assert_eq!(writes(&stuck(copied.clone(), 600)), again);
    assert_eq!(
        writes(&told(stuck(copied.clone(), 600))),
        "",
        "once for each poll"
    );
    assert_eq!(writes(&stuck(copied, 0)), "", "made after the poll");
    assert_eq!(writes(&stuck(plain, 600)), "", "its node pulls again by itself");
}

#[test]
fn a_pod_that_looks_for_long_is_reported() {
    let mut observed = asked(Some(NEW));
    let mut pod = made(&observed);
    observed.update_pods = vec![Arc::new(pod.clone())];
    let mut observed = told(observed);
    assert_eq!(status_of(&observed).message, None);
    let plan = decide::decide(&observed, now()).0;
    assert!(matches!(plan.requeue, Requeue::After { delay, .. } if delay <= Duration::from_secs(295)));
    pod.metadata.creation_timestamp = Some(Time(earlier(301)));
    observed.update_pods = vec![Arc::new(pod)];
    assert_eq!(
        status_of(&observed).message.as_deref(),
        Some(
            "catalog polling: cat.a not ready for update: pod cat-2 has not been ready since 2026-11-20T21:23:51Z"
        )
    );
    assert_eq!(writes(&observed), "");
}

/// The process may end between the two.
#[test]
fn the_serving_pod_that_took_over_stays() {
    let mut observed = asked(Some(OLD));
    let mut promoted = pulled(ready(named(wanted_pod(&observed), "cat-2")), NEW);
    promoted.metadata.creation_timestamp = Some(Time(earlier(1)));
    let mut starting = starting(named(wanted_pod(&observed), "cat-3"));
    starting.metadata.creation_timestamp = Some(Time(earlier(0)));
    observed.poll.as_mut().unwrap().check = None;
    observed.pods.push(Arc::new(promoted));
    observed.pods.push(Arc::new(starting));
    assert_eq!(writes(&observed), "delete Pod ns/cat-1\ndelete Pod ns/cat-3\n");
}

/// The tag moved during the pull of a pod: its content differs from the one it was made for.
#[test]
fn a_pod_that_has_pulled_something_newer_than_it_was_made_for_serves() {
    let observed = asked(Some(NEW));
    let pod = made(&observed);
    let mut observed = told(observed);
    observed.update_pods = vec![Arc::new(pulled(ready(pod), "sha256:ccc"))];
    assert_eq!(
        writes(&observed),
        "patch Pod ns/cat-2 {\"metadata\":{\"labels\":{\"catalogsource.operators.coreos.com/update\":null,\"olm.catalogSource\":\"cat.a\"}}}\n\
         delete Pod ns/cat-1\n"
    );
}

/// A service mesh adds containers to each pod, which must not cause pods without end.
#[test]
fn containers_that_others_add_are_theirs() {
    let mut observed = asked(Some(OLD));
    let mut pod = Pod::clone(&observed.pods[0]);
    let added = |name: &str| serde_json::from_value(json!({"name": name, "image": "mesh"})).unwrap();
    let spec = pod.spec.as_mut().unwrap();
    spec.containers.insert(0, added("mesh"));
    spec.init_containers = Some(vec![added("mesh-init")]);
    observed.pods = vec![Arc::new(pod.clone())];
    assert_eq!(writes(&observed), "");
    assert_eq!(pod_state::image_id(&pod), Some("quay.io/x/cat@sha256:aaa"));
    // A container of ours with another image causes a replacement.
    pod.spec.as_mut().unwrap().containers[1].image = Some("other".to_owned());
    observed.pods = vec![Arc::new(pod)];
    assert!(
        writes(&observed).starts_with("create Pod ns/cat.a-\n"),
        "{}",
        writes(&observed)
    );
}

/// It pulls a foreign image like the serving pod.
#[test]
fn the_pod_that_looks_is_under_the_policy_of_the_catalog_and_not_in_its_service() {
    let observed = asked(Some(NEW));
    let pod = made(&observed);
    let labels = pod.metadata.labels.clone().unwrap();
    let policy = objects::build_server_policy(&observed.source);
    let selector = policy.spec.unwrap().pod_selector.unwrap();
    let is_selected = |labels: &std::collections::BTreeMap<String, String>| {
        let equal = selector.match_labels.iter().flatten();
        let among = selector.match_expressions.iter().flatten();
        equal
            .into_iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && among.into_iter().all(|one| {
                assert_eq!(one.operator, "In");
                labels
                    .get(&one.key)
                    .is_some_and(|value| one.values.iter().flatten().any(|known| known == value))
            })
    };
    assert!(is_selected(&labels), "{labels:?}");
    assert!(is_selected(observed.pods[0].metadata.labels.as_ref().unwrap()));
    let mut of_another = labels.clone();
    of_another.insert("olm.catalogSource".to_owned(), "other".to_owned());
    assert!(!is_selected(&of_another));
    let service = objects::build_service(&observed.source)
        .spec
        .unwrap()
        .selector
        .unwrap();
    assert!(!service.iter().all(|(key, value)| labels.get(key) == Some(value)));
}

/// A retry does not resolve an exceeded quota, so it is reported.
#[test]
fn a_quota_that_is_in_the_way_is_reported() {
    let observed = asked(Some(NEW));
    let (plan, verdict) = decide::decide(&observed, now());
    let message = |code| {
        let refused = Failure {
            class: FailureClass::Retry,
            code,
            message: "exceeded quota".to_owned(),
            action: plan.actions[0].brief(),
        };
        let outcomes = outcomes_for_tests(vec![Outcome::Failed(refused)]);
        status::compose(&observed, &verdict, &outcomes, now()).message
    };
    assert!(message(403).is_some_and(|text| text.ends_with("exceeded quota")));
    assert_eq!(message(500), None);
}

#[test]
fn a_pod_that_looks_and_cannot_start_is_reported_while_the_catalog_serves() {
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

/// Newer content may fix a catalog that does not start.
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
fn a_poll_that_nothing_could_be_done_about_is_not_reported() {
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

/// If the content is copied from the image, the copying container has the image.
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
