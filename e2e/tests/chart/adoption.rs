//! A Subscription becomes a ClusterExtension by `kubectl operator olmv1 adopt`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use e2e::olm_v1::{cluster_catalog, gone, is, object, serving};
use e2e::plugin;
use e2e::variant::Variant;
use serde_json::{Value, json};
use xtask::kubectl::text;

use crate::KUBECTL_TIMEOUT;

/// Name of the package, of its operator and of the ClusterExtension.
const PACKAGE: &str = "lory";
/// Namespace of the operator.
const NAMESPACE: &str = "cage";
/// Image of both catalogs, and name of the ClusterCatalog.
const CATALOG_IMAGE: &str = "olm.local/lory-catalog:v1";
const CATALOG: &str = "lories";

/// The operator of a Subscription is adopted: its pods run on, and its custom resources stay, also when the extension is deleted.
pub fn a_subscription_becomes_a_cluster_extension(lab: &Lab) -> anyhow::Result<()> {
    let kubectl = lab.kubectl();
    // The operator's image is published with the demo.
    lab.demo_catalog()?;
    let home = lab.folder(&format!("{PACKAGE}-bundle"))?;
    let variant = Variant::new(PACKAGE, &home.join("bundle"))?;
    lab.publish(PACKAGE, &[variant.package(&variant.image("v1"))], CATALOG_IMAGE)?;
    let namespace = lab.namespace(NAMESPACE)?;
    namespace.apply(&[
        catalog_source("catalog", CATALOG_IMAGE),
        operator_group("group", &[NAMESPACE]),
        subscription(PACKAGE, PACKAGE, "stable", "catalog", NAMESPACE),
    ])?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    let definition = variant.definition();
    let group = definition
        .split_once('.')
        .map(|(_, group)| group)
        .unwrap_or_default();
    namespace.apply(&[json!({"apiVersion": format!("{group}/v1"), "kind": "Greeting",
        "metadata": {"name": "ada"}, "spec": {"name": "Ada"}})])?;
    kubectl.apply(&[cluster_catalog(CATALOG, "Available", CATALOG_IMAGE)])?;
    serving(kubectl, CATALOG, "True")?;
    let pods = pods(&namespace)?;
    ensure!(!pods.is_empty(), "the operator has no pods");

    let shown = adopt(lab, &home, &[])?;
    ensure!(
        shown.contains(&format!("adopts   Deployment {NAMESPACE}/{PACKAGE}\n"))
            && !shown.contains("restarts"),
        "{shown}"
    );
    ensure!(
        namespace.get("csv", &variant.csv())?.is_some(),
        "a dry run deleted it"
    );
    adopt(lab, &home, &["--yes", "--timeout", "4m"])?;

    object(
        kubectl,
        &["clusterextension", PACKAGE],
        "ClusterExtension: to be installed",
        |it| is(it, "Installed", "True", "Succeeded"),
    )?;
    let set = kubectl.get(&["clusterobjectset", &format!("{PACKAGE}-1")])?;
    let set = set.context("there is no revision")?;
    ensure!(
        text(&set, "/spec/collisionProtection") == "IfNoController",
        "{set}"
    );
    for left in [["subscription", PACKAGE], ["csv", &variant.csv()]] {
        ensure!(namespace.get(left[0], left[1])?.is_none(), "{left:?} is left");
    }
    // The garbage collector has been there.
    for (kind, name) in [("deployment", PACKAGE), ("serviceaccount", PACKAGE)] {
        namespace.wait_for(kind, name, "to have the extension as its only owner", |it| {
            let owners = it["metadata"]["ownerReferences"].as_array();
            let kinds = owners.into_iter().flatten().map(|owner| text(owner, "/kind"));
            kinds.eq(["ClusterObjectSet"])
        })?;
    }
    ensure!(self::pods(&namespace)? == pods, "pods were restarted");
    ensure!(
        kubectl.get(&["crd", &definition])?.is_some(),
        "{definition} is gone"
    );
    ensure!(
        namespace.get(&definition, "ada")?.is_some(),
        "the custom resource is gone"
    );
    let back = std::fs::read_to_string(home.join(format!("adopt-{NAMESPACE}-{PACKAGE}.yaml")))?;
    ensure!(back.contains("kind: Subscription"), "{back}");

    kubectl.run(&["delete", "clusterextension", PACKAGE, KUBECTL_TIMEOUT])?;
    gone(kubectl, &["clusterobjectset", &format!("{PACKAGE}-1")])?;
    ensure!(
        kubectl.get(&["crd", &definition])?.is_some() && namespace.get(&definition, "ada")?.is_some(),
        "{definition} or its custom resource went with the extension"
    );
    kubectl.run(&["delete", "crd", &definition, KUBECTL_TIMEOUT])?;
    kubectl.run(&["delete", "clustercatalog", CATALOG, KUBECTL_TIMEOUT])?;
    Ok(())
}

/// Returns the uids of the operator's pods.
fn pods(namespace: &Namespace<'_>) -> anyhow::Result<BTreeSet<String>> {
    let pods = namespace.list("pods")?.into_iter();
    let own = pods.filter(|pod: &Value| text(pod, "/metadata/labels/app") == PACKAGE);
    Ok(own.map(|pod| text(&pod, "/metadata/uid").to_owned()).collect())
}

/// Runs the command in `folder`, where it saves the way back. Returns what it prints.
fn adopt(lab: &Lab, folder: &Path, more: &[&str]) -> anyhow::Result<String> {
    let registries = folder.join("registries.conf");
    let location = lab.cluster().registry();
    std::fs::write(
        &registries,
        format!("[[registry]]\nprefix = \"olm.local\"\nlocation = \"{location}\"\ninsecure = true\n"),
    )?;
    let output = lab
        .cluster()
        .command(plugin::program()?)
        .args(["olmv1", "adopt", PACKAGE, "-n", NAMESPACE])
        .args(more)
        .env("CONTAINERS_REGISTRIES_CONF", &registries)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "olmv1 adopt {more:?}: {text}{errors}");
    Ok(text)
}
