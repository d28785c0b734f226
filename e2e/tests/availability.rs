//! Two processes of each operator, elected by their Leases. They are killed, stopped past the Lease and resumed, terminated and
//! rolled, each during an install.
//!
//! Timeouts depend on the Leases and on this machine, on which the whole cluster runs. The API server's audit log identifies the
//! writer of each request by its pod.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail, ensure};
use e2e::demo::{SECOND, install};
use e2e::lab::{Lab, Namespace, PATIENCE};
use e2e::operator::Operator;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use xtask::bench::find_process;
use xtask::cluster::audit::{AuditEvent, AuditTail};
use xtask::deploy::OPERATORS;
use xtask::kubectl::{Destination, text};

const DEFINITION: &str = "greetings.demo.example.com";

/// Maximum time without a leader after an orderly shutdown. The goal is 5 s with one processor per process; here the whole
/// cluster and compilers share two.
const AFTER_STOP: Duration = Duration::from_secs(12);
/// Maximum time without a leader after a kill; the goal is 20 s.
const AFTER_KILL: Duration = Duration::from_secs(40);
/// Number of writes for a namespace after which an operator is hit.
const WRITES: usize = 3;
/// Time for which a resumed process is observed.
const AWAKE: Duration = Duration::from_secs(8);

/// Holder of an operator's Lease.
#[derive(Debug, Clone, PartialEq)]
struct Leader {
    program: &'static str,
    /// Full identity in the Lease.
    identity: String,
    pod: String,
    /// Time of acquisition, in seconds since 1970.
    since: f64,
}

impl Leader {
    /// Returns the current holder; `None` if there is none, or if its pod is being deleted: it still has the Lease for a moment.
    fn of(destination: &Destination, program: &'static str) -> anyhow::Result<Option<Self>> {
        let lease = destination
            .get(&["lease", "-n", "olm", program])?
            .unwrap_or_default();
        let identity = text(&lease, "/spec/holderIdentity").to_owned();
        let Some((pod, _)) = identity.split_once('_') else {
            return Ok(None);
        };
        let found = destination.get(&["pod", "-n", "olm", pod])?;
        let remains = found.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        if !remains {
            return Ok(None);
        }
        Ok(Some(Self {
            program,
            pod: pod.to_owned(),
            since: seconds(text(&lease, "/spec/acquireTime"))?,
            identity,
        }))
    }

    /// Returns the holders of all operators' Leases, once there are any.
    fn all(destination: &Destination) -> anyhow::Result<Vec<Self>> {
        OPERATORS
            .into_iter()
            .map(|program| {
                let what = format!("a leader of {program}");
                destination.wait(&what, PATIENCE, |destination| {
                    Ok(Self::of(destination, program)?.ok_or_else(|| "nobody has the Lease".to_owned()))
                })
            })
            .collect()
    }

    /// Returns the next holder.
    fn successor(&self, destination: &Destination) -> anyhow::Result<Self> {
        let what = format!("a successor of {}", self.identity);
        destination.wait(&what, PATIENCE, |destination| {
            let now = Self::of(destination, self.program)?;
            Ok(now
                .filter(|now| now.identity != self.identity)
                .ok_or_else(|| "there is none".to_owned()))
        })
    }

    fn process(&self, destination: &Destination) -> anyhow::Result<PathBuf> {
        let pod = destination
            .get(&["pod", "-n", "olm", &self.pod])?
            .unwrap_or_default();
        find_process(self.program, text(&pod, "/metadata/uid"))
            .with_context(|| format!("{} has no process", self.pod))
    }
}

/// Returns a time such as `2026-01-01T00:00:00.123456Z` in seconds since 1970, parsed by the machine's `date`.
fn seconds(time: &str) -> anyhow::Result<f64> {
    let output = std::process::Command::new("date")
        .args(["--date", time, "+%s.%N"])
        .output()
        .context("cannot run date")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("{time:?} is no time"))
}

#[expect(clippy::disallowed_methods, reason = "compared with times of the API server")]
fn now() -> anyhow::Result<f64> {
    Ok(SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_secs_f64())
}

