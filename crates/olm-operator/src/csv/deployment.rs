//! The Deployment of an install: the author's spec, with OLM's labels and the Subscription's configuration.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::EnvVar,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use olm_api::{
    labels,
    overrides::{Overrides, merge_env},
    v1alpha1::ClusterServiceVersion,
};

use olm_runtime::plan::to_value;
use serde_json::Value;

use crate::{
    csv::{
        health::WantedDeployment,
        serving::pod::{self, ServingCertificate},
        strategy::StrategyDeployment,
    },
    owner,
    stores::ProxyVariables,
};

/// Number of ReplicaSets kept for `kubectl rollout undo`; rollbacks beyond that are an upgrade's task.
const REVISION_HISTORY_LIMIT: i32 = 1;

/// A Deployment to apply, and the values for the comparison with the live one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Built {
    pub(crate) deployment: Deployment,
    /// Values that the live Deployment is compared with.
    pub(crate) wanted: WantedDeployment,
}

/// Builds the Deployment for one entry of the install strategy (`docs/reference/lifecycle.md`); `proxy` are
/// the variables of the cluster's Proxy.
pub(crate) fn build(
    csv: &ClusterServiceVersion,
    entry: &StrategyDeployment,
    overrides: Option<&Overrides>,
    proxy: &ProxyVariables,
    certificate: Option<&ServingCertificate>,
) -> Built {
    let mut annotations = projected_annotations(csv);
    let mut spec = build_spec(csv, entry, overrides, &proxy.all, certificate, &annotations);
    let wanted_spec = to_value(&spec);
    let hash = spec_hash(&wanted_spec);
    if let Some(certificate) = certificate {
        // Not part of the hash: another certificate restarts the pods, but the Deployment is the same.
        annotations.insert(labels::CA_HASH.to_owned(), certificate.ca_hash.clone());
        let metadata = spec.template.metadata.get_or_insert_default();
        metadata
            .annotations
            .get_or_insert_default()
            .extend(annotations.clone());
    }
    let mut marks = entry.label.clone();
    marks.extend(owner::marks(csv));
    marks.insert(labels::DEPLOYMENT_SPEC_HASH.to_owned(), hash.clone());
    let own = overrides
        .map(|overrides| overrides.annotations.clone())
        .filter(|own| !own.is_empty());
    let uid = csv.metadata.uid.clone().unwrap_or_default();
    let wanted = WantedDeployment {
        name: entry.name.clone(),
        hash,
        lacks_proxy: proxy.are_awaited,
        spec: wanted_spec,
        annotations,
        labels: entry
            .label
            .keys()
            .filter_map(|key| Some((key.clone(), marks.get(key)?.clone())))
            .collect(),
        owner_uid: uid,
    };
    let deployment = Deployment {
        metadata: ObjectMeta {
            name: Some(entry.name.clone()),
            namespace: csv.metadata.namespace.clone(),
            labels: Some(marks),
            annotations: own,
            owner_references: Some(vec![owner::reference(csv)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    };
    Built { deployment, wanted }
}

fn build_spec(
    csv: &ClusterServiceVersion,
    entry: &StrategyDeployment,
    overrides: Option<&Overrides>,
    proxy: &[EnvVar],
    certificate: Option<&ServingCertificate>,
    annotations: &BTreeMap<String, String>,
) -> DeploymentSpec {
    let mut spec = entry.spec.clone();
    spec.revision_history_limit = Some(REVISION_HISTORY_LIMIT);
    let metadata = spec.template.metadata.get_or_insert_default();
    let on_template = metadata.annotations.get_or_insert_default();
    on_template.extend(annotations.clone());
    if let Some(overrides) = overrides {
        overrides.annotate(on_template);
    }
    if let Some(pod) = &mut spec.template.spec {
        if let Some(certificate) = certificate {
            pod::mount(pod, &certificate.secret);
        }
        if let Some(overrides) = overrides {
            overrides.apply(pod);
        }
        // A configuration that sets one of the proxy variables sets them all.
        let own = overrides.iter().flat_map(|overrides| &overrides.env);
        let has_own = own
            .into_iter()
            .any(|variable| olm_api::proxy::VARIABLES.contains(&variable.name.as_str()));
        for container in pod.containers.iter_mut().filter(|_| !has_own) {
            merge_env(container, proxy);
        }
        let condition_name = EnvVar {
            name: labels::ENV_OPERATOR_CONDITION_NAME.to_owned(),
            value: csv.metadata.name.clone(),
            value_from: None,
        };
        for container in &mut pod.containers {
            merge_env(container, std::slice::from_ref(&condition_name));
        }
    }
    spec
}

/// Hash of a spec's JSON with sorted keys, so that it does not depend on the order of fields in a library.
///
/// Upstream hashes the fields in the order of its own source, so adopting a Deployment costs one apply that
/// does not change its pods.
fn spec_hash(spec: &Value) -> String {
    // A JSON value always serializes.
    olm_api::hash::hash_with_newline(spec).unwrap_or_default()
}

/// Annotations for every pod of the operator. Operators read their target namespaces from them.
///
/// The last-applied annotation of kubectl is skipped, because it repeats the whole ClusterServiceVersion.
/// Upstream copies it, which restarts the operator on every `kubectl apply`.
pub(crate) fn projected_annotations(csv: &ClusterServiceVersion) -> BTreeMap<String, String> {
    let all = csv.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| *key != labels::LAST_APPLIED_CONFIGURATION)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
