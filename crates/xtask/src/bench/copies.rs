//! `cargo xtask bench copies`: what copies of operators for all namespaces cost (targets P7 and P8).
//!
//! The operators run nothing; each ClusterServiceVersion has a description and an annotation of the size that those of the corpus
//! have on average. Times are the API server's own, from its audit log.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::deployed::Deployed;
use super::memory::{field, process_of};
use crate::args::CopiesOptions;
use crate::cluster::Cluster;
use crate::cluster::audit::{AuditEvent, AuditTail};
use crate::images;
use crate::kubectl::Destination;
use crate::progress::Progress;

const HOME: &str = "bench-copies";
const PROGRAM: &str = "olm-operator";
const ACCOUNT: &str = "system:serviceaccount:olm:olm-operator";
/// Namespaces made with one kubectl.
const BATCH: usize = 500;
/// No write for so long: the copies are what they are to be.
const QUIET: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(1800);
/// Bytes of the annotations of a bundle of the corpus, on average.
const ANNOTATION: usize = 2_600;
const DESCRIPTION: usize = 5_000;
const KIB: f64 = 1024.0;
/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// What one change of all copies took.
struct Cost {
    /// From the change to the last write for it.
    took: Duration,
    requests: usize,
    writes: usize,
}

/// Makes the namespaces and the operators, changes a field of each operator, and prints what it took. A miss is printed and fails
/// nothing.
///
/// # Errors
/// When the copies are not made in time.
pub(super) fn run(options: &CopiesOptions) -> anyhow::Result<ExitCode> {
    crate::interrupt::watch()?;
    let progress = Progress::start();
    let deployed = Deployed::on(&options.cluster.name, images::given_or_built, &progress)?;
    let Deployed {
        cluster, destination, ..
    } = &deployed;
    progress.stage(&format!("{} namespaces made", options.namespaces), || {
        make_namespaces(destination, options.namespaces)
    })?;
    deployed.restart(&progress)?;
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "global", "namespace": HOME}, "spec": {}});
    destination.apply(&[group])?;
    std::thread::sleep(QUIET);
    let process = process_of(destination, PROGRAM, "olm", &format!("app={PROGRAM}"))?;
    let before = field(&process, "RssAnon")?;

    let copies = options.namespaces * options.operators;
    let names: Vec<String> = (0..options.operators)
        .map(|number| format!("copied-{number}.v1.0.0"))
        .collect();
    let made = progress.stage(&format!("{copies} copies made"), || {
        let objects: Vec<Value> = names.iter().map(|name| operator(name)).collect();
        measured(cluster, || destination.apply(&objects))
    })?;
    let after = field(&process, "RssAnon")?;
    let changed = progress.stage(&format!("{copies} copies changed"), || {
        measured(cluster, || {
            let patch = r#"{"spec":{"displayName":"changed"}}"#;
            names.iter().try_for_each(|name| {
                destination.run(&["patch", "csv", name, "-n", HOME, "--type", "merge", "-p", patch])?;
                Ok(())
            })
        })
    })?;
    let peak = field(&process, "VmHWM")?;
    let rest = field(&process, "RssAnon")?;
    print(options, copies, &made, &changed, [before, after, rest, peak]);
    progress.stage("removed", || {
        destination.run(&["delete", "namespace", HOME, "--wait=true"])?;
        remove_namespaces(destination, options.namespaces)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print(options: &CopiesOptions, copies: usize, made: &Cost, changed: &Cost, memory: [f64; 4]) {
    let [before, after, rest, peak] = memory;
    let row = |name: &str, cost: &Cost| {
        println!(
            "{name:<10} {:>8.2} s {:>8} requests, {} of them writes ({:.2} a copy)",
            cost.took.as_secs_f64(),
            cost.requests,
            cost.writes,
            cost.requests as f64 / copies as f64
        );
    };
    println!(
        "{} operators for all of {} namespaces, {copies} copies",
        options.operators, options.namespaces
    );
    row("made", made);
    row("changed", changed);
    if options.namespaces == 500 && options.operators == 1 {
        let met = made.took <= Duration::from_millis(2500) && made.requests <= 1050;
        println!("P7: at most 2.5 s and 1,050 requests{}", mark(met));
    }
    println!(
        "RssAnon of {PROGRAM}, MiB: {before:.1} before, {after:.1} with the copies, {rest:.1} after the change; VmHWM {peak:.1}"
    );
    let per_copy = (rest - before).max(0.0) * KIB / copies as f64;
    println!(
        "P8: {per_copy:.2} KiB a copy, at most 1; all of it at most 100 MiB{}",
        mark(per_copy <= 1.0 && rest <= 100.0)
    );
}

fn mark(met: bool) -> &'static str {
    if met { "" } else { "  MISS" }
}

fn namespace(number: usize) -> String {
    format!("{HOME}-{number}")
}

fn make_namespaces(destination: &Destination, count: usize) -> anyhow::Result<()> {
    let names: Vec<String> = std::iter::once(HOME.to_owned())
        .chain((0..count).map(namespace))
        .collect();
    let made = |batch: &[String]| {
        let items: Vec<Value> = batch
            .iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .collect();
        destination.apply(&items)
    };
    std::thread::scope(|scope| {
        let batches: Vec<_> = names
            .chunks(BATCH)
            .map(|batch| scope.spawn(move || made(batch)))
            .collect();
        batches.into_iter().try_for_each(|batch| {
            batch
                .join()
                .unwrap_or_else(|_| anyhow::bail!("a thread has panicked"))
        })
    })
}

fn remove_namespaces(destination: &Destination, count: usize) -> anyhow::Result<()> {
    let names: Vec<String> = (0..count).map(namespace).collect();
    for batch in names.chunks(BATCH) {
        let mut words = vec!["delete", "namespace", "--wait=false"];
        words.extend(batch.iter().map(String::as_str));
        destination.run(&words)?;
    }
    Ok(())
}

/// An operator that runs nothing and needs nothing.
fn operator(name: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": HOME, "annotations": {"alm-examples": "x".repeat(ANNOTATION)}},
        "spec": {"displayName": "copied", "version": "1.0.0", "description": "x".repeat(DESCRIPTION),
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}
    })
}

