//! decide and status of CatalogSources: a fixture in, plan and status out. Cases: `spec/catalogsource.md` §9.

// Fixtures read better with literals.
#![allow(clippy::needless_pass_by_value)]

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::v1alpha1::CatalogSourceStatus;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, Requeue};
use serde_json::{Value, json};

use super::connection::{ConnectionState, Link};
use super::decide::Purpose;
use super::*;

const IMAGE: &str = "quay.io/x/cat:v1";

fn now() -> Timestamp {
    "2026-11-20T21:28:52Z".parse().unwrap()
}

fn earlier(seconds: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() - seconds).unwrap()
}

fn source(spec: Value) -> CatalogSource {
    serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "cat.a", "namespace": "ns", "uid": "u1"}, "spec": spec,
    }))
    .unwrap()
}

fn image_source() -> CatalogSource {
    source(json!({"sourceType": "grpc", "image": IMAGE}))
}

fn settings() -> PodSettings {
    PodSettings {
        opm_image: "opm".to_owned(),
        util_image: "util".to_owned(),
        user_id: None,
        namespace_restricted: false,
    }
}

fn fresh(source: CatalogSource) -> Observed {
    Observed {
        parsed: source::parse_source(&source),
        source: Arc::new(source),
        settings: settings(),
        service_account: None,
        service: None,
        server_policy: None,
        unpack_policy: None,
        pods: Vec::new(),
        connection: ConnectionState::Waiting,
    }
}

/// Everything as the API server would have it after the plan of [`fresh`], with a pod that is ready.
fn converged(source: CatalogSource) -> Observed {
    let mut observed = fresh(source);
    let pod = wanted_pod(&observed);
    let source = Arc::clone(&observed.source);
    observed.service_account = Some(Arc::new(objects::build_service_account(&source)));
    observed.service = Some(Arc::new(objects::build_service(&source)));
    // The server keeps no empty lists.
    let mut server_policy = objects::build_server_policy(&source);
    server_policy.spec.as_mut().unwrap().egress = None;
    observed.server_policy = Some(Arc::new(server_policy));
    let mut unpack_policy = objects::build_unpack_policy(&source);
    unpack_policy.spec.as_mut().unwrap().ingress = None;
    observed.unpack_policy = Some(Arc::new(unpack_policy));
    observed.pods = vec![Arc::new(ready(named(pod, "cat-1")))];
    observed
}

fn wanted_pod(observed: &Observed) -> Pod {
    let source::Source::Image { image, config, .. } = &observed.parsed else {
        unreachable!("an image source")
    };
    pod::build_pod(&observed.source, image, config, &observed.settings)
}

fn named(mut pod: Pod, name: &str) -> Pod {
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    pod.metadata.creation_timestamp = Some(Time(earlier(5)));
    pod
}

fn with_status(mut pod: Pod, status: Value) -> Pod {
    pod.status = Some(serde_json::from_value(status).unwrap());
    pod
}

fn ready(pod: Pod) -> Pod {
    with_status(
        pod,
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    )
}

fn starting(pod: Pod) -> Pod {
    with_status(
        pod,
        json!({"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}),
    )
}

fn waiting(pod: Pod, reason: &str, message: &str) -> Pod {
    with_status(
        pod,
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "registry-server", "image": IMAGE, "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}},
        }]}),
    )
}

fn plan_text(observed: &Observed) -> String {
    decide::decide(observed, now()).0.to_string()
}

/// Status after every action of the plan went through.
fn status_of(observed: &Observed) -> CatalogSourceStatus {
    let (plan, verdict) = decide::decide(observed, now());
    let done = plan
        .actions
        .iter()
        .map(|_| Outcome::Done(Arc::new(Value::Null)))
        .collect();
    status::compose(observed, &verdict, &outcomes_for_tests(done), now())
}

fn link() -> ConnectionState {
    let channel = tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    ConnectionState::Ready(Link {
        since: now(),
        generation: 1,
        channel,
    })
}

// Spec ----------------------------------------------------------------------------------------------------------------

