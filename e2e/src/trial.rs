//! A guide run in a terminal: the output of each command, and the differences from the guide.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::guide::{Command, Guide, is_as_shown};
use crate::terminal::Terminal;

/// Result of a guide.
#[derive(Debug, Default)]
pub struct Trial {
    /// Each command with its line, its duration, its exit code and its output: for the author of the guide.
    pub transcript: String,
    /// Each command that differs from the guide: guide, line, expected, actual.
    pub failures: Vec<String>,
}

impl Trial {
    /// Runs the commands of the guide `name`. After a difference the remaining commands still run, so that all can be fixed at
    /// once. After a command that times out, none runs.
    pub fn of(name: &str, guide: &Guide, terminal: &mut Terminal, patience: Duration) -> Self {
        let mut trial = Self::default();
        for command in &guide.commands {
            let began = Instant::now();
            let outcome = terminal.run(&command.script, patience);
            let (line, seconds) = (command.line, began.elapsed().as_secs_f32());
            let place = format!("{name}, line {line}: $ {}", command.script);
            match outcome {
                Ok((code, printed)) => {
                    let script = &command.script;
                    let _ = writeln!(
                        trial.transcript,
                        "# line {line}, {seconds:.1} s, exit code {code}\n$ {script}{printed}"
                    );
                    trial.failures.extend(
                        difference(command, code, &printed).map(|difference| format!("{place}{difference}")),
                    );
                }
                Err(error) => {
                    trial.failures.push(format!("{place}{error:#}\n"));
                    break;
                }
            }
        }
        trial
    }

    /// Returns the names of the namespaces that commands reported as created.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.transcript
            .lines()
            .filter_map(|line| line.strip_prefix("namespace/")?.strip_suffix(" created"))
    }
}

fn difference(command: &Command, code: i32, printed: &str) -> Option<String> {
    let is_fine = code == command.code && is_as_shown(&command.output, printed);
    (!is_fine).then(|| {
        format!(
            "expected, with exit code {}:\n{}got, with exit code {code}:\n{printed}",
            command.code, command.output
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide;

    fn trial(text: &str) -> Trial {
        let folder = tempfile::tempdir().unwrap();
        let mut terminal = Terminal::start(std::process::Command::new("bash"), folder.path()).unwrap();
        let guide = guide::read(text).unwrap();
        Trial::of("g.md", &guide, &mut terminal, Duration::from_secs(30))
    }

    #[test]
    fn a_guide_that_is_wrong_is_found() {
        for (text, expected) in [
            (
                "```console\n$ false\n```\n",
                "g.md, line 2: $ false\nexpected, with exit code 0:\ngot, with exit code 1:\n",
            ),
            (
                "```console\n$ echo a\nb\n```\n",
                "g.md, line 2: $ echo a\nexpected, with exit code 0:\nb\ngot, with exit code 0:\na\n",
            ),
            ("```console\n$ echo a\n```\n", "exit code 0:\na\n"),
            ("```console\n$ true\nb\n```\n", "exit code 0:\nb\ngot"),
            (
                "<!-- test: fails with 2 -->\n```console\n$ true\n```\n",
                "exit code 2:\ngot, with exit code 0:\n",
            ),
            (
                "```console\n$ exit 0\n$ true\n```\n",
                "line 2: $ exit 0\nit ended the shell",
            ),
        ] {
            let failures = trial(text).failures;
            assert!(
                matches!(failures.as_slice(), [failure] if failure.contains(expected)),
                "{text}: {failures:?}"
            );
        }
        let both = trial("```console\n$ false\n$ echo a\nb\n```\n").failures;
        assert_eq!(both.len(), 2, "{both:?}");
    }

    #[test]
    fn a_guide_that_is_right_leaves_what_it_printed() {
        let trial =
            trial("```console\n$ echo namespace/a created; echo b\nnamespace/<name> created\n...\n```\n");
        assert_eq!(trial.failures, [""; 0]);
        assert!(
            trial.transcript.contains(" s, exit code 0\n$ echo "),
            "{}",
            trial.transcript
        );
        assert!(trial.namespaces().eq(["a"]), "{}", trial.transcript);
    }
}
