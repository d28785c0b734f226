//! `cargo xtask bench churn`: measures whether memory is released after many installs and removals.
//!
//! The packages are generated. Each has a CustomResourceDefinition and a ClusterServiceVersion of a different size, as in real
//! catalogs, and a Deployment without pods. Thus only the work of OLM is measured. Before and after, the cluster contains only
//! the catalog and the default objects of each namespace.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::deployed::Deployed;
use super::memory::{Peak, field, process_of};
use crate::args::ChurnOptions;
use crate::catalog::{Bundle, Entry, Opm, Package};
use crate::cluster::Cluster;
use crate::deploy::OPERATORS;
use crate::kubectl::{Destination, text};
use crate::progress::Progress;
use crate::{images, manifest, workspace};

const NAMESPACE: &str = "bench-churn";
const CATALOG: &str = "olm.local/churn-catalog:latest";
const PATIENCE: Duration = Duration::from_secs(180);
/// Maximum of the memory afterwards, as a multiple of the memory before.
const GOAL: f64 = 1.3;
/// Delay before the first measurement, in which memory of the start is released.
const SETTLE: Duration = Duration::from_secs(10);
/// Delay before the last measurement.
const REST: Duration = Duration::from_secs(60);

/// Anonymous memory of one operator, in MiB.
#[derive(Debug, Clone)]
struct Row {
    program: &'static str,
    before: f64,
    peak: f64,
    after: f64,
}

/// Installs and removes packages, and prints the table. A missed target is printed and is no error.
///
/// # Errors
/// A package is not installed or removed in time.
pub(super) fn run(options: &ChurnOptions) -> anyhow::Result<ExitCode> {
    crate::interrupt::watch()?;
    let progress = Progress::start();
    let deployed = Deployed::on(&options.cluster.name, images::given_or_built, &progress)?;
    let Deployed {
        cluster,
        destination,
        built,
    } = &deployed;
    let names: Vec<String> = (0..=options.packages)
        .map(|number| format!("churn-{number:03}"))
        .collect();
    progress.stage(&format!("{} packages published", names.len()), || {
        publish(
            cluster,
            &Opm::new(built.opm_program()),
            &built.opm_image(),
            &names,
        )
    })?;
    progress.stage("operators started anew", || deployed.restart(&progress))?;
    progress.stage("catalog READY", || subscribe_catalog(destination))?;
    // The first use allocates memory that stays: mapped code, connections, the catalog's content. It counts as memory before.
    progress.stage("one package installed and removed", || {
        turn(destination, &names[..1])
    })?;
    std::thread::sleep(SETTLE);

    let mut watched = Vec::new();
    for program in OPERATORS {
        let process = process_of(destination, program, "olm", &format!("app={program}"))?;
        watched.push((
            program,
            field(&process, "RssAnon")?,
            Peak::of(process.clone()),
            process,
        ));
    }
    let began = Instant::now();
    let (_, rest) = names.split_at(1);
    for (number, batch) in rest.chunks(options.at_once.max(1)).enumerate() {
        turn(destination, batch)?;
        let done = (number * options.at_once + batch.len()).min(rest.len());
        if number % 10 == 9 {
            progress.note(&format!("{done} of {} installed and removed", rest.len()));
        }
    }
    progress.done(
        &format!("{} packages installed and removed", rest.len()),
        began.elapsed(),
    );
    progress.stage("rest", || {
        std::thread::sleep(REST);
        Ok(())
    })?;
    let left = destination.run(&["get", "crd", "-o", "name"])?;
    let left = left
        .lines()
        .filter(|name| name.contains("/things.churn-"))
        .count();
    if left > 0 {
        progress.note(&format!("{left} definitions are still being deleted"));
    }
    let rows = watched
        .into_iter()
        .map(|(program, before, peak, process)| {
            Ok(Row {
                program,
                before,
                peak: peak.mib(),
                after: field(&process, "RssAnon")?,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    destination.run(&["delete", "namespace", NAMESPACE, "--wait=true"])?;
    print(&rows, rest.len());
    Ok(ExitCode::SUCCESS)
}

fn print(rows: &[Row], packages: usize) {
    println!(
        "RssAnon in MiB, {packages} packages installed and removed\n{:<18} {:>8} {:>8} {:>16} {:>8}",
        "", "before", "peak", "a minute after", "ratio"
    );
    for row in rows {
        let ratio = row.after / row.before;
        let mark = if ratio > GOAL { "  MISS" } else { "" };
        println!(
            "{:<18} {:>8.1} {:>8.1} {:>16.1} {ratio:>8.2}{mark}",
            row.program, row.before, row.peak, row.after
        );
    }
}

fn subscribe_catalog(destination: &Destination) -> anyhow::Result<()> {
    destination.run(&[
        "delete",
        "namespace",
        NAMESPACE,
        "--ignore-not-found",
        "--wait=true",
    ])?;
    destination.apply(&[
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "churn", "namespace": NAMESPACE},
            "spec": {"sourceType": "grpc", "image": CATALOG, "grpcPodConfig": {"securityContextConfig": "restricted"}}
        }),
        json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "churn", "namespace": NAMESPACE}, "spec": {"targetNamespaces": [NAMESPACE]}
        }),
    ])?;
    destination.wait("the catalog to be READY", PATIENCE, |destination| {
        let catalog = destination
            .get(&["catalogsource", "churn", "-n", NAMESPACE])?
            .unwrap_or_default();
        let state = text(&catalog, "/status/connectionState/lastObservedState");
        Ok(if state == "READY" {
            Ok(())
        } else {
            Err(format!("{state:?}"))
        })
    })
}