#[test]
fn a_wrong_spec_is_told_and_nothing_is_made() {
    for (spec, text) in [
        (json!({"sourceType": "nope"}), "unknown sourcetype: nope"),
        (
            json!({"sourceType": "grpc"}),
            "image and address unset: at least one must be set for sourcetype: grpc",
        ),
        (
            json!({"sourceType": "configmap"}),
            "configmap name unset: must be set for sourcetype: configmap",
        ),
        (
            json!({"sourceType": "internal"}),
            "configmap name unset: must be set for sourcetype: internal",
        ),
        (
            json!({"sourceType": "configmap", "configMap": "m"}),
            "sourcetype configmap is not served by this version: put the catalog into an image and use sourcetype grpc",
        ),
    ] {
        let observed = fresh(source(spec));
        assert_eq!(plan_text(&observed), "", "{text}");
        let status = status_of(&observed);
        assert_eq!(status.reason.as_deref(), Some("SpecInvalidError"));
        assert_eq!(status.message.as_deref(), Some(text));
        assert_eq!(status.connection_state, None);
    }
}

#[test]
fn a_typo_does_not_take_a_running_catalog_away() {
    let mut observed = converged(image_source());
    observed.parsed = source::Source::Invalid("typo".to_owned());
    assert_eq!(plan_text(&observed), "");
}

