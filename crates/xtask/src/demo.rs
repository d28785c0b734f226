//! `cargo xtask demo`: runs OLM's main job, from an empty namespace to an upgraded operator.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::catalog::{Bundle, Entry, Opm, Package};
use crate::kubectl::{Destination, text};
use crate::progress::Progress;
use crate::{cluster, files, manifest, workspace};

/// Namespace of the demo.
pub const NAMESPACE: &str = "demo";
/// Package name of the demo operator.
pub const PACKAGE: &str = "demo-operator";
/// Image of the demo catalog, before it is moved to another registry.
pub const CATALOG_IMAGE: &str = "olm.local/demo-catalog:latest";

const PATIENCE: Duration = Duration::from_secs(240);

/// Returns the package with the bundles of this repository, in one channel.
pub fn package() -> Package {
    let bundle = |version: &str| Bundle {
        folder: bundle_folder(version),
        image: format!("{}demo-operator-bundle:v{version}", manifest::IMAGE_PREFIX),
    };
    let first = format!("{PACKAGE}.v1.0.0");
    Package {
        name: PACKAGE.to_owned(),
        default_channel: "stable".to_owned(),
        channels: vec![(
            "stable".to_owned(),
            vec![
                Entry {
                    name: first.clone(),
                    ..Entry::default()
                },
                Entry {
                    name: format!("{PACKAGE}.v1.1.0"),
                    replaces: Some(first),
                    ..Entry::default()
                },
            ],
        )],
        bundles: vec![bundle("1.0.0"), bundle("1.1.0")],
    }
}

fn bundle_folder(version: &str) -> PathBuf {
    workspace::root().join("e2e/demo-operator/bundles").join(version)
}

/// Builds the bundle images and the catalog image and pushes them to the registry from which `destination` pulls. All references in
/// them are to that registry.
///
/// # Errors
/// opm or a push fails.
pub fn publish(opm: &Opm, opm_image: &Path, destination: &Destination) -> anyhow::Result<()> {
    let folder = workspace::root().join("target/demo");
    fs::create_dir_all(&folder)?;
    let mut package = package();
    for (number, bundle) in package.bundles.iter_mut().enumerate() {
        let tar = folder.join(format!("bundle-{number}.tar"));
        let name = bundle.image.clone();
        if let Some(registry) = destination.registry() {
            let copy = folder.join(format!("bundle-{number}"));
            copy_texts(&bundle.folder, &copy, &|text| {
                manifest::rename_images_in_text(text, registry)
            })?;
            bundle.folder = copy;
            bundle.image = manifest::rename_images_in_text(&name, registry);
        }
        opm.bundle_image(bundle, &tar)?;
        destination.push(&tar, &name)?;
    }
    let catalog = folder.join("catalog");
    opm.write_catalog(&[package], &catalog)?;
    let tar = folder.join("catalog.tar");
    opm.catalog_image(&catalog, opm_image, CATALOG_IMAGE, &tar)?;
    destination.push(&tar, CATALOG_IMAGE)
}

/// Copies a folder of text files, each after `change`.
///
/// # Errors
/// A file is not text or cannot be read, or a copy cannot be written.
pub fn copy_texts(from: &Path, to: &Path, change: &dyn Fn(&str) -> String) -> anyhow::Result<()> {
    for (name, file) in files::below(from)? {
        let copy = to.join(name);
        fs::create_dir_all(copy.parent().unwrap_or(to))?;
        fs::write(&copy, change(&files::read(&file)?))
            .with_context(|| format!("cannot write {}", copy.display()))?;
    }
    Ok(())
}

/// Writes the first bundle to `folder` under another name: package, ClusterServiceVersion, Deployment, ServiceAccount, and group of its
/// kind. The operator's image is the same, so it runs.
///
/// # Errors
/// The errors of [`copy_texts`].
pub fn write_variant(name: &str, folder: &Path) -> anyhow::Result<()> {
    copy_texts(&bundle_folder("1.0.0"), folder, &|text| renamed(text, name))
}

fn renamed(text: &str, name: &str) -> String {
    const IMAGE: &str = "olm.local/demo-operator:";
    text.replace(IMAGE, "\0")
        .replace("demo-operator", name)
        .replace("demo.example.com", &format!("{name}.example.com"))
        .replace('\0', IMAGE)
}

