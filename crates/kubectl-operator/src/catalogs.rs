//! Catalog contents, read from catalog servers in the cluster or from a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_registry::client::Client as Registry;
use olm_registry::connection::{self, Dial as _, Tcp};
use olm_registry::index::Index;
use olm_registry::snapshot::{self, Fetched};
use olm_resolver::entry::Entry;
use olm_resolver::plan::{Install, Unsatisfiable};
use olm_resolver::{CatalogKey, Problem, Snapshot};
use serde_json::Value;
use tokio::time::timeout;
use tonic::transport::Channel;

use crate::args::shared::quoted;
use crate::operators::pod_node;
use crate::printer;
use crate::reader::{answer, get, is_forbidden, list};
use crate::terminal::listed;

/// Port that catalog pods serve.
const REGISTRY_PORT: u16 = 50051;

/// Timeout for reading one catalog.
const PATIENCE: Duration = Duration::from_secs(120);

/// Start of the error for a catalog that the user may not read.
const LACKS_RIGHT: &str = "your user lacks the right to read its content, which is no fault of an operator";

/// Maximum number of versions named in an error about a missing one.
pub(crate) const MAX_NAMED: usize = 10;
/// Maximum of concurrent reads of catalogs and lists. It bounds memory, because each catalog may have the maximum size.
pub(crate) const AT_ONCE: usize = 4;

/// Contents by catalog, or the error of the read.
pub(crate) type Contents = BTreeMap<CatalogKey, Result<Arc<Snapshot>, String>>;

/// Contents of catalogs, and the sources to read bundles from.
#[derive(Default)]
pub(crate) struct Catalogs {
    pub contents: Contents,
    origins: BTreeMap<CatalogKey, Origin>,
}

/// The objects of a bundle, as far as its catalog serves them.
#[derive(Default)]
pub(crate) struct Bundle {
    /// The ClusterServiceVersion.
    pub csv: Option<Value>,
    /// The bundle's objects; empty if the catalog has only the image.
    pub objects: Vec<Value>,
}

enum Origin {
    Server(Registry),
    Directory(Arc<Index>),
}

impl Catalogs {
    /// Returns the bundle of a planned installation. It is empty, with a warning, if the catalog cannot serve it.
    pub(crate) async fn bundle(&self, install: &Install) -> Bundle {
        let (package, channel, name) = (&install.package, &install.channel, &install.name);
        let found = match self.origins.get(&install.catalog) {
            None => None,
            Some(Origin::Directory(index)) => snapshot::bundle_of(index, package, channel, name),
            Some(Origin::Server(registry)) => match registry.get_bundle(package, channel, name).await {
                Ok(bundle) => Some(bundle),
                Err(status) => {
                    printer::warning(&format!(
                        "catalog {}: cannot read bundle {name}; its Kubernetes version and installability are unknown: {}",
                        install.catalog,
                        status.message()
                    ));
                    None
                }
            },
        };
        found.map_or_else(Bundle::default, |bundle| Bundle {
            csv: snapshot::csv(&bundle),
            objects: snapshot::objects(&bundle),
        })
    }

    /// Returns the content of a catalog.
    ///
    /// # Errors
    /// It could not be read.
    pub(crate) fn content(&self, key: &CatalogKey) -> anyhow::Result<&Arc<Snapshot>> {
        match self.contents.get(key) {
            Some(Ok(snapshot)) => Ok(snapshot),
            Some(Err(cause)) => bail!("cannot read catalog {key}: {cause}"),
            None => bail!("cannot read catalog {key}"),
        }
    }
}

/// Reads catalogs from a cluster. A catalog that cannot be read has an error in its place and delays no other.
pub(crate) async fn read(client: &Client, keys: &BTreeSet<CatalogKey>) -> Catalogs {
    let reads = futures::stream::iter(keys).map(async |key| {
        let read = timeout(PATIENCE, Box::pin(read_one(client, key))).await;
        let late = |_| Err(anyhow!("timed out after {} s", PATIENCE.as_secs()));
        (key, read.unwrap_or_else(late))
    });
    let reads: BTreeMap<_, _> = reads.buffer_unordered(AT_ONCE).collect().await;
    let mut catalogs = Catalogs::default();
    for (key, read) in reads {
        let content = match read {
            Ok((registry, fetched)) => {
                let skipped = fetched.skipped.iter();
                skipped.for_each(|text| printer::warning(&format!("catalog {key}: {text}")));
                catalogs.origins.insert(key.clone(), Origin::Server(registry));
                Ok(Arc::new(Snapshot::from(&fetched.snapshot)))
            }
            Err(error) => Err(unread(key, &error)),
        };
        catalogs.contents.insert(key.clone(), content);
    }
    catalogs
}

