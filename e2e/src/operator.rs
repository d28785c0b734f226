//! An operator's process, observed and killed from outside.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use xtask::bench::find_process;
use xtask::deploy::OPERATORS;
use xtask::kubectl::{Destination, text};

/// Timeout for a killed operator to become ready again.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running operator.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Name of the operator, its Deployment and its program.
    pub name: &'static str,
    /// Number of container restarts.
    pub restarts: u64,
    /// Last error of the previous process; empty if there was none.
    last_words: String,
    process: PathBuf,
}

impl Operator {
    /// Returns both operators once they are ready and hold their Leases.
    ///
    /// # Errors
    /// If one does not.
    pub fn all(destination: &Destination) -> anyhow::Result<Vec<Self>> {
        OPERATORS
            .into_iter()
            .map(|name| Self::ready(destination, name))
            .collect()
    }

    /// Returns the operator once it is ready and holds the Lease: the successor of a killed one is ready earlier.
    ///
    /// # Errors
    /// If it times out.
    pub fn ready(destination: &Destination, name: &'static str) -> anyhow::Result<Self> {
        destination.wait(&format!("{name} to lead"), PATIENCE, |destination| {
            let pods = destination
                .get(&["pods", "-n", "olm", "-l", &format!("app={name}")])?
                .unwrap_or_default();
            let [pod] = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default() else {
                return Ok(Err("there is not exactly one pod".to_owned()));
            };
            let container = &pod["status"]["containerStatuses"][0];
            if container["ready"] != true {
                return Ok(Err(container["state"].to_string()));
            }
            let readyz = format!(
                "/api/v1/namespaces/olm/pods/{}:8080/proxy/readyz",
                text(pod, "/metadata/name")
            );
            match destination.run(&["get", "--raw", &readyz]) {
                Ok(said) if said.contains("leader by lease") => {}
                Ok(said) => return Ok(Err(said)),
                Err(error) => return Ok(Err(format!("{error:#}"))),
            }
            Ok(match find_process(name, text(pod, "/metadata/uid")) {
                // kubelet has not noticed yet that the container it reports as ready is gone.
                None => Err("it has no process".to_owned()),
                Some(process) => Ok(Self {
                    name,
                    restarts: restarts(container),
                    last_words: text(container, "/lastState/terminated/message").to_owned(),
                    process,
                }),
            })
        })
    }

    /// Waits until both Deployments are rolled out, regardless of the Lease holders.
    ///
    /// # Errors
    /// If one times out.
    pub fn rolled_out(destination: &Destination) -> anyhow::Result<()> {
        for program in OPERATORS {
            let name = format!("deployment/{program}");
            destination.run(&["rollout", "status", &name, "-n", "olm", "--timeout=240s"])?;
        }
        Ok(())
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// If it has exited before.
    pub fn kill(&self) -> anyhow::Result<()> {
        let id = self
            .process
            .file_name()
            .and_then(|id| id.to_str()?.parse().ok())
            .and_then(Pid::from_raw);
        let id = id.with_context(|| format!("{} is no process", self.process.display()))?;
        kill_process(id, Signal::KILL).with_context(|| format!("cannot kill {}", self.name))
    }

    /// Returns true if this process still runs.
    pub fn is_running(&self) -> bool {
        self.process.exists()
    }
}

fn restarts(container: &Value) -> u64 {
    container["restartCount"].as_u64().unwrap_or(0)
}

/// Asserts that no operator has restarted since `before`.
///
/// # Errors
/// If an operator has restarted since `before`, except by the test.
pub fn assert_no_restart(destination: &Destination, before: &[Operator]) -> anyhow::Result<()> {
    for operator in before {
        let now = Operator::ready(destination, operator.name)?;
        ensure!(
            now.restarts == operator.restarts && operator.is_running(),
            "{} was restarted: {} times before, {} now; its last words: {}",
            operator.name,
            operator.restarts,
            now.restarts,
            now.last_words
        );
    }
    Ok(())
}
