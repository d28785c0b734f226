//! `cargo xtask bench`: prints the figures of the main job next to upstream's.
//!
//! Times come from watches, so they include the delivery to this process. Requests come from the API server's audit log. A missed
//! target is printed and is no error.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::Measured;
use super::memory::{field, process_of};
use super::table::{self, counts, is_ready_pod};
use crate::catalog::Opm;
use crate::cluster::audit::{AuditEvent, AuditTail};
use crate::demo;
use crate::kubectl::{Destination, text};
use crate::watch::Sightings;

const PATIENCE: Duration = Duration::from_secs(120);
/// Accounts whose requests are counted.
pub(super) const ACCOUNTS: [&str; 2] = [
    "system:serviceaccount:olm:catalog-operator",
    "system:serviceaccount:olm:olm-operator",
];

/// The figures of a run, in the order of [`main_job`] and [`read_memory`], for [`table::print`].
const ROWS: &str = "\
P1 | CatalogSource created to READY, s                         | 11.3 to 17.9    |
   |   of that after the pod was Ready, s                      |                 | 0.1
P2 | Subscription to InstallPlan, s                            | 10.2 to 10.7    | 0.1
P3 | Subscription to CSV Succeeded, s                          | 12.9 to 13.9    |
   |   of that after the pod was Ready, s                      |                 | 0.1
P4 | API requests of all components                            | 719             | 50
   |   of them writes                                          | 195             | 42
   |   of them answered 409                                    | 18              | 0
P5 | API requests in 10 s at rest                              | 0 to 2 a minute | 0
P6 | olm-operator VmRSS, MiB                                   | 87 / 32         | 16
   | olm-operator RssAnon, MiB                                 |                 | 5
   | olm-operator peak, MiB                                    |                 |
P6 | catalog-operator VmRSS, MiB                               | 74 / 31         | 16
   | catalog-operator RssAnon, MiB                             |                 | 5
   | catalog-operator peak, MiB                                |                 |
P6 | opm VmRSS, MiB                                            | 51 / 13         | 8
   | opm RssAnon, MiB                                          |                 | 1
   | opm peak, MiB                                             |                 |";

/// Runs the main job several times and prints the medians.
///
/// # Errors
/// The main job fails.
pub(super) fn run(name: &str) -> anyhow::Result<()> {
    let measured = Measured::set_up(name)?;
    let Measured {
        cluster,
        destination,
        built,
        ..
    } = &measured;
    demo::publish(&Opm::new(built.opm_program()), &built.opm_image(), destination)?;
    let figures = measured.repeat(|number| {
        let namespace = format!("bench-{number}");
        let mut figures = main_job(&cluster.audit_log(), destination, &namespace)?;
        figures.extend(read_memory(destination, &namespace)?);
        destination.run(&["delete", "namespace", &namespace, "--wait=true"])?;
        Ok(figures)
    })?;
    table::print(ROWS, &figures);
    Ok(())
}

/// Installs the demo operator in a new namespace. Returns the figures of P1 to P5.
fn main_job(audit_log: &Path, destination: &Destination, namespace: &str) -> anyhow::Result<Vec<f64>> {
    let mut objects = demo::user_objects(namespace, "Automatic");
    destination.apply(&objects[..1])?;
    let kinds = ["catalogsource", "pod", "subscription", "installplan", "csv"];
    let sightings = Sightings::start(destination, namespace, &kinds)?;
    // Watches must be established before the events that they observe.
    std::thread::sleep(Duration::from_secs(2));
    let mut log = AuditTail::of_olm(audit_log)?;
    let counted = |event: &AuditEvent| counts(event, &ACCOUNTS);

    let mut subscription = objects.pop().context("the demo has no Subscription")?;
    // Installs one bundle, the newest, as in the baseline.
    if let Some(spec) = subscription["spec"].as_object_mut() {
        spec.remove("startingCSV");
    }
    destination.apply(&objects[1..])?;
    let first = |kind: &str| sightings.wait(kind, PATIENCE, |sighting| sighting.object["kind"] == kind);
    let ready_pod = |what: &str, is_of_catalog: bool| {
        sightings.wait(what, PATIENCE, |sighting| {
            let label = &sighting.object["metadata"]["labels"]["olm.catalogSource"];
            is_ready_pod(&sighting.object) && label.is_null() != is_of_catalog
        })
    };
    let catalog = first("CatalogSource")?.at;
    let ready = sightings.wait("the catalog to be READY", PATIENCE, |sighting| {
        text(&sighting.object, "/status/connectionState/lastObservedState") == "READY"
    })?;
    let catalog_pod = ready_pod("the catalog's pod", true)?;

    destination.apply(&[subscription])?;
    let subscribed = first("Subscription")?.at;
    let plan = first("InstallPlan")?.at;
    let succeeded = sightings.wait("the CSV to succeed", PATIENCE, |sighting| {
        sighting.object["kind"] == "ClusterServiceVersion"
            && text(&sighting.object, "/status/phase") == "Succeeded"
    })?;
    let operator_pod = ready_pod("the operator's pod", false)?;
    // Requests after Succeeded, such as the Subscription's last status, belong to the job.
    std::thread::sleep(Duration::from_secs(3));
    let ours: Vec<_> = log.read()?.into_iter().filter(counted).collect();
    std::thread::sleep(Duration::from_secs(10));
    let at_rest: Vec<_> = log.read()?.into_iter().filter(counted).collect();
    for event in &at_rest {
        eprintln!(
            "request at rest: {} {} by {}",
            event.verb, event.request_uri, event.user.username
        );
    }
    let is_write = |event: &&AuditEvent| !["get", "list", "watch"].contains(&event.verb.as_str());
    let conflicts = ours.iter().filter(|event| {
        let status = event.response_status.as_ref();
        status.is_some_and(|status| status.code == 409)
    });
    let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
    Ok(vec![
        seconds(catalog, ready.at),
        seconds(catalog_pod.at, ready.at),
        seconds(subscribed, plan),
        seconds(subscribed, succeeded.at),
        seconds(operator_pod.at, succeeded.at),
        ours.len() as f64,
        ours.iter().filter(is_write).count() as f64,
        conflicts.count() as f64,
        at_rest.len() as f64,
    ])
}

/// Returns the figures of P6: resident and anonymous memory, and the peak, of each program.
fn read_memory(destination: &Destination, namespace: &str) -> anyhow::Result<Vec<f64>> {
    let programs = [
        ("olm-operator", "olm", "app=olm-operator"),
        ("catalog-operator", "olm", "app=catalog-operator"),
        ("opm", namespace, "olm.catalogSource"),
    ];
    let mut found = Vec::new();
    for (program, namespace, selector) in programs {
        let process = process_of(destination, program, namespace, selector)?;
        for name in ["VmRSS", "RssAnon", "VmHWM"] {
            found.push(field(&process, name)?);
        }
    }
    Ok(found)
}
