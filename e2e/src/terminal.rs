//! A shell that runs a guide: its commands one after the other, with the output of each.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// Text that the shell prints after a command, before the exit code.
const MARK: &str = "-- guide: ended with ";
/// Maximum output of one command, in bytes.
const MAX_PRINTED: usize = 1 << 20;
/// Maximum number of unread lines; a command that prints more blocks.
const MAX_WAITING: usize = 1000;

/// A shell that keeps variables from one command to the next; killed, with all its children, when dropped.
#[derive(Debug)]
pub struct Terminal {
    shell: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Terminal {
    /// Starts `bash`, the command of a shell without arguments, in `folder`. Errors are merged into the output, as on a terminal.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut bash: Command, folder: &Path) -> anyhow::Result<Self> {
        let mut shell = bash
            .args(["--noprofile", "--norc"])
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot run bash")?;
        let output = shell.stdout.take().context("its output was not captured")?;
        let mut input = shell.stdin.take().context("it has no input")?;
        input.write_all(b"exec 2>&1\n")?;
        let (sender, lines) = sync_channel(MAX_WAITING);
        thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut bytes = Vec::new();
            let longest = MAX_PRINTED as u64;
            while (&mut reader)
                .take(longest)
                .read_until(b'\n', &mut bytes)
                .is_ok_and(|read| read > 0)
            {
                let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
                if sender.send(line).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        Ok(Self { shell, input, lines })
    }

    /// Runs a command; returns its exit code and its output.
    ///
    /// # Errors
    /// If it takes longer than `patience`, prints too much, or ends the shell; the error contains the output so far.
    pub fn run(&mut self, script: &str, patience: Duration) -> anyhow::Result<(i32, String)> {
        // Without this a command could read the following commands as its input.
        let line = format!("{{\n{script}}} </dev/null\nprintf '\\n{MARK}%d\\n' $?\n");
        self.input.write_all(line.as_bytes()).context("the shell ended")?;
        self.input.flush()?;
        let began = Instant::now();
        let mut printed = String::new();
        loop {
            let left = patience.saturating_sub(began.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => match line.strip_prefix(MARK) {
                    Some(code) => {
                        // The line break before the mark is not output.
                        printed.pop();
                        return Ok((code.parse().context("no exit code")?, printed));
                    }
                    None if printed.len() + line.len() > MAX_PRINTED => {
                        bail!("it printed more than {MAX_PRINTED} bytes, which began with:\n{printed:.200}")
                    }
                    None => {
                        printed.push_str(&line);
                        printed.push('\n');
                    }
                },
                Err(RecvTimeoutError::Timeout) => {
                    bail!(
                        "not through after {} s; it printed:\n{printed}",
                        patience.as_secs()
                    )
                }
                Err(RecvTimeoutError::Disconnected) => bail!("it ended the shell; it printed:\n{printed}"),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn terminal(folder: &Path) -> Terminal {
        Terminal::start(Command::new("bash"), folder).unwrap()
    }

    #[test]
    fn commands_share_variables_and_capture_all_output() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminal = terminal(folder.path());
        let mut run = |script: &str| terminal.run(script, PATIENCE).unwrap();
        assert_eq!(run("a=1; export b=2\n"), (0, String::new()));
        assert_eq!(run("echo $a; echo $b >&2\n"), (0, "1\n2\n".to_owned()));
        assert_eq!(run("printf x; false\n"), (1, "x".to_owned()));
        assert_eq!(run("cat <<'X' > file\n$a\nX\n"), (0, String::new()));
        assert_eq!(run("cat; cat file\n"), (0, "$a\n".to_owned()));
        assert_eq!(run("printf '\\n'\n"), (0, "\n".to_owned()));
    }

    #[test]
    fn commands_that_hang_or_end_the_shell_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let error = terminal(folder.path()).run("exit 3\n", PATIENCE).unwrap_err();
        assert!(error.to_string().contains("ended the shell"), "{error}");
        let mut stuck = terminal(folder.path());
        let error = stuck
            .run("echo a; sleep 600\n", Duration::from_millis(300))
            .unwrap_err();
        assert!(error.to_string().contains("not through"), "{error}");
        for endless in ["yes\n", "tr '\\0' a </dev/zero\n"] {
            let error = terminal(folder.path()).run(endless, PATIENCE).unwrap_err();
            assert!(error.to_string().contains("more than"), "{endless}");
        }
    }
}