#[test]
fn polling_is_said_not_to_be_served_and_an_empty_strategy_means_none() {
    let polled = source(
        json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": {"registryPoll": {"interval": "45mError.code"}}}),
    );
    let mut observed = converged(polled);
    observed.connection = ConnectionState::Connecting;
    let status = status_of(&observed);
    assert_eq!(status.reason, None);
    assert!(
        status
            .message
            .unwrap()
            .starts_with("updateStrategy.registryPoll is not carried out by this version")
    );
    let empty = source(json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": {}}));
    assert_eq!(status_of(&converged(empty)).message, None);
}

// Objects -------------------------------------------------------------------------------------------------------------

#[test]
fn a_new_image_source_gets_its_five_objects_in_order() {
    let observed = fresh(image_source());
    insta::assert_snapshot!(plan_text(&observed), @r"
    create NetworkPolicy ns/cat.a-grpc-server
    create NetworkPolicy ns/cat.a-unpack-bundles
    create ServiceAccount ns/cat.a (keep)
    create Service ns/cat-a
    create Pod ns/cat.a-
    ");
    insta::assert_json_snapshot!(status_of(&observed), @r#"
    {
      "registryService": {
        "protocol": "grpc",
        "serviceName": "cat-a",
        "serviceNamespace": "ns",
        "port": "50051",
        "createdAt": "2026-11-20T21:28:52Z"
      },
      "connectionState": {
        "address": "cat-a.ns.svc:50051",
        "lastObservedState": "CONNECTING",
        "lastConnect": "2026-11-20T21:28:52Z"
      }
    }
    "#);
}

#[test]
fn converged_means_an_empty_plan() {
    let specs = [
        json!({"sourceType": "grpc", "image": IMAGE}),
        json!({"sourceType": "grpc", "image": IMAGE, "address": "elsewhere:1"}),
        json!({"sourceType": "grpc", "image": IMAGE, "secrets": ["a", ""]}),
        json!({"sourceType": "grpc", "image": IMAGE, "grpcPodConfig": {"extractContent": {"catalogDir": "/c"}, "memoryTarget": "5Mi"}}),
    ];
    for spec in specs {
        assert_eq!(plan_text(&converged(source(spec.clone()))), "", "{spec}");
    }
    assert_eq!(
        plan_text(&fresh(source(json!({"sourceType": "grpc", "address": "a:1"})))),
        ""
    );
}

/// Stopping after any number of writes and looking again leads to the same objects.
#[test]
fn every_prefix_of_the_plan_converges() {
    let all = decide::decide(&fresh(image_source()), now()).0.actions.len();
    let made = converged(image_source());
    for done in 0..=all {
        let mut observed = fresh(image_source());
        let upto = |index: usize| done > index;
        observed.server_policy = made.server_policy.clone().filter(|_| upto(0));
        observed.unpack_policy = made.unpack_policy.clone().filter(|_| upto(1));
        observed.service_account = made.service_account.clone().filter(|_| upto(2));
        observed.service = made.service.clone().filter(|_| upto(3));
        observed.pods = if upto(4) { made.pods.clone() } else { Vec::new() };
        let plan = decide::decide(&observed, now()).0;
        assert_eq!(plan.actions.len(), all - done, "after {done} writes:\n{plan}");
    }
}

#[test]
fn the_objects_are_upstreams() {
    let source = source(json!({"sourceType": "grpc", "image": IMAGE, "secrets": ["test-secret", ""]}));
    let account = objects::build_service_account(&source);
    let owner = &account.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.controller, owner.block_owner_deletion),
        (Some(true), Some(true))
    );
    assert_eq!(
        account
            .image_pull_secrets
            .unwrap()
            .iter()
            .map(|secret| secret.name.as_str())
            .collect::<Vec<_>>(),
        ["test-secret"]
    );
    let service = objects::build_service(&source);
    assert_eq!(service.metadata.name.as_deref(), Some("cat-a"));
    assert_eq!(
        service.metadata.owner_references.unwrap()[0].controller,
        Some(false)
    );
}

/// The label upstream gave the Service of its golden catalog.
#[test]
fn the_service_hash_is_upstreams() {
    let mut golden = image_source();
    golden.metadata.name = Some("cat".to_owned());
    let service = objects::build_service(&golden);
    assert_eq!(
        service.metadata.labels.unwrap()[labels::SERVICE_SPEC_HASH],
        "6eq0PqHqOP4OCC98EjWI1EyhhK0m880EIA3lob"
    );
}

#[test]
fn what_differs_is_put_right() {
    type Row = (&'static str, fn(&mut Observed), &'static str);
    let rows: Vec<Row> = vec![
        (
            "policy deleted",
            |o| o.server_policy = None,
            "create NetworkPolicy ns/cat.a-grpc-server\n",
        ),
        (
            "egress rule added by someone else",
            |o| {
                let mut policy = NetworkPolicy::clone(o.server_policy.as_ref().unwrap());
                policy.spec.as_mut().unwrap().egress = Some(vec![Default::default()]);
                o.server_policy = Some(Arc::new(policy));
            },
            "apply NetworkPolicy ns/cat.a-grpc-server\n",
        ),
        (
            "policy without its label",
            |o| {
                let mut policy = NetworkPolicy::clone(o.unpack_policy.as_ref().unwrap());
                policy
                    .metadata
                    .labels
                    .as_mut()
                    .unwrap()
                    .remove(labels::CATALOG_SOURCE);
                o.unpack_policy = Some(Arc::new(policy));
            },
            "apply NetworkPolicy ns/cat.a-unpack-bundles\n",
        ),
        (
            "Service with a wrong hash",
            |o| {
                let mut service = Service::clone(o.service.as_ref().unwrap());
                service
                    .metadata
                    .labels
                    .as_mut()
                    .unwrap()
                    .insert(labels::SERVICE_SPEC_HASH.to_owned(), "x".to_owned());
                o.service = Some(Arc::new(service));
            },
            "apply Service ns/cat-a\n",
        ),
        (
            "Service with another selector under the right hash",
            |o| {
                let mut service = Service::clone(o.service.as_ref().unwrap());
                service.spec.as_mut().unwrap().selector = None;
                o.service = Some(Arc::new(service));
            },
            "apply Service ns/cat-a\n",
        ),
        ("pod deleted", |o| o.pods.clear(), "create Pod ns/cat.a-\n"),
        (
            "pod evicted",
            |o| {
                let pod = with_status(
                    Pod::clone(&o.pods[0]),
                    json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
                );
                o.pods = vec![Arc::new(pod)];
            },
            "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n",
        ),
        (
            "pod ended",
            |o| {
                o.pods = vec![Arc::new(with_status(
                    Pod::clone(&o.pods[0]),
                    json!({"phase": "Failed"}),
                ))];
            },
            "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n",
        ),
        (
            "two pods",
            |o| {
                o.pods
                    .push(Arc::new(starting(named(Pod::clone(&o.pods[0]), "cat-0"))));
            },
            "delete Pod ns/cat-0\n",
        ),
    ];
    for (what, spoil, expected) in rows {
        let mut observed = converged(image_source());
        spoil(&mut observed);
        assert_eq!(plan_text(&observed), expected, "{what}");
    }
}

#[test]
fn a_changed_image_is_served_before_the_old_pod_goes() {
    let old = converged(image_source()).pods;
    let next = || source(json!({"sourceType": "grpc", "image": "quay.io/x/cat:v2"}));
    let mut observed = converged(next());
    let new_pod = Pod::clone(&observed.pods[0]);
    observed.pods = old.clone();
    assert_eq!(
        plan_text(&observed),
        "create Pod ns/cat.a-\n",
        "the old pod serves on"
    );
    observed.pods = vec![
        Arc::clone(&old[0]),
        Arc::new(starting(named(new_pod.clone(), "cat-2"))),
    ];
    assert_eq!(
        decide::decide(&observed, now()).0.actions,
        [],
        "the new pod is waited for"
    );
    observed.pods = vec![Arc::clone(&old[0]), Arc::new(named(new_pod.clone(), "cat-2"))];
    assert_eq!(plan_text(&observed), "delete Pod ns/cat-1\n");
    // One that does not serve is not worth keeping.
    observed.pods = vec![Arc::new(waiting(Pod::clone(&old[0]), "ErrImagePull", "no"))];
    assert_eq!(
        plan_text(&observed),
        "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n"
    );
}

#[test]
fn objects_of_an_earlier_namesake_are_replaced_and_strangers_are_left_alone() {
    let mut earlier = image_source();
    earlier.metadata.uid = Some("u0".to_owned());
    let mut observed = converged(image_source());
    observed.service_account = Some(Arc::new(objects::build_service_account(&earlier)));
    observed.service = Some(Arc::new(objects::build_service(&earlier)));
    assert_eq!(
        plan_text(&observed),
        "delete ServiceAccount ns/cat.a\ncreate ServiceAccount ns/cat.a (keep)\ndelete Service ns/cat-a\ncreate Service ns/cat-a\n"
    );
    let strange = |meta: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        let owner = &mut meta.owner_references.as_mut().unwrap()[0];
        (owner.kind, owner.name, owner.uid) = (
            "ClusterServiceVersion".to_owned(),
            "op.v1".to_owned(),
            "c1".to_owned(),
        );
    };
    let mut account = objects::build_service_account(&earlier);
    strange(&mut account.metadata);
    let mut service = objects::build_service(&earlier);
    strange(&mut service.metadata);
    observed.service_account = Some(Arc::new(account));
    observed.service = Some(Arc::new(service));
    // The refusal of this creation names the Service that is in the way.
    assert_eq!(plan_text(&observed), "create Service ns/cat-a\n");
}

