//! The status of a CatalogSource after a reconcile. No I/O.
//!
//! In the normal case the status has exactly upstream's fields. A message appears when there is a problem,
//! and names the object that is waited for. A start writes the status twice: with state `CONNECTING` when the
//! objects are created, and with `READY` when the server responds. States in between are not written.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::List;
use olm_api::condition::catalog_source as reasons;
use olm_api::v1alpha1::{
    CatalogSourceStatus, ConfigMapResourceReference, GrpcConnectionState, RegistryServiceStatus,
};
use olm_runtime::condition::stored_time;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, Outcomes};
use serde_json::Value;

use super::address::shown_address;
use super::config_map_owner::{is_recorded, is_stripped};
use super::connection::ConnectionState;
use super::decide::{Purpose, Verdict};
use super::objects::{GRPC_PORT, name, service_name};
use super::observed::Observed;
use super::polling::interval_error;
use super::source::Source;
use super::update::polled_at;
use crate::stores::config_maps::ConfigMapState;

/// Returns the complete status, based on the current one.
pub fn compose(
    observed: &Observed,
    verdict: &Verdict,
    outcomes: &Outcomes,
    now: Timestamp,
) -> CatalogSourceStatus {
    let mut status = observed.source.status.clone().unwrap_or_default();
    let is_owning = verdict.purposes.contains(&Purpose::ConfigMapOwner);
    let is_refused = outcomes.failure().is_some_and(|(_, failure)| lasts(failure));
    if is_owning && !is_refused {
        // More will be known in a moment. No change follows if the owner was not stored: then the reference is
        // recorded, which causes a reconcile that serves without it.
        if is_owner_stripped(observed, verdict, outcomes) {
            status.config_map_reference =
                config_map_reference(observed, status.config_map_reference.take(), now);
        }
        return status;
    }
    let (reason, message) = reason_and_message(observed, verdict, outcomes);
    observed.template.report(&mut status.conditions, now);
    if status.conditions.is_empty() {
        status.conditions = List::default();
    }
    status.reason = filled(reason.to_owned());
    status.message = filled(message);
    if is_owning {
        return status;
    }
    let Some(address) = shown_address(&observed.source, &observed.parsed) else {
        return status;
    };
    status.config_map_reference = config_map_reference(observed, status.config_map_reference.take(), now);
    if is_without_config_map(observed) && status.registry_service.is_none() {
        return status;
    }
    if outcomes.failure().is_none() {
        let renewed = written(verdict, outcomes, &Purpose::NewPod).is_some();
        status.registry_service = Some(registry_service(
            observed,
            status.registry_service.take(),
            renewed,
            now,
        ));
        // The consequences of the poll were carried out.
        if let Some(at) = polled_at(observed) {
            status.latest_image_registry_poll = Some(stored_time(at));
        }
    }
    let trouble = verdict.trouble.is_some();
    status.connection_state = Some(connection_state(
        observed,
        trouble,
        address,
        status.connection_state.take(),
        now,
    ));
    status
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Returns reason and message; both empty without a problem.
fn reason_and_message(observed: &Observed, verdict: &Verdict, outcomes: &Outcomes) -> (&'static str, String) {
    match &observed.parsed {
        Source::Invalid(text) => return (reasons::SPEC_INVALID_ERROR, text.clone()),
        Source::ConfigMap { name, .. } => {
            if let Some(cause) = config_map_trouble(name, &observed.config_map) {
                let text = format!("failed to get catalog config map {name}: {cause}");
                return (reasons::CONFIG_MAP_ERROR, text);
            }
        }
        Source::Image { .. } | Source::Address(_) => {}
    }
    if let Some((index, failure)) = outcomes.failure().filter(|(_, failure)| lasts(failure)) {
        let purpose = verdict.purposes.get(index);
        if purpose == Some(&Purpose::ConfigMapOwner) {
            let text = format!(
                "unable to write owner onto catalog source configmap - {}",
                failure.message
            );
            return (reasons::CONFIG_MAP_ERROR, text);
        }
        let text = format!(
            "couldn't ensure registry server - {}",
            failure_text(observed, purpose, failure)
        );
        return (reasons::REGISTRY_SERVER_ERROR, text);
    }
    if let Some(trouble) = &verdict.trouble {
        return (
            reasons::REGISTRY_SERVER_ERROR,
            format!("registry server is not ready - {trouble}"),
        );
    }
    match &observed.connection {
        ConnectionState::Failing { error, .. } => (
            reasons::REGISTRY_SERVER_ERROR,
            format!("couldn't connect to registry - {error}"),
        ),
        _ => update_trouble(observed, verdict),
    }
}

/// Returns a problem with newer content; the current content is still served.
fn update_trouble(observed: &Observed, verdict: &Verdict) -> (&'static str, String) {
    if let Some(text) = interval_error(&observed.source) {
        return (reasons::INVALID_INTERVAL_ERROR, text);
    }
    match &verdict.update_trouble {
        None => ("", String::new()),
        Some(trouble) => {
            let name = name(&observed.source);
            let text = format!("catalog polling: {name} not ready for update: {trouble}");
            (reasons::REGISTRY_SERVER_ERROR, text)
        }
    }
}

/// False for failures that the next reconcile will probably not have; these are not worth a status write. An
/// exceeded quota is retried, but lasts.
fn lasts(failure: &Failure) -> bool {
    failure.is_refusal() || !matches!(failure.class, FailureClass::Retry | FailureClass::Conflict)
}

/// Returns the failed step with upstream's text, and the server's own message as the cause.
fn failure_text(observed: &Observed, purpose: Option<&Purpose>, failure: &Failure) -> String {
    let name = name(&observed.source);
    let step = match purpose {
        Some(Purpose::Image) => format!("error updating the image of catalog source {name}"),
        Some(Purpose::ServerPolicy) => {
            format!("error ensuring grpc server network policy for catalog source {name}")
        }
        Some(Purpose::UnpackPolicy) => {
            format!("error ensuring bundle unpack network policy for catalog source {name}")
        }
        Some(Purpose::ServiceAccount) => format!("error ensuring service account: {name}"),
        Some(Purpose::Service) => format!("error ensuring service: {}", service_name(&observed.source)),
        Some(Purpose::NewPod) => format!("error ensuring pod: {name}-: error creating new pod: {name}-"),
        Some(Purpose::UpdatePod) => format!("error ensuring update pod for catalog source {name}"),
        Some(Purpose::OldPod(pod)) => format!("error ensuring pod: {name}-: error deleting old pod: {pod}"),
        Some(Purpose::ConfigMapOwner) | None => failure.action.clone(),
    };
    format!("{step}: {}", failure.message)
}

/// Returns the reason why there is no ConfigMap to serve, with the API server's text where there is one.
fn config_map_trouble(name: &str, state: &ConfigMapState) -> Option<String> {
    match state {
        ConfigMapState::Found(_) | ConfigMapState::NotNamed => None,
        ConfigMapState::Missing => Some(format!("configmaps \"{name}\" not found")),
        ConfigMapState::Unread(cause) => Some(cause.clone()),
    }
}

/// True when the owner of the ConfigMap was written, and a webhook removed it.
fn is_owner_stripped(observed: &Observed, verdict: &Verdict, outcomes: &Outcomes) -> bool {
    let ConfigMapState::Found(version) = &observed.config_map else {
        return false;
    };
    written(verdict, outcomes, &Purpose::ConfigMapOwner).is_some_and(|written| is_stripped(written, version))
}

/// The answer to the write of this purpose, if it was carried out.
fn written<'a>(verdict: &Verdict, outcomes: &'a Outcomes, purpose: &Purpose) -> Option<&'a Value> {
    let mut results = verdict.purposes.iter().zip(outcomes.iter());
    results.find_map(|(of, outcome)| match outcome {
        Outcome::Done(written) if of == purpose => Some(&**written),
        _ => None,
    })
}

