//! Checks that catalogs respond. Pure.

use k8s_openapi::api::core::v1::Pod;
use olm_api::condition::catalog_source as condition;
use olm_api::labels;
use olm_api::v1alpha1::{CatalogSource, SourceType};

use super::finding::{Finding, object, word};
use super::observed::{Observed, Unread};
use crate::commands::catalog::message;
use crate::operators::pod_node;
use crate::terminal::Mark;

/// Returns true if the catalog responded to the last request.
pub(super) fn is_ready(catalog: &CatalogSource) -> bool {
    let status = catalog.status.as_ref();
    let connection = status.and_then(|status| status.connection_state.as_ref());
    connection.is_some_and(|connection| connection.last_observed_state == condition::READY)
}

/// Checks that catalogs are ready, and that those report no problem.
pub(super) fn ready(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings: Vec<Finding> = observed
        .unlisted_catalogs
        .iter()
        .map(|(place, cause)| Finding::not_checked(format!("CatalogSources of {place}"), cause))
        .collect();
    for ((namespace, name), read) in &observed.catalogs {
        let catalog = match read {
            Ok(Some(catalog)) => catalog,
            Ok(None) => continue,
            Err(cause) => {
                findings.push(Finding::not_checked(
                    object("CatalogSource", namespace, name),
                    cause,
                ));
                continue;
            }
        };
        let about = object("CatalogSource", namespace, name);
        if is_ready(catalog) {
            let said = message(catalog);
            if !said.is_empty() {
                let edit = edit("catalogsource", namespace, name);
                findings.push(Finding::warning(
                    about,
                    format!("it is {}, but reports: {said}", condition::READY),
                    format!("correct what the message names: {edit}"),
                ));
            }
            continue;
        }
        let pods = observed.catalog_pods.get(&(namespace.clone(), name.clone()));
        findings.push(Finding::error(
            about,
            cause(catalog, pods.map(Vec::as_slice)),
            remedy(catalog, namespace, name),
        ));
    }
    Ok(findings)
}

/// Returns the command that edits an object.
fn edit(resource: &str, namespace: &str, name: &str) -> String {
    format!("kubectl edit {resource} {} -n {}", word(name), word(namespace))
}

fn has_address(catalog: &CatalogSource) -> bool {
    catalog
        .spec
        .address
        .as_deref()
        .is_some_and(|address| !address.is_empty())
}

/// Returns the remedy for a catalog that is not ready, by its source: a ConfigMap, an address or an image.
fn remedy(catalog: &CatalogSource, namespace: &str, name: &str) -> String {
    let edit_catalog = edit("catalogsource", namespace, name);
    let pods = format!(
        "its pods: kubectl get pods -n {} -l {}={}",
        word(namespace),
        labels::CATALOG_SOURCE,
        word(name)
    );
    if matches!(
        catalog.spec.source_type,
        SourceType::ConfigMap | SourceType::Internal
    ) {
        let map = catalog.spec.config_map.as_deref().unwrap_or_default();
        let edit_map = edit("configmap", namespace, map);
        return format!("correct its ConfigMap: {edit_map}; or spec.configMap: {edit_catalog}; {pods}");
    }
    match has_address(catalog) {
        true => format!("correct spec.address: {edit_catalog}"),
        false => format!("correct spec.image or spec.secrets: {edit_catalog}; {pods}"),
    }
}

/// Describes the cause from the catalog's status and its pods.
fn cause(catalog: &CatalogSource, pods: Option<&[Pod]>) -> String {
    let status = catalog.status.as_ref();
    let state = status.and_then(|status| status.connection_state.as_ref());
    let state = match state.map(|state| state.last_observed_state.as_str()) {
        None | Some("") => "it is not connected".to_owned(),
        Some(state) => format!("it is {state}, not {}", condition::READY),
    };
    let said = match message(catalog) {
        said if said.is_empty() => status.and_then(|status| status.reason.clone()),
        said => Some(said),
    };
    let of_pods = match pods {
        None => None,
        Some([]) => Some("it has no pod".to_owned()),
        Some(pods) => pods
            .iter()
            .map(pod_node)
            .find(|pod| pod.mark != Mark::Fine)
            .map(|pod| format!("pod {} is {}: {}", pod.name, pod.state, pod.message)),
    };
    let parts = [
        Some(state),
        said.filter(|said| !said.is_empty()),
        of_pods.filter(|_| !has_address(catalog)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
