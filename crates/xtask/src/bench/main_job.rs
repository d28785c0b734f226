//! `cargo xtask bench`: prints the figures of the main job next to upstream's.
//!
//! Times come from watches, so they include the delivery to this process. Requests come from the API server's audit log. A missed
//! target is printed and is no error.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::memory::{field, process_of};
use super::table::{counts, heading, is_ready_pod, median, row};
use crate::args::BenchOptions;
use crate::catalog::Opm;
use crate::cluster::audit::{AuditEvent, AuditTail};
use crate::cluster::{Cluster, UpOptions};
use crate::kubectl::{Destination, text};
use crate::progress::Progress;
use crate::watch::Sightings;
use crate::{demo, deploy, images};

const PATIENCE: Duration = Duration::from_secs(120);
/// Accounts whose requests are counted.
pub(super) const ACCOUNTS: [&str; 2] = [
    "system:serviceaccount:olm:catalog-operator",
    "system:serviceaccount:olm:olm-operator",
];

/// One run of the main job.
#[derive(Debug, Clone, Default)]
struct Run {
    catalog_ready: Duration,
    catalog_after_pod: Duration,
    plan: Duration,
    succeeded: Duration,
    succeeded_after_pod: Duration,
    requests: usize,
    writes: usize,
    conflicts: usize,
    at_rest: usize,
}

/// Runs the main job several times and prints the medians.
///
/// # Errors
/// The main job fails.
pub(super) fn run(options: &BenchOptions) -> anyhow::Result<ExitCode> {
    crate::interrupt::watch()?;
    let progress = Progress::start();
    let cluster = Cluster::up(&options.cluster.name, UpOptions::default(), &progress)?;
    let built = images::build(images::Profile::Release, &progress)?;
    built.load(&cluster, &progress)?;
    let destination = Destination::Embedded(cluster.clone());
    deploy::deploy(&destination, &built, None, &progress)?;
    demo::publish(
        &Opm::new(built.opm_program()),
        &built.opm_image(),
        None,
        |tar, reference| cluster.load(tar, &[reference.to_owned()]).map(|_| ()),
    )?;

    let mut runs = Vec::new();
    let mut memory = Vec::new();
    // The first run pulls images and is not counted.
    for number in 0..=options.runs {
        let run = progress.stage(&format!("run {number} of {}", options.runs), || {
            let namespace = format!("bench-{number}");
            let run = main_job(&cluster, &destination, &namespace)?;
            if number == options.runs {
                memory = read_memory(&destination, &namespace)?;
            }
            destination.run(&["delete", "namespace", &namespace, "--wait=true"])?;
            Ok(run)
        })?;
        if number > 0 {
            runs.push(run);
        }
    }
    print_table(&runs, &memory);
    Ok(ExitCode::SUCCESS)
}

fn main_job(cluster: &Cluster, destination: &Destination, namespace: &str) -> anyhow::Result<Run> {
    destination
        .apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})])?;
    let kinds = ["catalogsource", "pod", "subscription", "installplan", "csv"];
    let sightings = Sightings::start(destination, namespace, &kinds)?;
    // Watches must be established before the events that they observe.
    std::thread::sleep(Duration::from_secs(2));
    let mut log = AuditTail::of_olm(&cluster.audit_log())?;
    let counted = |event: &AuditEvent| counts(event, &ACCOUNTS);

    let mut objects: Vec<Value> = demo::user_objects("Automatic")
        .into_iter()
        .filter(|object| object["kind"] != "Namespace")
        .map(|mut object| {
            object["metadata"]["namespace"] = json!(namespace);
            if object["kind"] == "OperatorGroup" {
                object["spec"]["targetNamespaces"] = json!([namespace]);
            }
            if object["kind"] == "Subscription" {
                object["spec"]["sourceNamespace"] = json!(namespace);
            }
            object
        })
        .collect();
    let mut subscription = objects.pop().context("the demo has no Subscription")?;
    // Installs one bundle, the newest, as in the baseline.
    if let Some(spec) = subscription["spec"].as_object_mut() {
        spec.remove("startingCSV");
    }
    destination.apply(&objects)?;
    let first = |kind: &str| sightings.wait(kind, PATIENCE, |sighting| sighting.object["kind"] == kind);
    let catalog = first("CatalogSource")?.at;
    let ready = sightings.wait("the catalog to be READY", PATIENCE, |sighting| {
        text(&sighting.object, "/status/connectionState/lastObservedState") == "READY"
    })?;
    let catalog_pod = sightings.wait("the catalog's pod", PATIENCE, |sighting| {
        is_ready_pod(&sighting.object)
            && sighting.object["metadata"]["labels"]
                .get("olm.catalogSource")
                .is_some()
    })?;

    destination.apply(&[subscription])?;
    let subscribed = first("Subscription")?.at;
    let plan = first("InstallPlan")?.at;
    let succeeded = sightings.wait("the CSV to succeed", PATIENCE, |sighting| {
        sighting.object["kind"] == "ClusterServiceVersion"
            && text(&sighting.object, "/status/phase") == "Succeeded"
    })?;
    let operator_pod = sightings.wait("the operator's pod", PATIENCE, |sighting| {
        is_ready_pod(&sighting.object)
            && sighting.object["metadata"]["labels"]
                .get("olm.catalogSource")
                .is_none()
    })?;
    // Requests after Succeeded, such as the Subscription's last status, belong to the job.
    std::thread::sleep(Duration::from_secs(3));
    let ours: Vec<_> = log.read()?.into_iter().filter(counted).collect();
    std::thread::sleep(Duration::from_secs(10));
    let at_rest = log.read()?.into_iter().filter(counted).count();
    Ok(Run {
        catalog_ready: ready.at - catalog,
        catalog_after_pod: ready.at.saturating_duration_since(catalog_pod.at),
        plan: plan.saturating_duration_since(subscribed),
        succeeded: succeeded.at - subscribed,
        succeeded_after_pod: succeeded.at.saturating_duration_since(operator_pod.at),
        requests: ours.len(),
        writes: ours
            .iter()
            .filter(|event| event.verb != "get" && event.verb != "list" && event.verb != "watch")
            .count(),
        conflicts: ours
            .iter()
            .filter(|event| {
                event
                    .response_status
                    .as_ref()
                    .is_some_and(|status| status.code == 409)
            })
            .count(),
        at_rest,
    })
}

