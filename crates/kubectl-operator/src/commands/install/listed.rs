//! The packages that package-server lists, with a wait for a catalog that it has not read yet.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt as _;
use olm_api::v1alpha1::CatalogSource;
use tokio::time::{Instant, sleep};

use crate::args::change::InstallArgs;
use crate::cluster::Cluster;
use crate::commands::catalog::is_ready;
use crate::packages::{Offered, Package, offered};
use crate::reader::list;
use crate::{global, printer};

/// Time within which package-server usually reads a catalog that became READY.
const LISTED_IN: Duration = Duration::from_secs(10);
/// Interval between reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns the packages that package-server lists for the namespace. While the package is missing and a READY catalog has none, it
/// reads again for up to [`LISTED_IN`].
///
/// # Errors
/// The request to the API server fails.
pub(super) async fn packages(cluster: &Cluster, args: &InstallArgs) -> anyhow::Result<Offered> {
    let start = Instant::now();
    let mut is_reported = false;
    loop {
        let found = offered(&cluster.client, Some(&cluster.namespace)).await?;
        // The caller reads a given catalog itself.
        let packages = match &found {
            Ok(packages) if args.catalog.is_none() => packages,
            _ => return Ok(found),
        };
        let is_listed = packages.iter().any(|package| package.name == args.package);
        if is_listed || start.elapsed() >= LISTED_IN {
            return Ok(found);
        }
        let Some(catalog) = unlisted(cluster, args, packages).await else {
            return Ok(found);
        };
        if !is_reported {
            is_reported = true;
            printer::progress(&format!(
                "waiting for package-server to list the packages of catalog {catalog}"
            ));
        }
        sleep(INTERVAL).await;
    }
}

/// Returns NAMESPACE/NAME of a READY catalog of the namespace that has none of these packages. `None` also if catalogs cannot be read.
async fn unlisted(cluster: &Cluster, args: &InstallArgs, packages: &[Package]) -> Option<String> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let given = args.global_catalog_namespace.as_deref();
    let global = global::find(client, given, Some(namespace)).await.catalogs;
    let listed: BTreeSet<String> = packages.iter().map(Package::catalog_key).collect();
    for namespace in BTreeSet::from([namespace, global.as_str()]) {
        let sources = list::<CatalogSource>(client, Some(namespace), "").await;
        let sources = sources.unwrap_or_default().into_iter();
        let ready = sources.filter(is_ready).map(|source| source.name_any());
        let mut keys = ready.map(|name| format!("{namespace}/{name}"));
        let unlisted = keys.find(|key| !listed.contains(key));
        if unlisted.is_some() {
            return unlisted;
        }
    }
    None
}