#[test]
fn a_source_turned_to_an_address_runs_nothing() {
    let mut observed = converged(image_source());
    observed.parsed = source::Source::Address("a:1".to_owned());
    assert_eq!(
        plan_text(&observed),
        "delete Pod ns/cat-1\ndelete Service ns/cat-a\n"
    );
}

// Connection ----------------------------------------------------------------------------------------------------------

#[test]
fn nothing_is_dialled_before_a_pod_is_ready() {
    let mut observed = converged(image_source());
    let mut service = Service::clone(observed.service.as_ref().unwrap());
    service.spec.as_mut().unwrap().cluster_ip = Some("10.96.0.7".to_owned());
    let find = |observed: &Observed| {
        address::find_endpoint(&observed.source, &observed.parsed, Some(&service), &observed.pods)
    };
    let endpoint = find(&observed).unwrap();
    assert_eq!(
        (endpoint.address.as_str(), endpoint.dial.as_str()),
        ("cat-a.ns.svc:50051", "10.96.0.7:50051")
    );
    assert_eq!(endpoint.epoch, "uid-cat-1");
    observed.pods = vec![Arc::new(starting(Pod::clone(&observed.pods[0])))];
    assert_eq!(find(&observed), None);
    // An address is dialled at once, also when a pod is run beside it.
    for spec in [
        json!({"sourceType": "grpc", "address": "h:1"}),
        json!({"sourceType": "grpc", "image": IMAGE, "address": "h:1"}),
    ] {
        let endpoint = find(&fresh(source(spec))).unwrap();
        assert_eq!(
            (endpoint.address.as_str(), endpoint.dial.as_str()),
            ("h:1", "h:1")
        );
    }
}

#[tokio::test]
async fn ready_is_the_second_and_last_write_of_a_start() {
    let mut observed = converged(image_source());
    let first = status_of(&fresh(image_source()));
    let mut source = CatalogSource::clone(&observed.source);
    source.status = Some(first.clone());
    observed.source = Arc::new(source);
    observed.connection = ConnectionState::Connecting;
    assert_eq!(status_of(&observed), first, "connecting is no news");
    observed.connection = link();
    let second = status_of(&observed);
    assert_eq!(
        second.connection_state.as_ref().unwrap().last_observed_state,
        "READY"
    );
    assert_eq!(second.registry_service, first.registry_service);
    assert_eq!((second.reason.clone(), second.message.clone()), (None, None));
    let mut source = CatalogSource::clone(&observed.source);
    source.status = Some(second.clone());
    observed.source = Arc::new(source);
    assert_eq!(status_of(&observed), second, "at rest nothing changes");
}

