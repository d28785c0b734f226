//! Operands: custom resources of the kinds that an operator owns, in the namespaces that it watches.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::{Api, Client, ResourceExt as _};
use olm_api::names::is_dns1123_subdomain;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::ClusterServiceVersion;

use crate::reader::{PAGE, dynamic_api, get_cluster, list_readable, pages};
use crate::terminal::full_name;

/// A custom resource of an operator.
#[derive(Debug, Clone)]
pub(crate) struct Operand {
    pub resource: ApiResource,
    /// Name of its CustomResourceDefinition.
    pub definition: String,
    /// The whole object, including its kind.
    pub object: DynamicObject,
}

impl Operand {
    /// Returns NAMESPACE/NAME, or NAME.
    pub(crate) fn name(&self) -> String {
        full_name(
            &self.object.namespace().unwrap_or_default(),
            &self.object.name_any(),
        )
    }

    /// Returns its API.
    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        dynamic_api(client, self.object.namespace().as_deref(), &self.resource)
    }
}

/// Returns the target namespaces in the OperatorGroup's status; `None` for all.
///
/// # Errors
/// The groups cannot be read, or there is not exactly one.
pub(crate) async fn targets(client: &Client, namespace: &str) -> anyhow::Result<Option<BTreeSet<String>>> {
    let (groups, unreadable) = list_readable::<OperatorGroup>(client, Some(namespace), "").await?;
    let count = groups.len() + unreadable.len();
    let ([group], 1) = (groups.as_slice(), count) else {
        bail!("unexpected number ({count}) of operator groups found in namespace {namespace}");
    };
    let noted = group.status.iter().flat_map(|status| status.namespaces.iter());
    let noted: BTreeSet<String> = noted.cloned().collect();
    let is_all = noted.is_empty() || noted.iter().any(String::is_empty);
    Ok((!is_all).then_some(noted))
}

/// Returns the operands of ClusterServiceVersions in the targets, ordered by API version, kind, namespace and name. A missing
/// kind has none.
///
/// # Errors
/// Objects cannot be read.
pub(crate) async fn list(
    client: &Client,
    csvs: &[&ClusterServiceVersion],
    targets: Option<&BTreeSet<String>>,
) -> anyhow::Result<Vec<Operand>> {
    let owned = csvs.iter().flat_map(|csv| csv.spec.owned_crds());
    let owned: BTreeSet<(&str, &str)> = owned
        .map(|crd| (crd.name.as_str(), crd.version.as_str()))
        .collect();
    let mut operands = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, version) in owned {
        if seen.contains(name) {
            continue;
        }
        let Some(crd) = get_cluster::<CustomResourceDefinition>(client, name).await? else {
            continue;
        };
        seen.insert(name);
        operands.extend(of_kind(client, &crd, version, targets).await?);
    }
    operands.sort_by_cached_key(|operand| {
        let ApiResource {
            api_version, kind, ..
        } = &operand.resource;
        let object = &operand.object;
        (
            api_version.clone(),
            kind.clone(),
            object.namespace(),
            object.name_any(),
        )
    });
    Ok(operands)
}

/// Returns the API of a kind in this version if it is served, else in the first one that is.
///
/// # Errors
/// No version is served.
pub(crate) fn resource(crd: &CustomResourceDefinition, version: &str) -> anyhow::Result<ApiResource> {
    let spec = &crd.spec;
    let served = || spec.versions.iter().filter(|version| version.served);
    let named = served().find(|served| served.name == version);
    let version = named
        .or_else(|| served().next())
        .ok_or_else(|| anyhow!("CustomResourceDefinition {} serves no version", crd.name_any()))?;
    let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
    Ok(ApiResource::from_gvk_with_plural(&kind, &spec.names.plural))
}

async fn of_kind(
    client: &Client,
    crd: &CustomResourceDefinition,
    version: &str,
    targets: Option<&BTreeSet<String>>,
) -> anyhow::Result<Vec<Operand>> {
    let resource = resource(crd, version)?;
    let apis: Vec<Api<DynamicObject>> = match targets.filter(|_| crd.spec.scope == "Namespaced") {
        Some(targets) => targets
            .iter()
            .filter(|target| is_dns1123_subdomain(target))
            .map(|target| dynamic_api(client, Some(target), &resource))
            .collect(),
        None => vec![dynamic_api(client, None, &resource)],
    };
    let mut found = Vec::new();
    let what = format!("list {}", crd.name_any());
    for api in &apis {
        let page = |params: ListParams| async move { api.list(&params).await };
        found.extend(pages(&what, "", PAGE, Some, page).await?);
    }
    Ok(found
        .into_iter()
        .map(|mut object| {
            // Items of a list may have no kind and API version.
            object.types = Some(TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            });
            Operand {
                resource: resource.clone(),
                definition: crd.name_any(),
                object,
            }
        })
        .collect())
}
