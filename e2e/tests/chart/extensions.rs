//! ClusterExtensions with the chart's `v1.enabled`, by the commands of docs/guides/olm-v1.md.

use std::process::Stdio;

use anyhow::ensure;
use e2e::lab::{Lab, condition};
use e2e::olm_v1::{cluster_catalog, gone, has_installed, is, message, object, serving};
use e2e::plugin;
use e2e::variant::{CSV_FILE, Variant};
use serde_json::{Value, json};
use xtask::catalog::Entry;
use xtask::kubectl::{Destination, text};

use crate::KUBECTL_TIMEOUT;

/// Name of the package, of its operator and of the ClusterExtension.
const PACKAGE: &str = "parrot";
/// Namespace of the operator.
const NAMESPACE: &str = "aviary";
/// Image of the catalog, and name of the ClusterCatalog.
const CATALOG_IMAGE: &str = "olm.local/parrot-catalog:v1";
const CATALOG: &str = "parrots";
/// ConfigMap that only the first version has.
const PERCH: &str = "perch";
/// Versions in the catalog.
const FIRST: &str = "1.0.0";
const SECOND: &str = "1.1.0";
/// Reasons of conditions.
const SUCCEEDED: &str = "Succeeded";
const RETRYING: &str = "Retrying";

/// A ClusterExtension waits for its namespace, is installed, repaired, upgraded and deleted.
pub fn a_cluster_extension_is_installed_and_upgraded(lab: &Lab) -> anyhow::Result<()> {
    let kubectl = lab.kubectl();
    let definition = publish(lab)?;
    kubectl.apply(&[cluster_catalog(CATALOG, "Available", CATALOG_IMAGE)])?;
    serving(kubectl, CATALOG, "True")?;

    // The namespace is never created for the user.
    kubectl.apply(&[extension(FIRST)])?;
    let waiting = wait(kubectl, "the missing namespace to be reported", |it| {
        is(it, "Progressing", "True", RETRYING) && message(it, "Progressing").contains(NAMESPACE)
    })?;
    ensure!(
        condition(&waiting, "Installed").is_none_or(|it| it["status"] != "True"),
        "{waiting}"
    );
    let namespace = lab.namespace(NAMESPACE)?;
    let first = installed(kubectl, FIRST)?;
    let image = format!("olm.local/{PACKAGE}-bundle:v{FIRST}");
    ensure!(
        message(&first, "Installed") == format!("Installed bundle {image} successfully")
            && message(&first, "Progressing") == "Desired state reached"
            && text(&first, "/status/install/bundle/name") == csv(FIRST),
        "{first}"
    );
    namespace.wait_for("deployment", PACKAGE, "to be available", |it| {
        it["status"]["availableReplicas"] == 1
    })?;
    ensure!(
        kubectl.get(&["crd", &definition])?.is_some(),
        "{definition} is not there"
    );
    revision(kubectl, 1, "to have succeeded", |it| {
        it["spec"]["lifecycleState"] == "Active" && is(it, "Succeeded", "True", SUCCEEDED)
    })?;

    // The commands of the plugin.
    let listed = says(lab, &["get", "extension", PACKAGE])?;
    ensure!(listed.contains(&csv(FIRST)) && listed.contains(FIRST), "{listed}");
    let found = says(
        lab,
        &["search", "catalog", "--package", PACKAGE, "--list-versions"],
    )?;
    ensure!(found.contains(FIRST) && found.contains(SECOND), "{found}");
    let tree = says(lab, &["status", PACKAGE])?;
    ensure!(tree.contains("ClusterObjectSet parrot-1: Active"), "{tree}");
    let plan = says(lab, &["plan", PACKAGE, "--version", SECOND])?;
    let upgrade = format!(
        "upgrade  {} to {} from ClusterCatalog {CATALOG}",
        csv(FIRST),
        csv(SECOND)
    );
    let removal = format!("\n  - ConfigMap {NAMESPACE}/{PERCH}\n");
    ensure!(plan.contains(&upgrade) && plan.contains(&removal), "{plan}");

    // What somebody deletes comes back.
    for (kind, name) in [("configmap", PERCH), ("serviceaccount", PACKAGE)] {
        let found = namespace.get(kind, name)?.unwrap_or_default();
        let uid = text(&found, "/metadata/uid");
        ensure!(!uid.is_empty(), "{kind} {name} is not there");
        kubectl.run(&["delete", kind, name, "-n", NAMESPACE])?;
        namespace.wait_for(kind, name, "to be back", |it| text(it, "/metadata/uid") != uid)?;
    }

    // A version that does not exist changes nothing.
    kubectl.apply(&[extension("9.9.9")])?;
    let refused = wait(kubectl, "the missing version to be reported", |it| {
        message(it, "Progressing").contains("9.9.9")
    })?;
    let expected = format!("no bundles found for package \"{PACKAGE}\" matching version \"9.9.9\"");
    ensure!(
        is(&refused, "Progressing", "True", RETRYING)
            && message(&refused, "Progressing").ends_with(&expected)
            && is(&refused, "Installed", "True", SUCCEEDED)
            && text(&refused, "/status/install/bundle/version") == FIRST,
        "{refused}"
    );

    kubectl.apply(&[extension(SECOND)])?;
    installed(kubectl, SECOND)?;
    revision(kubectl, 1, "to be archived", |it| {
        it["spec"]["lifecycleState"] == "Archived" && is(it, "Progressing", "False", "Archived")
    })?;
    revision(kubectl, 2, "to be the active one", |it| {
        it["spec"]["lifecycleState"] == "Active" && is(it, "Succeeded", "True", SUCCEEDED)
    })?;
    gone(kubectl, &["configmap", "-n", NAMESPACE, PERCH])?;
    namespace.wait_for("deployment", PACKAGE, "to run the second version", |it| {
        let image = text(it, "/spec/template/spec/containers/0/image");
        image.ends_with(SECOND) && it["status"]["availableReplicas"] == 1
    })?;

    says(lab, &["delete", "extension", PACKAGE, "--yes"])?;
    for left in [
        &["clusterobjectset", "parrot-1"][..],
        &["clusterobjectset", "parrot-2"],
        &["deployment", "-n", NAMESPACE, PACKAGE],
        &["serviceaccount", "-n", NAMESPACE, PACKAGE],
        &["crd", &definition],
    ] {
        gone(kubectl, left)?;
    }
    kubectl.run(&["delete", "clustercatalog", CATALOG, KUBECTL_TIMEOUT])?;
    Ok(())
}