/// Returns why a catalog cannot be read, and who can grant a missing right of the user.
fn unread(key: &CatalogKey, error: &anyhow::Error) -> String {
    match is_forbidden(error) {
        true => format!(
            "{LACKS_RIGHT}: {error:#}; an administrator of namespace {0} can grant it with a Role there: get on \
             catalogsources.operators.coreos.com, list on pods, get and create on pods/portforward; `kubectl operator status` does not need it",
            key.namespace
        ),
        false => format!("{error:#}"),
    }
}

/// Checks that no part fails to resolve only because the user may not read a catalog. OLM reads it with rights of its own.
///
/// # Errors
/// One does.
pub(crate) fn require_right(problem: &Problem, unsatisfiable: &[Unsatisfiable]) -> anyhow::Result<()> {
    for catalog in &problem.catalogs {
        let Err(cause) = &catalog.content else {
            continue;
        };
        let mut parts = unsatisfiable.iter();
        if cause.starts_with(LACKS_RIGHT) && parts.any(|part| part.message.contains(cause.as_str())) {
            bail!("cannot read catalog {}: {cause}", catalog.key);
        }
    }
    Ok(())
}

/// Reads a version of a package from a catalog of the cluster: its entry, and its bundle as far as the catalog has it. Without a
/// version it is the head of the channel, without a channel of the default one.
///
/// # Errors
/// The catalog cannot be read, or does not have the version.
pub(crate) async fn read_version(
    client: &Client,
    key: &CatalogKey,
    package: &str,
    channel: Option<&str>,
    version: Option<&str>,
) -> anyhow::Result<(Arc<Entry>, Bundle)> {
    let catalogs = Box::pin(read(client, &BTreeSet::from([key.clone()]))).await;
    let snapshot = catalogs.content(key)?;
    let entry = find(snapshot, package, channel, version).with_context(|| format!("catalog {key}"))?;
    let install = Install {
        name: entry.name.to_string(),
        package: entry.package.to_string(),
        channel: entry.channel.to_string(),
        catalog: key.clone(),
        ..Install::default()
    };
    let bundle = catalogs.bundle(&install).await;
    Ok((entry, bundle))
}

/// Returns the entry of a version, which is given by number or by the name of its ClusterServiceVersion.
///
/// # Errors
/// The catalog does not have it; the text names the versions that it has.
pub(crate) fn find(
    snapshot: &Snapshot,
    package: &str,
    channel: Option<&str>,
    version: Option<&str>,
) -> anyhow::Result<Arc<Entry>> {
    let number = |entry: &Arc<Entry>| entry.version.as_ref().map(ToString::to_string);
    let is_offered = |entry: &&Arc<Entry>| {
        *entry.package == *package && channel.is_none_or(|channel| *entry.channel == *channel)
    };
    let all = || snapshot.entries().iter().filter(is_offered);
    let is_wanted = |entry: &&Arc<Entry>| {
        version.is_none_or(|version| {
            *entry.name == *version
                || number(entry).as_deref() == Some(version.strip_prefix('v').unwrap_or(version))
        })
    };
    if let Some(entry) = all().find(is_wanted) {
        return Ok(Arc::clone(entry));
    }
    let names: Vec<String> = all().filter_map(number).collect();
    let place = match channel {
        Some(channel) => format!("channel {channel} of package {package}"),
        None => format!("package {package}"),
    };
    match (version, names.is_empty()) {
        (Some(version), false) => bail!(
            "{place} has no version {version}; it has {}",
            listed(&names, MAX_NAMED)
        ),
        _ => bail!("{place} has no versions"),
    }
}

/// Returns the content of a directory under each of the catalogs.
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
    let source = get::<CatalogSource>(client, &key.namespace, &key.name).await?;
    let source = source.ok_or_else(|| {
        anyhow!(
            "it does not exist; add it again: kubectl operator catalog add {} IMAGE -n {}",
            quoted(&key.name),
            quoted(&key.namespace)
        )
    })?;
    let registry = match source
        .spec
        .address
        .as_deref()
        .filter(|address| !address.is_empty())
    {
        Some(address) => {
            let dialled = Tcp.connect(address, address).await;
            Registry::new(dialled.map_err(anyhow::Error::msg)?.channel)
        }
        None => Registry::new(forward(client, key).await?),
    };
    let fetched = snapshot::fetch(&registry).await?;
    Ok((registry, fetched))
}

