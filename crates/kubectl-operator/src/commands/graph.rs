//! `kubectl operator graph`: draws the upgrade graph of a package, with the installed versions.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use kube::Client;
use olm_api::v1alpha1::{CatalogSource, Subscription};
use olm_authoring::graph::{PackageGraph, Tone, to_svg, to_text};
use olm_fbc::entry::BundleEntry;
use olm_resolver::{CatalogKey, Snapshot};

use crate::args::look::{Drawing, GraphArgs};
use crate::args::shared::Document;
use crate::cluster::Cluster;
use crate::operators::{Gathered, Position};
use crate::packages::{named, offered};
use crate::reader::{get, list_readable, place};
use crate::terminal::{Colours, Mark, plain};
use crate::{Verdict, catalogs, gather, global, printer};

/// Maximum number of names in an error about a missing one.
const MAX_NAMED: usize = 10;
/// Maximum number of versions and of channels in an SVG.
const MAX_DRAWN: (usize, usize) = (300, 100);

/// Draws the upgrade graph.
///
/// # Errors
/// The cluster or the catalog cannot be read, or there is no such package or channel.
pub(crate) async fn run(args: &GraphArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let gathered = Box::pin(gather::operators(client, Some(namespace))).await?;
    gathered.warn();
    let versions = Versions::of(&gathered, &args.package);
    let global = args.global_catalog_namespace.as_deref();
    let (given, subscriptions) = (args.catalog.as_deref(), &gathered.subscriptions);
    let catalog = catalog(&cluster, &args.package, given, global, subscriptions).await?;
    let keys = BTreeSet::from([catalog.clone()]);
    let read = Box::pin(catalogs::read(client, &keys)).await;
    let snapshot = read.content(&catalog)?;
    let mut graph = drawn(snapshot, &catalog, args, &versions, &cluster)?;
    if args.output == Drawing::Svg {
        graph.cut(MAX_DRAWN.0, MAX_DRAWN.1);
    }
    graph.notes().iter().for_each(|note| printer::warning(note));
    match args.output {
        Drawing::Text => printer::painted(lines(&graph, Colours::of_stdout()))?,
        Drawing::Svg => printer::data(&to_svg(&graph))?,
        Drawing::Json => printer::document(&graph, Document::Json)?,
    }
    Ok(Verdict::Fine)
}

/// Returns the graph as lines.
fn lines(graph: &PackageGraph, colours: Colours) -> Vec<String> {
    to_text(graph, &|tone, word| {
        let mark = match tone {
            Tone::Fine => Mark::Fine,
            Tone::Warning => Mark::Waits,
            Tone::Bad => Mark::Bad,
        };
        colours.paint(mark, word)
    })
}

/// Builds the graph of the package.
fn drawn(
    snapshot: &Snapshot,
    catalog: &CatalogKey,
    args: &GraphArgs,
    versions: &Versions,
    cluster: &Cluster,
) -> anyhow::Result<PackageGraph> {
    let package = args.package.as_str();
    let entries = || of_snapshot(snapshot, package);
    let of_channel = |entry: &&BundleEntry| {
        let channel = args.channel.as_deref();
        channel.is_none_or(|channel| channel == &*entry.channel)
    };
    let mut graph = PackageGraph::new(
        package,
        &catalog.to_string(),
        entries().filter(of_channel),
        &versions.installed,
    );
    graph.mark_upgrades(&versions.upgrading);
    if !graph.channels.is_empty() {
        return Ok(graph);
    }
    let channels: BTreeSet<String> = entries().map(|entry| plain(&entry.channel)).collect();
    let known: Vec<&str> = channels.iter().take(MAX_NAMED).map(String::as_str).collect();
    match (&args.channel, known.is_empty()) {
        (Some(channel), false) => bail!(
            "package {} of catalog {catalog} has no channel {}; it has {}",
            plain(package),
            plain(channel),
            known.join(", ")
        ),
        _ => bail!(
            "catalog {catalog} has no package {}; list all with `{}`",
            plain(package),
            cluster.suggest("list-available", &[])
        ),
    }
}

