//! Deployments of an install strategy.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_api::labels;
use olm_api::overrides::Overrides;
use olm_api::v1alpha1::StrategyDeploymentSpec;
use olm_runtime::certificate::{CERTIFICATE_VOLUMES, CertificateVolume};
use serde_json::Value;

use super::certificate::Endpoint;
use super::{Context, RenderError};

/// Number of ReplicaSets kept for `kubectl rollout undo`, as for ClusterServiceVersions.
const REVISION_HISTORY_LIMIT: i32 = 1;

/// Returns the Deployments of the install strategy, in its order.
///
/// # Errors
/// A Deployment does not decode.
pub(super) fn deployments(context: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    let overrides = context
        .deployment_config
        .as_ref()
        .map(|config| Overrides::decode(config, "deploymentConfig"))
        .transpose()?;
    let entries = context.bundle.csv.spec.install.deployments();
    entries
        .iter()
        .map(|entry| deployment(context, entry, overrides.as_ref()))
        .collect()
}

fn deployment(
    context: &Context<'_>,
    entry: &StrategyDeploymentSpec,
    overrides: Option<&Overrides>,
) -> Result<Value, RenderError> {
    let mut spec = entry.decode_spec()?;
    spec.revision_history_limit = Some(REVISION_HISTORY_LIMIT);
    let endpoint = context.endpoint_of(&entry.name);
    let metadata = spec.template.metadata.get_or_insert_default();
    let annotations = metadata.annotations.get_or_insert_default();
    annotate_pods(annotations, context, endpoint);
    if let Some(pod) = &mut spec.template.spec
        && let Some(endpoint) = endpoint
    {
        mount_certificate(pod, endpoint);
    }
    let mut own = BTreeMap::new();
    if let Some(overrides) = overrides {
        overrides.annotate(annotations);
        overrides.annotate(&mut own);
        if let Some(pod) = &mut spec.template.spec {
            overrides.apply(pod);
        }
    }
    let labels: BTreeMap<String, String> = (*entry.label).clone();
    Ok(serde_json::to_value(Deployment {
        metadata: ObjectMeta {
            name: Some(entry.name.clone()),
            namespace: Some(context.namespace.to_owned()),
            labels: (!labels.is_empty()).then_some(labels),
            annotations: (!own.is_empty()).then_some(own),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    })?)
}

/// Adds the annotations of the ClusterServiceVersion, which replace the template's as for ClusterServiceVersions; upstream's v1
/// does it the other way round. Operators read the last two.
fn annotate_pods(
    annotations: &mut BTreeMap<String, String>,
    context: &Context<'_>,
    endpoint: Option<&Endpoint>,
) {
    let of_csv = context.bundle.csv.metadata.annotations.iter().flatten();
    // The last-applied annotation of kubectl repeats the whole ClusterServiceVersion.
    let of_csv = of_csv.filter(|(key, _)| *key != labels::LAST_APPLIED_CONFIGURATION);
    annotations.extend(of_csv.map(|(key, value)| (key.clone(), value.clone())));
    // An empty text means all namespaces.
    let targets = context.watch_namespace.clone().unwrap_or_default();
    annotations.insert(labels::TARGET_NAMESPACES.to_owned(), targets);
    annotations.insert(
        labels::OPERATOR_NAMESPACE.to_owned(),
        context.namespace.to_owned(),
    );
    if let Some(hash) = endpoint.and_then(|endpoint| context.certificates.ca_hash(endpoint)) {
        annotations.insert(labels::CA_HASH.to_owned(), hash.to_owned());
    }
}

/// Mounts the certificate in every container except init containers, in place of the author's volumes and mounts of these names
/// or paths.
fn mount_certificate(pod: &mut PodSpec, endpoint: &Endpoint) {
    // Webhooks first, as upstream's v1 has them.
    let own = || CERTIFICATE_VOLUMES.iter().rev();
    let is_path = |path: &str| own().any(|volume| volume.path == path);
    let mounts = pod
        .containers
        .iter()
        .flat_map(|container| &container.volume_mounts);
    let replaced: Vec<String> = mounts
        .flatten()
        .filter(|mount| is_path(&mount.mount_path))
        .map(|mount| mount.name.clone())
        .chain(own().map(|volume| volume.name.to_owned()))
        .collect();
    let volumes = pod.volumes.get_or_insert_default();
    volumes.retain(|volume| !replaced.contains(&volume.name));
    volumes.extend(own().map(|volume| volume.of_secret(&endpoint.secret)));
    for container in &mut pod.containers {
        let mounts = container.volume_mounts.get_or_insert_default();
        mounts.retain(|mount| !replaced.contains(&mount.name));
        mounts.extend(own().map(CertificateVolume::mount));
    }
}