#[test]
fn an_address_of_another_version_is_corrected() {
    let mut source = image_source();
    source.status = serde_json::from_value(
        json!({"connectionState": {"address": "..svc:", "lastObservedState": "READY"}}),
    )
    .unwrap();
    let mut observed = converged(source);
    observed.connection = ConnectionState::Connecting;
    let state = status_of(&observed).connection_state.unwrap();
    assert_eq!(state.address.as_deref(), Some("cat-a.ns.svc:50051"));
    assert_eq!(state.last_observed_state, "CONNECTING");
}

#[test]
fn an_unreachable_address_is_a_transient_failure_with_its_error_and_first_time() {
    let mut source = source(json!({"sourceType": "grpc", "address": "h:1"}));
    let failing = |seconds| ConnectionState::Failing {
        since: earlier(seconds),
        error: "cannot connect to h:1: refused".to_owned(),
    };
    let mut observed = fresh(source.clone());
    observed.connection = failing(9);
    let first = status_of(&observed);
    insta::assert_json_snapshot!(first, @r#"
    {
      "reason": "RegistryServerError",
      "message": "couldn't connect to registry - cannot connect to h:1: refused",
      "registryService": {
        "protocol": "grpc",
        "createdAt": "2026-11-20T21:28:52Z"
      },
      "connectionState": {
        "address": "h:1",
        "lastObservedState": "TRANSIENT_FAILURE",
        "lastConnect": "2026-11-20T21:28:43Z"
      }
    }
    "#);
    source.status = Some(first.clone());
    let mut again = fresh(source);
    again.connection = failing(1);
    assert_eq!(status_of(&again), first, "trying again in vain writes nothing");
}

#[test]
fn a_registry_service_with_holes_is_overwritten() {
    let mut source = image_source();
    source.status = serde_json::from_value(
        json!({"registryService": {"protocol": "grpc", "createdAt": "2020-01-01T00:00:00Z"}}),
    )
    .unwrap();
    let service = status_of(&converged(source)).registry_service.unwrap();
    assert_eq!(service.service_name.as_deref(), Some("cat-a"));
    assert_eq!(service.created_at, Some(Time(now())));
}

// Trouble -------------------------------------------------------------------------------------------------------------

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
    let invalid = waiting(pod, "InvalidImageName", "couldn't parse image");
    let texts: Vec<String> = [crashing, unschedulable, invalid]
        .into_iter()
        .map(|pod| told(pod).message.unwrap())
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    registry server is not ready - pod cat-1 container registry-server keeps ending (exit code 1): permission denied: /configs
    registry server is not ready - pod cat-1 cannot be scheduled: 0/1 nodes are available
    registry server is not ready - pod cat-1 container registry-server is waiting: InvalidImageName: couldn't parse image
    ");
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
        Some("registry server is not ready - pod cat-1 is not ready since 2026-11-20T21:28:12Z")
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

#[test]
fn purposes_and_actions_go_together() {
    let (plan, verdict) = decide::decide(&fresh(image_source()), now());
    assert_eq!(plan.actions.len(), verdict.purposes.len());
    assert_eq!(verdict.purposes.last(), Some(&Purpose::NewPod));
    assert!(
        plan.actions
            .iter()
            .all(|action| matches!(action, Action::Create { object, .. } if object["kind"].is_string()))
    );
}

// Triggers ------------------------------------------------------------------------------------------------------------

#[test]
fn owned_objects_wake_their_source_also_when_they_lose_the_reference() {
    let pod = Arc::new(Pod::clone(&converged(image_source()).pods[0]));
    let mut orphan = Pod::clone(&pod);
    orphan.metadata.owner_references = None;
    let change = olm_runtime::store::Change::Applied {
        old: Some(pod),
        new: Arc::new(orphan),
    };
    assert_eq!(
        triggers::owners(&change).into_iter().collect::<Vec<_>>(),
        [NamespacedName::new("ns", "cat.a")]
    );
}
