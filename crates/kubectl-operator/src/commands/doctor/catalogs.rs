//! Checks that catalogs respond. Pure.

use k8s_openapi::api::core::v1::Pod;
use olm_api::condition::catalog_source as condition;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;

use super::finding::{Finding, object, word};
use super::observed::{Observed, Unread};
use crate::operators::pod_node;
use crate::terminal::Mark;

/// Returns true if the catalog responded to the last request.
pub(super) fn is_ready(catalog: &CatalogSource) -> bool {
    let status = catalog.status.as_ref();
    let connection = status.and_then(|status| status.connection_state.as_ref());
    connection.is_some_and(|connection| connection.last_observed_state == condition::READY)
}

/// Checks that catalogs are ready.
pub(super) fn ready(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings: Vec<Finding> = observed
        .unlisted_catalogs
        .iter()
        .map(|(place, cause)| Finding::not_checked(format!("CatalogSources of {place}"), cause))
        .collect();
    for ((namespace, name), read) in &observed.catalogs {
        let catalog = match read {
            Ok(Some(catalog)) if !is_ready(catalog) => catalog,
            Ok(_) => continue,
            Err(cause) => {
                findings.push(Finding::not_checked(
                    object("CatalogSource", namespace, name),
                    cause,
                ));
                continue;
            }
        };
        let pods = observed.catalog_pods.get(&(namespace.clone(), name.clone()));
        let (name_word, place) = (word(name), word(namespace));
        let remedy = match catalog
            .spec
            .address
            .as_deref()
            .is_some_and(|address| !address.is_empty())
        {
            true => format!("correct spec.address: kubectl edit catalogsource {name_word} -n {place}"),
            false => format!(
                "correct spec.image or spec.secrets: kubectl edit catalogsource {name_word} -n {place}; its pods: kubectl get pods -n {place} \
                 -l {}={name_word}",
                labels::CATALOG_SOURCE
            ),
        };
        findings.push(Finding::error(
            object("CatalogSource", namespace, name),
            cause(catalog, pods.map(Vec::as_slice)),
            remedy,
        ));
    }
    Ok(findings)
}

/// Describes the cause from the catalog's status and its pods.
fn cause(catalog: &CatalogSource, pods: Option<&[Pod]>) -> String {
    let status = catalog.status.as_ref();
    let state = status.and_then(|status| status.connection_state.as_ref());
    let state = match state.map(|state| state.last_observed_state.as_str()) {
        None | Some("") => "it is not connected".to_owned(),
        Some(state) => format!("it is {state}, not {}", condition::READY),
    };
    let said = status.and_then(|status| status.message.clone().or_else(|| status.reason.clone()));
    let of_pods = match pods {
        None => None,
        Some([]) => Some("it has no pod".to_owned()),
        Some(pods) => pods
            .iter()
            .map(pod_node)
            .find(|pod| pod.mark != Mark::Fine)
            .map(|pod| format!("pod {} is {}: {}", pod.name, pod.state, pod.message)),
    };
    let has_pods = catalog.spec.address.as_deref().is_none_or(str::is_empty);
    let parts = [
        Some(state),
        said.filter(|said| !said.is_empty()),
        of_pods.filter(|_| has_pods),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