/// Makes a change and waits until the operator writes no more.
fn measured(cluster: &Cluster, change: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Cost> {
    // Whoever asked for the change is in the log with the ClusterServiceVersions.
    let mut log = AuditTail::from_now(&cluster.audit_log(), |line| {
        line.contains(ACCOUNT) || line.contains("clusterserviceversions")
    })?;
    let clock = Instant::now();
    change()?;
    let (mut asked, mut ours) = (None, Vec::new());
    let mut last_news = Instant::now();
    while last_news.elapsed() < QUIET {
        anyhow::ensure!(
            clock.elapsed() < PATIENCE,
            "the operator still writes after {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_secs(2));
        for event in log.read()? {
            if is_ours(&event) {
                ours.push(event);
                last_news = Instant::now();
            } else if asked.is_none() && event.user.username != ACCOUNT && concerns(&event, HOME) {
                asked = Some(event);
            }
        }
    }
    let began = seconds(&asked.context("the change is not in the audit log")?)?;
    let last = ours.iter().rfind(|event| event.is_write());
    let last = seconds(last.context("nothing was written")?)?;
    Ok(Cost {
        took: Duration::from_secs_f64((last - began).rem_euclid(DAY)),
        requests: ours.len(),
        writes: ours.iter().filter(|event| event.is_write()).count(),
    })
}

fn concerns(event: &AuditEvent, namespace: &str) -> bool {
    let object = event.object_ref.as_ref();
    object.is_some_and(|object| object.resource == "clusterserviceversions" && object.namespace == namespace)
}

/// When a request came, in seconds of its day.
fn seconds(event: &AuditEvent) -> anyhow::Result<f64> {
    let text = &event.request_received_timestamp;
    let time = text.split_once('T').map(|(_, time)| time.trim_end_matches('Z'));
    let parts: Vec<f64> = time
        .unwrap_or_default()
        .split(':')
        .map_while(|part| part.parse().ok())
        .collect();
    let [hours, minutes, seconds] = parts.as_slice() else {
        anyhow::bail!("{text:?} is no time");
    };
    Ok((hours * 60.0 + minutes) * 60.0 + seconds)
}

/// Whether the operator asked it; watches and Events left out.
fn is_ours(event: &AuditEvent) -> bool {
    let resource = event
        .object_ref
        .as_ref()
        .map_or("", |object| object.resource.as_str());
    event.user.username == ACCOUNT
        && event.stage == "ResponseComplete"
        && event.verb != "watch"
        && resource != "events"
}
