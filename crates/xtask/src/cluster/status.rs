//! Status of a cluster, and its text.

use std::fmt;
use std::path::PathBuf;

use super::address::{API_SERVER, REGISTRY};
use super::layout::Layout;
use super::{Record, processes};

/// A cluster as printed by `cluster status`.
#[derive(Debug, Clone)]
pub struct Status {
    /// Name of the cluster.
    pub name: String,
    /// State of the whole.
    pub state: State,
    /// All programs with their process ids.
    pub programs: Vec<ProgramStatus>,
    /// Where to find the cluster, in text; empty if it does not exist.
    places: String,
}

/// Overall state of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone)]
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
    let places = record.map(|_| {
        format!(
            "  API server {API_SERVER}, registry {REGISTRY}, both in network namespace {}\n  kubeconfig {}\n",
            layout.key(),
            layout.kubeconfig().display()
        )
    });
    Status {
        name: layout.name().to_owned(),
        state,
        programs,
        places: places.unwrap_or_default(),
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
        f.write_str(&self.places)
    }
}
