//! OLM on an overloaded machine: six loops use both processors, and no process of OLM ends because of that.
//!
//! Each loop is its own session, so the kernel shares the processors among them.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::lab::{Lab, PATIENCE};
use e2e::operator::Operator;
use olm_testing::long;
use serde_json::Value;
use xtask::deploy::OPERATORS;
use xtask::kubectl::{Destination, text};

/// Number of loops beside OLM, on two processors that also run the whole cluster.
const LOOPS: usize = 6;
/// Minutes of load with one replica, and again with two.
const MINUTES: (u32, u32) = (1, 10);

/// Loops that run until this is dropped, and end by themselves after an hour.
struct Load(Vec<Child>);

impl Load {
    fn start() -> anyhow::Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..LOOPS {
            let child = Command::new("setsid")
                .args(["timeout", "3600", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .context("cannot start a busy loop")?;
            load.0.push(child);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // `timeout` kills its child only when it gets a signal itself.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

/// Returns the number of restarts of each container of OLM, by the uid of its pod. A replaced pod has another uid.
fn restarts(destination: &Destination) -> anyhow::Result<BTreeMap<String, u64>> {
    let pods = destination
        .get(&[
            "pods",
            "-n",
            "olm",
            "-l",
            "app in (olm-operator, catalog-operator, packageserver)",
        ])?
        .context("there are no pods of OLM")?;
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    let of = |pod: &Value| {
        let name = format!("{} {}", text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let count = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        (name, count.unwrap_or(0))
    };
    Ok(pods.iter().map(of).collect())
}

/// Scales both operators to this number of pods, and waits until no others exist.
fn scale(destination: &Destination, replicas: usize) -> anyhow::Result<()> {
    for program in OPERATORS {
        let (name, wanted) = (format!("deployment/{program}"), format!("--replicas={replicas}"));
        destination.run(&["scale", &name, "-n", "olm", &wanted])?;
    }
    Operator::rolled_out(destination)?;
    for program in OPERATORS {
        let (what, label) = (format!("{replicas} pods of {program}"), format!("app={program}"));
        destination.wait(&what, PATIENCE, |destination| {
            let pods = destination.get(&["pods", "-n", "olm", "-l", &label])?;
            let count = pods.map_or(0, |pods| pods["items"].as_array().map_or(0, Vec::len));
            Ok((count == replicas)
                .then_some(())
                .ok_or_else(|| format!("there are {count}")))
        })?;
    }
    Ok(())
}

fn survives_load(destination: &Destination, replicas: usize, minutes: u32) -> anyhow::Result<()> {
    scale(destination, replicas)?;
    let before = restarts(destination)?;
    ensure!(
        before.len() > OPERATORS.len(),
        "package-server has no pod: {before:?}"
    );
    let load = Load::start()?;
    thread::sleep(Duration::from_secs(60) * minutes);
    drop(load);
    // The effects of the load are known once kubelet has reported them.
    thread::sleep(Duration::from_secs(5));
    let after = restarts(destination)?;
    ensure!(
        before == after,
        "processes ended under load with {replicas} of each operator: {before:?} before, {after:?} after"
    );
    eprintln!("load: {replicas} of each operator, {minutes} min of {LOOPS} loops, no restart");
    Ok(())
}

#[test]
fn no_process_of_olm_ends_beside_six_busy_loops() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let destination = lab.kubectl();
    let minutes = long::count_or(
        "minutes of load with one and with two replicas",
        MINUTES.0,
        MINUTES.1,
    );
    let of_one = survives_load(destination, 1, minutes);
    let of_two = of_one.and_then(|()| survives_load(destination, 2, minutes));
    // Scaled back in any case, so that the next test finds one pod of each.
    scale(destination, 1)?;
    of_two
}