fn is_without_config_map(observed: &Observed) -> bool {
    matches!(observed.parsed, Source::ConfigMap { .. })
        && !matches!(observed.config_map, ConfigMapState::Found(_))
}

/// Returns the ConfigMap as observed last; `None` for other sources.
fn config_map_reference(
    observed: &Observed,
    old: Option<ConfigMapResourceReference>,
    now: Timestamp,
) -> Option<ConfigMapResourceReference> {
    let Source::ConfigMap { name, .. } = &observed.parsed else {
        return None;
    };
    let ConfigMapState::Found(version) = &observed.config_map else {
        return old;
    };
    let is_same = is_recorded(&observed.source, name, version);
    old.filter(|_| is_same).or_else(|| {
        Some(ConfigMapResourceReference {
            name: name.clone(),
            namespace: observed.source.metadata.namespace.clone().unwrap_or_default(),
            uid: Some(version.uid.clone()),
            resource_version: Some(version.resource_version.clone()),
            last_update_time: Some(stored_time(now)),
            ..ConfigMapResourceReference::default()
        })
    })
}

/// `createdAt` is the creation of the current pod, so it changes with a new one.
fn registry_service(
    observed: &Observed,
    old: Option<RegistryServiceStatus>,
    renewed: bool,
    now: Timestamp,
) -> RegistryServiceStatus {
    let mut wanted = RegistryServiceStatus {
        protocol: Some("grpc".to_owned()),
        ..RegistryServiceStatus::default()
    };
    if !matches!(observed.parsed, Source::Address(_)) {
        wanted.service_name = Some(service_name(&observed.source));
        wanted
            .service_namespace
            .clone_from(&observed.source.metadata.namespace);
        wanted.port = Some(GRPC_PORT.to_string());
    }
    let created = old.as_ref().and_then(|old| old.created_at.clone());
    let same = old.is_some_and(|old| {
        RegistryServiceStatus {
            created_at: None,
            ..old
        } == wanted
    });
    wanted.created_at = created
        .filter(|_| same && !renewed)
        .or_else(|| Some(stored_time(now)));
    wanted
}