/// Installs `packages` concurrently, waits until they have succeeded, and removes everything that they created.
fn turn(destination: &Destination, packages: &[String]) -> anyhow::Result<()> {
    let subscriptions: Vec<Value> = packages
        .iter()
        .map(|name| {
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"name": name, "channel": "stable", "source": "churn", "sourceNamespace": NAMESPACE}
            })
        })
        .collect();
    destination.apply(&subscriptions)?;
    destination.wait(&format!("{packages:?} to succeed"), PATIENCE, |destination| {
        // Only the phases are read, because ClusterServiceVersions are large.
        let phases = destination.run(&[
            "get",
            "csv",
            "-n",
            NAMESPACE,
            "-o",
            "jsonpath={range .items[*]}{.metadata.name}={.status.phase} {end}",
        ])?;
        let missing = packages
            .iter()
            .filter(|name| !phases.contains(&format!("{name}.v1.0.0=Succeeded")))
            .count();
        Ok(if missing == 0 { Ok(()) } else { Err(phases) })
    })?;
    let kinds = "subscription,csv,installplan";
    destination.run(&["delete", kinds, "--all", "-n", NAMESPACE, "--wait=true"])?;
    let definitions: Vec<String> = packages.iter().map(|name| definition(name)).collect();
    // Deletion is not awaited, because no definition is used twice. The API server may take minutes for one: cleanup fails while
    // the storage is still being set up, and its retry comes late.
    let mut arguments = vec!["delete", "crd", "--wait=false"];
    arguments.extend(definitions.iter().map(String::as_str));
    destination.run(&arguments)?;
    Ok(())
}

fn publish(cluster: &Cluster, opm: &Opm, base: &Path, names: &[String]) -> anyhow::Result<()> {
    let folder = workspace::root().join("target/churn");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut packages = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let home = folder.join(name);
        write_bundle(&home, name, number)?;
        let bundle = Bundle {
            folder: home,
            image: format!("{}{name}-bundle:v1", manifest::IMAGE_PREFIX),
        };
        let tar = folder.join("bundle.tar");
        opm.bundle_image(&bundle, &tar)?;
        cluster.load(&tar, std::slice::from_ref(&bundle.image))?;
        let entry = Entry {
            name: format!("{name}.v1.0.0"),
            ..Entry::default()
        };
        packages.push(Package {
            name: name.clone(),
            default_channel: "stable".to_owned(),
            channels: vec![("stable".to_owned(), vec![entry])],
            bundles: vec![bundle],
        });
    }
    let catalog = folder.join("catalog");
    opm.write_catalog(&packages, &catalog)?;
    let tar = folder.join("catalog.tar");
    opm.catalog_image(&catalog, base, CATALOG, &tar)?;
    cluster.load(&tar, &[CATALOG.to_owned()])?;
    Ok(())
}

