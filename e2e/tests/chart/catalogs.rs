//! ClusterCatalogs with the chart's `v1.enabled`.

use anyhow::ensure;
use e2e::olm_v1::{cluster_catalog, serving};
use serde_json::Value;
use xtask::demo::PACKAGE;
use xtask::kubectl::Destination;

use crate::KUBECTL_TIMEOUT;

/// Name of the ClusterCatalog.
const CATALOG: &str = "demo";
/// Where the API server passes requests on to `catalogd`.
const SERVICE: &str = "/api/v1/namespaces/olm/services/https:catalogd-service:443/proxy";

/// A ClusterCatalog is pulled and served, switched off and deleted.
pub fn a_cluster_catalog_is_served(kubectl: &Destination, image: &str) -> anyhow::Result<()> {
    let with_mode = |mode: &str| kubectl.apply(&[cluster_catalog(CATALOG, mode, image)]);
    with_mode("Available")?;
    let served = serving(kubectl, CATALOG, "True")?;
    let resolved = served.pointer("/status/resolvedSource/image/ref");
    ensure!(
        resolved
            .and_then(Value::as_str)
            .is_some_and(|it| it.contains("@sha256:")),
        "{served}"
    );
    let metas = kubectl.run(&["get", "--raw", &path("metas?schema=olm.package")])?;
    let packages: Vec<Value> = metas
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    ensure!(packages.len() == 1 && packages[0]["name"] == PACKAGE, "{metas}");
    let all = kubectl.run(&["get", "--raw", &path("all")])?;
    ensure!(all.lines().count() > packages.len(), "{all}");

    with_mode("Unavailable")?;
    serving(kubectl, CATALOG, "False")?;
    ensure!(
        kubectl.run(&["get", "--raw", &path("all")]).is_err(),
        "it is still served"
    );
    with_mode("Available")?;
    serving(kubectl, CATALOG, "True")?;
    let delete = ["delete", "clustercatalog", CATALOG, KUBECTL_TIMEOUT];
    kubectl.run(&delete)?;
    ensure!(
        kubectl.run(&["get", "--raw", &path("all")]).is_err(),
        "it is served without its catalog"
    );
    Ok(())
}

fn path(what: &str) -> String {
    format!("{SERVICE}/catalogs/{CATALOG}/api/v1/{what}")
}
