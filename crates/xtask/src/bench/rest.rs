//! `cargo xtask bench rest`: the cost of OLM at rest with many ClusterServiceVersions, and after a restart of the API server
//! (target P20). The versions have no Deployments, so the cluster needs no room for their pods.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Measured;
use super::main_job::ACCOUNTS;
use super::memory::process_of_olm;
use super::table::{self, counts};
use crate::cluster::audit::{AuditEvent, AuditTail};
use crate::cluster::{Cluster, UpOptions};
use crate::kubectl::{Destination, text};
use crate::progress::Progress;
use crate::{deploy, interrupt};

/// ClusterServiceVersions, and those in each namespace.
const ALL: usize = 1000;
const EACH: usize = 100;
/// Start of the namespaces' names, and their label.
const NAME: &str = "bench-rest";
const LABEL: &str = "bench=rest";
const PATIENCE: Duration = Duration::from_secs(600);
/// How long to measure at rest; the processor time is scaled to an hour.
const LASTS: Duration = Duration::from_secs(600);
/// Time without requests after which OLM is quiet.
const QUIET: Duration = Duration::from_secs(10);
/// Linux counts processor time in this many parts of a second.
const TICKS: f64 = 100.0;

/// Deletes the namespaces, also those of a run that was killed, and waits until they are gone.
fn delete(destination: &Destination) -> anyhow::Result<()> {
    let words = [
        "delete",
        "namespace",
        "-l",
        LABEL,
        "--wait=true",
        "--timeout=300s",
    ];
    destination.run(&words).map(drop)
}

/// Deletes the namespaces when dropped.
struct CleanUp<'a>(&'a Destination);

impl Drop for CleanUp<'_> {
    fn drop(&mut self) {
        if let Err(error) = delete(self.0) {
            eprintln!("cannot remove what was measured: {error:#}");
        }
    }
}

/// The figures of [`measure`], for [`table::print`].
const ROWS: &str = "\
P20 | processor time of both operators, s an hour              |                 | 10
    |   API requests at rest, an hour                          |                 |
    |   API requests after the API server's restart            |                 | 40
    |   from its start until OLM was quiet, s                  |                 | 5";

/// Runs the measurement and prints its rows.
///
/// # Errors
/// The errors of [`measure`], and of the cluster's start.
pub(super) fn run(name: &str) -> anyhow::Result<()> {
    let Measured {
        cluster, progress, ..
    } = Measured::set_up(name)?;
    table::print(ROWS, &measure(&cluster, ALL, LASTS, &progress)?);
    Ok(())
}

/// Creates this number of ClusterServiceVersions, has OLM rest with them, and restarts the API server. The cluster has OLM, and nobody
/// else uses it. Progress is printed each minute. Returns, of catalog-operator and olm-operator together, the processor time at rest in
/// seconds an hour, the requests at rest an hour, the requests after the API server's restart, and the seconds from its start to the last of
/// these.
///
/// # Errors
/// They do not succeed, an operator ends, or the API server does not start.
pub fn measure(
    cluster: &Cluster,
    all: usize,
    lasts: Duration,
    progress: &Progress,
) -> anyhow::Result<[f64; 4]> {
    let destination = Destination::Embedded(cluster.clone());
    delete(&destination)?;
    let _clean_up = CleanUp(&destination);
    progress.stage(&format!("{all} ClusterServiceVersions Succeeded"), || {
        create(&destination, all)
    })?;
    let counted = |event: &AuditEvent| counts(event, &ACCOUNTS);
    let mut log = AuditTail::of_olm(&cluster.audit_log())?;
    progress.stage("OLM quiet", || until_quiet(&mut log, counted))?;

    let processes = deploy::OPERATORS.map(|program| process_of_olm(&destination, program));
    let processes: Vec<PathBuf> = processes.into_iter().collect::<anyhow::Result<_>>()?;
    let before = processor_time(&processes)?;
    let began = Instant::now();
    while began.elapsed() < lasts {
        interrupt::check()?;
        thread::sleep(Duration::from_secs(1));
        if began.elapsed().as_secs().is_multiple_of(60) {
            progress.note(&format!(
                "at rest, {} of {} s",
                began.elapsed().as_secs(),
                lasts.as_secs()
            ));
        }
    }
    let hours = began.elapsed().as_secs_f64() / 3600.0;
    let processor = (processor_time(&processes)? - before) / hours;
    let requests = log.read()?.into_iter().filter(counted).count() as f64 / hours;

    progress.stage("API server ended", || cluster.end("kube-apiserver"))?;
    Cluster::up(cluster.name(), UpOptions::default(), progress)?;
    let (requests_after, quiet_after) =
        progress.stage("OLM quiet again", || until_quiet(&mut log, counted))?;
    Ok([processor, requests, requests_after as f64, quiet_after])
}

fn create(destination: &Destination, all: usize) -> anyhow::Result<()> {
    let labels = json!({"bench": "rest"});
    for first in (0..all).step_by(EACH) {
        let name = format!("{NAME}-{first}");
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "group", "namespace": name}, "spec": {"targetNamespaces": [name]}}),
        ];
        objects.extend((first..all.min(first + EACH)).map(|number| version(&name, number)));
        destination.apply(&objects)?;
    }
    destination.wait("all to have succeeded", PATIENCE, |destination| {
        let found = destination.get(&["csv", "-A", "-l", LABEL])?.unwrap_or_default();
        let items = found["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let succeeded = items
            .iter()
            .filter(|csv| text(csv, "/status/phase") == "Succeeded")
            .count();
        Ok((succeeded == all)
            .then_some(())
            .ok_or_else(|| format!("{succeeded} have succeeded")))
    })
}

/// Returns a ClusterServiceVersion without Deployments and requirements.
fn version(namespace: &str, number: usize) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("rest-{number}.v1.0.0"), "namespace": namespace, "labels": {"bench": "rest"}},
        "spec": {"displayName": "rest", "version": "1.0.0",
            "installModes": [{"type": "OwnNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}
    })
}

/// Waits until there was no request for some time. Returns the number of requests, and the seconds until the last one was logged.
fn until_quiet(log: &mut AuditTail, counted: impl Fn(&AuditEvent) -> bool) -> anyhow::Result<(usize, f64)> {
    let began = Instant::now();
    let (mut requests, mut last) = (0, began);
    while last.elapsed() < QUIET && began.elapsed() < PATIENCE {
        interrupt::check()?;
        thread::sleep(Duration::from_millis(100));
        let more = log.read()?.iter().filter(|event| counted(event)).count();
        if more > 0 {
            requests += more;
            last = Instant::now();
        }
    }
    Ok((requests, (last - began).as_secs_f64()))
}

/// Returns the seconds of processor time that processes have used together.
fn processor_time(processes: &[PathBuf]) -> anyhow::Result<f64> {
    let mut seconds = 0.0;
    for process in processes {
        let path = process.join("stat");
        let stat = fs::read_to_string(&path).with_context(|| format!("{} has ended", process.display()))?;
        seconds += ticks(&stat).with_context(|| format!("{} has no times", path.display()))? / TICKS;
    }
    Ok(seconds)
}

/// Parses the time in user and kernel mode, the 14th and 15th field of `/proc/<pid>/stat`. The second may contain anything, in
/// parentheses.
fn ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 99 1000 2";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(processor_time(&[PathBuf::from("/proc/self")]).unwrap() >= 0.0);
    }
}
