//! Long-running programs of the cluster. They are detached from this process, identified by a record, and ended by a signal.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::packages::SEARCH_PATH;
use crate::interrupt;

const POLL: Duration = Duration::from_millis(100);
/// Number of log lines in an error about a program that exited.
const LAST_LINES: usize = 15;
/// Maximum length of these lines; containerd logs its whole configuration in one.
const LINE_WIDTH: usize = 300;

/// A program and its command line.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// Name of its record and log.
    pub name: &'static str,
    /// Executable and arguments.
    pub command: Vec<String>,
}

impl Program {
    /// Returns a program with the given command line.
    pub(super) fn new(name: &'static str, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name,
            command: command.into_iter().map(Into::into).collect(),
        }
    }
}

/// Identifies a started process, even if another process has its id later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    pid: u32,
    /// Start time in clock ticks since boot, from `/proc/PID/stat`.
    started: u64,
}

impl Record {
    fn read(layout: &Layout, name: &str) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(record_path(layout, name)).ok()?).ok()
    }

    /// Returns the kernel's data on the process, if it still runs.
    fn stat(self) -> Option<Stat> {
        stat(self.pid).filter(|stat| stat.started == self.started && !stat.is_dead())
    }
}

/// Starts a program in the cluster's network namespace, in a session of its own, with output to its log. Does nothing if it runs
/// already.
///
/// # Errors
/// The program cannot be started.
pub(super) fn start(layout: &Layout, program: &Program) -> anyhow::Result<()> {
    if find(layout, program.name).is_some() {
        return Ok(());
    }
    // A process that is still exiting holds its ports and locks.
    if let Some(record) = Record::read(layout, program.name).filter(|record| record.stat().is_some()) {
        kill_pids(&[record.pid])?;
    }
    let path = layout.log(program.name);
    create_parent(&path)?;
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("cannot open the log {}", path.display()))?;
    // The environment is cleared, because the caller's proxy or KUBECONFIG must not affect the cluster's programs.
    let child = Command::new("setsid")
        .arg("nsenter")
        .arg(format!("--net={}", layout.network_namespace().display()))
        .arg("--")
        .args(&program.command)
        .env_clear()
        .env("PATH", SEARCH_PATH)
        .env("HOME", layout.state())
        .current_dir(layout.state())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.name))?;
    let pid = child.id();
    let record = Record {
        pid,
        started: stat(pid).map_or(0, |stat| stat.started),
    };
    let path = record_path(layout, program.name);
    create_parent(&path)?;
    fs::write(&path, serde_json::to_string(&record)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Returns the process id of a running program.
pub(super) fn find(layout: &Layout, name: &str) -> Option<u32> {
    let record = Record::read(layout, name)?;
    record
        .stat()
        .is_some_and(|stat| !stat.is_ending())
        .then_some(record.pid)
}

/// Returns the names of all programs started since the last stop, running or not.
pub(super) fn started(layout: &Layout) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(layout.run().join("processes"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// Ends a program with SIGKILL and waits until it has exited. A graceful exit of etcd and the API server takes a minute.
///
/// # Errors
/// The program still runs after some seconds.
pub(super) fn kill(layout: &Layout, name: &str) -> anyhow::Result<()> {
    if let Some(pid) = find(layout, name) {
        kill_pids(&[pid]).with_context(|| format!("cannot end {name}"))?;
    }
    let _ = fs::remove_file(record_path(layout, name));
    Ok(())
}

/// Sends SIGKILL to processes and waits until all have exited.
///
/// # Errors
/// Processes still run after ten seconds; the error names them.
pub(super) fn kill_pids(pids: &[u32]) -> anyhow::Result<()> {
    for pid in pids {
        signal(*pid, Signal::KILL);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left: Vec<u32> = pids.iter().copied().filter(|pid| !is_gone(*pid)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("processes {left:?} do not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Polls until `ready` returns a value.
///
/// # Errors
/// One of the `programs` exits (the error has its last log lines), the user presses Ctrl-C, `timeout` passes, or `ready` fails.
pub(super) fn wait<T>(
    layout: &Layout,
    what: &str,
    programs: &[&str],
    timeout: Duration,
    mut ready: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        interrupt::check()?;
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if let Some(ended) = programs.iter().find(|name| find(layout, name).is_none()) {
            bail!(
                "{ended} ended while waiting for {what}\n{}",
                last_words(layout, ended)
            );
        }
        if Instant::now() > deadline {
            let words: Vec<String> = programs.iter().map(|name| last_words(layout, name)).collect();
            bail!("no {what} within {} s\n{}", timeout.as_secs(), words.join("\n"));
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the path of a program's log and its last lines.
pub(super) fn last_words(layout: &Layout, name: &str) -> String {
    let path = layout.log(name);
    let mut lines = tail(&path, LAST_LINES);
    if lines.is_empty() {
        "(empty)".clone_into(&mut lines);
    }
    format!("last lines of {}:\n{lines}", path.display())
}

/// Returns the last lines of a log, each shortened; empty without a log.
fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut last: Vec<String> = text
        .lines()
        .rev()
        .take(lines)
        .map(|line| match line.char_indices().nth(LINE_WIDTH) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        })
        .collect();
    last.reverse();
    last.join("\n")
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The only possible error is that the process has exited already.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn is_gone(pid: u32) -> bool {
    let gone = stat(pid).is_none_or(|stat| stat.is_dead());
    if let (true, Some(pid)) = (gone, i32::try_from(pid).ok().and_then(Pid::from_raw)) {
        // Reaps a child of this process; init reaps others.
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
    gone
}

/// Selected fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    flags: u32,
    threads: u32,
    started: u64,
}

impl Stat {
    /// Returns true if the process has exited, even if it was not reaped yet. Threads that outlive the first one hold its ports.
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }

    /// Returns true if the process has exited or is exiting. A killed process with much memory remains visible for a while.
    fn is_ending(&self) -> bool {
        const PF_EXITING: u32 = 0x4;
        self.is_dead() || self.flags & PF_EXITING != 0
    }
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses, which may contain any characters.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let flags = fields.nth(5)?.parse().ok()?;
    let threads = fields.nth(10)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some(Stat {
        state,
        flags,
        threads,
        started,
    })
}

fn record_path(layout: &Layout, name: &str) -> std::path::PathBuf {
    layout.run().join("processes").join(format!("{name}.json"))
}

fn create_parent(path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_stat() {
        let text = "42 (a) b) S 1 42 42 0 -1 4194308 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 10 1844674407370955";
        let stat = parse_stat(text).unwrap();
        assert_eq!(
            stat,
            Stat {
                state: 'S',
                flags: 4_194_308,
                threads: 1,
                started: 98765
            }
        );
        assert!(stat.is_ending() && !stat.is_dead());
        assert_eq!(parse_stat("42 (a"), None);
    }

    #[test]
    fn another_process_with_the_same_id_is_not_ours() {
        let own = std::process::id();
        let started = stat(own).unwrap().started;
        assert!(
            Record { pid: own, started }
                .stat()
                .is_some_and(|stat| !stat.is_ending())
        );
        assert!(
            Record {
                pid: own,
                started: started + 1
            }
            .stat()
            .is_none()
        );
    }

    #[test]
    fn killing_waits_for_the_end() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        kill_pids(&[pid]).unwrap();
        assert!(child.wait().is_err(), "it was waited for already");
        assert!(stat(pid).is_none_or(|stat| stat.is_dead()));
    }

    #[test]
    fn tail_gives_the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text: String = (0..5000).map(|n| format!("line {n}\n")).collect();
        fs::write(&path, text).unwrap();
        assert_eq!(tail(&path, 2), "line 4998\nline 4999");
        assert_eq!(tail(&folder.path().join("none"), 2), "");
        fs::write(&path, "ä".repeat(LINE_WIDTH + 1)).unwrap();
        assert_eq!(tail(&path, 1), format!("{}…", "ä".repeat(LINE_WIDTH)));
    }
}
