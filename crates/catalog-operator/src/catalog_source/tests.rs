//! Tests of decide and status of CatalogSources, from a fixture to plan and status. Rules:
//! `docs/reference/catalogs.md`.

// Fixtures read better with literals.
#![allow(clippy::needless_pass_by_value)]

mod accounts;
mod config_map;
mod connection_state;
mod image_templates;
mod owned_objects;
mod polls;
mod spec_checks;
mod troubles;
mod update_pods;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::v1alpha1::CatalogSourceStatus;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, Requeue};
use serde_json::{Value, json};

use super::connection::{ConnectionState, Endpoint, LiveConnection};
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
        template: ImageTemplate::Absent,
        parsed: source::parse_source(&source),
        source: Arc::new(source),
        settings: settings(),
        service_account: None,
        service: None,
        server_policy: None,
        unpack_policy: None,
        pods: Vec::new(),
        update_pods: Vec::new(),
        poll: None,
        connection: ConnectionState::Waiting,
        config_map: ConfigMapState::NotNamed,
    }
}

/// Returns the state after the plan of [`fresh`], as the API server would have it, with a ready pod.
fn converged(source: CatalogSource) -> Observed {
    converge(fresh(source))
}

fn converge(mut observed: Observed) -> Observed {
    let pod = wanted_pod(&observed);
    let source = Arc::clone(&observed.source);
    observed.service_account = Some(Arc::new(objects::build_service_account(&source)));
    observed.service = Some(Arc::new(objects::build_service(&source)));
    // The server drops empty lists.
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
    let settings = &observed.settings;
    match (&observed.parsed, &observed.config_map) {
        (source::Source::Image { image, config, .. }, _) => {
            pod::build_pod(&observed.source, image, config, settings)
        }
        (source::Source::ConfigMap { name, config }, ConfigMapState::Found(version)) => {
            pod::build_config_map_pod(&observed.source, name, version, config, settings)
        }
        other => unreachable!("no source with a pod: {other:?}"),
    }
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

/// Returns the status after all actions of the plan have succeeded.
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
    ConnectionState::Ready(LiveConnection {
        since: now(),
        generation: 1,
        may_change: false,
        channel,
    })
}

// Spec ----------------------------------------------------------------------------------------------------------------

// Objects -------------------------------------------------------------------------------------------------------------

// Connection ----------------------------------------------------------------------------------------------------------

// Trouble -------------------------------------------------------------------------------------------------------------

// Triggers ------------------------------------------------------------------------------------------------------------