fn signal(process: &std::path::Path, signal: Signal) -> anyhow::Result<()> {
    let id = process.file_name().and_then(|id| id.to_str()?.parse().ok());
    let id = id.and_then(Pid::from_raw).context("this is no process")?;
    kill_process(id, signal).with_context(|| format!("cannot send {signal:?} to {}", process.display()))
}

/// Number of liveness probes that may fail in a row. A process is stopped for longer than a Lease, and must exit because of that,
/// not because kubelet kills it.
const PATIENT_PROBE: u64 = 30;

/// The operators with two replicas each; the original numbers are restored on drop.
struct Pair {
    destination: Destination,
    before: Vec<(&'static str, Shape)>,
}

/// Fields of an operator's Deployment that the test changes.
#[derive(Clone, Copy)]
struct Shape {
    replicas: u64,
    failed_probes: u64,
}

impl Pair {
    fn start(destination: &Destination) -> anyhow::Result<Self> {
        let mut pair = Self {
            destination: destination.clone(),
            before: Vec::new(),
        };
        for program in OPERATORS {
            let found = destination.get(&["deployment", "-n", "olm", program])?;
            let found = found.context("OLM is not deployed")?;
            let before = Shape {
                replicas: found["spec"]["replicas"].as_u64().unwrap_or(1),
                failed_probes: found.pointer(FAILED_PROBES).and_then(Value::as_u64).unwrap_or(3),
            };
            pair.before.push((program, before));
            let wanted = Shape {
                replicas: 2,
                failed_probes: PATIENT_PROBE,
            };
            shape(destination, program, wanted)?;
        }
        Operator::rolled_out(destination)?;
        Ok(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let back = || -> anyhow::Result<()> {
            for (program, before) in &self.before {
                shape(&self.destination, program, *before)?;
            }
            Operator::rolled_out(&self.destination)
        };
        if let Err(error) = back() {
            eprintln!("the operators are not as they were: {error:#}");
        }
    }
}

const FAILED_PROBES: &str = "/spec/template/spec/containers/0/livenessProbe/failureThreshold";

fn shape(destination: &Destination, program: &str, shape: Shape) -> anyhow::Result<()> {
    let name = format!("deployment/{program}");
    let patch = json!([
        {"op": "add", "path": "/spec/replicas", "value": shape.replicas},
        {"op": "add", "path": FAILED_PROBES, "value": shape.failed_probes},
    ])
    .to_string();
    destination.run(&["patch", &name, "-n", "olm", "--type=json", "--patch", &patch])?;
    Ok(())
}

/// Calls `strike` for each leader after some of its writes for `namespace`; returns the times by program.
fn strike(
    lab: &Lab,
    namespace: &Namespace<'_>,
    leaders: &[Leader],
    mut strike: impl FnMut(&Leader) -> anyhow::Result<()>,
) -> anyhow::Result<BTreeMap<&'static str, f64>> {
    let mut tail = AuditTail::of_olm(&lab.cluster().audit_log())?;
    install(namespace, &[namespace.name()], |_| {})?;
    let (mut counts, mut struck) = (BTreeMap::<&str, usize>::new(), BTreeMap::new());
    let began = Instant::now();
    while struck.len() < leaders.len() {
        ensure!(
            began.elapsed() < PATIENCE,
            "the operators wrote too little: {counts:?}; they were led by {leaders:?}"
        );
        for event in tail.read()?.iter().filter(|event| event.is_write()) {
            let object = event.object_ref.as_ref();
            let is_of_install = object.is_some_and(|object| object.namespace == namespace.name());
            let leader = leaders.iter().find(|leader| leader.pod == event.user.pod());
            let Some(leader) = leader.filter(|_| is_of_install) else {
                continue;
            };
            let count = counts.entry(leader.program).or_default();
            *count += 1;
            if *count == WRITES {
                struck.insert(leader.program, now()?);
                strike(leader)?;
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(struck)
}

/// Checks that the operator runs, no phase was Failed, and no object exists twice.
fn is_installed(namespace: &Namespace<'_>) -> anyhow::Result<()> {
    let csv = namespace.wait_for_phase(SECOND, "Succeeded")?;
    let conditions = csv["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let phases: BTreeSet<&str> = conditions
        .iter()
        .map(|condition| text(condition, "/phase"))
        .collect();
    ensure!(!phases.contains("Failed"), "a phase was Failed: {phases:?}");
    namespace.wait_for("subscription", "demo", "AtLatestKnown", |object| {
        text(object, "/status/state") == "AtLatestKnown"
    })?;
    for kind in ["csv", "installplan", "deployment"] {
        let found = namespace.list(kind)?;
        let names: Vec<&str> = found
            .iter()
            .map(|object| text(object, "/metadata/name"))
            .collect();
        ensure!(names.len() == 1, "{}: {kind} {names:?}", namespace.name());
    }
    Ok(())
}

/// Name of the case in which a process ends and its pod remains.
const KILLED: &str = "killed";

fn check_in_time(what: &str, old: &Leader, new: &Leader, struck: f64, most: Duration) -> anyhow::Result<()> {
    let took = new.since - struck;
    eprintln!("{what}: {} is followed after {took:.1} s", old.program);
    // A killed process restarts in its pod within a second, as another candidate, and may be the first to get the free Lease.
    ensure!(new.pod != old.pod || what == KILLED, "{} follows itself", old.pod);
    ensure!(
        took < most.as_secs_f64(),
        "{what}: {} was missed for {took:.1} s",
        old.program
    );
    Ok(())
}

#[test]
fn one_of_two_replicas_of_each_operator_leads_and_the_other_follows() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let destination = lab.kubectl();
    lab.demo_catalog()?;
    let _pair = Pair::start(destination)?;
    destination.run(&[
        "delete",
        "crd",
        DEFINITION,
        "--ignore-not-found",
        "--timeout=240s",
    ])?;
    killed(lab)?;
    Operator::rolled_out(destination)?;
    stopped_and_woken(lab)?;
    Operator::rolled_out(destination)?;
    ended(lab)?;
    Operator::rolled_out(destination)?;
    rolled(lab)
}

/// Sends SIGKILL during an install.
fn killed(lab: &Lab) -> anyhow::Result<()> {
    let destination = lab.kubectl();
    let leaders = Leader::all(destination)?;
    let processes = processes(destination, &leaders)?;
    let namespace = lab.namespace("available-killed")?;
    let killed = strike(lab, &namespace, &leaders, |leader| {
        signal(&processes[leader.program], Signal::KILL)
    })?;
    for leader in &leaders {
        let next = leader.successor(destination)?;
        check_in_time(KILLED, leader, &next, killed[leader.program], AFTER_KILL)?;
    }
    is_installed(&namespace)
}

/// Sends SIGSTOP during an install, and SIGCONT while the successor works.
fn stopped_and_woken(lab: &Lab) -> anyhow::Result<()> {
    let destination = lab.kubectl();
    let leaders = Leader::all(destination)?;
    let processes = processes(destination, &leaders)?;
    let namespace = lab.namespace("available-stopped")?;
    let stopped = strike(lab, &namespace, &leaders, |leader| {
        signal(&processes[leader.program], Signal::STOP)
    })?;
    let mut tail = AuditTail::of_olm(&lab.cluster().audit_log())?;
    let woken = leaders.iter().map(|leader| {
        let next = leader.successor(destination);
        // Resumed in any case, so that no process remains stopped. Later log entries may be of the resumed process.
        let at = now()?;
        signal(&processes[leader.program], Signal::CONT)?;
        let next = next?;
        check_in_time("stopped", leader, &next, stopped[leader.program], AFTER_KILL)?;
        Ok((leader.pod.as_str(), at))
    });
    let woken: BTreeMap<&str, f64> = woken.collect::<anyhow::Result<_>>()?;
    let mut of_others = 0;
    let began = Instant::now();
    while began.elapsed() < AWAKE {
        for event in tail.read()?.iter().filter(|event| event.is_write_request()) {
            let Some(at) = woken.get(event.user.pod()) else {
                of_others += 1;
                continue;
            };
            let is_late = seconds(&event.request_received_timestamp)? >= *at;
            ensure!(
                !is_late || is_refused_renewal(event),
                "a woken process wrote: {event:?}"
            );
        }
        thread::sleep(Duration::from_millis(20));
    }
    ensure!(of_others > 0, "the log tells nothing of those that follow");
    for leader in &leaders {
        ended_by_loss(destination, leader, stopped[leader.program])?;
    }
    is_installed(&namespace)
}

/// Returns true for a Lease renewal that was sent before the process was stopped; it may arrive, but is rejected.
fn is_refused_renewal(event: &AuditEvent) -> bool {
    let resource = event.object_ref.as_ref().map(|object| object.resource.as_str());
    resource == Some("leases") && !event.is_write()
}

/// Checks that the process exited after `stopped` with an error that names the cause, and a new standby replaces it.
fn ended_by_loss(destination: &Destination, leader: &Leader, stopped: f64) -> anyhow::Result<()> {
    let what = format!("{} to have ended", leader.pod);
    let state = destination.wait(&what, PATIENCE, |destination| {
        let pod = destination
            .get(&["pod", "-n", "olm", &leader.pod])?
            .unwrap_or_default();
        let status = &pod["status"]["containerStatuses"][0];
        // The container may have ended before, as in the case of the kill.
        let mut ended: Option<(f64, &Value)> = None;
        for state in [&status["lastState"]["terminated"], &status["state"]["terminated"]] {
            if state.is_object() {
                let at = seconds(text(state, "/finishedAt"))?;
                let is_later = ended.is_none_or(|(last, _)| at >= last);
                ended = if is_later { Some((at, state)) } else { ended };
            }
        }
        // The time has whole seconds.
        let ended = ended.filter(|(at, _)| *at >= stopped.floor());
        if let Some((_, state)) = ended {
            return Ok(Ok(state.clone()));
        }
        // kubelet may have removed the ended container, and its record, as soon as the next one ran.
        let began = text(status, "/state/running/startedAt");
        let is_new = !began.is_empty() && seconds(began)? >= stopped.floor();
        Ok(is_new.then_some(Value::Null).ok_or_else(|| status.to_string()))
    })?;
    if state.is_null() {
        println!("{}: restarted, without a record of how it ended", leader.pod);
        return Ok(());
    }
    let said = text(&state, "/message");
    ensure!(
        state["exitCode"] == 1 && said.contains("lost leader election on lease"),
        "{} ended otherwise: {state}",
        leader.pod
    );
    Ok(())
}

/// Sends SIGTERM during an install, as a drained node does.
fn ended(lab: &Lab) -> anyhow::Result<()> {
    let destination = lab.kubectl();
    let leaders = Leader::all(destination)?;
    let namespace = lab.namespace("available-ended")?;
    let deleted = strike(lab, &namespace, &leaders, |leader| {
        destination.run(&["delete", "pod", &leader.pod, "-n", "olm", "--wait=false"])?;
        Ok(())
    })?;
    for leader in &leaders {
        let next = leader.successor(destination)?;
        check_in_time("ended", leader, &next, deleted[leader.program], AFTER_STOP)?;
    }
    is_installed(&namespace)
}

/// Replaces all pods while operators are being installed.
fn rolled(lab: &Lab) -> anyhow::Result<()> {
    let destination = lab.kubectl();
    let before = Leader::all(destination)?;
    let names = ["available-rolled-1", "available-rolled-2", "available-rolled-3"];
    let mut namespaces = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let namespace = lab.namespace(name)?;
        install(&namespace, &[name], |_| {})?;
        namespaces.push(namespace);
        if number == 0 {
            for program in OPERATORS {
                let name = format!("deployment/{program}");
                destination.run(&["rollout", "restart", &name, "-n", "olm"])?;
            }
        }
    }
    Operator::rolled_out(destination)?;
    for namespace in &namespaces {
        is_installed(namespace)?;
    }
    // The replaced process may hold the Lease a little longer than its pod is counted.
    for old in &before {
        let new = old.successor(destination)?;
        if old.pod == new.pod {
            bail!("{} leads though it was replaced", new.pod);
        }
    }
    Ok(())
}

fn processes(
    destination: &Destination,
    leaders: &[Leader],
) -> anyhow::Result<BTreeMap<&'static str, PathBuf>> {
    let process = |leader: &Leader| Ok((leader.program, leader.process(destination)?));
    leaders.iter().map(process).collect()
}