/// Opens a connection to the catalog's pod through the API server.
async fn forward(client: &Client, key: &CatalogKey) -> anyhow::Result<Channel> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let selector = format!("{}={}", labels::CATALOG_SOURCE, key.name);
    let found = list::<Pod>(client, Some(&key.namespace), &selector).await?;
    let Some(pod) = found.iter().find(|pod| pod_node(pod).state == "Ready") else {
        bail!("no pod of the catalog is ready");
    };
    let name = pod.name_any();
    let what = || format!("forward a port to pod {}/{name}", key.namespace);
    let mut forwarder = answer(what, pods.portforward(&name, &[REGISTRY_PORT])).await?;
    let stream = forwarder
        .take_stream(REGISTRY_PORT)
        .ok_or_else(|| anyhow!("the forwarder has no stream for port {REGISTRY_PORT}"))?;
    // There is one stream; a second connection would need another forwarder.
    let channel = connection::over(stream, "catalog").await;
    channel.with_context(|| format!("cannot talk to pod {}/{name}", key.namespace))
}

#[cfg(test)]
mod tests {
    use go_compat::semver::Version;
    use olm_fbc::entry::BundleEntry;
    use olm_testing::cluster::{FakeCluster, Fault, Refusal};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_catalog_of_an_impossible_name_is_not_asked_for() {
        let cluster = FakeCluster::new();
        cluster.on_request(|_| Some(Fault::Refuse(Refusal::unavailable("it was asked"))));
        let (client, _link) = cluster.connect();
        for (namespace, name, is_asked) in [
            ("olm", "cat", true),
            ("olm/pods?x=", "cat", false),
            ("", "cat", false),
            ("olm", "cat/status", false),
            ("olm", "", false),
        ] {
            let key = CatalogKey {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            };
            let read = read_one(&client, &key).await;
            let text = read.err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert_eq!(
                text.contains("it was asked"),
                is_asked,
                "{namespace} {name}: {text}"
            );
        }
    }

    #[test]
    fn a_version_is_found_by_its_number_or_name_and_without_one_it_is_the_head() {
        let entry = |version: &str, channel: &str| BundleEntry {
            name: format!("etcd.v{version}").into(),
            package: "etcd".into(),
            channel: channel.into(),
            version: Version::parse(version).ok(),
            ..BundleEntry::default()
        };
        let mut head = entry("1.1.0", "stable");
        head.replaces = Some("etcd.v1.0.0".into());
        let snapshot = Snapshot::new([entry("1.0.0", "stable"), head, entry("0.9.0", "old")]);
        let found = |channel, version| {
            let found = find(&snapshot, "etcd", channel, version);
            found
                .map(|entry| entry.name.to_string())
                .map_err(|error| error.to_string())
        };
        for version in ["1.0.0", "v1.0.0", "etcd.v1.0.0"] {
            assert_eq!(found(Some("stable"), Some(version)), Ok("etcd.v1.0.0".to_owned()));
        }
        assert_eq!(found(Some("stable"), None), Ok("etcd.v1.1.0".to_owned()));
        assert_eq!(found(None, Some("0.9.0")), Ok("etcd.v0.9.0".to_owned()));
        assert_eq!(
            found(Some("stable"), Some("0.9.0")),
            Err("channel stable of package etcd has no version 0.9.0; it has 1.1.0, 1.0.0".to_owned())
        );
        assert_eq!(
            found(Some("new"), None),
            Err("channel new of package etcd has no versions".to_owned())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn catalogs_that_do_not_answer_delay_no_other() {
        let cluster = FakeCluster::new();
        cluster.on_request(|request| request.name.ends_with("silent").then_some(Fault::Hang));
        let (client, _link) = cluster.connect();
        let key = |name: &str| CatalogKey {
            name: name.to_owned(),
            namespace: "olm".to_owned(),
        };
        let keys = ["a-silent", "b", "c", "d", "e", "f-silent"].map(key);
        let start = tokio::time::Instant::now();
        let catalogs = read(&client, &keys.into()).await;
        let took = start.elapsed();
        assert!(took < PATIENCE, "one waits for the other: {took:?}");
        let error = |name: &str| catalogs.content(&key(name)).unwrap_err().to_string();
        for name in ["a-silent", "f-silent"] {
            let expected = format!(
                "cannot read catalog olm/{name}: cannot read CatalogSource {name} in namespace olm: no answer within 60 s"
            );
            assert_eq!(error(name), expected);
        }
        for name in ["b", "c", "d", "e"] {
            let expected = format!(
                "cannot read catalog olm/{name}: it does not exist; add it again: kubectl operator catalog add {name} IMAGE -n olm"
            );
            assert_eq!(error(name), expected);
        }
    }
}
