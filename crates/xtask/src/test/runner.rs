//! Runs test programs one by one or concurrently, prints their output and records the results.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::binaries::TestBinary;
use crate::progress::{Progress, seconds};
use crate::results::Results;

/// Prefixes of lines that are repeated at the end, because they state how much was tested: those of fuzzing and of tests in their
/// short form.
const REPEATED: [&str; 2] = ["fuzz ", "short form:"];

/// Runs a command at low priority. The kernel may schedule each session as a group, and each program of the cluster has its own.
/// The niceness of a process alone would only apply within its session.
const FROM_BEHIND: &str = r#"{ echo 19 > /proc/self/autogroup; } 2> /dev/null; exec nice -n 19 "$@""#;
/// Interval of checks for Ctrl-C, which does not reach a separate session.
const LOOK: Duration = Duration::from_millis(200);

/// State shared by all test programs of a run.
#[derive(Debug)]
pub(super) struct Runner {
    /// Prints the duration of each program.
    pub progress: Progress,
    /// Results of the tests.
    pub results: Mutex<Results>,
}

/// A test program and its arguments.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub binary: &'a TestBinary,
    /// Arguments for the test harness.
    pub arguments: Vec<String>,
    /// Environment in addition to the inherited one.
    pub environment: Vec<(&'static str, String)>,
}

impl Job<'_> {
    fn command(&self) -> Command {
        let mut command = self.binary.command();
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Runner {
    /// Runs jobs one by one and prints lines at once. Returns false if one failed.
    ///
    /// # Errors
    /// A program cannot be run.
    pub(super) fn in_turn(&self, jobs: &[Job<'_>]) -> anyhow::Result<bool> {
        let mut passed = true;
        for job in jobs {
            crate::interrupt::check()?;
            show(&format!("\n     Running {}", job.binary.name()));
            passed &= self.run(&job.binary.name(), job.command(), &|line| show(line))?;
        }
        Ok(passed)
    }

    /// Runs up to `width` jobs concurrently and prints the output of each at its end. Returns false if one failed.
    ///
    /// # Errors
    /// A program cannot be run.
    pub(super) fn side_by_side(&self, width: usize, jobs: Vec<Job<'_>>) -> anyhow::Result<bool> {
        let queue = Mutex::new(jobs.into_iter());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || -> anyhow::Result<bool> {
            let mut passed = true;
            while let Some(job) = next() {
                crate::interrupt::check()?;
                let outcome = self.told_at_once(&job.binary.name(), job.command());
                passed &= outcome?;
            }
            Ok(passed)
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..width).map(|_| scope.spawn(work)).collect();
            let mut passed = true;
            for thread in threads {
                passed &= thread
                    .join()
                    .map_err(|_| anyhow!("a thread that runs tests panicked"))??;
            }
            Ok(passed)
        })
    }

    /// Runs `command` and prints its output at its end. Returns false if it failed.
    ///
    /// # Errors
    /// The command cannot be run.
    pub(super) fn told_at_once(&self, name: &str, command: Command) -> anyhow::Result<bool> {
        let said = Mutex::new(format!("\n     Running {name}\n"));
        let outcome = self.run(name, command, &|line| {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.push_str(line);
            said.push('\n');
        });
        show(
            said.into_inner()
                .unwrap_or_else(PoisonError::into_inner)
                .trim_end(),
        );
        outcome
    }

    /// Does the same with a program at low priority.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(super) fn told_from_behind(
        &self,
        name: &str,
        program: &Path,
        arguments: &[&str],
    ) -> anyhow::Result<bool> {
        let mut command = Command::new("setsid");
        command
            .args(["sh", "-c", FROM_BEHIND, "sh"])
            .arg(program)
            .args(arguments);
        self.told_at_once(name, command)
    }

    /// Runs `command`, passes each line to `shown`, and records the lines. Returns false if it failed.
    ///
    /// # Errors
    /// The command cannot be run.
    pub(super) fn run(
        &self,
        name: &str,
        mut command: Command,
        shown: &(impl Fn(&str) + Sync),
    ) -> anyhow::Result<bool> {
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let output = child.stdout.take().context("its output was not captured")?;
        let errors = child.stderr.take().context("its errors were not captured")?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| hand_on_interrupts(&child, &is_over));
            let errors = scope.spawn(|| self.read(errors, shown));
            self.read(output, shown);
            let _ = errors.join();
            is_over.store(true, Ordering::Relaxed);
        });
        let passed = child.wait().with_context(|| format!("lost {name}"))?.success();
        let mark = if passed { '✓' } else { '✗' };
        self.progress
            .note(&format!("{mark} {name} ({})", seconds(began.elapsed())));
        if !passed {
            let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            results.failed.push(name.to_owned());
        }
        Ok(passed)
    }

    /// Tests may print any bytes, so invalid UTF-8 is replaced.
    fn read(&self, output: impl Read, shown: &impl Fn(&str)) {
        let mut reader = BufReader::new(output);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&bytes);
            let line = text.trim_end_matches(['\n', '\r']);
            shown(line);
            let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            if REPEATED.iter().any(|start| line.starts_with(start)) {
                results.summaries.push(line.to_owned());
            }
            results.read_line(line);
            bytes.clear();
        }
    }
}

/// Sends SIGINT to a child with its own session after Ctrl-C here. Other children receive it from the terminal.
fn hand_on_interrupts(child: &Child, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        if crate::interrupt::is_requested() {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::INT);
            }
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Prints a line. A closed stdout does not end the tests.
pub(super) fn show(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn what_runs_from_behind_is_in_a_session_of_its_own_and_gives_way() {
        let runner = Runner {
            progress: Progress::start(),
            results: Mutex::default(),
        };
        let look = r#"test "$(cut -d' ' -f6 /proc/self/stat)" != "$0" && test "$(nice)" = 19 && echo 'test result: ok. alone'"#;
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let session = own
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .nth(3)
            .unwrap()
            .to_owned();
        let passed = runner.told_from_behind("look", Path::new("/bin/sh"), &["-c", look, &session]);
        assert!(passed.unwrap());
        assert_eq!(
            runner.results.into_inner().unwrap().summaries,
            ["test result: ok. alone"]
        );
    }

    #[test]
    fn lines_of_both_outputs_are_taken_in_and_the_exit_code_is_the_verdict() {
        let runner = Runner {
            progress: Progress::start(),
            results: Mutex::default(),
        };
        let said = Mutex::new(Vec::new());
        let keep = |line: &str| said.lock().unwrap().push(line.to_owned());
        let text = "echo 'test a ... FAILED'; printf 'odd \\377\\n'; echo 'short form: 1 of 5 things' >&2; \
                    echo 'test result: ok. 1 passed'";
        assert!(runner.run("one", script(text), &keep).unwrap());
        assert!(!runner.run("two", script("exit 101"), &keep).unwrap());
        let results = runner.results.into_inner().unwrap();
        assert_eq!(results.failed, ["a", "two"]);
        let mut summaries = results.summaries;
        summaries.sort();
        assert_eq!(
            summaries,
            ["short form: 1 of 5 things", "test result: ok. 1 passed"]
        );
        assert_eq!(said.into_inner().unwrap().len(), 4);
    }
}