/// Returns the entries of a package.
pub(super) fn of_snapshot<'a>(
    snapshot: &'a Snapshot,
    package: &'a str,
) -> impl Iterator<Item = &'a BundleEntry> {
    let entries = snapshot.entries().iter().map(|entry| -> &BundleEntry { entry });
    entries.filter(move |entry| &*entry.package == package)
}

/// Returns the Subscriptions of a namespace. Those that cannot be read are skipped with a warning.
///
/// # Errors
/// The cluster cannot be read.
pub(super) async fn subscriptions(client: &Client, namespace: &str) -> anyhow::Result<Vec<Subscription>> {
    let (all, unreadable) = list_readable::<Subscription>(client, Some(namespace), "").await?;
    for object in &unreadable {
        printer::warning(&format!("{}; skipped", object.text));
    }
    Ok(all)
}

/// Versions of a package's operators: Subscriptions, as NAMESPACE/NAME, by ClusterServiceVersion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versions {
    /// The last versions that succeeded.
    pub installed: BTreeMap<String, Vec<String>>,
    /// Versions of upgrades that have begun.
    pub upgrading: BTreeMap<String, Vec<String>>,
}

impl Versions {
    /// Returns the versions of a package's operators.
    fn of(gathered: &Gathered, package: &str) -> Self {
        let mut versions = Self::default();
        let operators = gathered.operators();
        for operator in operators.iter().filter(|found| found.package() == Some(package)) {
            let by = format!("{}/{}", operator.namespace(), operator.name());
            versions.add(&by, operator.position());
        }
        versions
    }

    /// Adds the position of a Subscription, given as NAMESPACE/NAME.
    pub(super) fn add(&mut self, by: &str, position: Position) {
        let add = |versions: &mut BTreeMap<String, Vec<String>>, csv: String| {
            if !csv.is_empty() {
                versions.entry(csv).or_default().push(by.to_owned());
            }
        };
        if position.has_begun {
            add(&mut self.upgrading, position.next);
        }
        add(&mut self.installed, position.installed);
    }
}

/// Returns the catalog to read: the given one, that of the Subscription, or the only one that offers the package. `global` is the
/// namespace of global catalogs, if the user gave it.
///
/// # Errors
/// The catalog does not exist, or it is not clear which one to read.
pub(super) async fn catalog(
    cluster: &Cluster,
    package: &str,
    given: Option<&str>,
    global: Option<&str>,
    subscriptions: &[Subscription],
) -> anyhow::Result<CatalogKey> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let key = |namespace: &str, name: &str| CatalogKey {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    };
    if let Some(catalog) = given {
        if let Some((namespace, name)) = catalog.split_once('/') {
            return Ok(key(namespace, name));
        }
        let global = global::find(client, global, Some(namespace)).await.catalogs;
        for at in [namespace, &global] {
            if get::<CatalogSource>(client, at, catalog).await?.is_some() {
                return Ok(key(at, catalog));
            }
        }
        bail!(
            "catalog {} not found in namespaces {namespace} and {global} (see {}); list catalogs with `{}`, or use NAMESPACE/NAME",
            plain(catalog),
            global::FLAG,
            cluster.commands.suggest("catalog list", &[], None)
        );
    }
    let of_subscriptions: BTreeSet<CatalogKey> = subscriptions
        .iter()
        .filter(|subscription| subscription.spec.name == package)
        .map(|subscription| key(&subscription.spec.source_namespace, &subscription.spec.source))
        .collect();
    let mut choices: Vec<CatalogKey> = of_subscriptions.into_iter().collect();
    if choices.is_empty() {
        let packages = match offered(client, Some(namespace)).await? {
            Ok(packages) => named(packages, package, None, namespace, &cluster.commands)?,
            Err(cause) => {
                bail!("cannot find the catalogs of the package: {cause}; use --catalog")
            }
        };
        choices = packages
            .iter()
            .map(|package| key(&package.catalog_namespace, &package.catalog))
            .collect();
    }
    let names: Vec<String> = choices.iter().map(|choice| plain(&choice.to_string())).collect();
    match choices.len() {
        0 | 1 => choices
            .pop()
            .ok_or_else(|| anyhow!("no catalog in {} has the package", place(Some(namespace)))),
        _ => bail!(
            "several catalogs have package {}; choose one with --catalog: {}",
            plain(package),
            names.join(", ")
        ),
    }
}
