//! Reads what a plan needs: catalogs, revisions with their objects, definitions, and bundle images.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use go_compat::semver::Version;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use olm_api::extension_v1::{CatalogFilter, ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_api::labels;
use olm_api::names::is_dns1123_subdomain;
use olm_fbc::schema::Blob;
use olm_oci::{AuthPlaces, Credentials, Puller, Reference, RegistryConfig};
use operator_controller::apply::packing::unpack;
use operator_controller::catalog_content::{never_had_content, served};
use operator_controller::render::{Bundle, CertificateProvider, Endpoint};
use operator_controller::resolve::{Catalog, PackageContent, PackageResult};
use operator_controller::{Discovery, bundle_images};
use serde_json::Value;

use super::super::search;
use crate::cluster::Cluster;
use crate::reader::{answer, get, is_unserved, list_cluster};

/// Maximum time to pull a bundle image.
const PULL_TIME: Duration = Duration::from_secs(120);

/// Returns all ClusterCatalogs with the wanted package. `catalogd` replaces the namespace of their server.
///
/// # Errors
/// The catalogs cannot be listed, or the content of a selected one cannot be read.
pub(in crate::commands::olmv1) async fn catalogs(
    cluster: &Cluster,
    filter: &CatalogFilter,
    catalogd: Option<&str>,
) -> anyhow::Result<Vec<Catalog>> {
    let mut found = Vec::new();
    for catalog in list_cluster::<ClusterCatalog>(&cluster.client, "").await? {
        let (mut of_catalog, is_used) = Catalog::of(&catalog, filter);
        if is_used {
            of_catalog.package = package(cluster, &catalog, &filter.package_name, catalogd).await?;
        }
        found.push(of_catalog);
    }
    Ok(found)
}

async fn package(
    cluster: &Cluster,
    catalog: &ClusterCatalog,
    package: &str,
    catalogd: Option<&str>,
) -> anyhow::Result<PackageResult> {
    if served(catalog).is_none() {
        return Ok(PackageResult::unserved(
            &catalog.name_any(),
            never_had_content(catalog),
        ));
    }
    let mut blobs = Vec::new();
    let mut take = |document: Value| {
        blobs.push(Blob::from_value(document)?);
        anyhow::Ok(())
    };
    search::read(cluster, catalog, catalogd, Some(package), &mut take).await?;
    let content = PackageContent::from_blobs(blobs);
    Ok(content.map_or(PackageResult::Absent, |content| {
        PackageResult::Found(Arc::new(content))
    }))
}

/// Returns the revisions of an extension; none if it does not exist, or if its OLM has no revisions.
///
/// # Errors
/// The list request fails.
pub(super) async fn revisions(
    cluster: &Cluster,
    extension: &ClusterExtension,
) -> anyhow::Result<Vec<Arc<ClusterObjectSet>>> {
    if extension.uid().is_none() {
        return Ok(Vec::new());
    }
    let selector = format!("{}={}", labels::EXTENSION_OWNER_NAME, extension.name_any());
    match list_cluster::<ClusterObjectSet>(&cluster.client, &selector).await {
        Ok(sets) => Ok(sets.into_iter().map(Arc::new).collect()),
        Err(error) if is_unserved(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the objects of a revision, most of which are in Secrets.
///
/// # Errors
/// A Secret cannot be read, or does not have the object.
pub(super) async fn objects(cluster: &Cluster, set: &ClusterObjectSet) -> anyhow::Result<Vec<Value>> {
    let mut secrets: BTreeMap<String, BTreeMap<String, ByteString>> = BTreeMap::new();
    let mut objects = Vec::new();
    for object in set.spec.phases.iter().flat_map(|phase| &phase.objects) {
        if let Some(inline) = &object.object {
            objects.push(inline.clone());
            continue;
        }
        let Some(reference) = &object.reference else {
            continue;
        };
        let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_str());
        let namespace = namespace.unwrap_or_default();
        let title = format!("{namespace}/{name}");
        if !secrets.contains_key(&title) {
            let found = get::<Secret>(&cluster.client, namespace, name).await?;
            let found = found.with_context(|| format!("Secret {title} does not exist"))?;
            secrets.insert(title.clone(), found.data.unwrap_or_default());
        }
        let data = secrets.get(&title).and_then(|data| data.get(&reference.key));
        let data = data.ok_or_else(|| anyhow!("Secret {title} has no key {:?}", reference.key))?;
        objects.push(unpack(&data.0, &reference.key, &title).map_err(|error| anyhow!(error))?);
    }
    Ok(objects)
}

/// Returns the version of OpenShift that the cluster runs; `None` elsewhere, or if it cannot be read.
pub(super) async fn openshift(cluster: &Cluster) -> Option<Version> {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &ApiResource::from_gvk(&kind));
    let found = answer(
        || "read ClusterVersion version".to_owned(),
        api.get_opt("version"),
    );
    let found = found.await.ok()??;
    Version::parse(found.data["status"]["desired"]["version"].as_str()?).ok()
}

/// Returns the issuer of certificates that OLM would use for the webhooks of a bundle.
pub(super) async fn certificates(cluster: &Cluster, endpoints: &[Endpoint]) -> CertificateProvider {
    if !endpoints.is_empty() {
        let discovery = Discovery::new(cluster.client.clone());
        for (group, version, kind, provider) in CertificateProvider::OF_CLUSTER {
            if matches!(discovery.find_kind(group, version, kind).await, Ok(Some(_))) {
                return provider;
            }
        }
    }
    CertificateProvider::without_content(endpoints)
}

/// Returns a CustomResourceDefinition of the cluster.
///
/// # Errors
/// The request fails.
pub(super) async fn definition(cluster: &Cluster, name: &str) -> anyhow::Result<Option<Value>> {
    if !is_dns1123_subdomain(name) {
        return Ok(None);
    }
    let kind = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &kind);
    let what = || format!("read CustomResourceDefinition {name}");
    let found = answer(what, api.get_opt(name)).await?;
    Ok(found.map(serde_json::to_value).transpose()?)
}

/// Pulls a bundle with the user's registry configuration and credentials, as `opm` does.
///
/// # Errors
/// The image cannot be pulled from here, or is no bundle.
pub(in crate::commands::olmv1) async fn bundle(image: &str) -> Result<Bundle, String> {
    let pulled = tokio::time::timeout(PULL_TIME, Box::pin(pull(image))).await;
    pulled.unwrap_or_else(|_| Err(format!("no answer within {} s", PULL_TIME.as_secs())))
}

async fn pull(image: &str) -> Result<Bundle, String> {
    let reference: Reference = image.parse().map_err(|error| format!("{error}"))?;
    let config = RegistryConfig::of_environment().map_err(|error| error.to_string())?;
    let hosts = config.hosts(&reference).map_err(|error| error.to_string())?;
    let credentials = Credentials::of_user_for(&hosts, &AuthPlaces::of_environment(), &config);
    let credentials = credentials.map_err(|error| error.to_string())?;
    let puller = Puller::new(config);
    let content = puller.content(&reference, &credentials, bundle_images::VIEW);
    let content = content.await.map_err(|error| error.to_string())?;
    bundle_images::read(&content)
}
