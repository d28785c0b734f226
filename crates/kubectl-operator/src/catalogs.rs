//! What catalogs offer: read from their servers in the cluster, or from a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_registry::client::{Client as Registry, Timeouts};
use olm_registry::connection;
use olm_registry::index::Index;
use olm_registry::snapshot::{self, Fetched};
use olm_resolver::plan::Install;
use olm_resolver::{CatalogKey, Snapshot};
use serde_json::Value;
use tonic::transport::Channel;

use crate::printer;

/// Port that catalog pods serve.
const REGISTRY_PORT: u16 = 50051;

/// How long a catalog may take to be read.
const PATIENCE: Duration = Duration::from_secs(120);

/// Contents by catalog, or why there is none.
pub(crate) type Contents = BTreeMap<CatalogKey, Result<Arc<Snapshot>, String>>;

/// What catalogs list, and where the rest is to be asked for.
#[derive(Default)]
pub(crate) struct Catalogs {
    pub contents: Contents,
    origins: BTreeMap<CatalogKey, Origin>,
}

/// A bundle as far as its catalog tells it.
#[derive(Default)]
pub(crate) struct Bundle {
    /// Its ClusterServiceVersion.
    pub csv: Option<Value>,
    /// Its objects; none where the catalog has only the image.
    pub objects: Vec<Value>,
}

enum Origin {
    Server(Registry),
    Directory(Arc<Index>),
}

impl Catalogs {
    /// What there is in the bundle of something planned, as far as its catalog tells it.
    pub(crate) async fn bundle(&self, install: &Install) -> Bundle {
        let Install {
            package,
            channel,
            name,
            ..
        } = install;
        match self.origins.get(&install.catalog) {
            None => Bundle::default(),
            Some(Origin::Directory(index)) => Bundle {
                csv: snapshot::csv_of(index, package, channel, name),
                objects: snapshot::objects_of(index, package, channel, name),
            },
            Some(Origin::Server(registry)) => match registry.get_bundle(package, channel, name).await {
                Ok(bundle) => Bundle {
                    csv: snapshot::csv(&bundle),
                    objects: snapshot::objects(&bundle),
                },
                Err(status) => {
                    printer::warning(&format!(
                        "catalog {}: cannot read bundle {name}, so it is not known which Kubernetes it needs and whether OLM \
                         will install it: {}",
                        install.catalog,
                        status.message()
                    ));
                    Bundle::default()
                }
            },
        }
    }
}

/// Reads catalogs from a cluster. One that cannot be read is told so and holds up no other.
pub(crate) async fn read(client: &Client, keys: &BTreeSet<CatalogKey>) -> Catalogs {
    let mut catalogs = Catalogs::default();
    for key in keys {
        let content = match tokio::time::timeout(PATIENCE, read_one(client, key)).await {
            Ok(Ok((registry, fetched))) => {
                fetched.skipped.iter().for_each(|text| printer::warning(text));
                catalogs.origins.insert(key.clone(), Origin::Server(registry));
                Ok(Arc::new(Snapshot::from(&fetched.snapshot)))
            }
            Ok(Err(error)) => Err(format!("{error:#}")),
            Err(_) => Err(format!("not read within {} s", PATIENCE.as_secs())),
        };
        catalogs.contents.insert(key.clone(), content);
    }
    catalogs
}

/// The same content for all catalogs, from a directory.
///
/// # Errors
/// The directory is no valid catalog.
pub(crate) fn from_directory(directory: &Path, keys: &BTreeSet<CatalogKey>) -> anyhow::Result<Catalogs> {
    let (index, fetched) = snapshot::of_directory(directory)?;
    fetched.skipped.iter().for_each(|text| printer::warning(text));
    let (index, content) = (Arc::new(index), Arc::new(Snapshot::from(&fetched.snapshot)));
    if content.entries().is_empty() {
        printer::warning(&format!("catalog {} has no bundles", directory.display()));
    }
    let mut catalogs = Catalogs::default();
    for key in keys {
        catalogs.contents.insert(key.clone(), Ok(Arc::clone(&content)));
        catalogs
            .origins
            .insert(key.clone(), Origin::Directory(Arc::clone(&index)));
    }
    Ok(catalogs)
}

async fn read_one(client: &Client, key: &CatalogKey) -> anyhow::Result<(Registry, Fetched)> {
    let sources: Api<CatalogSource> = Api::namespaced(client.clone(), &key.namespace);
    let source = sources
        .get_opt(&key.name)
        .await
        .with_context(|| format!("cannot get catalogsource {key}"))?
        .ok_or_else(|| anyhow!("there is no catalogsource {key}"))?;
    let registry = match source
        .spec
        .address
        .as_deref()
        .filter(|address| !address.is_empty())
    {
        Some(address) => Registry::connect(address)?,
        None => Registry::new(forward(client, key).await?, Timeouts::default()),
    };
    let fetched = snapshot::fetch(&registry).await?;
    Ok((registry, fetched))
}

/// A connection to the catalog's pod through the API server.
async fn forward(client: &Client, key: &CatalogKey) -> anyhow::Result<Channel> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let selector = ListParams::default().labels(&format!("{}={}", labels::CATALOG_SOURCE, key.name));
    let found = pods
        .list(&selector)
        .await
        .context("cannot list pods of the catalog")?;
    let Some(pod) = found.items.iter().find(|pod| is_ready(pod)) else {
        bail!("no pod of the catalog is ready");
    };
    let name = pod.name_any();
    let mut forwarder = pods
        .portforward(&name, &[REGISTRY_PORT])
        .await
        .with_context(|| format!("cannot forward a port to pod {}/{name}", key.namespace))?;
    let stream = forwarder
        .take_stream(REGISTRY_PORT)
        .ok_or_else(|| anyhow!("the forwarder has no stream for port {REGISTRY_PORT}"))?;
    // There is one stream; a second connection would need another forwarder.
    let channel = connection::over(stream, "catalog").await;
    channel.with_context(|| format!("cannot talk to pod {}/{name}", key.namespace))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