fn definition(name: &str) -> String {
    format!("things.{name}.example.com")
}

/// Writes a bundle folder. Sizes range from 10 to 200 KiB and vary from one to the next, so that freed blocks do not always fit.
fn write_bundle(folder: &Path, name: &str, number: usize) -> anyhow::Result<()> {
    let size = (number * 7919) % 190;
    let write = |file: &str, value: &Value| {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, value.to_string()).with_context(|| format!("cannot write {}", path.display()))
    };
    write("manifests/thing.crd.yaml", &crd(name, 20 + size * 5))?;
    write(
        "manifests/operator.clusterserviceversion.yaml",
        &csv(name, 5 + size / 2),
    )?;
    let prefix = "operators.operatorframework.io.bundle";
    write(
        "metadata/annotations.yaml",
        &json!({"annotations": {
            format!("{prefix}.mediatype.v1"): "registry+v1",
            format!("{prefix}.manifests.v1"): "manifests/",
            format!("{prefix}.metadata.v1"): "metadata/",
            format!("{prefix}.package.v1"): name,
            format!("{prefix}.channels.v1"): "stable",
            format!("{prefix}.channel.default.v1"): "stable",
        }}),
    )
}

/// Returns a definition with this number of fields, each of about 120 bytes.
fn crd(name: &str, fields: usize) -> Value {
    let properties: serde_json::Map<String, Value> = (0..fields)
        .map(|number| {
            let text =
                format!("Field {number} of {name}, which says how many of what there should be, and why.");
            (
                format!("field{number:04}"),
                json!({"type": "string", "description": text}),
            )
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": definition(name)},
        "spec": {
            "group": format!("{name}.example.com"), "scope": "Namespaced",
            "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": properties}}
            }}}]
        }
    })
}

/// Returns a ClusterServiceVersion with a description of this many KiB and an operator without pods.
fn csv(name: &str, kib: usize) -> Value {
    let line = format!("{name} looks after things, so that nobody else has to do it every day.\n");
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]});
    let labels = json!({"app": name});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v1.0.0")},
        "spec": {
            "displayName": name, "version": "1.0.0", "description": line.repeat(kib * 1024 / line.len()),
            "installModes": [{"type": "OwnNamespace", "supported": true}],
            "customresourcedefinitions": {"owned": [
                {"name": definition(name), "version": "v1", "kind": "Thing", "displayName": "Thing"}
            ]},
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{"serviceAccountName": name, "rules": [
                    rule(&format!("{name}.example.com"), &["things"]), rule("", &["configmaps", "secrets"])
                ]}],
                "clusterPermissions": [{"serviceAccountName": name, "rules": [rule("", &["namespaces"])]}],
                "deployments": [{"name": name, "spec": {
                    "replicas": 0, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {
                        "serviceAccountName": name,
                        "containers": [{"name": "operator", "image": "olm.local/demo-operator:1.0.0"}]
                    }}
                }}]
            }}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_have_sizes_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut sizes = std::collections::BTreeSet::new();
        for number in 0..20 {
            let home = folder.path().join(number.to_string());
            write_bundle(&home, &format!("churn-{number:03}"), number).unwrap();
            let file = |name: &str| fs::metadata(home.join("manifests").join(name)).unwrap().len();
            sizes.insert(file("thing.crd.yaml") / 100);
            assert!(file("operator.clusterserviceversion.yaml") > 5_000);
        }
        assert_eq!(sizes.len(), 20);
        assert!(sizes.first().unwrap() * 10 < *sizes.last().unwrap(), "{sizes:?}");
    }

    #[test]
    fn what_a_bundle_owns_is_what_it_brings() {
        let csv = csv("churn-001", 5);
        let owned = &csv["spec"]["customresourcedefinitions"]["owned"][0]["name"];
        assert_eq!(*owned, crd("churn-001", 1)["metadata"]["name"]);
    }
}
