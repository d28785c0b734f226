//! Address of a CatalogSource's registry server, as far as it is known.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use olm_api::v1alpha1::CatalogSource;

use super::connection::Endpoint;
use super::objects::{GRPC_PORT, service_name};
use super::pod_state;
use super::source::Source;

/// Returns the address for users: `spec.address`, else that of the catalog's Service. `None` for sources that
/// are not served.
pub fn shown_address(source: &CatalogSource, parsed: &Source) -> Option<String> {
    if matches!(parsed, Source::Invalid(_)) {
        return None;
    }
    let namespace = source.metadata.namespace.as_deref().unwrap_or_default();
    let of_service = || format!("{}.{namespace}.svc:{GRPC_PORT}", service_name(source));
    Some(parsed.external().map_or_else(of_service, str::to_owned))
}

/// Where to connect to. None while a pod has yet to become ready, and for sources that are not served.
///
/// The Service's own address is used instead of its name. It needs no DNS lookup, and the cluster's DNS would
/// cache a missing name for some seconds.
pub(crate) fn find_endpoint(
    source: &CatalogSource,
    parsed: &Source,
    service: Option<&Service>,
    pods: &[Arc<Pod>],
) -> Option<Endpoint> {
    let address = shown_address(source, parsed)?;
    let uid = source.metadata.uid.clone().unwrap_or_default();
    if parsed.external().is_some() {
        return Some(Endpoint {
            dial: address.clone(),
            address,
            epoch: uid,
            may_change: true,
        });
    }
    let service = service?;
    let serving: Vec<&str> = pods
        .iter()
        .filter(|pod| pod_state::is_ready(pod))
        .filter_map(|pod| pod.metadata.uid.as_deref())
        .collect();
    if serving.is_empty() {
        return None;
    }
    let dial = cluster_address(service).unwrap_or_else(|| address.clone());
    Some(Endpoint {
        address,
        dial,
        epoch: serving.join(","),
        may_change: false,
    })
}

/// Returns the earlier endpoint if none is found now but the earlier one still exists. An invalid spec does
/// not affect the running server, and a pod that is not ready for a moment has lost no content. The
/// connection itself shows whether the server responds.
pub(crate) fn still_good(known: Option<Endpoint>, parsed: &Source, pods: &[Arc<Pod>]) -> Option<Endpoint> {
    let known = known?;
    let is_there = |uid: &str| {
        pods.iter().any(|pod| {
            pod.metadata.uid.as_deref() == Some(uid)
                && pod.metadata.deletion_timestamp.is_none()
                && !pod_state::is_dead(pod)
        })
    };
    let has_pods = || known.epoch.split(',').any(is_there);
    let is_good = match parsed {
        Source::Invalid(_) => known.may_change || has_pods(),
        _ => parsed.external().is_none() && !known.may_change && has_pods(),
    };
    is_good.then_some(known)
}

fn cluster_address(service: &Service) -> Option<String> {
    let address = service.spec.as_ref()?.cluster_ip.as_deref()?;
    match address {
        "" | "None" => None,
        v6 if v6.contains(':') => Some(format!("[{v6}]:{GRPC_PORT}")),
        v4 => Some(format!("{v4}:{GRPC_PORT}")),
    }
}