/// Returns the objects that a user creates for the operator in a namespace: this, catalog, group, subscription.
pub(crate) fn user_objects(namespace: &str, approval: &str) -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "demo-catalog", "namespace": namespace},
            "spec": {"sourceType": "grpc", "image": CATALOG_IMAGE, "displayName": "Demo catalog", "publisher": "OLM in Rust",
                     "grpcPodConfig": {"securityContextConfig": "restricted"}}
        }),
        json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "demo", "namespace": namespace},
            "spec": {"targetNamespaces": [namespace]}
        }),
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "demo-operator", "namespace": namespace},
            "spec": {"name": PACKAGE, "channel": "stable", "source": "demo-catalog", "sourceNamespace": namespace,
                     "startingCSV": format!("{PACKAGE}.v1.0.0"), "installPlanApproval": approval}
        }),
    ]
}

/// Runs the main job on `destination`, where OLM is deployed and the images are published.
///
/// # Errors
/// A step does not complete in time; the error has the last observed state.
pub(crate) fn run(destination: &Destination, progress: &Progress) -> anyhow::Result<()> {
    let mut objects = user_objects(NAMESPACE, "Manual");
    if let Some(registry) = destination.registry() {
        objects = manifest::rename_images(&objects, registry)?;
    }
    progress.stage(
        "namespace, CatalogSource, OperatorGroup and Subscription (Manual) created",
        || destination.apply(&objects),
    )?;
    progress.stage("catalog connected: CatalogSource READY", || {
        let catalog = ["catalogsource", "-n", NAMESPACE, "demo-catalog"];
        destination.wait_for(&catalog, "demo-catalog to be READY", PATIENCE, |catalog| {
            text(catalog, "/status/connectionState/lastObservedState") == "READY"
        })
    })?;

    for version in ["1.0.0", "1.1.0"] {
        let csv = format!("{PACKAGE}.v{version}");
        let plan = progress.stage(&format!("InstallPlan for {csv} waits for approval"), || {
            wait_for_plan(destination, &csv)
        })?;
        progress.stage(&format!("{plan} approved by hand"), || {
            destination.run(&[
                "patch",
                "installplan",
                &plan,
                "-n",
                NAMESPACE,
                "--type",
                "merge",
                "-p",
                r#"{"spec":{"approved":true}}"#,
            ])
        })?;
        progress.stage(&format!("{csv} Succeeded"), || {
            let get = ["csv", "-n", NAMESPACE, &csv];
            destination.wait_for(&get, &format!("{csv} to succeed"), PATIENCE, |csv| {
                text(csv, "/status/phase") == "Succeeded"
            })
        })?;
        if version == "1.0.0" {
            let greeting = json!({
                "apiVersion": "demo.example.com/v1", "kind": "Greeting",
                "metadata": {"name": "ada", "namespace": NAMESPACE}, "spec": {"name": "Ada"}
            });
            destination.apply(&[greeting])?;
        }
        progress.stage(
            &format!("the operator's Greeting was answered by release {version}"),
            || {
                let get = ["greeting", "-n", NAMESPACE, "ada"];
                destination.wait_for(&get, "Greeting ada to be answered", PATIENCE, |greeting| {
                    text(greeting, "/status/operatorRelease") == version
                })
            },
        )?;
    }
    progress.stage("the old ClusterServiceVersion is gone", || {
        destination.wait_until_gone(&["csv", "-n", NAMESPACE, "demo-operator.v1.0.0"], PATIENCE)
    })
}

/// Prints the objects of the demo with kubectl, their state with the plugin, and the next steps. These depend on the embedded
/// cluster `cluster_name`, if it is one. They also depend on whether the demo `deployed` OLM.
///
/// # Errors
/// kubectl or the plugin fails, or the plugin does not find the operator ready.
pub(crate) fn show(
    destination: &Destination,
    plugin: &Path,
    cluster_name: Option<&str>,
    deployed: bool,
) -> anyhow::Result<()> {
    for kinds in [
        "catalogsource",
        "subscription",
        "installplan",
        "csv",
        "deployment,pod",
        "greeting",
    ] {
        println!("\n$ kubectl get {kinds} -n {NAMESPACE}");
        print!("{}", destination.run(&["get", kinds, "-n", NAMESPACE])?);
    }
    println!("\n$ kubectl operator status -n {NAMESPACE}");
    print!("{}", status(destination, plugin)?);
    println!("\n{}", how_to_go_on(cluster_name, deployed));
    Ok(())
}

