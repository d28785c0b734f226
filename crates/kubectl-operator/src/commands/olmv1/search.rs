//! `olmv1 search catalog`: lists the packages of ClusterCatalogs. Their contents are read through the API server, which passes the
//! requests on to catalogd.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt, StreamExt as _};
use go_compat::semver::Version;
use http::Uri;
use kube::ResourceExt as _;
use olm_api::extension_v1::ClusterCatalog;
use olm_api::names::is_dns1123_subdomain;
use operator_controller::catalog_content;
use serde_json::Value;

use super::{Managed as _, find};
use crate::args::olmv1::SearchArgs;
use crate::args::shared::Document;
use crate::cluster::Cluster;
use crate::commands::within;
use crate::reader::{answer, is_unserved, list_cluster};
use crate::table::Table;
use crate::terminal::plain;
use crate::{Verdict, printer};

/// Schema of a package's own document.
const PACKAGE: &str = "olm.package";
/// Default time to read catalogs, as in upstream's plugin.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum size in bytes of the content of a catalog. The largest public ones have some hundred MiB.
const MAX_CONTENT: u64 = 4 << 30;

/// Lists packages of catalogs.
///
/// # Errors
/// No catalog is served, one cannot be read, or none has the package.
pub(super) async fn run(args: &SearchArgs) -> anyhow::Result<Verdict> {
    within(args.wait.or(TIMEOUT).limit(), search(args)).await
}

async fn search(args: &SearchArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let catalogs = served(&cluster, args).await?;
    let package = args.package.as_deref().filter(|package| !package.is_empty());
    let mut found: Vec<(String, Packages)> = Vec::new();
    for catalog in &catalogs {
        let mut packages = Packages::default();
        let mut take = |document: Value| {
            packages.add(&document);
            match args.output {
                Some(format) => print(&document, format),
                None => Ok(()),
            }
        };
        read(
            &cluster,
            catalog,
            args.catalogd_namespace.as_deref(),
            package,
            &mut take,
        )
        .await?;
        found.push((catalog.name_any(), packages));
    }
    let is_found = found.iter().any(|(_, packages)| packages.has_packages());
    if let Some(package) = package.filter(|_| !is_found) {
        return Err(missing(&cluster, &catalogs, package));
    }
    match args.output {
        Some(_) => {}
        None if !is_found => printer::progress("No resources found"),
        None => printer::data(&table(&found, args.list_versions))?,
    }
    Ok(Verdict::Fine)
}

/// Reads the content of a catalog, and passes on its documents, all or those of one package. `catalogd` replaces the namespace of the
/// server in the address of the catalog.
///
/// # Errors
/// The content cannot be read, or `take` fails.
pub(super) async fn read(
    cluster: &Cluster,
    catalog: &ClusterCatalog,
    catalogd: Option<&str>,
    package: Option<&str>,
    take: &mut dyn FnMut(Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let base = content_path(catalog, catalogd)?;
    let Some(name) = package else {
        return read_path(cluster, catalog, &format!("{base}/all"), package, take).await;
    };
    let of_package = query(&base, &[("schema", PACKAGE), ("name", name)]);
    match read_path(cluster, catalog, &of_package, package, take).await {
        Ok(()) => {}
        // Upstream's catalogd has this address only if a feature is on.
        Err(error) if is_unserved(&error) => {
            return read_path(cluster, catalog, &format!("{base}/all"), package, take).await;
        }
        Err(error) => return Err(error),
    }
    // The other documents name the package in a field of their own.
    let others = query(&base, &[("package", name)]);
    read_path(cluster, catalog, &others, package, take).await
}

/// Returns the path of the documents with these fields.
fn query(base: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields);
    format!("{base}/metas?{}", query.finish())
}

