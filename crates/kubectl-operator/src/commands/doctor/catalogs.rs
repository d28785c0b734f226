//! Checks that catalogs respond, and that Subscriptions name one that exists. Pure.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use olm_api::condition::catalog_source as condition;
use olm_api::labels;
use olm_api::v1alpha1::{CatalogSource, SourceType};

use super::finding::{Finding, about, at, object, word};
use super::observed::{Observed, Unread};
use crate::commands::catalog::{is_ready, message, row};
use crate::operators::pod_node;
use crate::terminal::{Mark, plain};

/// Checks that catalogs are ready, and that those report no problem.
pub(super) fn ready(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings: Vec<Finding> = observed
        .unlisted_catalogs
        .iter()
        .map(|(place, cause)| Finding::not_checked(format!("CatalogSources of {place}"), cause))
        .collect();
    for (key, read) in &observed.catalogs {
        findings.extend(match read {
            Ok(Some(catalog)) => {
                let pods = observed.catalog_pods.get(key);
                finding(catalog, pods.and_then(|read| read.as_ref().ok()))
            }
            Ok(None) => None,
            Err(cause) => {
                let about = object("CatalogSource", &key.0, &key.1);
                Some(Finding::not_checked(about, cause))
            }
        });
    }
    Ok(findings)
}

fn finding(catalog: &CatalogSource, pods: Option<&Vec<Pod>>) -> Option<Finding> {
    if !is_ready(catalog) {
        return Some(Finding::error(
            about(catalog),
            cause(catalog, pods),
            remedy(catalog),
        ));
    }
    let said = message(catalog);
    (!said.is_empty()).then(|| {
        Finding::warning(
            about(catalog),
            format!("it is {}, but reports: {said}", condition::READY),
            format!(
                "correct what the message names: kubectl edit catalogsource {}",
                at(catalog)
            ),
        )
    })
}

fn has_address(catalog: &CatalogSource) -> bool {
    catalog
        .spec
        .address
        .as_deref()
        .is_some_and(|address| !address.is_empty())
}

/// Returns the remedy for a catalog that is not ready, by its source: a ConfigMap, an address or an image.
fn remedy(catalog: &CatalogSource) -> String {
    let (namespace, name) = (catalog.namespace().unwrap_or_default(), catalog.name_any());
    let (namespace, name) = (word(&namespace), word(&name));
    let edit = format!("kubectl edit catalogsource {name} -n {namespace}");
    let pods = format!(
        "its pods: kubectl get pods -n {namespace} -l {}={name}",
        labels::CATALOG_SOURCE
    );
    if matches!(
        catalog.spec.source_type,
        SourceType::ConfigMap | SourceType::Internal
    ) {
        let map = word(catalog.spec.config_map.as_deref().unwrap_or_default());
        return format!(
            "correct its ConfigMap: kubectl edit configmap {map} -n {namespace}; or spec.configMap: {edit}; {pods}"
        );
    }
    match has_address(catalog) {
        true => format!("correct spec.address: {edit}"),
        false => format!("correct spec.image or spec.secrets: {edit}; {pods}"),
    }
}

/// Describes the cause from the catalog's status and its pods.
fn cause(catalog: &CatalogSource, pods: Option<&Vec<Pod>>) -> String {
    let (row, status) = (row(catalog), catalog.status.as_ref());
    let state = match row.state.as_str() {
        "" => "it is not connected".to_owned(),
        state => format!("it is {state}, not {}", condition::READY),
    };
    let said = match row.message {
        said if said.is_empty() => status.and_then(|status| status.reason.clone()),
        said => Some(said),
    };
    let of_pods = match pods {
        None => None,
        Some(pods) if pods.is_empty() => Some("it has no pod".to_owned()),
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

/// Checks that Subscriptions name a catalog that exists.
pub(super) fn named(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for subscription in &observed.operators.as_ref()?.subscriptions {
        let spec = &subscription.spec;
        let key = (spec.source_namespace.clone(), spec.source.clone());
        let is_unnamed = key.0.is_empty() || key.1.is_empty();
        findings.extend(match observed.catalogs.get(&key) {
            _ if is_unnamed => Some(Finding::error(
                about(subscription),
                "it names no catalog (spec.source, spec.sourceNamespace)",
                format!(
                    "kubectl patch subscription {} --type merge -p \
                     '{{\"spec\":{{\"source\":\"CATALOG\",\"sourceNamespace\":\"{}\"}}}}'; list all with \
                     kubectl operator catalog list -A",
                    at(subscription),
                    word(&observed.global)
                ),
            )),
            Some(Ok(Some(_))) => None,
            Some(Ok(None)) => Some(Finding::error(
                about(subscription),
                format!("its catalog {}/{} does not exist", plain(&key.0), plain(&key.1)),
                // `explain` names the catalogs that have the package.
                format!(
                    "add it again: kubectl operator catalog add {} IMAGE -n {}; or use another one, see kubectl operator explain {}",
                    word(&key.1),
                    word(&key.0),
                    at(subscription)
                ),
            )),
            Some(Err(cause)) => Some(Finding::not_checked(about(subscription), cause)),
            None => Some(Finding::not_checked(
                about(subscription),
                "its catalog was not read",
            )),
        });
    }
    Ok(findings)
}