/// Memory of one process, in MiB.
#[derive(Debug, Clone, PartialEq)]
struct Memory {
    program: &'static str,
    resident: f64,
    anonymous: f64,
    peak: f64,
}

fn read_memory(destination: &Destination, namespace: &str) -> anyhow::Result<Vec<Memory>> {
    let wanted = [
        ("olm-operator", "olm", "app=olm-operator"),
        ("catalog-operator", "olm", "app=catalog-operator"),
        ("opm", namespace, "olm.catalogSource"),
    ];
    let mut found = Vec::new();
    for (program, namespace, selector) in wanted {
        let process = process_of(destination, program, namespace, selector)?;
        found.push(Memory {
            program,
            resident: field(&process, "VmRSS")?,
            anonymous: field(&process, "RssAnon")?,
            peak: field(&process, "VmHWM")?,
        });
    }
    Ok(found)
}

fn print_table(runs: &[Run], memory: &[Memory]) {
    let seconds =
        |pick: fn(&Run) -> Duration| median(runs.iter().map(|run| pick(run).as_secs_f64()).collect());
    let number = |pick: fn(&Run) -> usize| median(runs.iter().map(|run| pick(run) as f64).collect());
    heading();
    row(
        "P1",
        "CatalogSource created to READY, s",
        "11.3 to 17.9",
        None,
        seconds(|run| run.catalog_ready),
    );
    row(
        "",
        "  of that after the pod was Ready, s",
        "",
        Some(0.1),
        seconds(|run| run.catalog_after_pod),
    );
    row(
        "P2",
        "Subscription to InstallPlan, s",
        "10.2 to 10.7",
        Some(0.1),
        seconds(|run| run.plan),
    );
    row(
        "P3",
        "Subscription to CSV Succeeded, s",
        "12.9 to 13.9",
        None,
        seconds(|run| run.succeeded),
    );
    row(
        "",
        "  of that after the pod was Ready, s",
        "",
        Some(0.1),
        seconds(|run| run.succeeded_after_pod),
    );
    row(
        "P4",
        "API requests of all components",
        "719",
        Some(50.0),
        number(|run| run.requests),
    );
    row(
        "",
        "  of them writes",
        "195",
        Some(42.0),
        number(|run| run.writes),
    );
    row(
        "",
        "  of them answered 409",
        "18",
        Some(0.0),
        number(|run| run.conflicts),
    );
    row(
        "P5",
        "API requests in 10 s at rest",
        "0 to 2 a minute",
        Some(0.0),
        number(|run| run.at_rest),
    );
    for process in memory {
        let (upstream, resident, anonymous) = match process.program {
            "olm-operator" => ("87 / 32", 16.0, 5.0),
            "catalog-operator" => ("74 / 31", 16.0, 5.0),
            _ => ("51 / 13", 8.0, 1.0),
        };
        row(
            "P6",
            &format!("{} VmRSS, MiB", process.program),
            upstream,
            Some(resident),
            process.resident,
        );
        row(
            "",
            &format!("{} RssAnon, MiB", process.program),
            "",
            Some(anonymous),
            process.anonymous,
        );
        println!(
            "{:<4} {:<52} {:>16} {:>12} {:>9.2}",
            "",
            format!("{} peak, MiB", process.program),
            "",
            "",
            process.peak
        );
    }
}