/// Publishes the package with two versions and its catalog. Returns the name of its CustomResourceDefinition.
fn publish(lab: &Lab) -> anyhow::Result<String> {
    // The operator's image is published with the demo.
    lab.demo_catalog()?;
    let home = lab.folder(&format!("{PACKAGE}-bundles"))?;
    let first = Variant::new(PACKAGE, &home.join(FIRST))?;
    let second = first.copy_to(&home.join(SECOND))?;
    second.edit(CSV_FILE, |csv| csv.replace(FIRST, SECOND))?;
    let perch = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PERCH}, "data": {"height": "2 m"}});
    first.add("manifests/perch.configmap.yaml", &perch.to_string())?;
    let mut package = first.package(&first.image(&format!("v{FIRST}")));
    let other = second.package(&second.image(&format!("v{SECOND}")));
    package.bundles.extend(other.bundles);
    for (_, entries) in &mut package.channels {
        entries.push(Entry {
            name: csv(SECOND),
            replaces: Some(csv(FIRST)),
            ..Entry::default()
        });
    }
    lab.publish(PACKAGE, &[package], CATALOG_IMAGE)?;
    Ok(first.definition())
}

/// Returns what a command of `kubectl operator olmv1` says.
fn says(lab: &Lab, arguments: &[&str]) -> anyhow::Result<String> {
    let output = lab
        .cluster()
        .command(plugin::program()?)
        .arg("olmv1")
        .args(arguments)
        .env("OPM_REGISTRY_CONFIG", lab.cluster().registry_config())
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "olmv1 {}: {text}{errors}",
        arguments.join(" ")
    );
    Ok(text)
}

/// Returns the name of the bundle of a version.
fn csv(version: &str) -> String {
    format!("{PACKAGE}.v{version}")
}

/// Returns the ClusterExtension with a wanted version.
fn extension(version: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": PACKAGE},
        "spec": {
            "namespace": NAMESPACE,
            "source": {"sourceType": "Catalog", "catalog": {"packageName": PACKAGE, "version": version}}
        }
    })
}

/// Returns the ClusterExtension once `seen` accepts it.
fn wait(kubectl: &Destination, what: &str, seen: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    let what = format!("ClusterExtension {PACKAGE}: {what}");
    object(kubectl, &["clusterextension", PACKAGE], &what, seen)
}

/// Returns the ClusterExtension once it has installed a version.
fn installed(kubectl: &Destination, version: &str) -> anyhow::Result<Value> {
    wait(kubectl, &format!("{version} to be installed"), |it| {
        has_installed(it, version)
    })
}

/// Returns a revision once `seen` accepts it.
fn revision(
    kubectl: &Destination,
    number: u32,
    what: &str,
    seen: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let name = format!("{PACKAGE}-{number}");
    let what = format!("ClusterObjectSet {name}: {what}");
    object(kubectl, &["clusterobjectset", &name], &what, seen)
}