/// Returns what the plugin prints about the operator of the demo as soon as it finds it ready.
///
/// # Errors
/// The plugin does not find it ready in time; the error has what it printed last.
fn status(destination: &Destination, plugin: &Path) -> anyhow::Result<String> {
    destination.wait(
        "`kubectl operator status` to find the operator ready",
        PATIENCE,
        |destination| {
            let output = destination
                .plugin(plugin, &["status", "-n", NAMESPACE])
                .output()
                .with_context(|| format!("cannot run {}", plugin.display()))?;
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(if output.status.success() {
                Ok(printed)
            } else {
                Err(format!("{printed}{}", String::from_utf8_lossy(&output.stderr)))
            })
        },
    )
}

/// Returns the next steps. Removing the cluster is only suggested if the demo deployed OLM.
fn how_to_go_on(cluster_name: Option<&str>, deployed: bool) -> String {
    let delete = format!("kubectl delete namespace {NAMESPACE}");
    let Some(name) = cluster_name else {
        return format!("To remove what the demo made:\n  {delete}");
    };
    let flag = cluster::flag(name);
    let removal = if deployed {
        format!("To stop it and remove everything:\n  cargo xtask cluster down{flag}")
    } else {
        format!("To remove what the demo made:\n  cargo xtask cluster exec{flag} -- {delete}")
    };
    format!(
        "The cluster is still running. To look around:\n  \
         cargo xtask cluster exec{flag} -- kubectl get csv,sub,installplan,catalogsource -A\n  \
         cargo xtask cluster exec{flag} -- kubectl operator list -A\n  \
         cargo xtask cluster exec{flag} -- bash    # with all that the guides in docs/guides use\n\
         {removal}"
    )
}

fn wait_for_plan(destination: &Destination, csv: &str) -> anyhow::Result<String> {
    destination.wait(&format!("an InstallPlan for {csv}"), PATIENCE, |destination| {
        let plans = destination
            .get(&["installplan", "-n", NAMESPACE])?
            .unwrap_or_default();
        let found = plans["items"].as_array().into_iter().flatten().find(|plan| {
            plan["spec"]["clusterServiceVersionNames"]
                .as_array()
                .is_some_and(|names| names.iter().any(|name| name == csv))
                && text(plan, "/status/phase") == "RequiresApproval"
        });
        if let Some(plan) = found {
            return Ok(Ok(text(plan, "/metadata/name").to_owned()));
        }
        let subscription = destination
            .get(&["subscription", "-n", NAMESPACE, "demo-operator"])?
            .unwrap_or_default();
        let conditions = &subscription["status"]["conditions"];
        Ok(Err(format!(
            "Subscription state `{}`, conditions {conditions}",
            text(&subscription, "/status/state")
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_with_another_olm_is_not_reported_as_removed() {
        let down = "cargo xtask cluster down";
        let with_ours = how_to_go_on(Some("a"), true);
        assert!(with_ours.ends_with(&format!("{down} --name a")), "{with_ours}");
        let delete = "kubectl delete namespace demo";
        for (name, start) in [
            (Some("default"), "cargo xtask cluster exec -- "),
            (Some("a"), "cargo xtask cluster exec --name a -- "),
            (None, "  "),
        ] {
            let told = how_to_go_on(name, false);
            assert!(told.ends_with(&format!("{start}{delete}")), "{told}");
            assert!(!told.contains(down), "{told}");
        }
    }

    #[test]
    fn the_bundles_of_the_package_exist_and_name_their_version() {
        for (bundle, (_, entries)) in package()
            .bundles
            .iter()
            .zip(std::iter::repeat(&package().channels[0]))
        {
            let csv = bundle
                .folder
                .join("manifests/demo-operator.clusterserviceversion.yaml");
            let objects = manifest::read_folder(csv.parent().unwrap()).unwrap();
            let csv = objects
                .iter()
                .find(|object| object["kind"] == "ClusterServiceVersion")
                .unwrap();
            assert!(
                entries
                    .iter()
                    .any(|entry| csv["metadata"]["name"] == entry.name.as_str())
            );
        }
    }
}
