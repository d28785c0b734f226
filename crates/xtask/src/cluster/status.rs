//! Status of a cluster, and its text.

use super::address::{API_SERVER, REGISTRY};
use super::layout::Layout;
use super::{Record, processes};

/// A cluster as printed by `cluster status`.
#[derive(Debug, Clone)]
pub struct Status {
    /// State of the whole.
    pub state: State,
    /// All programs with their process ids.
    pub programs: Vec<ProgramStatus>,
    /// The same in text, and where to find the cluster.
    pub(super) text: String,
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
}

pub(super) fn read(layout: &Layout, record: Option<Record>) -> Status {
    let programs: Vec<ProgramStatus> = record
        .map(|record| record.programs())
        .unwrap_or_default()
        .iter()
        .map(|name| ProgramStatus {
            name: (*name).to_owned(),
            pid: processes::find(layout, name),
        })
        .collect();
    let running = programs.iter().filter(|program| program.pid.is_some()).count();
    let (state, said) = match running {
        _ if record.is_none() => (State::Absent, "absent: run `cargo xtask cluster up` to make it"),
        0 => (
            State::Stopped,
            "stopped: run `cargo xtask cluster up` to start it over its state",
        ),
        _ if running == programs.len() => (State::Running, "running"),
        _ => (
            State::Degraded,
            "degraded: run `cargo xtask cluster up` to start what has ended",
        ),
    };
    let mut text = format!("{:<12} {said}\n", layout.name());
    for ProgramStatus { name, pid } in &programs {
        text.push_str(&match pid {
            Some(pid) => format!("  {name:<24} pid {pid}\n"),
            None => format!("  {name:<24} ended, see {}\n", layout.log(name).display()),
        });
    }
    if record.is_some() {
        text.push_str(&format!(
            "  API server {API_SERVER}, registry {REGISTRY}, both in network namespace {}\n  kubeconfig {}\n",
            layout.key(),
            layout.kubeconfig().display()
        ));
    }
    Status {
        state,
        programs,
        text,
    }
}
