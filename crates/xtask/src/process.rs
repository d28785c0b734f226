//! Runs programs to completion and returns their output.

use std::fmt;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// A program that exited with a failure, with its messages.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Runs a command without input and returns its output. Errors name its program and arguments.
///
/// # Errors
/// The errors of [`output`].
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    output(command.stdin(Stdio::null()), None, &shown)
}

/// Returns the program and the arguments of a command, for messages.
fn shown(command: &Command) -> String {
    let arguments = command.get_args();
    let words = std::iter::once(command.get_program()).chain(arguments);
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Runs a command, with `input` as standard input if given, and returns its output. `shown` names it in errors.
///
/// # Errors
/// The command cannot be run. If it exits with a failure, the error is [`Failed`] with its messages.
pub(crate) fn output(command: &mut Command, input: Option<&str>, shown: &str) -> anyhow::Result<String> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin
            .write_all(text.as_bytes())
            .with_context(|| format!("`{shown}` did not read its input"))?;
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("lost `{shown}`"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Failed(format!("`{shown}` failed: {}", words.trim())).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