/// Returns the connection state for users.
///
/// Just after a start of this process, or of the pod, the state is unknown for a moment. The old status is
/// kept until a new state is known: `READY` with a new time, or a failure.
fn connection_state(
    observed: &Observed,
    trouble: bool,
    address: String,
    old: Option<GrpcConnectionState>,
    now: Timestamp,
) -> GrpcConnectionState {
    let old = old.filter(|old| old.address.as_ref() == Some(&address));
    let (state, since) = match &observed.connection {
        ConnectionState::Ready(link) => (reasons::READY, stored_time(link.since)),
        ConnectionState::Failing { since, .. } => (reasons::TRANSIENT_FAILURE, stored_time(*since)),
        ConnectionState::Waiting if trouble => (reasons::TRANSIENT_FAILURE, stored_time(now)),
        ConnectionState::Waiting => (reasons::CONNECTING, stored_time(now)),
        ConnectionState::Connecting => match old {
            Some(old) => return old,
            None => (reasons::CONNECTING, stored_time(now)),
        },
    };
    GrpcConnectionState {
        address: Some(address),
        last_observed_state: state.to_owned(),
        last_connect: Some(first_time(old, state, since)),
        ..GrpcConnectionState::default()
    }
}

/// A new connection has its own time; every other state that continues keeps its first.
fn first_time(old: Option<GrpcConnectionState>, state: &str, since: Time) -> Time {
    match old {
        Some(old) if state != reasons::READY && old.last_observed_state == state => {
            old.last_connect.unwrap_or(since)
        }
        _ => since,
    }
}
