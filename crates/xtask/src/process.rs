//! Programs that are run to their end for what they print.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Runs a command, with `input` on its standard input if there is any, and returns what it prints. `shown` names it in errors.
///
/// # Errors
/// When it cannot be run, and with its own words when it fails.
pub(crate) fn output(mut command: Command, input: Option<&str>, shown: &str) -> anyhow::Result<String> {
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
        bail!(
            "`{shown}` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
