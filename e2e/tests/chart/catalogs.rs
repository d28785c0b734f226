//! ClusterCatalogs with the chart's `v1.enabled`.

use anyhow::ensure;
use e2e::lab::{PATIENCE, condition};
use serde_json::{Value, json};
use xtask::demo::PACKAGE;
use xtask::kubectl::Destination;

use crate::KUBECTL_TIMEOUT;

/// Name of the ClusterCatalog.
const CATALOG: &str = "demo";
/// Where the API server passes requests on to `catalogd`.
const SERVICE: &str = "/api/v1/namespaces/olm/services/https:catalogd-service:443/proxy";

/// Returns a ClusterCatalog of an image.
pub fn cluster_catalog(name: &str, mode: &str, image: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"availabilityMode": mode, "source": {"type": "Image", "image": {"ref": image}}}
    })
}

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

/// Returns the catalog once its condition `Serving` has this status.
pub fn serving(kubectl: &Destination, catalog: &str, status: &str) -> anyhow::Result<Value> {
    kubectl.wait(&format!("Serving to be {status}"), PATIENCE, |kubectl| {
        let found = kubectl.get(&["clustercatalog", catalog])?.unwrap_or_default();
        Ok(
            if condition(&found, "Serving").is_some_and(|it| it["status"] == status) {
                Ok(found)
            } else {
                Err(found["status"].to_string())
            },
        )
    })
}