async fn read_path(
    cluster: &Cluster,
    catalog: &ClusterCatalog,
    path: &str,
    package: Option<&str>,
    take: &mut dyn FnMut(Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = catalog.name_any();
    let what = || format!("read the content of ClusterCatalog {name}");
    let request = http::Request::get(path).body(Vec::new())?;
    let reader = answer(what, cluster.client.request_stream(request)).await?;
    let reader = std::pin::pin!(reader);
    let read = documents(reader, package, take).await;
    read.with_context(|| format!("cannot {}", what()))
}

/// Prints a document of a catalog. YAML documents begin with `---`.
fn print(document: &Value, format: Document) -> anyhow::Result<()> {
    if format == Document::Yaml {
        printer::script("---\n")?;
    }
    printer::document(document, format)
}

fn missing(cluster: &Cluster, catalogs: &[ClusterCatalog], package: &str) -> anyhow::Error {
    let names: Vec<String> = catalogs.iter().map(|catalog| catalog.name_any()).collect();
    anyhow!(
        "package {} was not found in ClusterCatalog {}; list all packages with `{}`",
        plain(package),
        names.join(", "),
        cluster.suggest_for_cluster("olmv1 search catalog", &[])
    )
}

/// Returns the requested catalogs that are served, by name.
///
/// # Errors
/// There is none.
async fn served(cluster: &Cluster, args: &SearchArgs) -> anyhow::Result<Vec<ClusterCatalog>> {
    let selector = args.selector.as_deref().unwrap_or_default();
    let catalogs = match &args.catalog {
        Some(name) => vec![find::<ClusterCatalog>(cluster, name).await?],
        None => list_cluster::<ClusterCatalog>(&cluster.client, selector).await?,
    };
    let (mut served, others): (Vec<_>, Vec<_>) = catalogs.into_iter().partition(is_served);
    let others = others.iter().map(|catalog| {
        let (node, _) = catalog.progress();
        node.waits_for()
    });
    let others: Vec<String> = others.collect();
    if served.is_empty() {
        let which = match selector {
            _ if !others.is_empty() => format!("not served: {}", others.join("; ")),
            "" => format!(
                "there are none; create one with `{}`",
                cluster.suggest_for_cluster("olmv1 create catalog NAME IMAGE", &[])
            ),
            selector => format!("none has labels {}; see --selector", plain(selector)),
        };
        bail!("no ClusterCatalog can be searched: {which}");
    }
    for other in others {
        printer::warning(&format!("{other}; skipped because it is not served"));
    }
    served.sort_by_cached_key(|catalog| catalog.name_any());
    Ok(served)
}

fn is_served(catalog: &ClusterCatalog) -> bool {
    !catalog.spec.is_switched_off() && catalog_content::served(catalog).is_some()
}

/// Returns the path below which the API server passes on the content of a catalog. `namespace` replaces the one in its address.
fn content_path(catalog: &ClusterCatalog, namespace: Option<&str>) -> anyhow::Result<String> {
    let status = catalog.status.as_ref();
    let urls = status.and_then(|status| status.urls.as_ref());
    let base = urls.map(|urls| urls.base.as_str()).unwrap_or_default();
    service_path(base, namespace).ok_or_else(|| {
        anyhow!(
            "ClusterCatalog {}: status.urls.base {:?} is not an address of a Service, such as \
             https://catalogd-service.olmv1-system.svc/catalogs/NAME; check --external-address of catalogd",
            catalog.name_any(),
            plain(base)
        )
    })
}

fn service_path(base: &str, namespace: Option<&str>) -> Option<String> {
    let address: Uri = base.parse().ok()?;
    let (scheme, port) = match address.scheme_str()? {
        "https" => ("https", 443),
        "http" => ("http", 80),
        _ => return None,
    };
    let mut labels = address.host()?.split('.');
    let (service, own) = (labels.next()?, labels.next());
    let namespace = namespace.or(own)?;
    let port = address.port_u16().unwrap_or(port);
    let path = address.path().trim_end_matches('/');
    let is_safe = is_dns1123_subdomain(service)
        && is_dns1123_subdomain(namespace)
        && path
            .split('/')
            .all(|segment| segment.is_empty() || is_dns1123_subdomain(segment));
    is_safe.then(|| {
        format!("/api/v1/namespaces/{namespace}/services/{scheme}:{service}:{port}/proxy{path}/api/v1")
    })
}

/// Passes on the documents of a catalog, all or those of one package.
async fn documents(
    reader: impl AsyncBufRead + Unpin,
    package: Option<&str>,
    take: &mut dyn FnMut(Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut lines = AsyncReadExt::take(reader, MAX_CONTENT).lines();
    while let Some(line) = lines.next().await {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let document: Value =
            serde_json::from_str(&line).context("it has a line that is not a JSON document")?;
        if package.is_none_or(|package| package_of(&document) == package) {
            take(document)?;
        }
    }
    Ok(())
}

/// Returns the package that a document is about. The document of the package itself has only a name.
fn package_of(document: &Value) -> &str {
    let field = match document["schema"].as_str() {
        Some(PACKAGE) => "name",
        _ => "package",
    };
    document[field].as_str().unwrap_or_default()
}

/// The packages of a catalog by name.
#[derive(Debug, Default)]
struct Packages(BTreeMap<String, Package>);

/// What the table shows of a package.
#[derive(Debug, Default)]
struct Package {
    /// False if only channels or bundles name the package.
    is_package: bool,
    provider: String,
    channels: BTreeSet<String>,
    versions: Vec<Version>,
}

impl Packages {
    fn add(&mut self, document: &Value) {
        let schema = document["schema"].as_str().unwrap_or_default();
        if !matches!(schema, PACKAGE | "olm.channel" | "olm.bundle") {
            return;
        }
        let package = self.0.entry(package_of(document).to_owned()).or_default();
        match schema {
            PACKAGE => package.is_package = true,
            "olm.channel" => {
                let name = document["name"].as_str().unwrap_or_default();
                package.channels.insert(name.to_owned());
            }
            _ => {
                let version = property(document, PACKAGE)["version"].as_str();
                let version = version.and_then(|version| Version::parse(version).ok());
                package.versions.extend(version);
                if package.provider.is_empty() {
                    let provider = &property(document, "olm.csv.metadata")["provider"]["name"];
                    provider
                        .as_str()
                        .unwrap_or_default()
                        .clone_into(&mut package.provider);
                }
            }
        }
    }

    fn has_packages(&self) -> bool {
        self.0.values().any(|package| package.is_package)
    }
}

static NULL: Value = Value::Null;

/// Returns the value of the first property of a type; null if there is none.
fn property<'a>(bundle: &'a Value, type_: &str) -> &'a Value {
    let mut properties = bundle["properties"].as_array().into_iter().flatten();
    let found = properties.find(|property| property["type"] == type_);
    found.map_or(&NULL, |property| &property["value"])
}

/// Returns the table of packages, with a row for each version or each package.
fn table(catalogs: &[(String, Packages)], with_versions: bool) -> String {
    let last = if with_versions { "VERSION" } else { "CHANNELS" };
    let mut table = Table::new(["PACKAGE", "CATALOG", "PROVIDER", last]);
    for (catalog, packages) in catalogs {
        for (name, package) in packages.0.iter().filter(|(_, package)| package.is_package) {
            let cells: Vec<String> = match with_versions {
                true => {
                    let mut versions: Vec<&Version> = package.versions.iter().collect();
                    versions.sort_by(|one, other| other.cmp(one));
                    versions.into_iter().map(ToString::to_string).collect()
                }
                false => {
                    let channels: Vec<&str> = package.channels.iter().map(String::as_str).collect();
                    vec![channels.join(",")]
                }
            };
            for cell in cells {
                table.row([name.clone(), catalog.clone(), package.provider.clone(), cell]);
            }
        }
    }
    table.text()
}

#[cfg(test)]
mod tests;
