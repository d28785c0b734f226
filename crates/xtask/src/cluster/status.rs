//! Status of a cluster, as text and JSON.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::layout::Layout;
use super::{Record, processes};

/// A cluster as printed by `cluster status`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Name of the cluster.
    pub name: String,
    /// `running`, `degraded` (some program has ended), `stopped` (state without processes) or `absent`.
    pub state: State,
    /// All programs with their process ids.
    pub programs: Vec<ProgramStatus>,
    /// True if pods can run; `None` if the cluster is absent.
    pub has_node: Option<bool>,
    /// URL of the API server, inside the cluster's network namespace.
    pub api_server: Option<String>,
    /// `host:port` of the registry, inside the cluster's network namespace.
    pub registry: Option<String>,
    /// Name of the network namespace.
    pub network_namespace: String,
    /// Path of the administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Folder with all state and logs.
    pub folder: PathBuf,
}

/// Overall state of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All programs run.
    Running,
    /// Some programs run.
    Degraded,
    /// State exists, but no program runs.
    Stopped,
    /// The cluster does not exist.
    Absent,
}

/// A program of a cluster.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramStatus {
    /// Name of the program.
    pub name: String,
    /// Process id; `None` if it does not run.
    pub pid: Option<u32>,
    /// Path of its log.
    pub log: PathBuf,
}

pub(super) fn read(layout: &Layout, record: Option<Record>) -> Status {
    let programs: Vec<ProgramStatus> = record
        .map(|record| record.programs())
        .unwrap_or_default()
        .iter()
        .map(|name| ProgramStatus {
            name: (*name).to_owned(),
            pid: processes::find(layout, name),
            log: layout.log(name),
        })
        .collect();
    let running = programs.iter().filter(|program| program.pid.is_some()).count();
    let state = match running {
        _ if record.is_none() => State::Absent,
        0 => State::Stopped,
        _ if running == programs.len() => State::Running,
        _ => State::Degraded,
    };
    let addresses = record.map(|record| record.addresses());
    Status {
        name: layout.name().to_owned(),
        state,
        programs,
        has_node: record.map(|record| record.node),
        api_server: addresses.map(super::address::Addresses::api_server),
        registry: addresses.map(super::address::Addresses::registry),
        network_namespace: layout.key().to_owned(),
        kubeconfig: layout.kubeconfig(),
        folder: layout.state().to_owned(),
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Running => "running",
            State::Degraded => "degraded: run `cargo xtask cluster up` to start what has ended",
            State::Stopped => "stopped: run `cargo xtask cluster up` to start it over its state",
            State::Absent => "absent: run `cargo xtask cluster up` to make it",
        };
        writeln!(f, "{:<12} {state}", self.name)?;
        for program in &self.programs {
            match program.pid {
                Some(pid) => writeln!(f, "  {:<24} pid {pid}", program.name)?,
                None => writeln!(f, "  {:<24} ended, see {}", program.name, program.log.display())?,
            }
        }
        if let (Some(api_server), Some(registry)) = (&self.api_server, &self.registry) {
            writeln!(
                f,
                "  API server {api_server}, registry {registry}, both in network namespace {}",
                self.network_namespace
            )?;
            writeln!(f, "  kubeconfig {}", self.kubeconfig.display())?;
        }
        Ok(())
    }
}
